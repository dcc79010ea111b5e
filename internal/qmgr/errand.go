package qmgr

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An errand is an operation that the queue manager does for an identity without the right to do it itself. The request
// is sent on wire.AskSubject(wire.Manager, …). A request there without a body is a question for about. Unknown fields
// are ignored.
type errand struct {
	V  int `json:"v"`
	Op op  `json:"op"`
	// Durable names the queue, and with it the stream and the subjects.
	Durable string             `json:"durable,omitempty"`
	Idle    time.Duration      `json:"idle,omitempty"` // Queue.Idle, in nanoseconds
	Owner   *streams.Owner     `json:"owner,omitempty"`
	Tokens  []string           `json:"tokens,omitempty"`
	Claims  *roles.Claims      `json:"claims,omitempty"`
	Store   *streams.StoreTask `json:"store,omitempty"`
	Queue   *streams.QueueTask `json:"queue,omitempty"`
	Remove  *removal           `json:"remove,omitempty"`
	Text    string             `json:"text,omitempty"`
	// Place is an identity.Place of the asker, with any errand.
	Place json.RawMessage `json:"place,omitempty"`
}

// An op names the operation of an errand: a method of keeper.
type op string

const (
	opEnsure    op = "ensure"
	opDurable   op = "durable"
	opStanding  op = "standing"
	opForget    op = "forget"
	opOwner     op = "owner"
	opSetOwner  op = "set-owner"
	opStrangers op = "strangers"
	opPurge     op = "purge"
	opStore     op = "store"
	opClear     op = "clear" // store with streams.StoreClear, for each of Tokens
	opQueue     op = "queue"
	opAdmit     op = "admit"   // not of keeper: Server.Admit
	opMembers   op = "members" // not of keeper: Server.Members
	opRemove    op = "remove"  // not of keeper: member.remove
	opNotice    op = "notice"  // not of keeper: Server.noticed
	opPlace     op = "place"   // not of keeper: forwarder.come
)

// An errandResult is the result of an errand.
type errandResult struct {
	V        int                     `json:"v"`
	Error    *transfer.Error         `json:"error,omitempty"`
	Marks    map[string]streams.Mark `json:"marks,omitempty"`
	Durable  *streams.Durable        `json:"durable,omitempty"`
	Standing *streams.Standing       `json:"standing,omitempty"`
	Owner    *streams.Owner          `json:"owner,omitempty"`
	Tokens   []string                `json:"tokens,omitempty"`
	Gone     uint64                  `json:"gone,omitempty"`
	Members  []streams.Member        `json:"members,omitempty"`
	Store    *streams.StoreResult    `json:"store,omitempty"`
	Queue    *streams.QueueResult    `json:"queue,omitempty"`
	Placed   int64                   `json:"placed,omitempty"` // identity.Place.Made of the newest place of the asker that is known
}

// Limits of errands.
const (
	maxErrand     = 128 << 10 // bytes: an owner in base64, or names of strangers
	maxAdmit      = 1 << 20   // bytes of an errand of the authority: the list of revocations
	maxStrangers  = 500       // named at once; the others the next time
	errandsAtOnce = 16        // that are under way; the others wait
	errandsOfOne  = 8         // of one asker, under way and waiting; more are refused
	errandsInAll  = 4096
	errandBytes   = 64 << 20 // of all that wait
	minErrandIdle = time.Minute
)

// A queueNamed is the queue of one of Ferry's durables.
func queueNamed(durable string) (q streams.Queue, ok bool) {
	if durable == wire.Coordination {
		return streams.Events(), true
	}
	for prefix, queue := range map[string]func(transfer.AgentName) streams.Queue{streams.CommandsPrefix: streams.Commands, streams.ControlsPrefix: streams.Controls} {
		if token, ok := strings.CutPrefix(durable, prefix); ok {
			name, err := wire.AgentOf(token)
			return queue(name), err == nil && name.Token() == token
		}
	}
	return q, false
}

// allowed reports whether the holder of a token may have an errand done; the tokens of agents are in capitals, all
// others in small letters.
func (e *errand) allowed(asker string) bool {
	_, err := wire.AgentOf(asker)
	agent := err == nil && asker == strings.ToUpper(asker)
	if agent && transfer.AgentName(asker).Stream() {
		return e.ofPipe(asker)
	}
	switch e.Op {
	case opEnsure, opMembers, opPlace:
		return true
	case opStanding:
		return e.Durable != wire.Coordination
	case opDurable:
		return agent && (e.Durable == streams.CommandsPrefix+asker || e.Durable == streams.ControlsPrefix+asker) || asker == wire.Coordination && e.Durable == asker
	case opForget, opOwner, opSetOwner:
		return agent
	case opStore: // each member may withdraw its own messages
		return agent || e.Store != nil && e.Store.Do == streams.StoreClear
	case opStrangers, opPurge, opNotice:
		return asker == wire.Coordination
	case opClear:
		return asker == wire.Coordination || asker == wire.Authority
	case opAdmit, opRemove:
		return asker == wire.Authority
	case opQueue:
		return e.Queue != nil && e.Queue.Allowed(asker, agent)
	}
	return false
}

// ofPipe reports whether a pipe may have an errand done: for the readers of its own requests and cancels.
func (e *errand) ofPipe(asker string) bool {
	switch e.Op {
	case opEnsure, opForget, opPlace:
		return true
	case opStanding, opDurable:
		return e.Durable == streams.CommandsPrefix+asker || e.Durable == streams.ControlsPrefix+asker
	}
	return false
}

// A Forwarder knows the places of agents and the messages at other queue managers, and has tasks done there.
type Forwarder interface {
	// Came takes a place that the holder of the token asker has given, and returns the time of the newest known place
	// of the same identity.
	Came(asker string, place []byte) (newest int64, err error)
	// Stays reports whether messages stored for an agent are certain to remain here until the agent reads them here.
	Stays(token string) bool
	// StoredAt returns the token of the queue manager that does a task; empty: this one.
	StoredAt(t streams.StoreTask) string
	// AskStore has another queue manager do a task.
	AskStore(ctx context.Context, at, asker string, t streams.StoreTask) (streams.StoreResult, error)
	// Others returns the tokens of the other queue managers that may have messages of an identity.
	Others(token string) []string
}

// A registrar does errands.
type registrar struct {
	where  string // names the queue manager in sentences
	keeper streams.Keeper
	ctx    context.Context // ends with close
	end    context.CancelFunc
	slots  chan struct{}
	tasks  sync.WaitGroup
	pipes  pipeBook
	// admit takes new claims of the authority; nil: they arrive in another way.
	admit    func(roles.Claims) error
	may      Rules     // checks the rules; nil: they are not known here
	forwards Forwarder // knows the messages at other queue managers; nil: there are none
	// leads returns an error if a stream has no leader at present; "" stands for all streams. nil: an operation on the
	// stream shows that.
	leads func(streams.Stream) error
	// room reserves space of the disk for messages, until done is called; nil: the disk is not known.
	room func(bytes, messages int) (done func(), err error)
	// members returns the queue managers of the cluster; nil: the streams name them.
	members func(context.Context) ([]streams.Member, error)
	// notice takes a finding of coordination about the store; nil: it is not shown here.
	notice func(finding string)
	// remove takes a member out of the cluster; nil: there is none.
	remove func(context.Context, removal) error

	mu      sync.Mutex
	waiting map[string]int // by asker
	all     int
	bytes   int     // of them
	looking *looked // the look at the streams in progress; nil: none is
	next    *looked // the look after it, for requests that came meanwhile
}

// A looked is a look at all streams, for all requests that came before it began.
type looked struct {
	done  chan struct{} // closed after marks and err are set
	marks map[string]streams.Mark
	err   error
}

func newRegistrar(where string, k streams.Keeper) *registrar {
	r := &registrar{where: where, keeper: k, slots: make(chan struct{}, errandsAtOnce), waiting: map[string]int{}}
	r.ctx, r.end = context.WithCancel(context.Background())
	return r
}

// close cancels running errands and returns when they have ended.
func (r *registrar) close() {
	r.mu.Lock()
	r.end()
	r.mu.Unlock()
	r.tasks.Wait()
}

// take has an errand done for the holder of the token asker, in its turn, and passes its result to answer.
func (r *registrar) take(asker string, body []byte, answer func([]byte)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return
	}
	if r.waiting[asker] >= errandsOfOne || r.all >= errandsInAll || r.bytes > 0 && r.bytes+len(body) > errandBytes {
		answer(resultOf(errandResult{}, transfer.Errorf(transfer.KindBusy, "too many questions of %s wait at the queue manager", asker)))
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
		res, err := r.do(ctx, asker, body)
		if err == nil && res.Store != nil && res.Store.Read != nil {
			if err = res.Store.Read(ctx, func(s streams.StoreResult, data []byte) { answer(withData(s, data)) }); err == nil {
				return
			}
		}
		answer(resultOf(res, streams.Explain(err, r.where, "the streams", len(body), streams.MaxPayload)))
	})
}

// hands tells the registrar about f, which removes messages from the store before their reader reads them, and which
// knows the messages at other queue managers.
func (r *registrar) hands(f Forwarder) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forwards = f
}

func (r *registrar) forwarder() Forwarder {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.forwards
}

// stays reports whether messages stored for an agent are certain to remain here until the agent reads them here.
func (r *registrar) stays(token string) bool {
	f := r.forwarder()
	return f == nil || f.Stays(token)
}

func (r *registrar) leave(asker string, bytes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all--
	r.bytes -= bytes
	if r.waiting[asker]--; r.waiting[asker] == 0 {
		delete(r.waiting, asker)
	}
}

// resultOf puts a result and an error in one message.
func resultOf(res errandResult, err error) []byte {
	res.V = 1
	if err != nil {
		res = errandResult{V: 1, Error: transfer.AsError(err)}
	}
	data, err := json.Marshal(res)
	if err != nil {
		data = resultOf(errandResult{}, err)
	}
	if q := res.Queue; q != nil && len(q.Behind) > 0 {
		data = append(append(data, '\n'), q.Behind...)
	}
	return data
}

// ensure has the streams made and inspected. Hundreds of agents that come back at once all ask for that. One look
// serves all requests that came before it began.
func (r *registrar) ensure(ctx context.Context) (map[string]streams.Mark, error) {
	r.mu.Lock()
	l := r.next
	if l == nil {
		l = &looked{done: make(chan struct{})}
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
func (r *registrar) look() {
	r.looking, r.next = r.next, nil
	l := r.looking
	if l == nil {
		return
	}
	r.tasks.Go(func() {
		ctx, cancel := context.WithTimeout(r.ctx, streams.APITimeout)
		defer cancel()
		l.marks, l.err = r.keeper.Ensure(ctx)
		close(l.done)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.look()
	})
}

// do does an errand.
func (r *registrar) do(ctx context.Context, asker string, body []byte) (res errandResult, err error) {
	var e errand
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
	if !e.allowed(asker) {
		return res, transfer.Errorf(transfer.KindDenied, "%s may not have the queue manager do %.40q for %.200q", asker, e.Op, e.Durable)
	}

	if f := r.forwarder(); f != nil && len(e.Place) > 0 {
		res.Placed, err = f.Came(asker, e.Place)
	}
	if e.Op == opPlace {
		return res, err
	}
	err = nil
	q, known := queueNamed(e.Durable)
	if r.leads != nil && e.Op != opAdmit && e.Op != opMembers && e.Op != opRemove {
		of := q.Stream
		if e.Op == opOwner || e.Op == opSetOwner {
			of = streams.StreamOwner
		}
		if e.Queue != nil {
			of = streams.Stream(streams.QueueStream(e.Queue.Span.Queue))
		}
		err := r.leads(of)
		if err == nil && e.Queue != nil && e.Queue.OfHolds() {
			err = r.leads(streams.StreamHold)
		}
		if err != nil { // the library would say nothing, for long
			return res, err
		}
	}
	if !known && (e.Op == opDurable || e.Op == opStanding) {
		return res, transfer.Errorf(transfer.KindUsage, "the queue manager knows no queue of the reader %.200q", e.Durable)
	}
	switch e.Op {
	case opEnsure:
		res.Marks, err = r.ensure(ctx)
	case opDurable:
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
		d, err = r.keeper.Durable(ctx, q)
		res.Durable = &d
	case opStanding:
		var s streams.Standing
		s, err = r.keeper.Standing(ctx, q)
		if _, token, _ := strings.Cut(e.Durable, "-"); !r.stays(token) {
			s, err = streams.UnknownStanding(s, err)
		}
		res.Standing = &s
	case opForget:
		name, _ := wire.AgentOf(asker)
		if err = r.keeper.Forget(ctx, asker, []streams.Queue{streams.Commands(name), streams.Controls(name)}); err == nil {
			r.pipes.leave(name)
		}
	case opOwner:
		var o streams.Owner
		o, err = r.keeper.Owner(ctx, asker)
		res.Owner = &o
	case opSetOwner:
		if e.Owner == nil || len(e.Owner.Value) > streams.MaxOwnerSize {
			return res, transfer.Errorf(transfer.KindUsage, "the owner of %s is missing or too large", asker)
		}
		o := streams.Owner{Revision: e.Owner.Revision}
		o.Revision, err = r.keeper.SetOwner(ctx, asker, *e.Owner)
		res.Owner = &o
	case opStore:
		if e.Store == nil {
			return res, transfer.Errorf(transfer.KindUsage, "what %s wants done with what is stored is missing", asker)
		}
		var s streams.StoreResult
		s, err = r.store(ctx, asker, *e.Store)
		res.Store = &s
	case opClear:
		err = r.clear(ctx, e.Tokens[:min(len(e.Tokens), maxStrangers)])
	case opQueue:
		var q streams.QueueResult
		e.Queue.Behind = behind
		if err := r.permits(asker, e.Queue); err != nil {
			return res, err
		}
		if t := e.Queue; r.room != nil && (t.Do == streams.QueuePublish || t.Do == streams.QueuePut) {
			done, err := r.room(len(t.Data)+len(behind), len(t.Sizes)+1)
			if err != nil {
				return res, err
			}
			defer done()
		}
		q, err = r.keeper.Queue(ctx, asker, *e.Queue, nil)
		res.Queue = &q
	case opStrangers:
		res.Tokens, err = r.keeper.Strangers(ctx)
		res.Tokens = res.Tokens[:min(len(res.Tokens), maxStrangers)]
	case opAdmit:
		if e.Claims == nil || r.admit == nil {
			return res, transfer.Errorf(transfer.KindUsage, "the queue manager is not told by message whom to let in")
		}
		err = r.admit(*e.Claims)
	case opMembers:
		if r.members != nil {
			res.Members, err = r.members(ctx)
		} else if l, ok := r.keeper.(streams.Library); ok {
			res.Members, err = l.Members(ctx)
		}
	case opRemove:
		if e.Remove == nil || r.remove == nil {
			return res, transfer.Errorf(transfer.KindUsage, "there is no cluster of which somebody could be removed here")
		}
		err = r.remove(ctx, *e.Remove)
	case opNotice:
		if r.notice != nil {
			r.notice(shortened(e.Text, maxDegraded))
		}
	case opPurge:
		res.Gone, err = r.keeper.Purge(ctx, e.Tokens[:min(len(e.Tokens), maxStrangers)])
	}
	return res, err
}

// permits checks the rules for the principal of an agent's errand. It is a second check, beside that of the
// agent, so a refusal waits: one of the two may have the newer rules.
func (r *registrar) permits(asker string, t *streams.QueueTask) error {
	right := t.Needs()
	if r.may == nil || right == transfer.AuthNone || asker == wire.Coordination {
		return nil
	}
	if t.For == "" {
		return transfer.Errorf(transfer.KindDenied, "the errand of %s for the queue %s names no principal", asker, t.Span.Queue)
	}
	agent, err := wire.AgentOf(asker)
	if err == nil {
		err = r.may(t.For, right, agent, "/queue:"+string(t.Span.Queue))
	}
	if transfer.KindOf(err) == transfer.KindDenied {
		err = transfer.Errorf(transfer.KindBusy, "%s refuses: %w", r.where, err)
	}
	return err
}

// An asker is a keeper that has the queue manager do everything. It may ask only for the name that its Conn uses as
// Self.
type asker struct{ c *Conn }

func (a asker) ask(ctx context.Context, e errand) (res errandResult, err error) {
	return a.askOn(ctx, a.c.control, e, nil, nil)
}

// askOn asks on one of the connections, with data behind the errand. some, if it is not nil, is called with the part of
// the answer that has arrived, once it has more than the data behind it.
func (a asker) askOn(ctx context.Context, l *link, e errand, behind []byte, some func(*errandResult)) (res errandResult, err error) {
	e.V = 1
	body, err := json.Marshal(e)
	if err != nil {
		return res, err
	}
	if len(behind) > 0 {
		body = append(append(body, '\n'), behind...)
	}
	head := 0 // bytes of it; 0: it has not come yet
	read := func(data []byte) error {
		if head == 0 {
			if head = bytes.IndexByte(data, '\n'); head < 0 {
				head = len(data)
			}
			if err := json.Unmarshal(data[:head], &res); err != nil || res.V != 1 {
				return transfer.Errorf(transfer.KindVersion, "the queue manager's answer to %q cannot be read", e.Op)
			}
		}
		if res.Queue != nil {
			res.Queue.Behind = data[min(head+1, len(data)):]
		}
		return nil
	}
	partly := func(g *gathering) error {
		if head == 0 && bytes.IndexByte(g.data, '\n') < 0 {
			return nil
		}
		err := read(g.data)
		if err == nil {
			some(&res)
		}
		return err
	}
	if some == nil {
		partly = nil
	}
	data, err := l.ask(ctx, wire.AskSubject(wire.Manager, a.c.cfg.Self), body, streams.APITimeout, partly)
	if err != nil {
		return res, err
	}
	if err := read(data); err != nil {
		return res, err
	}
	if res.Error != nil {
		return res, res.Error
	}
	return res, nil
}

func (a asker) Ensure(ctx context.Context) (map[string]streams.Mark, error) {
	res, err := a.placed(ctx, errand{Op: opEnsure})
	return res.Marks, err
}

func (a asker) Durable(ctx context.Context, q streams.Queue) (d streams.Durable, err error) {
	if now, ok := queueNamed(q.Durable); !ok || now.Stream != q.Stream || now.Filter != q.Filter {
		return d, transfer.Errorf(transfer.KindInternal, "the queue %+v is none that the queue manager knows", q)
	}
	res, err := a.ask(ctx, errand{Op: opDurable, Durable: q.Durable, Idle: q.Idle})
	if res.Durable != nil {
		d = *res.Durable
	}
	return d, err
}

func (a asker) Standing(ctx context.Context, q streams.Queue) (s streams.Standing, err error) {
	res, err := a.ask(ctx, errand{Op: opStanding, Durable: q.Durable})
	if res.Standing != nil {
		s = *res.Standing
	}
	return s, err
}

func (a asker) Forget(ctx context.Context, name string, _ []streams.Queue) error {
	_, err := a.askOwn(ctx, name, errand{Op: opForget})
	return err
}

func (a asker) Owner(ctx context.Context, name string) (o streams.Owner, err error) {
	res, err := a.askOwn(ctx, name, errand{Op: opOwner})
	if res.Owner != nil {
		o = *res.Owner
	}
	return o, err
}

func (a asker) SetOwner(ctx context.Context, name string, o streams.Owner) (revision uint64, err error) {
	res, err := a.askOwn(ctx, name, errand{Op: opSetOwner, Owner: &o})
	if res.Owner != nil {
		revision = res.Owner.Revision
	}
	return revision, err
}

// askOwn asks for an operation that is allowed only for the asker's own name.
func (a asker) askOwn(ctx context.Context, name string, e errand) (res errandResult, err error) {
	if name != a.c.cfg.Self {
		return res, transfer.Errorf(transfer.KindDenied, "%s may not have the queue manager do %q for %s", a.c.cfg.Self, e.Op, name)
	}
	return a.ask(ctx, e)
}

// Admit has a queue manager in another process take new claims of the authority. The Conn is the authority's. It does
// the same as Server.Admit.
func Admit(ctx context.Context, c *Conn, claims roles.Claims) error {
	_, err := asker{c}.ask(ctx, errand{Op: opAdmit, Claims: &claims})
	return err
}

// Notice has the queue manager called degraded for an hour. The Conn is that of coordination.
func Notice(ctx context.Context, c *Conn, finding string) error {
	c.noticed(finding)
	if a, ok := c.keeper.(asker); ok {
		_, err := a.ask(ctx, errand{Op: opNotice, Text: finding})
		return err
	}
	if s := c.cfg.Server; s != nil {
		s.Notice(finding)
	}
	return nil
}

func (a asker) Strangers(ctx context.Context) ([]string, error) {
	res, err := a.ask(ctx, errand{Op: opStrangers})
	return res.Tokens, err
}

func (a asker) Purge(ctx context.Context, tokens []string) (gone uint64, err error) {
	for part := range slices.Chunk(tokens, maxStrangers) {
		res, err := a.ask(ctx, errand{Op: opPurge, Tokens: part})
		gone += res.Gone
		if err != nil {
			return gone, err
		}
	}
	return gone, nil
}
