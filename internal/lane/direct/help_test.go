package direct_test

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"ferry/internal/lane/direct"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A world is a set of hubs that can connect.
type world struct {
	t    *testing.T
	hubs map[transfer.AgentName]*hub

	mu    sync.Mutex
	lanes map[whose]*opened
}

// A hub of a test counts its dials and connections.
type hub struct {
	*direct.Hub
	clock *handClock

	mu    sync.Mutex
	take  func(transfer.AgentName, []byte)
	kept  []letter // messages before the first listener
	over  map[transfer.ID]bool
	dials int
	wall  bool // dialling leads nowhere
	conns []net.Conn
}

type letter struct {
	from transfer.AgentName
	m    []byte
}

// add makes a hub that listens in mode plain, unless change sets another mode.
func (w *world) add(name transfer.AgentName, change func(*direct.Config)) *hub {
	w.t.Helper()
	h := &hub{over: map[transfer.ID]bool{}, clock: &handClock{}}
	cfg := direct.Config{Agent: name, Mode: wire.DirectPlain, Listen: "127.0.0.1:0", Clock: h.clock,
		Log: slog.New(slog.DiscardHandler), Memory: &wire.Memory{}, Take: h.taken, Dial: h.dial,
		Live: func(id transfer.ID, _ transfer.AgentName) bool { h.mu.Lock(); defer h.mu.Unlock(); return !h.over[id] }}
	if change != nil {
		change(&cfg)
	}
	var err error
	if h.Hub, err = direct.New(cfg); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(h.Close)
	w.hubs[name] = h
	return h
}

func (h *hub) taken(from transfer.AgentName, m []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.take == nil {
		h.kept = append(h.kept, letter{from, m})
		return
	}
	h.take(from, m)
}

func (h *hub) listen(take func(transfer.AgentName, []byte)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.take = take
	for _, l := range h.kept {
		take(l.from, l.m)
	}
	h.kept = nil
}

// got waits until n messages have arrived.
func (h *hub) got(t *testing.T, n int) []letter {
	t.Helper()
	var got []letter
	until(t, "messages arrive", func() bool {
		h.mu.Lock()
		defer h.mu.Unlock()
		got = append([]letter(nil), h.kept...)
		return len(got) >= n
	})
	return got
}

func (h *hub) dial(ctx context.Context, address string) (net.Conn, error) {
	h.mu.Lock()
	h.dials++
	wall := h.wall
	h.mu.Unlock()
	if wall {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		h.mu.Lock()
		h.conns = append(h.conns, c)
		h.mu.Unlock()
	}
	return c, err
}

func (h *hub) dialled() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dials
}

func (h *hub) setWall(up bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wall = up
}

func (h *hub) setOver(id transfer.ID, over bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over[id] = over
}

// cutAll closes every connection that the hub dialled, and waits until a lane over them has noticed: a lane that is
// opened earlier could use the dead connection.
func (h *hub) cutAll(t *testing.T, l *direct.Lane) {
	t.Helper()
	h.mu.Lock()
	for _, c := range h.conns {
		c.Close()
	}
	h.mu.Unlock()
	select {
	case <-l.Done():
	case <-time.After(90 * time.Second):
		t.Fatal("the lane does not notice that its connections are closed")
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	late := time.After(90 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("%s: not within 90 s", what)
		}
	}
}

// A handClock is the host's clock, set forward by the test.
type handClock struct {
	mu sync.Mutex
	by time.Duration
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return clock.System.Now().Add(c.by)
}

func (c *handClock) NewTimer(d time.Duration) clock.Timer { return clock.System.NewTimer(d) }

func (c *handClock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.by += d
}

func id(k byte) transfer.ID { return transfer.ID{k, 6: 0x70, 8: 0x80} }
