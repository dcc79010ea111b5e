// Package tap stands between a NATS client library and its connection, so that messages of some subscriptions go past
// the library, in either direction, into memory that their receiver keeps. Everything else is the library's: the
// handshake, users, reconnecting, subscribing, signs of life.
//
// The rules of the tap:
//
//   - The library reads exactly the bytes of the connection but those of the taken
//     messages, each whole, from the head line to its line end.
//   - Messages are handed over in the order of their arrival, before the bytes that
//     follow them are read.
//   - A published message goes out whole, between two writes of the library; none does before
//     the queue manager has let the connection in.
//   - After bytes that it does not understand, a tap takes and publishes no messages any more.
//     That happens where the library makes TLS, or a web socket, on top of it. TLS that the
//     dialler has made beneath it is no hindrance.
package tap

import (
	"net"
	"strconv"
	"sync"
)

// A Target is a subscription with messages that do not go through the library.
type Target struct {
	Buffer func(size int) []byte                    // memory for a message
	Take   func(subject, reply string, data []byte) // must not block
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

// New taps a connection; find returns the target for messages of a subject, or nil for the library. The goroutine that
// reads calls it.
func New(conn net.Conn, find func(subject []byte) *Target) *Conn {
	c := &Conn{Conn: conn}
	c.in.in, c.in.find = conn.Read, find
	return c
}

// Read reads the library's bytes of the connection.
func (c *Conn) Read(p []byte) (int, error) { return c.in.Read(p) }

// Write writes bytes of the library.
func (c *Conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.Conn.Write(p)
}

// Publish sends a message without the library, which would copy it. It reports whether it could try: not before the
// queue manager has let the connection in, and not after input that the tap does not understand.
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
