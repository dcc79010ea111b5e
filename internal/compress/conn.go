package compress

import (
	"net"

	"github.com/klauspost/compress/s2"
)

// connBlock is the most bytes that one block of a connection has, so that a peer has this side hold no more.
const connBlock = 64 << 10

// Conn compresses the bytes that are written to a connection, and expands the bytes that are read. The other side must do the same.
// Write must not be called from two goroutines at once.
func Conn(c net.Conn) net.Conn {
	return &conn{c, s2.NewReader(c, s2.ReaderMaxBlockSize(connBlock)), s2.NewWriter(c, s2.WriterConcurrency(1), s2.WriterBlockSize(connBlock))}
}

type conn struct {
	net.Conn
	in  *s2.Reader
	out *s2.Writer
}

func (c *conn) Read(b []byte) (int, error) { return c.in.Read(b) }

// Write has all of b sent.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.out.Write(b)
	if err == nil {
		err = c.out.Flush()
	}
	return n, err
}
