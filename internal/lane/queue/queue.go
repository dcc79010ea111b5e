// Package queue implements the queue lane: chunk messages travel through the queue manager as core NATS messages on the
// DATA subject. It works wherever both agents reach a queue manager. Messages of one transfer arrive in the order of
// sending, or not at all; a loss shows as a gap in their sequence.
package queue

import (
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Publisher sends on the data connection. It fails at once while there is no connection, and does not use the data
// after it returns.
type Publisher interface {
	PublishData(subject string, data []byte) error
}

// A Lane sends the chunk messages of one transfer.
type Lane struct {
	pub     Publisher
	subject string
	mem     *wire.Memory
}

// New makes the lane of a transfer from one agent to another. The lane returns the memory of messages to mem, which may
// be nil.
func New(pub Publisher, mem *wire.Memory, from, to transfer.AgentName, id transfer.ID) *Lane {
	return &Lane{pub, wire.DataSubject(to, from, id), mem}
}

// Send takes over a message and sends it.
func (l *Lane) Send(message []byte) error {
	err := l.pub.PublishData(l.subject, message)
	l.mem.Put(message)
	return err
}

// Carried returns the number of bytes that the connection to the queue manager has carried, and whether more wait for
// it; 0 and false if that is unknown.
func (l *Lane) Carried() (bytes uint64, waiting bool) {
	if c, ok := l.pub.(interface{ DataCarried() (uint64, bool) }); ok {
		return c.DataCarried()
	}
	return 0, false
}

// Done returns nil: a loss shows at the next message, or as the receiver's silence.
func (l *Lane) Done() <-chan struct{} { return nil }

// Receive returns a function that passes the messages of a subject to h, with the sending agent from the subject.
func Receive(d *quiet.Log, h func(from transfer.AgentName, message []byte)) func(subject string, message []byte) {
	return func(subject string, message []byte) {
		from, err := wire.DataSource(subject)
		if err != nil {
			d.Dropped("a stranger", "unexpected subject", "error", err)
			return
		}
		h(from, message)
	}
}
