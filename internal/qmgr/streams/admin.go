package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
)

// An Admin makes, changes and inspects the objects that a queue manager stores. A library does so itself. An asker,
// with an identity other than a queue manager's, asks the queue manager.
type Admin interface {
	// Ensure makes the missing streams and returns the marks of all.
	Ensure(ctx context.Context) (map[string]Mark, error)
	// Durable makes the reader of a queue, or finds it.
	Durable(ctx context.Context, q Queue) (Durable, error)
	// ReaderPosition is of KindNotFound for a queue that has never been read.
	ReaderPosition(ctx context.Context, q Queue) (ReaderPosition, error)
	Forget(ctx context.Context, name string, queues []Queue) error
	Owners
	// AgentsWithoutReader returns the tokens of agents that have messages in a stream of commands that is more than half
	// full, and have never read from it.
	AgentsWithoutReader(ctx context.Context) ([]string, error)
	// Purge removes the commands for some of these agents and returns their number. It keeps the first ones of each agent
	// as dead letters.
	Purge(ctx context.Context, tokens []string) (gone uint64, err error)
	// Store does a task on the part of StreamStore that belongs to the holder of the token self.
	Store(ctx context.Context, self string, t StoreTask) (StoreResult, error)
	// Queue does a task on an application queue, for the holder of the token self. some, if it is not nil, may be
	// called with the part of the result that has arrived.
	Queue(ctx context.Context, self string, t QueueTask, some func(*QueueResult)) (QueueResult, error)
	// Dead does a task on the dead letters, for the holder of the token self.
	Dead(ctx context.Context, self string, t DeadTask) (DeadResult, error)
}

// Owners keep the owner of each name.
type Owners interface {
	Owner(ctx context.Context, name string) (Owner, error)
	// SetOwner is of KindConflict if the present revision is not that of o.
	SetOwner(ctx context.Context, name string, o Owner) (revision uint64, err error)
}

// A Durable is the state of a reader that has just been made or found.
type Durable struct {
	Stream    Mark     `json:"stream"`
	Delivered uint64   `json:"delivered"`          // how many messages it has handed out
	Findings  []string `json:"findings,omitempty"` // faults that were found and repaired
}

// An Owner is the value of a name, and the revision of its last write; revision 0: never written.
type Owner struct {
	Value    []byte `json:"value,omitempty"`
	Revision uint64 `json:"revision,omitempty"`
}

// AckWait is the time after which a message is delivered again if it was lost on its way, or if its handler died. A
// handler that runs holds its message for as long as it runs.
const AckWait = 6 * time.Second

// A Library is an Admin that may do everything itself. It makes vanished objects anew.
type Library struct {
	JS        func() jetstream.JetStream
	AckWait   time.Duration
	MaxStored int64        // bytes of StreamStore; 0: DefaultMaxStored, or as much as there is room for
	Log       *slog.Logger // gets the dead letters that are sent again or are removed; nil: they are not logged
	Quiet     *quiet.Log   // gets those that give way or cannot be kept; nil: they are not logged
	// Unfinished keeps messages of application queues between two questions for parts of them; nil: none are kept.
	Unfinished *Unfinished
}

// withStreams runs op, and again after a missing stream was made for it.
func (l Library) withStreams(ctx context.Context, op func() error) error {
	err := op()
	if !IsMissing(err) {
		return err
	}
	if _, err := l.Ensure(ctx); err != nil {
		return err
	}
	return op()
}

func (l Library) Ensure(ctx context.Context) (map[string]Mark, error) {
	all := map[string]Mark{}
	for _, cfg := range All {
		s, err := l.JS().Stream(ctx, cfg.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			s, err = l.create(ctx, cfg)
		} else if err == nil {
			s, err = l.raise(ctx, s)
		}
		switch {
		case err == nil:
			all[cfg.Name] = MarkOf(s)
		case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse): // another client was faster
		case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled),
			errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return nil, transfer.Errorf(transfer.KindNoManager, "%w", ErrNoJetStream)
		default:
			return nil, fmt.Errorf("stream %s: %w", cfg.Name, err)
		}
	}
	return all, nil
}

// Durable makes the durable of a queue, or finds it. It replaces one that is ahead of its stream: then the stream was
// lost or put back, and the durable would skip all messages until the stream has caught up.
func (l Library) Durable(ctx context.Context, q Queue) (d Durable, err error) {
	cfg := jetstream.ConsumerConfig{
		Durable:            q.Durable,
		FilterSubject:      q.Filter,
		DeliverPolicy:      jetstream.DeliverAllPolicy,
		AckPolicy:          jetstream.AckExplicitPolicy,
		AckWait:            l.AckWait,
		MaxDeliver:         -1,
		MaxAckPending:      -1, // with the server's own limit 1,000 refused messages of one member would hold up all others
		MaxRequestMaxBytes: MaxPull,
		InactiveThreshold:  cmp.Or(q.Idle, DurableIdle),
	}
	var cons jetstream.Consumer
	err = l.withStreams(ctx, func() (err error) {
		cons, err = l.JS().CreateOrUpdateConsumer(ctx, string(q.Stream), cfg)
		return err
	})
	if noRoom(err) { // to write the same durable again
		if there, lerr := l.JS().Consumer(ctx, string(q.Stream), q.Durable); lerr == nil && there.CachedInfo().Config.FilterSubject == q.Filter {
			cons, err = there, nil
		}
	}
	if foreignDurable(err) {
		why := err
		if cons, err = l.replace(ctx, q, cfg); err == nil {
			d.Findings = append(d.Findings, fmt.Sprintf("the reader %s of stream %s was not as it was made (%v): it reads from the start", q.Durable, q.Stream, why))
		}
	}
	if err != nil {
		return d, err
	}

	// The stream is inspected after the consumer: messages stored in between move it forward, never back.
	s, err := l.JS().Stream(ctx, string(q.Stream))
	if err != nil {
		return d, err
	}
	info := cons.CachedInfo()
	d.Stream, d.Delivered = MarkOf(s), info.Delivered.Consumer
	at := max(info.AckFloor.Stream, info.Delivered.Stream)
	if at <= d.Stream.Last {
		return d, nil
	}

	// The embedded server repairs this itself when it recovers its store; an
	// older or a replicated one may not.
	d.Findings = append(d.Findings, fmt.Sprintf("the reader %s of stream %s stood at message %d of %d: it was ahead, and reads from the start",
		q.Durable, q.Stream, at, d.Stream.Last))
	if err := l.JS().DeleteConsumer(ctx, string(q.Stream), q.Durable); err != nil && !IsMissing(err) {
		return d, err
	}
	_, err = l.JS().CreateOrUpdateConsumer(ctx, string(q.Stream), cfg)
	return d, err
}

// foreignDurable reports whether a durable cannot be made because another one has its name or its filter, and a
// configuration that is not Ferry's.
func foreignDurable(err error) bool {
	api := (*jetstream.APIError)(nil)
	if !errors.As(err, &api) || noRoom(err) {
		return false
	}
	switch api.ErrorCode {
	case codeConsumerCreate, codeConsumerExists, codeConsumerNotUnique, codeConsumerOffline:
		return true
	}
	return false
}

// noRoom reports whether a server has refused a request because its disk is full. The server has no error code for
// that, only a text.
func noRoom(err error) bool {
	api := (*jetstream.APIError)(nil)
	return errors.As(err, &api) && (strings.Contains(api.Description, syscall.ENOSPC.Error()) || strings.Contains(api.Description, syscall.EDQUOT.Error()))
}

// replace makes a durable again that another client has changed, and removes the other consumers with its filter. No
// command is lost: a command stays in its stream until it is acknowledged.
func (l Library) replace(ctx context.Context, q Queue, cfg jetstream.ConsumerConfig) (jetstream.Consumer, error) {
	s, err := l.JS().Stream(ctx, string(q.Stream))
	if err != nil {
		return nil, err
	}

	toDelete := []string{q.Durable}
	others := s.ListConsumers(ctx)
	for info := range others.Info() {
		if info.Name != q.Durable && info.Config.FilterSubject == q.Filter {
			toDelete = append(toDelete, info.Name)
		}
	}
	if err := others.Err(); err != nil {
		return nil, err
	}

	for _, name := range toDelete {
		if err := l.JS().DeleteConsumer(ctx, string(q.Stream), name); err != nil && !IsMissing(err) {
			return nil, err
		}
	}
	return l.JS().CreateOrUpdateConsumer(ctx, string(q.Stream), cfg)
}

func (l Library) ReaderPosition(ctx context.Context, q Queue) (ReaderPosition, error) {
	cons, err := l.JS().Consumer(ctx, string(q.Stream), q.Durable)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		return ReaderPosition{}, transfer.Errorf(transfer.KindNotFound, "no agent has read from %s yet", q.Filter)
	}
	if err != nil {
		return ReaderPosition{}, err
	}
	info := cons.CachedInfo()
	return ReaderPosition{info.NumPending + uint64(info.NumAckPending), info.Delivered.Stream, info.TimeStamp.Sub(info.Created), info.TimeStamp}, nil
}

func (l Library) Forget(ctx context.Context, name string, queues []Queue) error {
	var all error
	for _, q := range queues {
		if err := l.JS().DeleteConsumer(ctx, string(q.Stream), q.Durable); !errors.Is(err, jetstream.ErrConsumerNotFound) {
			all = errors.Join(all, err)
		}
	}
	s, err := l.JS().Stream(ctx, string(StreamOwner))
	if err == nil {
		err = s.Purge(ctx, jetstream.WithPurgeSubject(OwnerSubject(name)))
	}
	return errors.Join(all, err)
}

func (l Library) Owner(ctx context.Context, name string) (o Owner, err error) {
	err = l.withStreams(ctx, func() error {
		s, err := l.JS().Stream(ctx, string(StreamOwner))
		if err != nil {
			return err
		}
		m, err := s.GetLastMsgForSubject(ctx, OwnerSubject(name))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err == nil {
			o = Owner{m.Data, m.Sequence}
		}
		return err
	})
	return o, err
}

func (l Library) SetOwner(ctx context.Context, name string, o Owner) (uint64, error) {
	var ack *jetstream.PubAck
	err := l.withStreams(ctx, func() (err error) {
		ack, err = l.JS().PublishMsg(ctx, &nats.Msg{Subject: OwnerSubject(name), Data: o.Value},
			jetstream.WithExpectLastSequencePerSubject(o.Revision), jetstream.WithRetryAttempts(0))
		return err
	})
	if api := (*jetstream.APIError)(nil); errors.As(err, &api) && (api.ErrorCode == codeWrongSequence || api.ErrorCode == codeWrongSequenceOf) {
		return 0, transfer.Errorf(transfer.KindConflict, "the owner of %s is not the one that was seen", name)
	}
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

func (l Library) AgentsWithoutReader(ctx context.Context) (tokens []string, err error) {
	for _, stream := range CommandStreams {
		_, unread, err := l.commandsWithoutReader(ctx, stream)
		if err != nil {
			return nil, err
		}
		tokens = slices.AppendSeq(tokens, maps.Keys(unread))
	}
	slices.Sort(tokens)
	return slices.Compact(tokens), nil
}

func (l Library) Purge(ctx context.Context, tokens []string) (gone uint64, err error) {
	for _, stream := range CommandStreams {
		s, unread, err := l.commandsWithoutReader(ctx, stream)
		if err != nil {
			return gone, err
		}
		for _, token := range tokens {
			for subject, n := range unread[token] {
				if strings.ContainsAny(subject, "*>") {
					err = removeSubject(ctx, s, subject)
				} else if below, failed := l.buryAll(ctx, s, subject, "the network knows no agent "+token, deadUnknown); failed != nil {
					err = failed
				} else {
					err = purgeStored(ctx, s, subject, below)
				}
				if err != nil {
					return gone, err
				}
				gone += n
			}
		}
	}
	return gone, nil
}

// commandsWithoutReader returns a stream of commands. If it is more than half full, it also returns the subjects of its
// messages with their numbers of messages, by the tokens of agents that have never read from it.
func (l Library) commandsWithoutReader(ctx context.Context, stream Stream) (s jetstream.Stream, unread map[string]map[string]uint64, err error) {
	s, err = l.JS().Stream(ctx, string(stream))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil, nil
	}
	if err != nil || !moreThanHalfFull(s.CachedInfo()) {
		return nil, nil, err
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		return nil, nil, err
	}

	unread = map[string]map[string]uint64{}
	for subject, n := range info.State.Subjects {
		token := strings.SplitN(subject, ".", 4)[min(2, strings.Count(subject, "."))]
		if unread[token] == nil {
			unread[token] = map[string]uint64{}
		}
		unread[token][subject] = n
	}
	readers := s.ConsumerNames(ctx)
	for name := range readers.Name() {
		_, token, _ := strings.Cut(name, "-")
		delete(unread, token)
	}
	return s, unread, readers.Err()
}

// removeSubject removes the messages of a subject with wildcards. A wildcard in the subject stands for itself: these messages are
// removed by their numbers, as a purge would take it for the subjects of others.
func removeSubject(ctx context.Context, s jetstream.Stream, subject string) error {
	for seq := uint64(1); ; {
		m, err := s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(subject))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err == nil && m.Subject == subject {
			err = s.DeleteMsg(ctx, m.Sequence)
		}
		if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return err
		}
		seq = m.Sequence + 1
	}
}

func moreThanHalfFull(info *jetstream.StreamInfo) bool {
	limit, have := info.Config, info.State
	return limit.MaxBytes > 0 && have.Bytes > uint64(limit.MaxBytes)/2 || limit.MaxMsgs > 0 && have.Msgs > uint64(limit.MaxMsgs)/2
}
