package tap

import (
	"bytes"
	"errors"
	"sync/atomic"
)

const (
	// bufferSize is the size of the buffer for reading ahead. A control line other than INFO fits into it. Message data
	// in the buffer is copied once more, so it is small.
	bufferSize = 8 << 10
	// largest is the largest message that is taken past the library.
	largest = 4 << 20
)

// A reader reads the queue manager's output before the library does. It takes messages of some subscriptions for
// itself, and reads them straight into their final memory. The library gets all other bytes unchanged.
//
// The library would read a message of a megabyte in pieces of 32 KiB, collect them in memory that is new for each
// message, and hand it to another goroutine.
//
// The reader knows NATS's client protocol as of https://docs.nats.io/reference/reference-protocols/nats-protocol: lines
// that begin with an operation and end with CR LF; MSG SUBJECT SID [REPLY] SIZE and HMSG SUBJECT SID [REPLY] HEADERS
// SIZE are followed by SIZE bytes and CR LF. After bytes that it does not know, as at the beginning of TLS or a web
// socket, it is blind: the library gets all bytes.
//
// One goroutine reads.
type reader struct {
	in   func([]byte) (int, error)    // reads the connection
	find func(subject []byte) *Target // target for messages of a subject; nil: the library

	buf   [bufferSize]byte
	r, w  int  // buf[r:w] has not been read yet
	pass  int  // bytes of a line or a message that are the library's
	line  bool // the library's line goes on until its end
	blind bool // the input is not understood: all of it is the library's

	// let reports that the queue manager has answered the first PING, and so let this connection in, by lines that are
	// understood.
	let atomic.Bool
}

var errTorn = errors.New("a message of the queue manager has no end where it should")

// Read gives the library its own bytes. It handles the other messages meanwhile.
func (t *reader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}

	for {
		switch {
		case t.r < t.w:
		case t.blind:
			return t.in(p)
		case t.pass > len(t.buf):
			n, err := t.in(p[:min(len(p), t.pass)])
			t.pass -= n
			return n, err
		default:
			if err := t.more(); err != nil {
				return 0, err
			}
		}
		if n := t.library(); n > 0 {
			n = copy(p, t.buf[t.r:t.r+n])
			t.r += n
			t.pass = max(0, t.pass-n)
			return n, nil
		}
		if err := t.next(); err != nil {
			return 0, err
		}
	}
}

// library returns how many bytes of the buffer are the library's.
func (t *reader) library() int {
	have := t.buf[t.r:t.w]
	switch {
	case t.blind:
		return len(have)
	case t.pass > 0:
		return min(t.pass, len(have))
	case t.line:
		if end := bytes.IndexByte(have, '\n'); end >= 0 {
			t.line, t.pass = false, end+1
			return end + 1
		}
		return len(have)
	}
	return 0
}

// more reads into the buffer behind the unread bytes.
func (t *reader) more() error {
	t.w = copy(t.buf[:], t.buf[t.r:t.w])
	t.r = 0
	n, err := t.in(t.buf[t.w:])
	t.w += n
	if n > 0 {
		return nil // the error comes again
	}
	return err
}

// next decides about the operation that begins with the buffer's first byte.
func (t *reader) next() error {
	have := t.buf[t.r:t.w]
	if bytes.IndexByte([]byte("MHP+-I"), have[0]) < 0 {
		t.blind = true
		return nil
	}

	end := bytes.IndexByte(have, '\n')
	switch {
	case end >= 0:
		return t.decide(have[:end+1])
	case len(have) < len(t.buf):
		return t.more()
	case bytes.HasPrefix(have, []byte("INFO ")):
		t.line = true
	default:
		t.blind = true
	}
	return nil
}

// decide handles a line at the beginning of the buffer and the bytes that follow it, or leaves them to the library.
func (t *reader) decide(line []byte) error {
	var room [7][]byte
	words := fields(room[:0], bytes.TrimRight(line, "\r\n"))
	if len(words) == 0 {
		t.blind = true
		return nil
	}

	switch op := string(words[0]); op {
	case "MSG", "HMSG":
		least := 4
		if op == "HMSG" {
			least = 5
		}
		size, ok := number(words[len(words)-1])
		if !ok || len(words) < least || len(words) > least+1 {
			t.blind = true
			return nil
		}
		if op == "MSG" && size <= largest {
			if to := t.find(words[1]); to != nil {
				subject, reply := string(words[1]), ""
				if len(words) == 5 {
					reply = string(words[3])
				}
				t.r += len(line)
				return t.take(to, subject, reply, size)
			}
		}
		t.pass = len(line) + size + 2
	case "PONG":
		t.let.Store(true)
		t.pass = len(line)
	case "PING", "+OK", "-ERR", "INFO":
		t.pass = len(line)
	default:
		t.blind = true
	}
	return nil
}

// take reads a message's data and hands the message over.
func (t *reader) take(to *Target, subject, reply string, size int) error {
	data := to.Buffer(size)
	n := copy(data, t.buf[t.r:t.w])
	t.r += n
	for n < size {
		k, err := t.in(data[n:])
		if n += k; err != nil && n < size {
			return err
		}
	}

	for t.w-t.r < 2 {
		if err := t.more(); err != nil {
			return err
		}
	}

	if t.buf[t.r] != '\r' || t.buf[t.r+1] != '\n' {
		return errTorn
	}

	t.r += 2
	to.Take(subject, reply, data)
	return nil
}

// fields appends the words of a line to words; seven of a line with more than six.
func fields(words [][]byte, line []byte) [][]byte {
	for len(words) <= 6 {
		line = bytes.TrimLeft(line, " \t")
		if len(line) == 0 {
			break
		}
		end := bytes.IndexAny(line, " \t")
		if end < 0 {
			end = len(line)
		}
		words = append(words, line[:end])
		line = line[end:]
	}
	return words
}

// number reads a size of up to nine digits.
func number(b []byte) (n int, ok bool) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, len(b) > 0 && len(b) <= 9
}
