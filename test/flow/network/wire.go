//go:build linux

package network

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"ferry/internal/compress"
)

// A Wire is a connection of the test's own to the queue manager: it hears what
// passes and speaks as anybody.
type Wire struct {
	n *Network
	c *nats.Conn
}

// Wire connects; it stays until the test ends, through restarts of the queue
// manager.
func (n *Network) Wire(options ...nats.Option) *Wire {
	n.t.Helper()
	c, err := nats.Connect(n.url, append(options, nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))...)
	n.must(err)
	n.t.Cleanup(c.Close)
	return &Wire{n, c}
}

// Say publishes a message and waits until the queue manager has it.
func (w *Wire) Say(subject string, data []byte) {
	w.n.t.Helper()
	w.n.must(w.c.Publish(subject, data))
	w.n.must(w.c.Flush())
}

// Post publishes a message that asks for an answer, if reply is not empty, and does
// not wait until the queue manager has it; Flush does.
func (w *Wire) Post(subject, reply string, data []byte) {
	w.n.t.Helper()
	w.n.must(w.c.PublishMsg(&nats.Msg{Subject: subject, Reply: reply, Data: data}))
}

// Flush waits until the queue manager has all that was posted.
func (w *Wire) Flush() {
	w.n.t.Helper()
	w.n.must(w.c.Flush())
}

// Hear calls f with every message on the subjects, in order, as its sender made it:
// one that travelled compressed is restored.
func (w *Wire) Hear(subjects string, f func(subject string, data []byte)) {
	w.n.t.Helper()
	s, err := w.c.Subscribe(subjects, func(m *nats.Msg) { f(m.Subject, Plain(m.Data)) })
	w.n.must(err)
	w.n.must(s.SetPendingLimits(-1, -1))
	w.n.must(w.c.Flush())
}

// Plain is a message as its sender made it; what cannot be restored is as it came.
func Plain(message []byte) []byte {
	if plain, err := compress.Unpack(message); err == nil {
		return plain
	}
	return message
}

// Carried counts the bytes of chunk messages on their way to an agent from now
// on: what was sent, whatever anybody says was sent.
func (w *Wire) Carried(to string) *atomic.Int64 {
	w.n.t.Helper()
	count := new(atomic.Int64)
	w.Hear("ferry.data."+to+".>", func(_ string, data []byte) { count.Add(int64(len(data))) })
	return count
}

// Samples keeps the first few messages on the subjects, once there are any.
func (w *Wire) Samples(subjects string, most int) func() [][]byte {
	w.n.t.Helper()
	var mu sync.Mutex
	var kept [][]byte
	w.Hear(subjects, func(_ string, data []byte) {
		mu.Lock()
		defer mu.Unlock()
		if len(kept) < most {
			kept = append(kept, append([]byte(nil), data...))
		}
	})
	return func() [][]byte {
		mu.Lock()
		defer mu.Unlock()
		return append([][]byte(nil), kept...)
	}
}

// Logged counts the lines of a process's log that contain a text.
func (n *Network) Logged(who, text string) int {
	n.t.Helper()
	count := 0
	for line := range strings.Lines(n.process(who).log.last(1 << 20)) {
		if strings.Contains(line, text) {
			count++
		}
	}
	return count
}
