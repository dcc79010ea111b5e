package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/gate"
	"ferry/internal/qmgr/quota"
	"ferry/internal/qmgr/registrations"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/quiet"
	"ferry/internal/sys/sleep"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// limits bound the messages that each member of the network publishes. Stored messages are bounded by a share of their stream.
// Other messages are delayed where a member publishes too many of them.
type limits struct {
	s      *Server
	stocks map[wire.Class]*streamStock
	paces  map[wire.Class]*quota.Pace
	pairs  *quota.Pace // of the replies of one agent to another
	quiet  *quiet.Log
	wake   chan struct{}
}

// A streamStock counts the messages and bytes of a stream by member.
type streamStock struct {
	*quota.Stock
	stream  string
	barrier string     // a subject of the stream without messages
	room    quota.Room // where the stream is not there yet
}

const (
	stockLook  = 2 * time.Second       // while messages are charged
	stockPause = time.Second           // between two looks
	stockWait  = 50 * time.Millisecond // between two looks at messages that a cluster still stores
)

// newLimits returns the limits of a queue manager. An epoch of stored delivery has half of its stream already, so one member may
// hold as much as is left.
func newLimits(s *Server) *limits {
	command, store := quota.Share{Member: 1, Destination: 16, Via: 4}, quota.Share{Member: 8, Destination: 16, Via: 16}
	book := func(name string, share quota.Share, cfg jetstream.StreamConfig) *streamStock {
		room := roomOf(cfg)
		return &streamStock{quota.NewStock(name, share, room), cfg.Name, strings.TrimSuffix(cfg.Subjects[0], ">") + "barrier", room}
	}
	pace := func(messages, bytes float64, burst time.Duration) *quota.Pace {
		return quota.NewPace(quota.Rate{Messages: messages, Bytes: bytes, Burst: burst})
	}
	// A synced stream stores some hundreds of messages in a second, and an agent reads as many. The burst has two requests of 16 MiB,
	// or a cancel of each of 1,000 transfers.
	commands := pace(100, 128<<20, 10*time.Second)
	words := quota.NewPace(registrations.WordRate)
	return &limits{s: s, quiet: quiet.New(s.cfg.Log, nil), wake: make(chan struct{}, 1),
		stocks: map[wire.Class]*streamStock{
			wire.ClassCommand: book("the queue of requests", command, streams.All[0]),
			wire.ClassControl: book("the queue of cancels and administration", command, streams.All[1]),
			wire.ClassStore:   book("the store", store, streams.StoreConfig(cmp.Or(s.cfg.MaxStored, streams.DefaultMaxStored))),
		},
		paces: map[wire.Class]*quota.Pace{
			wire.ClassCommand: commands, wire.ClassControl: commands, wire.ClassAsk: quota.NewPace(registrations.AskRate),
			wire.ClassEvent: pace(1_000, 8<<20, 8*time.Second),
			wire.ClassReply: words, wire.ClassWord: words,
		},
		pairs: quota.NewPace(registrations.PairRate),
	}
}

// run looks at the streams that hold charged messages, until the queue manager ends.
func (l *limits) run() {
	t := time.NewTicker(stockLook)
	defer t.Stop()
	for first := true; ; first = false {
		for _, st := range l.stocks {
			if first || st.Held() {
				l.look(st)
			}
		}
		select {
		case <-t.C:
		case <-l.wake:
		case <-l.s.Ending:
			return
		}
		select {
		case <-time.After(stockPause):
		case <-l.s.Ending:
			return
		}
	}
}

// look asks the stream of a streamStock for its room and its messages. It asks after the stream has stored all messages that
// were published before, however long its disk needs for them.
func (l *limits) look(st *streamStock) {
	ctx, cancel := context.WithTimeout(context.Background(), streams.APITimeout)
	defer cancel()
	last, err := l.pass(ctx, st.barrier)
	if err != nil {
		return // the queue manager asks again
	}
	s, err := l.s.answers.JS().Stream(ctx, st.stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		st.Look(st.room, nil)
		return
	}
	if err != nil {
		return
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(">"))
	for err == nil && info.State.LastSeq < last && !sleep.For(ctx, stockWait, nil) {
		info, err = s.Info(ctx, jetstream.WithSubjectFilter(">"))
	}
	if err != nil || info.State.LastSeq < last {
		return
	}
	room := roomOf(info.Config)
	room.Bytes, room.Messages = info.State.Bytes, info.State.Msgs
	st.Look(room, info.State.Subjects)
}

// pass returns when a stream has accepted or refused all messages that were published before, with the sequence number
// that the last one has, once it is stored. A stream takes messages in their order. It refuses this one, which expects
// a last message that no stream has. In a cluster it accepts messages before its members have stored them.
func (l *limits) pass(ctx context.Context, barrier string) (last uint64, err error) {
	_, err = l.s.answers.JS().Publish(ctx, barrier, nil, jetstream.WithExpectLastSequence(math.MaxInt64), jetstream.WithRetryAttempts(0))
	var refused *jetstream.APIError
	if errors.As(err, &refused) {
		// Another refusal has no number, and is as late.
		_, _ = fmt.Sscanf(refused.Description, "wrong last sequence: %d", &last)
		return last, nil
	}
	if errors.Is(err, jetstream.ErrNoStreamResponse) {
		return 0, nil
	}
	return 0, err
}

// roomOf returns the room of an empty stream. A limit below 0 is none.
func roomOf(cfg jetstream.StreamConfig) quota.Room {
	limit := func(n int64) uint64 { return uint64(max(n, 0)) }
	return quota.Room{MaxBytes: limit(cfg.MaxBytes), MaxMessages: limit(cfg.MaxMsgs), MaxPerSubject: limit(cfg.MaxMsgsPerSubject)}
}

// Admit charges a message for a stream.
func (l *limits) Admit(class wire.Class, m quota.Message) error {
	if l == nil {
		return nil
	}
	st := l.stocks[class]
	if st == nil {
		return nil
	}
	err := st.Admit(m)
	if err != nil {
		sleep.Wake(l.wake)
		l.quiet.Dropped(m.Member, "a message is not stored", "subject", m.Subject, "error", err)
	}
	return err
}

// publish decides on a message of a client before its body is read (gate.Config.Publish). It neither delays nor charges
// messages of queue managers, coordination and the authority.
func (l *limits) publish(from gate.Caller, m gate.Message) (wait time.Duration, instead *gate.Replacement) {
	if wire.TooLong(m.Subject) {
		return 0, &gate.Replacement{Subject: gate.RefusedSubject}
	}
	class, to := wire.ClassOf(m.Subject)
	role := roles.Role(from.Role)
	switch {
	case class == wire.ClassData && !m.Headers || role == roles.Manager:
		return 0, nil
	case m.Headers && !isAnswer(m.Subject): // a header has the server drop or expire stored messages; parts of answers have one
		return 0, &gate.Replacement{Subject: gate.RefusedHeaders}
	case role == roles.Coordination || role == roles.Authority:
		return 0, nil
	}
	pace := l.paces[class]
	if pace != nil {
		wait = pace.Take(from.Member, m.Size, time.Now())
	}
	if class == wire.ClassReply {
		wait = max(wait, l.pairs.Take(from.Member+" "+to, m.Size, time.Now()))
	}
	if !class.Stored() || !mayPublish(from, m.Subject) { // the server refuses the latter
		return wait, nil
	}
	switch {
	case m.Size > streams.MaxMsgSize:
		instead = refusal(from, m, gate.RefusedSize, jetstream.ErrStreamMessageExceedsMaximum.APIError())
	case class != wire.ClassEvent && !l.Knows(to):
		instead = refusal(from, m, gate.RefusedSubject, streams.NotEnrolled(to))
	default:
		if err := l.Admit(class, quota.Message{Subject: m.Subject, Member: from.Member, Destination: to, Size: m.Size}); err != nil {
			instead = refusal(from, m, gate.RefusedQuota, streams.NoShare(err))
		}
	}
	if instead != nil && pace == nil { // its answer takes time, too
		wait = l.paces[wire.ClassAsk].Take(from.Member, 0, time.Now())
	}
	return wait, instead
}

// isAnswer reports whether a subject is an inbox. The parts of a long answer have a header, and no stream has inboxes.
func isAnswer(subject string) bool {
	_, _, ok := wire.ReadInbox(subject)
	return ok
}

// Knows reports whether an agent may be one of the network. One with a registration is, even if an authority that was restored
// from a backup has lost its enrolment. Pipes are not enrolled.
func (l *limits) Knows(token string) bool {
	enrolled := l.s.cfg.Guard.Enrolled
	return enrolled == nil || transfer.AgentName(token).Stream() || enrolled(token) || l.s.channels.Registry.HasAgent(token)
}

// mayPublish reports whether the role of a client allows it to publish on a subject.
func mayPublish(from gate.Caller, subject string) bool {
	return roles.Covers(grants[roles.Role(from.Role)].For(from.Token).Publish, subject)
}

var grants = roles.Grants()

// refusal returns the message to publish instead of one that is not stored. The client gets the answer that the stream
// would give: the queue manager sends back a question that begins with refusedWord (responder.answer). The server
// refuses a message without a reply, under the subject refused.
func refusal(from gate.Caller, m gate.Message, refused string, why *jetstream.APIError) *gate.Replacement {
	if m.Reply == "" {
		return &gate.Replacement{Subject: refused}
	}
	return &gate.Replacement{Subject: wire.AskSubject(wire.Manager, from.Token), Reply: m.Reply, Body: append([]byte(refusedWord), streams.StreamError(why)...)}
}

const refusedWord = "refused\n"
