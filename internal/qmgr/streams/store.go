package streams

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/roles"
	"ferry/internal/sys/sleep"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// clear removes the messages of a member from the streams, and for an agent also those that wait for it. These become
// dead letters. Dead letters of its own go: none of them may be sent again. Its audit records and its messages in
// application queues stay.
func (l Library) clear(ctx context.Context, token string) (err error) {
	if token == "" || len(token) > MaxToken || !IsPrintable(token) || strings.ContainsAny(token, ".*>") {
		return transfer.Errorf(transfer.KindUsage, "%.80q is the token of no member", token)
	}
	doomed := map[Stream][]string{StreamCommand: {"ferry.command.*." + token}, StreamControl: {"ferry.control.*." + token}}
	if name, bad := wire.AgentOf(token); bad == nil && name.Token() == token { // users have small letters
		for _, q := range []Queue{Commands(name), Controls(name)} {
			doomed[q.Stream] = append(doomed[q.Stream], q.Filter)
		}
		doomed[StreamStore] = []string{wire.AllStored(name), wire.AllStoredBy(name)}
	}
	const reason = "agent %s was removed from the network"
	for stream, subjects := range doomed {
		s, failed := l.JS().Stream(ctx, string(stream))
		if errors.Is(failed, jetstream.ErrStreamNotFound) {
			continue
		}
		for n, subject := range subjects {
			below := uint64(0)
			switch {
			case failed != nil:
			case stream == StreamStore && n == 0:
				failed = l.buryStored(ctx, s, subject, fmt.Sprintf(reason, token))
			case stream != StreamStore && n == 1:
				below, failed = l.buryAll(ctx, s, subject, fmt.Sprintf(reason, token), deadOnce)
			}
			if failed == nil {
				failed = purgeStored(ctx, s, subject, below)
			}
		}
		err = errors.Join(err, failed)
	}
	s, failed := l.JS().Stream(ctx, string(StreamDead))
	if failed == nil {
		failed = purgeStored(ctx, s, "ferry.dead.*.*."+token+".>", 0)
	}
	if errors.Is(failed, jetstream.ErrStreamNotFound) {
		failed = nil
	}
	return errors.Join(err, failed)
}

// StreamStore holds ferry.store.>, the chunk messages of stored delivery. They stay until their destination has stored
// their data, or until their source withdraws them. The stream is made at its first use. It is not synced: agents
// detect messages lost in a power cut and send them again.
const StreamStore Stream = roles.StreamStore

const (
	// DefaultMaxStored is the size of the store in bytes without a setting.
	DefaultMaxStored = 3584 << 20
	// MinMaxStored is the smallest setting.
	MinMaxStored = 64 << 20
	// MaxStoredMessage is the size of the largest message, its subject and headers apart.
	MaxStoredMessage = wire.MaxStored
	StoredOverhead   = 1 << 10 // of a message in the stream: its subject, and room
	StoreListMost    = 512     // entries of one look
	storeListOfOne   = 64      // of them for one agent at the other side, if there are others
	storeMalformed   = 64      // malformed subjects that one look removes
	storeReadMost    = 8 << 20 // bytes of one reading
	storeAhead       = 8       // messages that one reading fetches at once
	storeIdle        = time.Hour
	// A look lists subjects, and each message may have its own. The looks of one agent list the subjects of other
	// agents, too: the server needs a second or two for the largest number. So the number of messages is bounded by the
	// store's bytes for each of them on the average.
	storeMessage     = 64 << 10
	StoreMessagesMin = 1 << 10
	StoreMessagesMax = 1 << 17
)

// StoreConfig returns the stream of a queue manager that may store so many bytes.
//
// A transfer may have a quarter of it, by the number of its messages: so many of the largest ones are a quarter. The
// queue manager itself refuses further messages from any sender.
func StoreConfig(most int64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                 string(StreamStore),
		Description:          "Ferry: chunk messages of stored delivery",
		Subjects:             []string{"ferry.store.>"},
		Retention:            jetstream.LimitsPolicy,
		Storage:              jetstream.FileStorage,
		Replicas:             1,
		MaxConsumers:         MaxConsumers,
		MaxMsgs:              min(max(most/storeMessage, StoreMessagesMin), StoreMessagesMax),
		MaxMsgsPerSubject:    max(most/4/(MaxStoredMessage+StoredOverhead), 8),
		DiscardNewPerSubject: true,
		MaxBytes:             most,
		MaxMsgSize:           MaxStoredMessage + StoredOverhead,
		Discard:              jetstream.DiscardNew,
		Duplicates:           duplicateWindow,
		PersistMode:          jetstream.AsyncPersistMode,
	}
}

const (
	StoreIncoming = "incoming" // a look at the messages that wait for the agent
	StoreOutgoing = "outgoing" // a look at the agent's sent messages, before it sends more
	StoreSent     = "sent"     // the same, later: it makes no store
	StoreRead     = "read"     // read bytes of an epoch
	StoreReader   = "reader"   // make the reader of an epoch, for whole messages
	StoreTrim     = "trim"     // messages that the agent has taken are removed
	StorePurge    = "purge"    // messages that the agent has sent are removed
	StoreClear    = "clear"    // the messages of a member, and those that wait for it, are removed
)

// A StoreTask is one operation of an agent on its own part of StreamStore.
type StoreTask struct {
	Do    string      `json:"do"`
	Peer  string      `json:"peer,omitempty"` // token of the agent at the other side
	ID    transfer.ID `json:"id,omitzero"`
	Epoch uint32      `json:"epoch,omitempty"` // of a purge: the first one that stays
	From  uint64      `json:"from,omitempty"`  // number in the stream: first message to read, or to keep; 0: keep none
	Begin int         `json:"begin,omitempty"` // of a reading: bytes to skip of the message From
	Most  int         `json:"most,omitempty"`  // of a reading: bytes that are wanted
	Piece int         `json:"piece,omitempty"` // of a reading: bytes of one answer at most
	At    string      `json:"at,omitempty"`    // token of the queue manager that does the task; empty: this one (outgoing: the peer's)
}

// A StoreResult is the result of a StoreTask.
type StoreResult struct {
	Mark   string       `json:"mark,omitempty"`
	Epochs []storeEpoch `json:"shelves,omitempty"`
	Used   int64        `json:"used,omitempty"`
	Share  int64        `json:"share,omitempty"`
	Gone   uint64       `json:"gone,omitempty"`
	At     string       `json:"at,omitempty"`
	Ledger string       `json:"ledger,omitempty"` // of an outgoing look: mark of the ledger that has the peer's name

	// Of a reading, which has several answers. The bytes of the parts are behind the answer.
	Parts []storePart `json:"parts,omitempty"`
	More  bool        `json:"more,omitempty"`  // another answer follows
	Spent bool        `json:"spent,omitempty"` // nothing is stored behind the parts

	Read func(ctx context.Context, answer func(StoreResult, []byte)) error `json:"-"` // gives the answers of a reading
}

// A storePart describes bytes of a message of an epoch.
type storePart struct {
	Number uint64 `json:"n"` // of the message in the stream
	Size   int    `json:"s"` // of the message
	Begin  int    `json:"b,omitempty"`
	Len    int    `json:"l"`
}

// A storeEpoch is an epoch with its number of messages.
type storeEpoch struct {
	Peer     string      `json:"peer"`
	ID       transfer.ID `json:"id"`
	Epoch    uint32      `json:"epoch"`
	Messages uint64      `json:"messages"`
}

// Store does a task for the holder of a token. Every subject of the task has that token as its source (a purge, a look
// at sent messages) or as its destination (all others).
func (l Library) Store(ctx context.Context, self string, t StoreTask) (res StoreResult, err error) {
	if t.Do == StoreClear {
		return res, l.clear(ctx, self)
	}
	var s jetstream.Stream
	if t.Do == StoreOutgoing {
		s, err = l.StoreStream(ctx)
	} else if s, err = l.JS().Stream(ctx, string(StreamStore)); errors.Is(err, jetstream.ErrStreamNotFound) && t.Do != StoreRead && t.Do != StoreReader {
		return res, nil // the store was never used
	}
	if err != nil {
		return res, err
	}

	name, err := wire.AgentOf(self)
	if err != nil {
		return res, err
	}
	var peer transfer.AgentName
	if t.Peer != "" {
		if peer, err = wire.AgentOf(t.Peer); err != nil {
			return res, err
		}
	} else if t.Do != StoreIncoming && t.Do != StoreOutgoing && t.Do != StoreSent {
		return res, transfer.Errorf(transfer.KindUsage, "the request names no agent at the other end of the stored data")
	}

	info := s.CachedInfo()
	res.Mark = info.Created.UTC().Format(time.RFC3339Nano)
	in, out := wire.StoredEpoch{From: peer, To: name, ID: t.ID, Epoch: t.Epoch}, wire.StoredEpoch{From: name, To: peer, ID: t.ID}
	switch t.Do {
	case StoreIncoming:
		err = res.look(ctx, s, wire.AllStored(name), 3)
	case StoreOutgoing, StoreSent:
		if err = res.look(ctx, s, wire.AllStoredBy(name), 2); err == nil {
			res.Share = info.Config.MaxBytes / 2
		}
		if t.Do == StoreOutgoing { // the source needs the sum only
			res.Epochs = nil
		}
		if err == nil && t.Do == StoreOutgoing && peer != "" {
			res.Ledger, err = l.ledgerOf(ctx, peer)
		}
	case StoreRead:
		res.Mark = ""
		res.Read = func(ctx context.Context, answer func(StoreResult, []byte)) error {
			return readEpoch(ctx, s, in.Subject(), &t, answer)
		}
	case StoreReader:
		err = l.makeReader(ctx, self, in.Subject(), t.From)
	case StoreTrim:
		err = purgeStored(ctx, s, in.Subject(), t.From)
	case StorePurge:
		res.Gone, err = purgeBelow(ctx, s, &out, t.Epoch)
	default:
		err = transfer.Errorf(transfer.KindUsage, "nothing that is stored can be had done %.40q", t.Do)
	}
	return res, err
}

// ledgerOf returns the mark of the ledger that has an agent's name, from the agent's own entry; empty: none has it.
func (l Library) ledgerOf(ctx context.Context, name transfer.AgentName) (string, error) {
	o, err := l.Owner(ctx, name.Token())
	if err != nil {
		return "", err
	}
	var holder struct {
		Mark string `json:"mark"`
	}
	if len(o.Value) > 0 && json.Unmarshal(o.Value, &holder) != nil {
		return "", nil // the agent writes it again
	}
	return holder.Mark, nil
}

// StoreStream returns the stream, and makes it if it is missing. If a smaller or an older server refuses the
// configuration, the stream is smaller, or synced.
func (l Library) StoreStream(ctx context.Context) (jetstream.Stream, error) {
	s, err := l.JS().Stream(ctx, string(StreamStore))
	if !errors.Is(err, jetstream.ErrStreamNotFound) {
		return s, err
	}
	most := cmp.Or(l.MaxStored, DefaultMaxStored)
	for {
		s, err = l.CreateStore(ctx, StoreConfig(most))
		switch api := (*jetstream.APIError)(nil); {
		case errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
			return l.JS().Stream(ctx, string(StreamStore))
		case errors.As(err, &api) && IsFull(api) && most > MinMaxStored && l.MaxStored == 0:
			most = max(most/4, MinMaxStored)
		default:
			return s, err
		}
	}
}

// CreateStore makes the stream: in a cluster with as many replicas as the others have. A stream that is not synced
// cannot have them. If members are away it is synced all the same, so that it can be given them later.
func (l Library) CreateStore(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	s, err := l.CreateReplicated(ctx, cfg)
	if !TooFew(err) {
		return s, err
	}
	if !noCluster(err) {
		cfg.PersistMode = jetstream.DefaultPersistMode
	}
	if s, err = l.JS().CreateStream(ctx, cfg); err != nil && refusesPersistMode(err) {
		cfg.PersistMode = jetstream.DefaultPersistMode
		s, err = l.JS().CreateStream(ctx, cfg)
	}
	return s, err
}

// refusesPersistMode reports whether a server does not take a stream because of its PersistMode.
func refusesPersistMode(err error) bool {
	api := (*jetstream.APIError)(nil)
	return errors.As(err, &api) && (strings.Contains(api.Description, "persist") || strings.Contains(api.Description, "unknown field"))
}

// CreateReplicated makes the stream with as many replicas as those of a whole cluster have, or not at all.
func (l Library) CreateReplicated(ctx context.Context, cfg jetstream.StreamConfig) (jetstream.Stream, error) {
	cfg.Replicas, cfg.PersistMode = Replicas, jetstream.DefaultPersistMode
	return l.JS().CreateStream(ctx, cfg)
}

// FitStore gives the stream its configured size. If there is none, create makes it.
func (l Library) FitStore(ctx context.Context, create func(context.Context, jetstream.StreamConfig) (jetstream.Stream, error)) error {
	ctx, cancel := context.WithTimeout(ctx, APITimeout)
	defer cancel()
	want := StoreConfig(l.MaxStored)
	s, err := l.JS().Stream(ctx, string(StreamStore))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		s, err = create(ctx, want)
	}
	if err != nil {
		return err
	}
	cfg := s.CachedInfo().Config
	if cfg.MaxBytes == want.MaxBytes && cfg.MaxMsgs == want.MaxMsgs {
		return nil
	}
	cfg.MaxBytes, cfg.MaxMsgs, cfg.MaxMsgsPerSubject = want.MaxBytes, want.MaxMsgs, want.MaxMsgsPerSubject
	_, err = l.JS().UpdateStream(ctx, cfg)
	return err
}

const (
	fitEvery = time.Second
	fitSaid  = 30 // attempts after which the failure is logged
)

// FitStoreSoon does FitStore for a member of a cluster, until it succeeds or ctx ends. The stream is made when all
// members are there: one that is made before has one replica, and keeps it.
func (l Library) FitStoreSoon(ctx context.Context, log *slog.Logger) {
	for tries := 1; ; tries++ {
		err := l.FitStore(ctx, l.CreateReplicated)
		if err == nil {
			return
		}
		if tries == fitSaid {
			log.Warn("the store for stored delivery does not have the size of --max-stored yet; trying on", "error", err)
		}
		if sleep.For(ctx, fitEvery, nil) {
			return
		}
	}
}

// RaiseStore gives the stream its replicas, if it was made while a member of the cluster was away.
func (l Library) RaiseStore(ctx context.Context) {
	if s, err := l.JS().Stream(ctx, string(StreamStore)); err == nil {
		l.raise(ctx, s) // tried again at the next look
	}
}

// look lists the epochs of a filter. The peer is the token at a place of their subjects.
func (res *StoreResult) look(ctx context.Context, s jetstream.Stream, filter string, peerAt int) error {
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(filter))
	if err != nil {
		return err
	}

	var all []storeEpoch
	malformed := 0
	for subject, n := range info.State.Subjects {
		if n == 0 {
			continue
		}
		res.Used += int64(n) * (MaxStoredMessage + StoredOverhead)
		at, err := wire.ReadStore(subject)
		if err != nil { // no agent reads a malformed subject
			if malformed++; malformed <= storeMalformed {
				if err := purgeStored(ctx, s, subject, 0); err != nil {
					return err
				}
			}
			continue
		}
		all = append(all, storeEpoch{Peer: strings.Split(subject, ".")[peerAt], ID: at.ID, Epoch: at.Epoch, Messages: n})
	}
	slices.SortFunc(all, func(a, b storeEpoch) int {
		return cmp.Or(strings.Compare(a.ID.String(), b.ID.String()), cmp.Compare(a.Epoch, b.Epoch))
	})

	// A peer with very many epochs does not displace the others.
	count, rest := map[string]int{}, []storeEpoch(nil)
	for _, e := range all {
		if count[e.Peer]++; count[e.Peer] <= storeListOfOne {
			res.Epochs = append(res.Epochs, e)
		} else {
			rest = append(rest, e)
		}
	}
	res.Epochs = append(res.Epochs, rest...)
	res.Epochs = res.Epochs[:min(len(res.Epochs), StoreListMost)]
	return nil
}

// makeReader replaces an agent's reader by one for one subject. It acknowledges nothing: the agent trims the messages
// that it has taken.
func (l Library) makeReader(ctx context.Context, self, subject string, from uint64) error {
	cfg := jetstream.ConsumerConfig{
		Durable:            roles.DurableStore + self,
		FilterSubject:      subject,
		DeliverPolicy:      jetstream.DeliverAllPolicy,
		AckPolicy:          jetstream.AckNonePolicy,
		MaxRequestMaxBytes: MaxPull,
		InactiveThreshold:  storeIdle,
		MemoryStorage:      true, // its reader states its position each time
	}
	if from > 0 {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverByStartSequencePolicy, from
	}
	if err := l.JS().DeleteConsumer(ctx, string(StreamStore), cfg.Durable); err != nil && !IsMissing(err) {
		return err
	}
	_, err := l.JS().CreateConsumer(ctx, string(StreamStore), cfg)
	return err
}

// readEpoch returns Most bytes of an epoch, from the byte Begin of the message From on, in answers of Piece bytes at
// most. An answer is sent when the next bytes are there, because the last answer must be marked as the last one.
func readEpoch(ctx context.Context, s jetstream.Stream, filter string, t *StoreTask, answer func(StoreResult, []byte)) error {
	left, piece := min(t.Most, storeReadMost), min(t.Piece, MaxStoredMessage)
	if left <= 0 || piece <= 0 || t.Begin < 0 {
		return transfer.Errorf(transfer.KindUsage, "a reading of %d bytes in pieces of %d is none", t.Most, t.Piece)
	}

	var res StoreResult
	var data []byte
	for next, ahead := max(t.From, 1), 1; ; {
		some, err := getMessages(ctx, s, filter, next, ahead)
		if err != nil {
			return err
		}
		if len(some) == 0 {
			res.Spent = true
			answer(res, data)
			return nil
		}
		ahead = min(2*len(some), storeAhead, left/(MaxStoredMessage+1)+1)
		for _, m := range some {
			at := 0
			if m.Sequence == t.From {
				at = min(t.Begin, len(m.Data))
			}
			for whole := false; !whole; {
				if len(data) >= piece {
					res.More = true
					answer(res, data)
					res, data = StoreResult{}, nil
				}
				n := min(len(m.Data)-at, piece-len(data), left)
				res.Parts = append(res.Parts, storePart{m.Sequence, len(m.Data), at, n})
				data = append(data, m.Data[at:at+n]...)
				at, left = at+n, left-n
				if left <= 0 {
					answer(res, data)
					return nil
				}
				whole = at == len(m.Data)
			}
			next = m.Sequence + 1
		}
	}
}

// purgeStored removes the messages of a subject below a number; 0: all of them.
func purgeStored(ctx context.Context, s jetstream.Stream, subject string, below uint64) error {
	if below == 0 {
		return s.Purge(ctx, jetstream.WithPurgeSubject(subject))
	}
	return s.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(below))
}

// purgeBelow removes the epochs of a transfer below one, each by its name. Messages that arrive meanwhile in that
// epoch, or in a later one, stay.
func purgeBelow(ctx context.Context, s jetstream.Stream, of *wire.StoredEpoch, epoch uint32) (gone uint64, err error) {
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(wire.StoreEpochs(of.To, of.From, of.ID)))
	if err != nil {
		return 0, err
	}
	for subject, n := range info.State.Subjects {
		at, err := strconv.ParseUint(wire.LastToken(subject), 10, 32)
		if err == nil && uint32(at) >= epoch {
			continue
		}
		if err := purgeStored(ctx, s, subject, 0); err != nil {
			return gone, err
		}
		gone += n
	}
	return gone, nil
}
