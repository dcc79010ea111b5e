package faulty

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Chunk is the kind under which chunk messages are counted.
const Chunk wire.Kind = "chunk"

// ErrCut is what a sender is told whose message was not taken.
var ErrCut = errors.New("the connection is cut")

// A Parcel is one message on its way.
type Parcel struct {
	From, To transfer.AgentName
	Kind     wire.Kind
	Transfer transfer.ID
	N        int // how manieth of its kind, from 1
	Data     []byte
}

// A Handling is what the courier does with a parcel. The zero value delivers it
// once, undamaged and in its turn.
type Handling struct {
	Drop   bool
	Copies int           // beyond the first
	Delay  time.Duration // out of its turn
	Damage func([]byte) []byte
	Fail   bool     // the sender is told that it could not be sent
	Swap   bool     // it comes after the next of its sender and class
	Also   []Parcel // come with it, in its turn, though nobody has sent them
}

// Flip damages one bit in the middle of a message.
func Flip(b []byte) []byte {
	if len(b) > 0 {
		b[len(b)/2] ^= 0x10
	}
	return b
}

// Rules are what a courier goes by; Set changes them.
type Rules struct {
	Latency time.Duration
	Slow    time.Duration // what Lane.Send takes, for each chunk message
	Rate    int           // bytes of chunk messages that go from one to another in a second, one message after the other; 0: no bound
	Burst   int           // bytes of them that go at once after a pause, before the Rate holds
	Decide  func(*Parcel) Handling
	Cut     bool // nothing gets through
	Strict  bool // while cut, senders are told
	Keep    bool // what is sent is kept for Replay
}

// A Courier is in the place of the queue manager: it carries control messages
// and chunk messages between those who are attached to it, and may lose,
// double, hold up, reorder and damage them. Messages of one sender and class
// keep their order unless their fate says otherwise. It runs on the time of
// package time, so that a synctest bubble holds it.
type Courier struct {
	mu      sync.Mutex
	wg      sync.WaitGroup
	quit    chan struct{}
	rules   Rules
	takers  map[transfer.AgentName]func(*Parcel)
	other   func(*Parcel) // takes what is for nobody who is attached
	pipes   map[pipeKey]*pipe
	held    map[*heldUp]bool
	history []Parcel
	counts  map[wire.Kind]int
}

type pipeKey struct {
	from, to transfer.AgentName
	data     bool
}

// A pipe keeps the order of one sender's messages of one class.
type pipe struct {
	c       *Courier
	queue   []due // under c.mu, as swap and carried
	swap    *Parcel
	carried uint64  // bytes, under a Rate
	spare   float64 // bytes that are left of the Burst, at a time
	at      time.Time
	notify  chan struct{}
}

type due struct {
	Parcel
	at time.Time
}

// A heldUp is a parcel that comes out of its turn.
type heldUp struct {
	Parcel
	timer *time.Timer
}

// NewCourier makes a courier that delivers everything after a millisecond.
func NewCourier() *Courier {
	return &Courier{rules: Rules{Latency: time.Millisecond}, quit: make(chan struct{}),
		takers: map[transfer.AgentName]func(*Parcel){}, pipes: map[pipeKey]*pipe{}, held: map[*heldUp]bool{}, counts: map[wire.Kind]int{}}
}

// Attach makes take hear what is for an agent: one message of each sender and
// class at a time, and beside those the ones out of their turn. What take is
// given is its own.
func (c *Courier) Attach(to transfer.AgentName, take func(*Parcel)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takers[to] = take
}

// Close ends the deliveries and waits for those under way.
func (c *Courier) Close() {
	c.Forget()
	close(c.quit)
	c.wg.Wait()
}

// Set changes the rules.
func (c *Courier) Set(change func(*Rules)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(&c.rules)
}

// Rules are those of the moment.
func (c *Courier) Rules() Rules {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rules
}

// Count is how many messages of a kind were sent.
func (c *Courier) Count(k wire.Kind) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[k]
}

// Kept are the messages that were sent while Keep was set, or since the last
// Replay.
func (c *Courier) Kept() []Parcel {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Parcel(nil), c.history...)
}

// Send takes a message; it does not block. Data may be used again after it.
func (c *Courier) Send(p Parcel) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rules.Cut {
		if c.rules.Strict {
			return ErrCut
		}
		return nil
	}

	c.counts[p.Kind]++
	p.N, p.Data = c.counts[p.Kind], bytes.Clone(p.Data)
	if c.rules.Keep {
		c.history = append(c.history, p)
		p.Data = bytes.Clone(p.Data)
	}

	var f Handling
	if c.rules.Decide != nil {
		f = c.rules.Decide(&p)
	}

	if f.Fail {
		return ErrCut
	}

	if f.Drop {
		return nil
	}

	if f.Damage != nil {
		p.Data = f.Damage(p.Data)
	}

	for range 1 + f.Copies {
		c.post(p, f)
		p.Data = bytes.Clone(p.Data)
	}

	for _, also := range f.Also {
		also.Data = bytes.Clone(also.Data)
		c.post(also, Handling{})
	}
	return nil
}

// Inject puts a message on its way that nobody has sent, past all fates.
func (c *Courier) Inject(p Parcel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.Data = bytes.Clone(p.Data)
	c.post(p, Handling{})
}

// post puts a parcel into its pipe, or lets it come later than that. c.mu is
// held.
func (c *Courier) post(p Parcel, f Handling) {
	if f.Delay > 0 {
		h := &heldUp{Parcel: p}
		c.held[h] = true
		h.timer = time.AfterFunc(c.rules.Latency+f.Delay, func() { c.release(h) })
		return
	}

	key := pipeKey{p.From, p.To, p.Kind == Chunk}
	q := c.pipes[key]
	if q == nil {
		q = &pipe{c: c, notify: make(chan struct{}, 1)}
		c.pipes[key] = q
		c.wg.Go(q.run)
	}

	if f.Swap && q.swap == nil {
		q.swap = &p
		return
	}

	at := time.Now().Add(c.rules.Latency)
	q.queue = append(q.queue, due{p, at})
	if q.swap != nil {
		q.queue = append(q.queue, due{*q.swap, at})
		q.swap = nil
	}

	select {
	case q.notify <- struct{}{}:
	default:
	}
}

// release delivers a parcel that was held up, unless it has been forgotten.
func (c *Courier) release(h *heldUp) {
	c.mu.Lock()
	ours := c.held[h]
	delete(c.held, h)
	c.mu.Unlock()
	if ours {
		c.deliver(h.Parcel)
	}
}

func (q *pipe) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		at, any := q.next()
		if !any {
			select {
			case <-q.notify:
			case <-q.c.quit:
				return
			}
			continue
		}
		timer.Reset(time.Until(at))
		select {
		case <-timer.C:
		case <-q.c.quit:
			return
		}
		if !q.carry(timer) {
			return
		}
		if p, ok := q.take(); ok {
			q.c.deliver(p)
		}
	}
}

// carryStep is between two looks at the rate.
const carryStep = 50 * time.Millisecond

// carry takes the time that the next parcel needs under the Rate of the moment. It is false at the end.
func (q *pipe) carry(timer *time.Timer) bool {
	for at := q.atOnce(); ; {
		q.c.mu.Lock()
		left, rate := 0, q.c.rules.Rate
		if len(q.queue) > 0 && q.queue[0].Kind == Chunk {
			left = len(q.queue[0].Data) - at
		}
		q.at = time.Now()
		q.c.mu.Unlock()
		if rate == 0 || left <= 0 {
			return true
		}
		n := min(left, max(1, int(float64(rate)*carryStep.Seconds())))
		timer.Reset(time.Duration(float64(n) / float64(rate) * float64(time.Second)))
		select {
		case <-timer.C:
		case <-q.c.quit:
			return false
		}
		at += n
		q.c.mu.Lock()
		q.carried += uint64(n)
		q.c.mu.Unlock()
	}
}

// atOnce is how many bytes of the next parcel go at once. It counts them as carried.
func (q *pipe) atOnce() int {
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	r, now := q.c.rules, time.Now()
	if r.Rate == 0 || len(q.queue) == 0 || q.queue[0].Kind != Chunk {
		return 0
	}
	if q.at.IsZero() {
		q.spare = float64(r.Burst)
	}
	q.spare = min(float64(r.Burst), q.spare+now.Sub(q.at).Seconds()*float64(r.Rate))
	n := min(len(q.queue[0].Data), int(q.spare))
	q.spare -= float64(n)
	q.carried += uint64(n)
	return n
}

// Carried is how many bytes of chunk messages have gone from one to another under a Rate, and whether more wait.
func (c *Courier) Carried(from, to transfer.AgentName) (bytes uint64, waiting bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.pipes[pipeKey{from, to, true}]
	if q == nil || c.rules.Rate == 0 {
		return 0, false
	}
	return q.carried, len(q.queue) > 0
}

func (q *pipe) next() (at time.Time, any bool) {
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	if len(q.queue) == 0 {
		return at, false
	}
	return q.queue[0].at, true
}

// take is the parcel that is due; nothing where all was forgotten meanwhile.
func (q *pipe) take() (p Parcel, ok bool) {
	q.c.mu.Lock()
	defer q.c.mu.Unlock()
	if len(q.queue) == 0 {
		return p, false
	}
	p = q.queue[0].Parcel
	q.queue[0] = due{}
	q.queue = q.queue[1:]
	return p, true
}

// deliver hands a parcel to its addressee.
func (c *Courier) deliver(p Parcel) {
	select {
	case <-c.quit:
		return
	default:
	}

	c.mu.Lock()
	take, cut := c.takers[p.To], c.rules.Cut
	if take == nil {
		take = c.other
	}
	c.mu.Unlock()
	if take != nil && !cut {
		take(&p)
	}
}

// Forget is amnesia: everything that is on its way is lost, what was held up
// included.
func (c *Courier) Forget() (lost int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.pipes {
		lost += len(q.queue)
		q.queue = nil
		if q.swap != nil {
			q.swap = nil
			lost++
		}
	}

	for h := range c.held {
		h.timer.Stop()
		delete(c.held, h)
		lost++
	}
	return lost
}

// Hurry delivers what is held up, now and in no order.
func (c *Courier) Hurry() {
	c.mu.Lock()
	var all []Parcel
	for h := range c.held {
		h.timer.Stop()
		delete(c.held, h)
		all = append(all, h.Parcel)
	}

	for _, q := range c.pipes {
		if q.swap != nil {
			all = append(all, *q.swap)
			q.swap = nil
		}
	}
	c.mu.Unlock()
	for _, p := range all {
		c.deliver(p)
	}
}

// Replay delivers everything that was ever sent, once more.
func (c *Courier) Replay() {
	c.mu.Lock()
	old := c.history
	c.history = nil
	c.mu.Unlock()
	for _, p := range old {
		p.Data = bytes.Clone(p.Data)
		c.deliver(p)
	}
}

// A Line is an agent's way to a courier: a sender's and a receiver's link, and
// a sender's lane.
type Line struct {
	c    *Courier
	from transfer.AgentName
}

// Line gives the way of an agent to the courier.
func (c *Courier) Line(from transfer.AgentName) Line { return Line{c, from} }

// Send takes a control message.
func (l Line) Send(to transfer.AgentName, m *wire.Message) error {
	data, err := m.Encode()
	if err != nil {
		return err
	}
	return l.c.Send(Parcel{From: l.from, To: to, Kind: m.Kind, Transfer: m.Transfer, Data: data})
}

// Lane gives the lane of an agent. Its Send takes as long as the rules say.
func (c *Courier) Lane(from transfer.AgentName) Lane { return Lane{c, from} }

// A Lane is an agent's way to a courier for chunk messages.
type Lane struct {
	c    *Courier
	from transfer.AgentName
}

// Send takes a chunk message.
func (l Lane) Send(to transfer.AgentName, id transfer.ID, message []byte) error {
	if slow := l.c.Rules().Slow; slow > 0 {
		t := time.NewTimer(slow)
		defer t.Stop()
		select {
		case <-t.C:
		case <-l.c.quit:
			return ErrCut
		}
	}
	return l.c.Send(Parcel{From: l.from, To: to, Kind: Chunk, Transfer: id, Data: message})
}

// A Carrier is a lane as the sender of a transfer sees it.
type Carrier interface {
	Send(to transfer.AgentName, id transfer.ID, message []byte) error
}

// Over puts a courier in front of a lane: what the courier lets through goes
// over that lane. An error of the lane is what a loss is: nobody is told.
func Over(next Carrier) *Courier {
	c := NewCourier()
	c.other = func(p *Parcel) { next.Send(p.To, p.Transfer, p.Data) }
	return c
}
