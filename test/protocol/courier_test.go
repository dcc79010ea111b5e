package protocol_test

import (
	"bytes"
	"errors"
	"sync"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// chunkKind is the kind under which chunk messages are counted.
const chunkKind wire.Kind = "chunk"

// A parcel is one message on its way.
type parcel struct {
	from, to transfer.AgentName
	kind     wire.Kind
	n        int // how manieth of its kind, from 1
	data     []byte
}

// A fate is what the courier does with a parcel. The zero value delivers it
// once, undamaged and in its turn.
type fate struct {
	drop    bool
	copies  int           // beyond the first
	delay   time.Duration // out of its turn
	corrupt bool
	fail    bool // the sender is told that it could not be sent
}

// A courier is in the place of the queue manager: it carries control messages
// and chunk messages between the runs of the nodes. Messages of one sender and
// class keep their order unless their fate says otherwise.
type courier struct {
	latency time.Duration
	slow    time.Duration // what Lane.Send takes, for each chunk message

	mu      sync.Mutex
	wg      sync.WaitGroup
	quit    chan struct{}
	nodes   map[transfer.AgentName]*node
	pipes   map[string]*pipe
	decide  func(*parcel) fate        // nil: all is well
	before  func(*parcel, *node) bool // at delivery; true: it is not delivered
	after   func(*parcel, *node)
	cut     bool
	strict  bool // while cut, senders are told
	keep    bool
	history []parcel
	counts  map[wire.Kind]int
}

// A pipe keeps the order of one sender's messages of one class.
type pipe struct {
	c      *courier
	mu     sync.Mutex
	queue  []due
	notify chan struct{}
}

type due struct {
	parcel
	at time.Time
}

var errCut = errors.New("the connection is cut")

func newCourier() *courier {
	return &courier{latency: time.Millisecond, quit: make(chan struct{}), nodes: map[transfer.AgentName]*node{},
		pipes: map[string]*pipe{}, counts: map[wire.Kind]int{}}
}

func (c *courier) close() {
	close(c.quit)
	c.wg.Wait()
}

// send takes a message; it does not block.
func (c *courier) send(from, to transfer.AgentName, kind wire.Kind, data []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		if c.strict {
			return errCut
		}
		return nil
	}
	c.counts[kind]++
	p := parcel{from, to, kind, c.counts[kind], bytes.Clone(data)}
	if c.keep {
		c.history = append(c.history, p)
	}
	var f fate
	if c.decide != nil {
		f = c.decide(&p)
	}
	if f.fail {
		return errCut
	}
	if f.drop {
		return nil
	}
	if f.corrupt {
		p.data[len(p.data)/2] ^= 0x10
	}
	for range 1 + f.copies {
		c.post(p, f.delay)
	}
	return nil
}

// post puts a parcel into its pipe, or lets it come later than that. c.mu is
// held.
func (c *courier) post(p parcel, delay time.Duration) {
	if delay > 0 {
		time.AfterFunc(c.latency+delay, func() { c.deliver(p) })
		return
	}
	class := "control"
	if p.kind == chunkKind {
		class = "data"
	}
	key := string(p.from) + " " + string(p.to) + " " + class
	q := c.pipes[key]
	if q == nil {
		q = &pipe{c: c, notify: make(chan struct{}, 1)}
		c.pipes[key] = q
		c.wg.Go(q.run)
	}
	q.mu.Lock()
	q.queue = append(q.queue, due{p, time.Now().Add(c.latency)})
	q.mu.Unlock()
	select {
	case q.notify <- struct{}{}:
	default:
	}
}

func (q *pipe) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		q.mu.Lock()
		var next *due
		if len(q.queue) > 0 {
			next = &q.queue[0]
		}
		q.mu.Unlock()
		if next == nil {
			select {
			case <-q.notify:
			case <-q.c.quit:
				return
			}
			continue
		}
		timer.Reset(time.Until(next.at))
		select {
		case <-timer.C:
		case <-q.c.quit:
			return
		}
		q.mu.Lock()
		p := q.queue[0].parcel
		q.queue = q.queue[1:]
		q.mu.Unlock()
		q.c.deliver(p)
	}
}

// deliver hands a parcel to whatever run of its addressee lives now.
func (c *courier) deliver(p parcel) {
	select {
	case <-c.quit:
		return
	default:
	}
	c.mu.Lock()
	n, before, after, cut := c.nodes[p.to], c.before, c.after, c.cut
	c.mu.Unlock()
	if cut || before != nil && before(&p, n) {
		return
	}
	if r := n.living(); r != nil {
		r.take(p)
	}
	if after != nil {
		after(&p, n)
	}
}

// set changes what the courier does, under its lock.
func (c *courier) set(change func(*courier)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

func (c *courier) severed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

// count is how many messages of a kind were sent.
func (c *courier) count(k wire.Kind) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[k]
}

// replay delivers everything that was ever sent, once more.
func (c *courier) replay() {
	c.mu.Lock()
	old := c.history
	c.history = nil
	c.mu.Unlock()
	for _, p := range old {
		p.data = bytes.Clone(p.data)
		c.deliver(p)
	}
}

// A line is a node's way to the courier: a sender's and receiver's Link, and a
// sender's Lane. It dies with its run.
type line struct{ r *run }

func (l line) Send(to transfer.AgentName, m *wire.Message) error {
	if l.r.disk.doomed() {
		return errDead
	}
	data, err := m.Encode()
	if err != nil {
		return err
	}
	return l.r.node.w.net.send(l.r.node.name, to, m.Kind, data)
}

type lane struct{ r *run }

func (l lane) Send(to transfer.AgentName, _ transfer.ID, message []byte) error {
	if l.r.disk.doomed() {
		return errDead
	}
	c := l.r.node.w.net
	c.mu.Lock()
	slow := c.slow
	c.mu.Unlock()
	if slow > 0 {
		t := time.NewTimer(slow)
		defer t.Stop()
		select {
		case <-t.C:
		case <-l.r.ctx.Done():
			return errDead
		}
	}
	return c.send(l.r.node.name, to, chunkKind, message)
}
