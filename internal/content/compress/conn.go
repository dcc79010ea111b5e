package compress

import (
	"net"

	"github.com/klauspost/compress/s2"
)

// connBlock is the most bytes in one block of a connection. It bounds the memory that a peer can make this side use.
const connBlock = 64 << 10

// Conn returns a connection that compresses the written bytes and expands the read bytes. The other side must do the
// same. Two goroutines must not call Write at once.
func Conn(c net.Conn) net.Conn {
	return &conn{c, s2.NewReader(c, s2.ReaderMaxBlockSize(connBlock)), s2.NewWriter(c, s2.WriterConcurrency(1), s2.WriterBlockSize(connBlock))}
}

type conn struct {
	net.Conn
	in  *s2.Reader
	out *s2.Writer
}

func (c *conn) Read(b []byte) (int, error) { return c.in.Read(b) }

// Write writes b and flushes it to the connection.
func (c *conn) Write(b []byte) (int, error) {
	n, err := c.out.Write(b)
	if err == nil {
		err = c.out.Flush()
	}
	return n, err
}
