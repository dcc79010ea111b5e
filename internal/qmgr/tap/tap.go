// Package tap stands between a NATS client library and its connection, so that messages of
// some subscriptions go past the library, in either direction, into memory that their
// receiver keeps. Everything else is the library's: the handshake, users, reconnecting,
// subscribing, signs of life.
//
// What the tap keeps to:
//
//   - The library reads exactly the bytes of the connection but those of the messages that
//     were taken, each whole, from the head line to its line end.
//   - What is taken is handed over in the order in which it came, before anything that
//     follows it is read.
//   - What is published goes out whole, between two writes of the library; none does before
//     the queue manager has let the connection in.
//   - Behind what it does not understand a tap takes nothing and publishes nothing any more.
//     So it is where the library makes TLS, or a web socket, on top of it. TLS that was made
//     beneath it, by who dialled, is no hindrance.
package tap

import (
	"net"
	"strconv"
	"sync"
)

// A Target is a subscription whose messages do not go through the library.
type Target struct {
	Lend func(size int) []byte                    // memory for a message
	Take func(subject, reply string, data []byte) // must not block
}

// A BuffersWriter is a connection that writes several pieces at once.
type BuffersWriter interface {
	WriteBuffers(net.Buffers) (int64, error)
}

// A Conn is a connection with a tap. The library has its Read and Write.
type Conn struct {
	net.Conn
	in reader

	writing sync.Mutex // one write at a time: the library's, of whole operations, or a message
	head    []byte
	parts   [3][]byte
}

// New taps a connection; find says who takes messages of a subject, nil: the library does.
// It is called by the goroutine that reads.
func New(conn net.Conn, find func(subject []byte) *Target) *Conn {
	c := &Conn{Conn: conn}
	c.in.in, c.in.find = conn.Read, find
	return c
}

// Read is the library's.
func (c *Conn) Read(p []byte) (int, error) { return c.in.Read(p) }

// Write is the library's.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.Conn.Write(p)
}

// Publish sends a message without the library, which would copy it. It reports whether it
// could try: not before the queue manager has let the connection in, and not behind what is
// not understood.
func (c *Conn) Publish(subject string, data []byte) (tried bool, err error) {
	if !c.in.let.Load() {
		return false, nil
	}

	c.writing.Lock()
	defer c.writing.Unlock()
	c.head = append(append(c.head[:0], "PUB "...), subject...)
	c.head = append(strconv.AppendInt(append(c.head, ' '), int64(len(data)), 10), "\r\n"...)
	c.parts = [3][]byte{c.head, data, c.head[len(c.head)-2:]}
	defer func() { c.parts = [3][]byte{} }()
	parts := net.Buffers(c.parts[:])
	if w, ok := c.Conn.(BuffersWriter); ok {
		_, err = w.WriteBuffers(parts)
	} else {
		_, err = parts.WriteTo(c.Conn)
	}
	return true, err
}
