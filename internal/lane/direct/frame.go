package direct

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"ferry/internal/sys/tcp"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The types of frames; the package comment has their bodies.
const (
	frameHello   = 1
	frameWelcome = 2
	frameDenied  = 3
	frameAttach  = 4
	frameChunk   = 5
	framePing    = 6
	framePong    = 7

	frameHead  = 5
	attachSize = 16 + tokenSize
	pingSize   = 8
)

// mostOf returns the greatest length of a body of each type.
func mostOf(kind byte) int {
	switch kind {
	case frameHello, frameWelcome, frameDenied:
		return maxHello
	case frameAttach:
		return attachSize
	case frameChunk:
		return maxBody
	case framePing, framePong:
		return pingSize
	}
	return -1
}

// A hello is the body of a dialler's first frame.
type hello struct {
	V        int                `json:"v"`
	From     transfer.AgentName `json:"from"`
	To       transfer.AgentName `json:"to"`
	Transfer transfer.ID        `json:"transfer"`
	Token    string             `json:"token"`
	Group    string             `json:"group"`
	Count    int                `json:"count"`
}

// A denial is a listener's answer to a refused connection.
type denial struct {
	V     int             `json:"v"`
	Error *transfer.Error `json:"error"`
}

// A wireConn is one connection with its frames. One goroutine reads and another writes.
type wireConn struct {
	net.Conn
	raw  net.Conn      // beneath TLS
	tls  *tcp.Gathered // between the two; nil without TLS
	opt  tcp.Options
	in   *bufio.Reader
	came atomic.Int64  // bytes that were read
	out  *bufio.Writer // with TLS: the head of a frame shares a record with its body
	head [frameHead]byte
	hout [frameHead]byte
	vec  [2][]byte
}

// newWireConn makes a wireConn of a connection. secure begins TLS on it; nil: without TLS.
func newWireConn(raw net.Conn, opt tcp.Options, secure func(net.Conn) (*tls.Conn, error)) (*wireConn, error) {
	if secure == nil {
		// The buffer is small, because its bytes are copied once more. Larger reads bypass it.
		w := &wireConn{Conn: raw, raw: raw, opt: opt}
		w.in = bufio.NewReaderSize(counted{w}, 512)
		return w, nil
	}

	g := tcp.Gather(raw)
	c, err := secure(g)
	if err != nil {
		return nil, err
	}

	w := &wireConn{Conn: c, raw: raw, tls: g, opt: opt}
	w.in = bufio.NewReaderSize(counted{w}, tcp.FullRecord)
	w.out = bufio.NewWriterSize(deadlined{w}, tcp.FullRecord)
	return w, nil
}

// counted reads a connection and counts the bytes.
type counted struct{ w *wireConn }

func (c counted) Read(b []byte) (int, error) {
	n, err := c.w.Conn.Read(b)
	c.w.came.Add(int64(n))
	return n, err
}

// read reads one frame; the body of a chunk message is from mem. If may lists types, a frame of another type is an
// error before any memory is allocated for it.
func (w *wireConn) read(mem *wire.Memory, may ...byte) (kind byte, body []byte, err error) {
	if _, err := io.ReadFull(w.in, w.head[:]); err != nil {
		return 0, nil, err
	}

	kind = w.head[4]
	n := int(binary.BigEndian.Uint32(w.head[:]))
	switch most := mostOf(kind); {
	case len(may) > 0 && !slices.Contains(may, kind):
		return 0, nil, fmt.Errorf("a frame of type %d has no place in the greeting", kind)
	case most < 0:
		return 0, nil, fmt.Errorf("a frame of unknown type %d", kind)
	case n > most:
		return 0, nil, fmt.Errorf("a frame of type %d says that it has %d bytes; the limit is %d", kind, n, most)
	}

	if kind == frameChunk {
		body = mem.Get(n)
	} else {
		body = make([]byte, n)
	}

	_, err = io.ReadFull(w.in, body)
	w.opt.Rearm(w.raw)
	return kind, body, err
}

// write writes one frame; more means that another frame follows at once.
func (w *wireConn) write(kind byte, body []byte, more bool) error {
	binary.BigEndian.PutUint32(w.hout[:], uint32(len(body)))
	w.hout[4] = kind
	if w.out == nil {
		w.vec = [2][]byte{w.hout[:], body}
		v := net.Buffers(w.vec[:])
		return w.push(func() (int64, error) { return v.WriteTo(w.Conn) })
	}

	if _, err := w.out.Write(w.hout[:]); err != nil {
		return err
	}

	if _, err := w.out.Write(body); err != nil || more {
		return err
	}
	if err := w.out.Flush(); err != nil {
		return err
	}

	w.raw.SetWriteDeadline(time.Now().Add(stuckTime))
	return w.tls.Flush()
}

// push repeats a write that may be continued, until it is complete or makes no progress for stuckTime.
func (w *wireConn) push(write func() (int64, error)) error {
	for {
		w.raw.SetWriteDeadline(time.Now().Add(stuckTime))
		n, err := write()
		if err == nil || n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
	}
}

// deadlined writes to a TLS connection. A write that times out ends such a connection, so the deadline is moved before
// each record.
type deadlined struct{ w *wireConn }

func (d deadlined) Write(b []byte) (done int, err error) {
	const step = 128 << 10
	for done < len(b) {
		d.w.raw.SetWriteDeadline(time.Now().Add(stuckTime))
		n, err := d.w.Conn.Write(b[done:min(done+step, len(b))])
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

func (w *wireConn) writeJSON(kind byte, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return w.write(kind, b, false)
}

// readHello reads the first frame of a dialler.
func (w *wireConn) readHello() (*hello, error) {
	_, body, err := w.read(nil, frameHello)
	if err != nil {
		return nil, err
	}

	h := &hello{}
	if err := wire.Unmarshal(body, h); err != nil {
		return nil, err
	}

	if h.V < wire.Version-1 || h.V > wire.Version+1 {
		return nil, fmt.Errorf("it speaks version %d, this is version %d", h.V, wire.Version)
	}

	if h.Count < 1 || h.Count > maxGroup || len(h.Group) != 32 {
		return nil, errors.New("its group is malformed")
	}

	if h.From == "" || h.To == "" || len(h.Token) != 2*tokenSize {
		return nil, errors.New("it does not name itself")
	}
	return h, nil
}

// welcomed waits for the listener's answer.
func (w *wireConn) welcomed() error {
	kind, body, err := w.read(nil, frameWelcome, frameDenied)
	if err != nil || kind == frameWelcome {
		return err
	}
	d := &denial{}
	if err := wire.Unmarshal(body, d); err != nil {
		return err
	}
	if d.Error == nil {
		return errors.New("it refuses the connection")
	}
	return d.Error
}
