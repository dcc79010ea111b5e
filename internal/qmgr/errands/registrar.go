package errands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/sleep"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const (
	errandsAtOnce = 16 // that are under way; the others wait
	errandsOfOne  = 8  // of one asker, under way and waiting; more are refused
	errandsInAll  = 4096
	errandBytes   = 64 << 20 // of all that wait
)

// A Forwarder knows the registrations of agents and the messages at other queue managers, and has tasks done there.
type Forwarder interface {
	// Register takes a registration that the holder of the token asker has given, and returns the time of the newest known registration
	// of the same identity.
	Register(asker string, place []byte) (newest int64, err error)
	// Stays reports whether messages stored for an agent are certain to remain here until the agent reads them here.
	Stays(token string) bool
	// StoredAt returns the token of the queue manager that does a task; empty: this one.
	StoredAt(t streams.StoreTask) string
	// AskStore has another queue manager do a task.
	AskStore(ctx context.Context, at, asker string, t streams.StoreTask) (streams.StoreResult, error)
	// Others returns the tokens of the other queue managers that may have messages of an identity.
	Others(token string) []string
}

// A Registrar does errands.
type Registrar struct {
	where string // names the queue manager in sentences
	Admin streams.Admin
	ctx   context.Context // ends with close
	end   context.CancelFunc
	slots chan struct{}
	tasks sync.WaitGroup
	pipes pipeCount
	// Admit takes new claims of the authority; nil: they arrive in another way.
	Admit    func(roles.Claims) error
	May      Rules     // checks the rules; nil: they are not known here
	Proved   bool      // askers prove their identities; otherwise each may do everything with dead letters
	forwards Forwarder // knows the messages at other queue managers; nil: there are none
	// Leads returns an error if a stream has no leader at present; "" stands for all streams. nil: an operation on the
	// stream shows that.
	Leads func(streams.Stream) error
	// Room reserves space of the disk for messages, until done is called; nil: the disk is not known.
	Room func(bytes, messages int) (done func(), err error)
	// Members returns the queue managers of the cluster; nil: the streams name them.
	Members func(context.Context) ([]streams.Member, error)
	// Notice takes a finding of coordination about the store; nil: it is not shown here.
	Notice func(finding string)
	// Remove takes a member out of the cluster; nil: there is none.
	Remove func(context.Context, Removal) error

	mu      sync.Mutex
	waiting map[string]int // by asker
	all     int
	bytes   int          // of them
	looking *streamCheck // the look at the streams in progress; nil: none is
	next    *streamCheck // the look after it, for requests that came meanwhile
}

// A streamCheck is a look at all streams, for all requests that came before it began.
type streamCheck struct {
	done  chan struct{} // closed after marks and err are set
	marks map[string]streams.Mark
	err   error
}

func NewRegistrar(where string, k streams.Admin) *Registrar {
	r := &Registrar{where: where, Admin: k, slots: make(chan struct{}, errandsAtOnce), waiting: map[string]int{}}
	r.ctx, r.end = context.WithCancel(context.Background())
	return r
}

// Close cancels running errands and returns when they have ended.
func (r *Registrar) Close() {
	r.mu.Lock()
	r.end()
	r.mu.Unlock()
	r.tasks.Wait()
}

// Background runs f until close, which ends its context and waits for it.
func (r *Registrar) Background(f func(context.Context)) {
	r.tasks.Go(func() { f(r.ctx) })
}

// Take has an errand done for the holder of the token asker, in its turn, and passes its result to answer.
func (r *Registrar) Take(asker string, body []byte, answer func([]byte)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return
	}
	if r.waiting[asker] >= errandsOfOne || r.all >= errandsInAll || r.bytes > 0 && r.bytes+len(body) > errandBytes {
		answer(ResultOf(Result{}, transfer.Errorf(transfer.KindBusy, "too many questions of %s wait at the queue manager", asker)))
		return
	}
	r.waiting[asker]++
	r.all++
	r.bytes += len(body)
	came := time.Now()
	r.tasks.Go(func() {
		defer r.leave(asker, len(body))
		select {
		case r.slots <- struct{}{}:
		case <-r.ctx.Done():
			return
		}
		defer func() { <-r.slots }()
		if time.Since(came) > streams.APITimeout {
			return // the asker has given up, and asks again
		}

		ctx, cancel := context.WithTimeout(r.ctx, streams.APITimeout)
		defer cancel()
		res, err := r.Do(ctx, asker, body)
		if err == nil && res.Store != nil && res.Store.Read != nil {
			if err = res.Store.Read(ctx, func(s streams.StoreResult, data []byte) { answer(withData(s, data)) }); err == nil {
				return
			}
		}
		answer(ResultOf(res, streams.Explain(err, r.where, "the streams", len(body), streams.MaxPayload)))
	})
}

// SetForwarder tells the registrar about f, which removes messages from the store before their reader reads them, and which
// knows the messages at other queue managers.
func (r *Registrar) SetForwarder(f Forwarder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forwards = f
}

func (r *Registrar) forwarder() Forwarder {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.forwards
}

// stays reports whether messages stored for an agent are certain to remain here until the agent reads them here.
func (r *Registrar) stays(token string) bool {
	f := r.forwarder()
	return f == nil || f.Stays(token)
}

func (r *Registrar) leave(asker string, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	r.bytes -= bytes
	if r.waiting[asker]--; r.waiting[asker] == 0 {
		delete(r.waiting, asker)
	}
}

// ensure has the streams made and inspected. Hundreds of agents that come back at once all ask for that. One look
// serves all requests that came before it began.
func (r *Registrar) ensure(ctx context.Context) (map[string]streams.Mark, error) {
	r.mu.Lock()
	l := r.next
	if l == nil {
		l = &streamCheck{done: make(chan struct{})}
		if r.next = l; r.looking == nil {
			r.look()
		}
	}
	r.mu.Unlock()
	select {
	case <-l.done:
		return l.marks, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// look begins the next look. r.mu is held.
func (r *Registrar) look() {
	r.looking, r.next = r.next, nil
	l := r.looking
	if l == nil {
		return
	}
	r.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(r.ctx, streams.APITimeout)
		defer cancel()
		l.marks, l.err = r.Admin.Ensure(ctx)
		close(l.done)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.look()
	})
}

// Do does an errand.
func (r *Registrar) Do(ctx context.Context, asker string, body []byte) (res Result, err error) {
	var e Errand
	body, behind, _ := bytes.Cut(body, []byte("\n"))
	limit := maxErrand
	if asker == wire.Authority {
		limit = maxAdmit
	}
	if len(body) > limit {
		return res, transfer.Errorf(transfer.KindTooLarge, "a question of %d bytes to the queue manager is too large; the limit is %d", len(body), limit)
	}
	if err := json.Unmarshal(body, &e); err != nil || e.V != 1 {
		return res, transfer.Errorf(transfer.KindVersion, "a question of %s to the queue manager cannot be read", asker)
	}
	if !e.Allowed(asker) {
		return res, transfer.Errorf(transfer.KindDenied, "%s may not have the queue manager do %.40q for %.200q", asker, e.Op, e.Durable)
	}

	if f := r.forwarder(); f != nil && len(e.Registration) > 0 {
		res.Registered, err = f.Register(asker, e.Registration)
	}
	if e.Op == OpRegister {
		return res, err
	}
	err = nil
	q, known := QueueNamed(e.Durable)
	if r.Leads != nil && e.Op != OpAdmit && e.Op != OpMembers && e.Op != OpRemove {
		of := q.Stream
		if e.Op == OpOwner || e.Op == OpSetOwner {
			of = streams.StreamOwner
		}
		if e.Queue != nil {
			of = streams.Stream(streams.QueueStream(e.Queue.Span.Queue))
		}
		err := r.Leads(of)
		if err == nil && e.Queue != nil && e.Queue.OfHolds() {
			err = r.Leads(streams.StreamHold)
		}
		if err != nil { // the library would say nothing, for long
			return res, err
		}
	}
	if !known && (e.Op == OpDurable || e.Op == OpReaderPosition) {
		return res, transfer.Errorf(transfer.KindUsage, "the queue manager knows no queue of the reader %.200q", e.Durable)
	}
	switch e.Op {
	case OpEnsure:
		res.Marks, err = r.ensure(ctx)
	case OpDurable:
		if e.Idle != 0 {
			q.Idle = min(max(e.Idle, minErrandIdle), streams.DurableIdle)
		}
		if name := transfer.AgentName(asker); name.Stream() {
			q.Idle = PipeIdle
			if err := r.pipes.enter(name, time.Now()); err != nil {
				return res, err
			}
		}
		var d streams.Durable
		d, err = r.Admin.Durable(ctx, q)
		res.Durable = &d
	case OpReaderPosition:
		var s streams.ReaderPosition
		s, err = r.Admin.ReaderPosition(ctx, q)
		if _, token, _ := strings.Cut(e.Durable, "-"); !r.stays(token) {
			s, err = streams.UnknownPosition(s, err)
		}
		res.ReaderPosition = &s
	case OpForget:
		name, _ := wire.AgentOf(asker)
		if err = r.Admin.Forget(ctx, asker, []streams.Queue{streams.Commands(name), streams.Controls(name)}); err == nil {
			r.pipes.leave(name)
		}
	case OpOwner:
		var o streams.Owner
		o, err = r.Admin.Owner(ctx, asker)
		res.Owner = &o
	case OpSetOwner:
		if e.Owner == nil || len(e.Owner.Value) > streams.MaxOwnerSize {
			return res, transfer.Errorf(transfer.KindUsage, "the owner of %s is missing or too large", asker)
		}
		o := streams.Owner{Revision: e.Owner.Revision}
		o.Revision, err = r.Admin.SetOwner(ctx, asker, *e.Owner)
		res.Owner = &o
	case OpStore:
		if e.Store == nil {
			return res, transfer.Errorf(transfer.KindUsage, "the request of %s names no operation on stored data", asker)
		}
		var s streams.StoreResult
		s, err = r.Store(ctx, asker, *e.Store)
		res.Store = &s
	case OpClear:
		err = r.clear(ctx, e.Tokens[:min(len(e.Tokens), MaxAgentsWithoutReader)])
	case OpQueue:
		var q streams.QueueResult
		e.Queue.Behind = behind
		if err := r.permits(asker, e.Queue); err != nil {
			return res, err
		}
		if t := e.Queue; r.Room != nil && (t.Do == streams.QueuePublish || t.Do == streams.QueuePut) {
			done, err := r.Room(len(t.Data)+len(behind), len(t.Sizes)+1)
			if err != nil {
				return res, err
			}
			defer done()
		}
		q, err = r.Admin.Queue(ctx, asker, *e.Queue, nil)
		res.Queue = &q
	case OpDead:
		var d streams.DeadResult
		d, err = r.dead(ctx, asker, *e.Dead)
		res.Dead = &d
	case OpAgentsWithoutReader:
		res.Tokens, err = r.Admin.AgentsWithoutReader(ctx)
		res.Tokens = res.Tokens[:min(len(res.Tokens), MaxAgentsWithoutReader)]
	case OpAdmit:
		if e.Claims == nil || r.Admit == nil {
			return res, transfer.Errorf(transfer.KindUsage, "the queue manager takes no list of admitted identities by message")
		}
		err = r.Admit(*e.Claims)
	case OpMembers:
		if r.Members != nil {
			res.Members, err = r.Members(ctx)
		} else if l, ok := r.Admin.(streams.Library); ok {
			res.Members, err = l.Members(ctx)
		}
	case OpRemove:
		if e.Remove == nil || r.Remove == nil {
			return res, transfer.Errorf(transfer.KindUsage, "this queue manager is in no cluster, and cannot remove a member")
		}
		err = r.Remove(ctx, *e.Remove)
	case OpNotice:
		if r.Notice != nil {
			r.Notice(Shortened(e.Text, MaxDegraded))
		}
	case OpPurge:
		res.Gone, err = r.Admin.Purge(ctx, e.Tokens[:min(len(e.Tokens), MaxAgentsWithoutReader)])
	}
	return res, err
}

// dead does a task on the dead letters.
func (r *Registrar) dead(ctx context.Context, asker string, t streams.DeadTask) (streams.DeadResult, error) {
	t.Asker, t.May = asker, func(d *wire.DeadLetter) bool { return r.mayHandle(asker, transfer.AuthAdmin, d) }
	t.Stops = func(command, request *wire.DeadLetter) bool {
		return r.mayHandle(command.From, transfer.AuthOperate, request)
	}
	if r.Room != nil && (t.Do == streams.DeadKeep || t.Do == streams.DeadResend) {
		done, err := r.Room(streams.MaxMsgSize, 1)
		if err != nil {
			return streams.DeadResult{}, err
		}
		defer done()
	}
	return r.Admin.Dead(ctx, asker, t)
}

// mayHandle reports whether an asker may handle a dead letter: its author, and those with an authority at its agent. An
// administrator sees it, sends it again and removes it, and an operator stops its transfer. Without rules there is
// neither.
func (r *Registrar) mayHandle(asker string, right transfer.Authority, d *wire.DeadLetter) bool {
	if !r.Proved || asker == d.From {
		return true
	}
	agent, err := wire.AgentOf(d.Agent)
	return err == nil && r.May != nil && r.May(asker, right, agent, "") == nil
}

// KeepExpiring makes dead letters of commands that are about to reach the age of their stream, until ctx ends.
func (r *Registrar) KeepExpiring(ctx context.Context, l streams.Library) {
	for {
		look, cancel := context.WithTimeout(ctx, expiringTime)
		n, err := l.BuryExpiring(look, time.Now())
		cancel()
		if l.Log != nil && n > 0 {
			l.Log.Warn("commands that no agent has read are dead letters now", "commands", n)
		}
		if l.Quiet != nil && err != nil && ctx.Err() == nil {
			l.Quiet.Warn("cannot look for old commands that no agent has read", "error", err)
		}
		if sleep.For(ctx, expiringEvery, nil) {
			return
		}
	}
}

const (
	expiringEvery = 30 * time.Minute
	expiringTime  = time.Minute
)

// permits checks the rules for the principal of an agent's errand. It is a second check, beside that of the
// agent, so a refusal waits: one of the two may have the newer rules.
func (r *Registrar) permits(asker string, t *streams.QueueTask) error {
	right := t.Needs()
	if r.May == nil || right == transfer.AuthNone || asker == wire.Coordination {
		return nil
	}
	if t.For == "" {
		return transfer.Errorf(transfer.KindDenied, "the errand of %s for the queue %s names no principal", asker, t.Span.Queue)
	}
	agent, err := wire.AgentOf(asker)
	if err == nil {
		err = r.May(t.For, right, agent, "/queue:"+string(t.Span.Queue))
	}
	if transfer.KindOf(err) == transfer.KindDenied {
		err = transfer.Errorf(transfer.KindBusy, "%s refuses: %w", r.where, err)
	}
	return err
}

// RemoteTasks are the tasks that an agent may have done at another queue manager: all of them concern its sent messages.
// Only coordination and the authority may have streams.StoreClear done there.
var RemoteTasks = []string{streams.StoreOutgoing, streams.StoreSent, streams.StorePurge}

// Store does a task at the queue manager that has the store.
func (r *Registrar) Store(ctx context.Context, asker string, t streams.StoreTask) (streams.StoreResult, error) {
	f, at := r.forwarder(), ""
	if f != nil {
		at = f.StoredAt(t)
	}
	if at == "" && t.Do == streams.StoreOutgoing && r.Room != nil { // before an agent stores a part
		done, err := r.Room(0, 0)
		if err != nil {
			return streams.StoreResult{}, err
		}
		done()
	}
	if at == "" {
		return r.Admin.Store(ctx, asker, t)
	}
	if !slices.Contains(RemoteTasks, t.Do) || len(at) > streams.MaxToken || transfer.Token(at) != at {
		return streams.StoreResult{}, transfer.Errorf(transfer.KindUsage, "%.40q cannot be done with data stored at another queue manager, %.80q", t.Do, at)
	}
	res, err := f.AskStore(ctx, at, asker, t)
	res.At = at
	return res, err
}

// clear removes all stored messages from members, and those for the agents among them, here and at all queue managers
// that can be reached.
func (r *Registrar) clear(ctx context.Context, tokens []string) (err error) {
	f := r.forwarder()
	for _, token := range tokens {
		_, failed := r.Admin.Store(ctx, token, streams.StoreTask{Do: streams.StoreClear})
		if err = errors.Join(err, failed); f == nil {
			continue
		}
		for _, at := range f.Others(token) {
			if _, failed := f.AskStore(ctx, at, token, streams.StoreTask{Do: streams.StoreClear}); failed != nil && transfer.KindOf(failed) != transfer.KindUnreachable {
				err = errors.Join(err, failed) // a queue manager that is gone for ever must not prevent it
			}
		}
	}
	return err
}
