package forward

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/channel"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/own"
	"ferry/internal/qmgr/quota"
	"ferry/internal/qmgr/registrations"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/identity"
	"ferry/internal/sys/quiet"
	"ferry/internal/sys/sleep"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Forwarder forwards messages that are stored here for agents, and for coordination, at other queue managers: a
// message leaves the store when the queue manager there has acknowledged that it has stored it. The registrations tell the
// queue manager of an agent. A message whose acknowledgement is lost arrives twice, as other stored messages do.
//
// There is no reader for each agent that is elsewhere: messages are looked up by their subjects and deleted by their
// numbers.
type Forwarder struct {
	cfg   Config
	Own   *own.Conn
	data  *own.Conn // in the account for data; nil in a network without identities
	self  string    // the token of the queue manager, or of its cluster
	log   *slog.Logger
	quiet *quiet.Log

	secret    string
	inboxes   inboxCounter
	Announcer *Announcer

	ctx   context.Context // ends with stop
	end   context.CancelFunc
	tasks sync.WaitGroup
	wake  chan struct{}

	Registry *registrations.Registry

	Mu      sync.Mutex
	due     map[string]int       // by the addressee's token: how many looks are left after a message was stored
	waits   map[string]int       // by the queue manager's token: how many messages waited at the last look
	Blocked map[string]time.Time // by the queue manager's token, or an agent's behind blockedAgent: no attempts until then
}

const blockedAgent = "agent "

// Limits and times of forwarding.
const (
	forwardBytes  = 64 << 10 // bytes of messages in one batch, unless one message is larger
	ForwardMost   = 64       // messages in one batch
	forwardWait   = 30 * time.Second
	forwardAgain  = time.Second           // after a batch was not taken
	forwardLook   = 5 * time.Second       // between two looks at everything
	forwardSoon   = 20 * time.Millisecond // an announced message is stored a moment later
	forwardLooks  = 4                     // interval of these looks, twice as long each time
	forwardAtOnce = 8
)

// A Config describes the queue manager that forwards messages.
type Config struct {
	Name         string
	Domain       string             // its token, or that of its cluster
	Cluster      string             // its cluster; "": none
	Account      string             // that has the queues
	Identity     *identity.Identity // nil: the network has none
	MaxStored    int64              // bytes of stored delivery; 0: the default
	Own          *own.Conn
	NS           *server.Server
	Channels     *channel.Channels
	Registry     *registrations.Registry
	Limits       Limits                   // nil: there are none
	OtherMembers func() []string          // the names of the other members of its cluster
	Routes       func() map[string]uint64 // the connected ones, with the number of the newest connection of each
	// Take has an errand of the holder of a token done, in its turn.
	Take   func(asker string, body []byte, answer func([]byte))
	URL    func() string
	Faults func() string // its faults; "" for none
	// Found notes a finding, and reports whether it is new.
	Found func(finding string) bool
	Log   *slog.Logger
}

// Limits bound the messages that other queue managers forward.
type Limits interface {
	// Knows reports whether an agent, by its token, may be one of the network.
	Knows(token string) bool
	// Admit charges a message for a stream.
	Admit(class wire.Class, m quota.Message) error
}

// Start starts to forward messages, and to take them from others.
func Start(cfg Config) (*Forwarder, error) {
	f := &Forwarder{cfg: cfg, Registry: cfg.Registry, Own: cfg.Own, self: cfg.Domain, log: cfg.Log, quiet: quiet.New(cfg.Log, nil), secret: errands.NewSecret(), wake: make(chan struct{}, 1),
		due: map[string]int{}, waits: map[string]int{}, Blocked: map[string]time.Time{}}
	f.ctx, f.end = context.WithCancel(context.Background())
	f.Announcer = newAnnouncer(f)
	requests := newRequestServer(f)
	hears := map[string]nats.MsgHandler{
		wire.AllManagers:                      f.Announcer.Announced,
		wire.AllForwarded(f.self):             requests.enqueue,
		wire.AllForwarded(cfg.Channels.Token): requests.enqueue,
		"ferry.command.*.*":                   f.stored,
		"ferry.control.*.*":                   f.stored,
	}
	if cfg.Identity == nil {
		hears[wire.AllBeats] = f.Beat
	} else {
		hears[wire.AllRegistrations] = f.hearRegistration
	}
	for subject, h := range hears {
		group := "" // each member of a cluster hears it
		if subject == wire.AllForwarded(f.self) {
			group = "forward" // one of them stores it
		}
		if err := f.Own.Subscribe(subject, group, h); err != nil {
			f.end()
			return nil, err
		}
	}
	if cfg.Identity != nil {
		var err error
		if f.data, err = own.Dial(cfg.NS, cfg.Identity, true, cfg.Log); err == nil {
			err = f.data.Subscribe(wire.AllFarStore(f.self), "store", f.storeForAgent)
		}
		if err != nil {
			f.Stop()
			return nil, err
		}
	}
	f.tasks.Go(f.run)
	f.tasks.Go(requests.run)
	if cfg.Identity != nil {
		f.tasks.Go(f.publishRegistrations)
	}
	f.tasks.Go(f.events)
	f.tasks.Go(f.Announcer.announce)
	return f, nil
}

func (f *Forwarder) Stop() {
	if f != nil {
		f.end()
		f.tasks.Wait()
		f.data.Stop()
	}
}

// lookSoon has everything looked at soon.
func (f *Forwarder) lookSoon() { sleep.Wake(f.wake) }

// Beat takes an agent's registration from its heartbeat, in a network without identities.
func (f *Forwarder) Beat(m *nats.Msg) {
	token := wire.LastToken(m.Subject)
	var report struct {
		Beat struct {
			Manager string `json:"queue_manager"`
		} `json:"beat"`
	}
	if json.Unmarshal(errands.Unpacked(m.Data), &report) != nil || report.Beat.Manager == "" {
		return
	}
	at := transfer.Token(report.Beat.Manager)
	if len(token) > streams.MaxToken || len(at) > streams.MaxToken {
		return
	}
	if f.Registry.TakeHeartbeat(token, at, time.Now()) {
		f.moved(token)
	}
}

// moved has the messages of an agent forwarded soon.
func (f *Forwarder) moved(token string) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.due[token] = forwardLooks
	f.lookSoon()
}

// elsewhere returns the token of the queue manager, or of the cluster, that an identity is at. It is not ok if that is
// this one, or not known.
func (f *Forwarder) elsewhere(token string) (at string, ok bool) {
	at = f.WhereIs(token)
	return at, at != "" && at != f.self
}

// stored hears of messages that are stored here, to forward them at once.
func (f *Forwarder) stored(m *nats.Msg) {
	parts := strings.SplitN(m.Subject, ".", 4)
	if _, ok := f.elsewhere(parts[2]); ok {
		f.moved(parts[2])
	}
}

// run hands commands on until stop.
func (f *Forwarder) run() {
	t := time.NewTimer(forwardLook)
	defer t.Stop()
	pause, looked := forwardSoon, time.Time{}
	for {
		if time.Since(looked) >= forwardLook {
			f.Forget(time.Now())
			if f.leads(streams.StreamCommand) {
				f.lookAtAll()
			}
			looked = time.Now()
		}
		if f.leads(streams.StreamCommand) && f.forwardDue() {
			t.Reset(pause)
			pause = min(2*pause, forwardLook)
		} else {
			t.Reset(time.Until(looked.Add(forwardLook)))
			pause = forwardSoon
		}
		select {
		case <-t.C:
		case <-f.wake:
			pause = forwardSoon
			t.Reset(forwardSoon)
			select {
			case <-t.C:
			case <-f.ctx.Done():
				return
			}
		case <-f.ctx.Done():
			return
		}
	}
}

// leads reports whether this queue manager forwards the messages of a stream. In a cluster, that is the leader of the
// stream.
func (f *Forwarder) leads(stream streams.Stream) bool {
	return f.cfg.Cluster == "" || f.cfg.NS.JetStreamIsStreamLeader(f.cfg.Account, string(stream))
}

// lookAtAll finds the stored messages for agents that are connected elsewhere.
func (f *Forwarder) lookAtAll() {
	ctx, cancel := context.WithTimeout(f.ctx, streams.APITimeout)
	defer cancel()
	subjects := map[string]uint64{}
	for _, stream := range streams.CommandStreams {
		st, err := f.Own.JS().Stream(ctx, string(stream))
		if err != nil || st.CachedInfo().State.Msgs == 0 {
			continue
		}
		info, err := st.Info(ctx, jetstream.WithSubjectFilter(">"))
		if err != nil {
			return
		}
		maps.Copy(subjects, info.State.Subjects)
	}
	f.Mu.Lock()
	defer f.Mu.Unlock()
	clear(f.waits)
	for subject, n := range subjects {
		parts := strings.SplitN(subject, ".", 4)
		if len(parts) < 4 {
			continue
		}
		if at, ok := f.elsewhere(parts[2]); ok {
			f.waits[at] += int(n)
			f.due[parts[2]] = max(f.due[parts[2]], 1)
		}
	}
}

// Forget drops queue managers and identities that have been silent for long.
func (f *Forwarder) Forget(now time.Time) {
	f.Announcer.forget(now)
	f.Registry.Forget(now)
	f.Mu.Lock()
	defer f.Mu.Unlock()
	maps.DeleteFunc(f.Blocked, func(_ string, until time.Time) bool { return now.After(until) })
}

// noticed reports findings that other queue managers cause: it logs one line in a minute.
func (f *Forwarder) noticed(format string, args ...any) {
	finding := fmt.Sprintf(format, args...)
	if f.cfg.Found(finding) {
		f.quiet.Warn("the queue manager is degraded", "error", finding)
	}
}

// forwardDue forwards the messages that are due, and reports whether more may be due soon.
func (f *Forwarder) forwardDue() (again bool) {
	f.Mu.Lock()
	type errandOf struct{ token, to string }
	var all []errandOf
	for token, looks := range f.due {
		at, ok := f.elsewhere(token)
		if !ok || looks <= 0 {
			delete(f.due, token)
			continue
		}
		if now := time.Now(); now.Before(f.Blocked[at]) || now.Before(f.Blocked[blockedAgent+token]) {
			again = true
			continue
		}
		f.due[token] = looks - 1
		again = again || looks > 1
		all = append(all, errandOf{token, at})
	}
	f.Mu.Unlock()

	slots := make(chan struct{}, forwardAtOnce)
	var wg sync.WaitGroup
	for _, e := range all {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := f.Drain(e.token, e.to); err != nil && f.ctx.Err() == nil {
				f.Mu.Lock()
				key := e.to
				if isHeld(err) {
					key = blockedAgent + e.token
				}
				f.Blocked[key] = time.Now().Add(forwardAgain)
				f.due[e.token] = forwardLooks
				f.Mu.Unlock()
				f.quiet.Log(slog.LevelInfo, "messages wait for another queue manager", "queue_manager", e.to, "error", err)
			}
		})
	}
	wg.Wait()
	return again
}

// Drain forwards the messages that are stored for an agent: commands before requests, as a command may withdraw one.
// err is the reason why messages are left.
func (f *Forwarder) Drain(token, to string) (err error) {
	held := map[string]bool{} // authors without room or without a registration there, or with a message that cannot be kept
	var unkept error          // of the first message that cannot be kept; no other is tried
	for _, q := range []streams.Queue{{Stream: streams.StreamControl, Filter: "ferry.control." + token + ".>"}, {Stream: streams.StreamCommand, Filter: "ferry.command." + token + ".>"}} {
		st, missing := f.Own.JS().Stream(f.ctx, string(q.Stream))
		if missing != nil {
			return err // there is none, or not now
		}
		info, failed := st.Info(f.ctx, jetstream.WithSubjectFilter(q.Filter))
		if failed != nil {
			return failed
		}
		subjects := slices.Sorted(maps.Keys(info.State.Subjects))
		for {
			subjects = slices.DeleteFunc(subjects, func(s string) bool { return held[wire.LastToken(s)] })
			b, seqs, failed := f.gather(st, subjects)
			if failed != nil {
				return failed
			}
			if len(seqs) == 0 {
				break
			}
			n, left, failed := f.send(to, b)
			if failed != nil && n < len(seqs) && never(failed) {
				subject := b.Messages[n].Subject
				if unkept == nil {
					unkept = buryUnforwarded(f, st, seqs[n], failed)
				}
				if unkept == nil {
					f.quiet.Log(slog.LevelWarn, "a message that no queue manager takes is a dead letter", "subject", subject, "error", failed)
					n++
				} else {
					held[wire.LastToken(subject)] = true
					err = transfer.Errorf(transfer.KindNoSpace, "a message on %s that no queue manager takes cannot be kept as a dead letter now: %w", subject, unkept)
				}
				failed = nil
			}
			for i, seq := range seqs[:n] {
				if slices.Contains(left, i) {
					held[wire.LastToken(b.Messages[i].Subject)] = true
				} else if derr := st.DeleteMsg(f.ctx, seq); derr != nil && !errors.Is(derr, jetstream.ErrMsgNotFound) {
					return derr
				}
			}
			if failed != nil {
				err = failed
			}
			if n < len(seqs) && failed != nil {
				return err
			}
			at := slices.Index(subjects, b.Messages[len(seqs)-1].Subject) + 1
			subjects = slices.Concat(subjects[at:], subjects[:at]) // each author in its turn
		}
	}
	return err
}

// buryUnforwarded keeps a message that can never be forwarded as a dead letter.
func buryUnforwarded(f *Forwarder, st jetstream.Stream, seq uint64, why error) error {
	m, err := st.GetMsg(f.ctx, seq)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return streams.Library{JS: f.Own.JS, AckWait: streams.AckWait, Log: f.cfg.Log, Quiet: f.quiet}.Bury(f.ctx, m, "no queue manager takes it: "+why.Error(), transfer.ID{})
}

// firstStored returns the time when a message was stored first, if it was a dead letter.
func firstStored(m *jetstream.RawStreamMsg) string {
	if at, ok := streams.StoredBefore(m.Header, m.Time); ok {
		return at.UTC().Format(time.RFC3339Nano)
	}
	return ""
}

// never reports whether a message can never be forwarded. It becomes a dead letter then, so that it does not hold up
// those behind it.
func never(err error) bool {
	k := transfer.KindOf(err)
	return k == transfer.KindMalformed || k == transfer.KindTooLarge
}

// gather reads the first messages of each of some subjects, and their numbers. Those of an author without a registration here wait until it
// is here again.
func (f *Forwarder) gather(st jetstream.Stream, subjects []string) (b Batch, seqs []uint64, err error) {
	b = Batch{V: 1}
	bytes, most := 0, max(1, ForwardMost/max(1, len(subjects)))
	for _, subject := range subjects {
		if !f.prove(&b, wire.LastToken(subject)) {
			continue
		}
		for n, seq := 0, uint64(1); n < most; n++ {
			m, err := st.GetMsg(f.ctx, seq, jetstream.WithGetMsgSubject(subject))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				break
			}
			if err != nil {
				return b, nil, err
			}
			if bytes += len(m.Data); len(seqs) > 0 && bytes > forwardBytes || len(seqs) == ForwardMost {
				return b, seqs, nil
			}
			b.Messages = append(b.Messages, Forwarded{m.Subject, idOf(m.Header), m.Data, firstStored(m)})
			seqs = append(seqs, m.Sequence)
			seq = m.Sequence + 1
		}
	}
	return b, seqs, nil
}

// send sends a batch to another queue manager. The first n of its messages are stored there, but for the held ones.
func (f *Forwarder) send(to string, b Batch) (n int, held []int, err error) {
	data, err := json.Marshal(b)
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(f.ctx, forwardWait+errands.Slowest(len(data)))
	defer cancel()
	ctx, linked := whileLinked(ctx, f.cfg.Channels, func(peer string) bool { return f.Announcer.DomainOf(peer) == to })
	defer linked()
	answer, err := errands.Request(ctx, f.Own.NATS(), wire.ForwardSubject(to, f.Registry.Self), f.inbox(to), data)
	if err != nil && errors.Is(context.Cause(ctx), errUnlinked) {
		return 0, nil, transfer.Errorf(transfer.KindUnreachable, "the channel to queue manager %s has ended before it answered", to)
	}
	if errors.Is(err, nats.ErrNoResponders) {
		return 0, nil, transfer.Errorf(transfer.KindUnreachable, "no channel leads to queue manager %s at present", to)
	}
	if err != nil {
		return 0, nil, err
	}
	var r BatchResult
	if err := json.Unmarshal(answer, &r); err != nil || r.V != 1 || r.Stored < 0 || r.Stored > len(b.Messages) || len(r.Held) > len(b.Messages)-r.Stored {
		return 0, nil, transfer.Errorf(transfer.KindVersion, "the answer of queue manager %s cannot be read", to)
	}
	n = r.Stored + len(r.Held)
	switch {
	case r.Error != nil:
		return n, r.Held, r.Error
	case n < len(b.Messages):
		return n, r.Held, transfer.Errorf(transfer.KindUnreachable, "queue manager %s has stored %d of %d messages, and does not say why", to, r.Stored, len(b.Messages))
	}
	return n, r.Held, nil
}

// inbox returns a subject for the answer of one queue manager, or of a member of one cluster, by its token.
func (f *Forwarder) inbox(of string) string {
	return wire.InboxSubject(wire.Manager, errands.StoreToken+of, errands.SecretFor(f.secret, of), f.inboxes.Add(1))
}

// Stays reports whether messages stored for an agent are certain to remain here until the agent reads them here.
func (f *Forwarder) Stays(token string) bool {
	if len(f.cfg.Channels.List()) == 0 {
		return true
	}
	return f.Registry.StaysHere(token)
}

// Waiting returns the number of messages that wait for another queue manager.
func (f *Forwarder) Waiting(to string) int {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return f.waits[to]
}

// pause waits for d, and reports whether the forwarder is still open.
func (f *Forwarder) pause(d time.Duration) bool { return !sleep.For(f.ctx, d, nil) }
