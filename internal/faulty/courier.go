package faulty

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Chunk is the kind that counts chunk messages.
const Chunk wire.Kind = "chunk"

// ErrCut is the sender's error for a message that was not accepted.
var ErrCut = errors.New("the connection is cut")

// A Parcel is one message on its way.
type Parcel struct {
	From, To transfer.AgentName
	Kind     wire.Kind
	Transfer transfer.ID
	N        int // number within its kind, from 1
	Data     []byte
}

// A Handling is the courier's treatment of a parcel. The zero value delivers it once, undamaged and in order.
type Handling struct {
	Drop   bool
	Copies int           // beyond the first
	Delay  time.Duration // out of order
	Damage func([]byte) []byte
	Fail   bool     // the sender gets an error
	Swap   bool     // it comes after the next parcel of its sender and class
	Also   []Parcel // forged parcels that come with it, in its place
}

// Flip damages one bit in the middle of a message.
func Flip(b []byte) []byte {
	if len(b) > 0 {
		b[len(b)/2] ^= 0x10
	}
	return b
}

// Rules are the settings of a courier. Set changes them.
type Rules struct {
	Latency time.Duration
	Slow    time.Duration // duration of Lane.Send, for each chunk message
	Rate    int           // bytes of chunk messages a second from one agent to another, in sequence; 0: no limit
	Burst   int           // bytes of chunk messages that pass at once after a pause, before the Rate holds
	Decide  func(*Parcel) Handling
	Cut     bool // nothing is delivered
	Strict  bool // while cut, senders get errors
	Keep    bool // messages are kept for Replay
}

// A Courier replaces the queue manager. It carries control messages and chunk messages between the attached agents, and
// may lose, double, delay, reorder and damage them. Messages of one sender and class keep their order unless their
// Handling says otherwise. It uses the time of package time, so it works in a synctest bubble.
type Courier struct {
	mu      sync.Mutex
	wg      sync.WaitGroup
	quit    chan struct{}
	rules   Rules
	takers  map[transfer.AgentName]func(*Parcel)
	other   func(*Parcel) // gets messages for agents that are not attached
	pipes   map[pipeKey]*pipe
	held    map[*delayedParcel]bool
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
	queue   []due // under c.mu, like swap and carried
	swap    *Parcel
	carried uint64  // bytes, under a Rate
	spare   float64 // bytes left of the Burst, at time at
	at      time.Time
	notify  chan struct{}
}

type due struct {
	Parcel
	at time.Time
}

// A delayedParcel is a parcel that comes out of order.
type delayedParcel struct {
	Parcel
	timer *time.Timer
}

// NewCourier returns a courier that delivers everything after a millisecond.
func NewCourier() *Courier {
	return &Courier{rules: Rules{Latency: time.Millisecond}, quit: make(chan struct{}),
		takers: map[transfer.AgentName]func(*Parcel){}, pipes: map[pipeKey]*pipe{}, held: map[*delayedParcel]bool{}, counts: map[wire.Kind]int{}}
}

// Attach sets the function that gets an agent's messages. It gets one message of each sender and class at a time; those
// out of order come beside them. The function owns its messages.
func (c *Courier) Attach(to transfer.AgentName, take func(*Parcel)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.takers[to] = take
}

// Close ends the deliveries and waits for running ones.
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

// Rules returns the present rules.
func (c *Courier) Rules() Rules {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rules
}

// Count returns the number of messages sent, by kind.
func (c *Courier) Count(k wire.Kind) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[k]
}

// Kept returns the messages sent while Keep was set, since the last Replay.
func (c *Courier) Kept() []Parcel {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Parcel(nil), c.history...)
}

// Send accepts a message. It does not block. The caller may reuse Data after it.
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

// Inject sends a forged message, without any Handling.
func (c *Courier) Inject(p Parcel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p.Data = bytes.Clone(p.Data)
	c.post(p, Handling{})
}

// post puts a parcel into its pipe. With a Delay it delivers the parcel later, out of order. c.mu is held.
func (c *Courier) post(p Parcel, f Handling) {
	if f.Delay > 0 {
		h := &delayedParcel{Parcel: p}
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

// release delivers a delayed parcel, unless it has been forgotten.
func (c *Courier) release(h *delayedParcel) {
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

// carryStep is the interval between two checks of the rate.
const carryStep = 50 * time.Millisecond

// carry waits for the time that the next parcel needs under the present Rate. It returns false at the end.
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

// atOnce returns the number of bytes of the next parcel that pass at once. It counts them as carried.
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

// Carried returns the bytes of chunk messages carried from one agent to another under a Rate, and whether more wait.
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

// take returns the due parcel. ok is false if all were forgotten meanwhile.
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

// deliver gives a parcel to its addressee.
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

// Forget loses everything on its way, including delayed messages, and returns their number.
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

// Hurry delivers the delayed messages now, in no particular order.
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

// Replay delivers every kept message once more.
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

// A Line is an agent's access to a courier: the link of a sender and of a receiver.
type Line struct {
	c    *Courier
	from transfer.AgentName
}

// Line returns an agent's access to the courier.
func (c *Courier) Line(from transfer.AgentName) Line { return Line{c, from} }

// Send sends a control message.
func (l Line) Send(to transfer.AgentName, m *wire.Message) error {
	data, err := m.Encode()
	if err != nil {
		return err
	}
	return l.c.Send(Parcel{From: l.from, To: to, Kind: m.Kind, Transfer: m.Transfer, Data: data})
}

// Lane returns the lane of an agent. The duration of its Send follows the rules.
func (c *Courier) Lane(from transfer.AgentName) Lane { return Lane{c, from} }

// A Lane is an agent's access to a courier for chunk messages.
type Lane struct {
	c    *Courier
	from transfer.AgentName
}

// Send sends a chunk message.
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

// A Carrier is a lane as the sender of a transfer uses it.
type Carrier interface {
	Send(to transfer.AgentName, id transfer.ID, message []byte) error
}

// Over puts a courier in front of a lane: messages that the courier delivers go over that lane. An error of the lane
// counts as a loss, which the sender does not notice.
func Over(next Carrier) *Courier {
	c := NewCourier()
	c.other = func(p *Parcel) { next.Send(p.To, p.Transfer, p.Data) }
	return c
}
