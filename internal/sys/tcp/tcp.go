// Package tcp sets the options of TCP connections that decide how they behave under managed transfer: whether small
// writes wait for more data, whether segments are acknowledged at once, and how many bytes may be in flight.
//
// The two first belong together. A sender that waits until its last small segment is acknowledged (Nagle's algorithm,
// RFC 896) and a receiver that delays its acknowledgement in the hope of data to send it with (RFC 1122, 4.2.3.2; 40 ms
// on Linux) wait for each other whenever an exchange is two small writes and an answer. Ferry writes whole messages and
// switches Nagle's algorithm off.
package tcp

import (
	"fmt"
	"net"
)

// MaxBuffer is the most that a buffer may be asked for, in bytes.
const MaxBuffer = 1 << 30

// MinBuffer is the least that a buffer may be asked for, in bytes. A smaller one has room for a single full segment (65,483
// bytes on loopback). Then each segment waits for the delayed acknowledgement of the one before, and acknowledging at
// once does not help.
const MinBuffer = 64 << 10

// Options are the options of a connection. The zero value is the default.
type Options struct {
	Delay         bool // leave Nagle's algorithm on
	QuickAck      bool // acknowledge at once; Linux only, elsewhere without effect
	SendBuffer    int  // bytes, MinBuffer to MaxBuffer; 0 leaves it to the system, which adapts it
	ReceiveBuffer int  // likewise
}

// Check returns an error for values that are out of range.
func (o Options) Check() error {
	for _, b := range []struct {
		name string
		v    int
	}{{"send buffer", o.SendBuffer}, {"receive buffer", o.ReceiveBuffer}} {
		switch {
		case b.v < 0 || b.v > MaxBuffer:
			return fmt.Errorf("%s of %d bytes is out of range; it is 0 or goes from %d to %d", b.name, b.v, MinBuffer, MaxBuffer)
		case b.v > 0 && b.v < MinBuffer:
			return fmt.Errorf("%s of %d bytes has room for one segment, and each segment would wait for a delayed acknowledgement; it is 0 or goes from %d to %d", b.name, b.v, MinBuffer, MaxBuffer)
		}
	}
	return nil
}

// Apply sets the options of a connection. A connection that is no TCP connection stays as it is.
func (o Options) Apply(c net.Conn) error {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return nil
	}
	if err := t.SetNoDelay(!o.Delay); err != nil {
		return err
	}

	if o.SendBuffer > 0 {
		if err := t.SetWriteBuffer(o.SendBuffer); err != nil {
			return err
		}
	}

	if o.ReceiveBuffer > 0 {
		if err := t.SetReadBuffer(o.ReceiveBuffer); err != nil {
			return err
		}
	}

	if o.QuickAck {
		return quickAck(t)
	}
	return nil
}

// Rearm asks once more for quick acknowledgements: Linux goes back to delaying
// them by itself. Called after a read where QuickAck is set.
func (o Options) Rearm(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok && o.QuickAck {
		quickAck(t) // without it the connection is slower, not wrong
	}
}
