package digest

import (
	"crypto/md5"
	"encoding"
	"encoding/binary"
	"hash"
	"math"
	"runtime"
	"sync"
)

const (
	seats = 16  // streams that are digested at once
	few   = 4   // of them that do not take a processor's whole width
	shift = 256 // blocks of each, before others may join them
)

// newMD5 starts an MD5 (RFC 1321). Each step of it waits for the one before, so that
// one stream leaves most of a processor idle; sixteen at once take hardly longer than
// one. Where this processor has the instructions, streams that are written to at the
// same time share them. One by itself is the library's: a lane alone is faster on some
// processors by a tenth, and slower on others by a quarter.
func newMD5() hash.Hash {
	if !vectorMD5 {
		return md5.New()
	}
	m := newStream()
	m.Reset()
	return m
}

// A stream is one MD5.
type stream struct {
	state [4]uint32
	size  uint64 // bytes in all
	rest  [md5.BlockSize]byte
	n     int       // bytes in rest
	lib   hash.Hash // takes blocks while nobody else is there
	coded [4 + md5.Size + md5.BlockSize + 8]byte

	left  []byte     // whole blocks that are still to be taken
	turn  sync.Mutex // locked; its writer locks it once more to wait, the leader unlocks it
	leads bool       // then: it is to lead; otherwise all of left is taken
}

func newStream() *stream {
	m := &stream{lib: md5.New()}
	m.turn.Lock()
	return m
}

// alone takes whole blocks. It sets the library's state and gets it back in the form in
// which the library gives it away: a mark, the four words, what is left of a block, and
// the size, big-endian.
func (m *stream) alone(p []byte) {
	clear(m.coded[:])
	b := append(m.coded[:0], "md5\x01"...)
	for _, v := range m.state {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	if err := m.lib.(encoding.BinaryUnmarshaler).UnmarshalBinary(m.coded[:]); err != nil {
		panic(err) // the library's form has changed
	}
	m.lib.Write(p)
	b, _ = m.lib.(encoding.BinaryAppender).AppendBinary(m.coded[:0])
	for i := range m.state {
		m.state[i] = binary.BigEndian.Uint32(b[4+4*i:])
	}
}

func (m *stream) Size() int      { return md5.Size }
func (m *stream) BlockSize() int { return md5.BlockSize }

func (m *stream) Reset() {
	m.state = [4]uint32{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}
	m.size, m.n = 0, 0
}

// clone is a second stream with the same bytes so far.
func (m *stream) clone() *stream {
	c := newStream()
	c.state, c.size, c.rest, c.n = m.state, m.size, m.rest, m.n
	return c
}

func (m *stream) Write(p []byte) (int, error) {
	all := len(p)
	m.size += uint64(all)
	if m.n > 0 {
		k := copy(m.rest[m.n:], p)
		m.n += k
		p = p[k:]
		if m.n < len(m.rest) {
			return all, nil
		}
		m.alone(m.rest[:])
		m.n = 0
	}
	if whole := len(p) / len(m.rest) * len(m.rest); whole > 0 {
		together.take(m, p[:whole])
		p = p[whole:]
	}
	m.n = copy(m.rest[:], p)
	return all, nil
}

func (m *stream) Sum(b []byte) []byte {
	var last [2 * md5.BlockSize]byte
	n := copy(last[:], m.rest[:m.n])
	last[n] = 0x80
	blocks := (n + 8) / md5.BlockSize // of which the last one ends with the size in bits
	binary.LittleEndian.PutUint64(last[(blocks+1)*md5.BlockSize-8:], m.size*8)
	state := m.state
	m.alone(last[:(blocks+1)*md5.BlockSize])
	for _, v := range m.state {
		b = binary.LittleEndian.AppendUint32(b, v)
	}
	m.state = state
	return b
}

// A crew are streams that are written to at the same time. One of the writers leads:
// it takes the blocks of all that are seated, until its own are taken; then another
// one does.
type crew struct {
	mu      sync.Mutex
	led     bool
	waiting []*stream
	seated  []*stream // only the leader changes them
}

// together are all streams of this process.
var together crew

// take takes whole blocks, at least one, and returns when that is done.
func (c *crew) take(m *stream, p []byte) {
	m.left = p
	c.mu.Lock()
	c.waiting = append(c.waiting, m)
	lead := !c.led
	c.led = true
	c.mu.Unlock()
	if lead {
		runtime.Gosched() // others who have read something come and sit down
	} else {
		m.turn.Lock()
		lead = m.leads
	}
	if lead {
		c.lead(m)
	}
	m.left = nil
}

// call ends the wait of a stream's writer.
func (m *stream) call(leads bool) {
	m.leads = leads
	m.turn.Unlock()
}

// lead works until nothing of m is left, and hands over to another one if there is one.
func (c *crew) lead(m *stream) {
	for len(m.left) > 0 {
		c.mu.Lock()
		n := min(seats-len(c.seated), len(c.waiting))
		c.seated = append(c.seated, c.waiting[:n]...)
		c.waiting = append(c.waiting[:0], c.waiting[n:]...)
		c.mu.Unlock()
		c.work()
		still := c.seated[:0]
		for _, s := range c.seated {
			switch {
			case len(s.left) > 0:
				still = append(still, s)
			case s != m:
				s.call(false)
			}
		}
		c.seated = still
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case len(c.seated) > 0:
		c.seated[0].call(true)
	case len(c.waiting) > 0:
		c.waiting[0].call(true)
	default:
		c.led = false
	}
}

// work takes as many blocks of all that are seated as all of them have, up to a shift.
func (c *crew) work() {
	n := shift * md5.BlockSize
	for _, s := range c.seated {
		n = min(n, len(s.left))
	}
	if len(c.seated) == 1 {
		s := c.seated[0]
		s.alone(s.left[:n])
		s.left = s.left[n:]
		return
	}
	lanes := seats
	if len(c.seated) <= few { // which narrow instructions do sooner
		lanes = few
	}
	var state [4 * seats]uint32
	var p [seats]*byte
	for at := range lanes {
		s := c.seated[min(at, len(c.seated)-1)] // a seat that is free does what the last one does, in vain
		p[at] = &s.left[0]
		for i, v := range s.state {
			state[i*lanes+at] = v
		}
	}
	if lanes == few {
		md5x4(&state[0], &p[0], n/md5.BlockSize, &sines)
	} else {
		md5x16(&state[0], &p[0], n/md5.BlockSize, &sines)
	}
	for at, s := range c.seated {
		for i := range s.state {
			s.state[i] = state[i*lanes+at]
		}
		s.left = s.left[n:]
	}
}

// sines are the constants of the 64 steps.
var sines = func() (k [64]uint32) {
	for i := range k {
		k[i] = uint32(math.Floor(math.Abs(math.Sin(float64(i+1))) * (1 << 32)))
	}
	return k
}()
