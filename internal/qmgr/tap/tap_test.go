package tap

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
)

type message struct {
	Subject, Reply string
	Data           []byte
}

// A said is the output of a queue manager: the stream, the library's part of it, and the messages that go past the
// library.
type said struct {
	stream, library []byte
	taken           []message
}

func (s *said) lib(text string) {
	s.stream = append(s.stream, text...)
	s.library = append(s.library, text...)
}

func (s *said) msg(subject, reply string, data []byte) {
	s.stream = fmt.Appendf(s.stream, "MSG %s 7", subject)
	if reply != "" {
		s.stream = fmt.Appendf(s.stream, " %s", reply)
	}
	s.stream = fmt.Appendf(s.stream, " %d\r\n%s\r\n", len(data), data)
	s.taken = append(s.taken, message{subject, reply, data})
}

// A heard is the result of reading a stream with a tap: the stream in pieces of so many bytes, by a library that reads
// so many at a time.
type heard struct {
	library []byte
	taken   []message
	plain   bool
	err     error
}

func hear(stream []byte, piece, most int) (h heard) {
	left := stream
	to := &Target{func(n int) []byte { return make([]byte, n, n+100) }, func(subject, reply string, data []byte) { h.taken = append(h.taken, message{subject, reply, data}) }}
	tap := &reader{in: func(p []byte) (int, error) {
		if len(left) == 0 {
			return 0, io.EOF
		}
		n := copy(p[:min(len(p), piece)], left)
		left = left[n:]
		return n, nil
	}, find: func(subject []byte) *Target {
		if bytes.HasPrefix(subject, []byte("t.")) {
			return to
		}
		return nil
	}}
	p := make([]byte, most)
	for h.err == nil {
		var n int
		n, h.err = tap.Read(p)
		h.library = append(h.library, p[:n]...)
	}
	h.plain = tap.let.Load()
	return h
}

func (s *said) check(t *testing.T, h heard) {
	t.Helper()
	if !bytes.Equal(h.library, s.library) {
		t.Fatalf("the library got %d bytes, not %d: %.100q", len(h.library), len(s.library), h.library)
	}
	if len(h.taken) != len(s.taken) {
		t.Fatalf("%d messages were taken, not %d", len(h.taken), len(s.taken))
	}
	for i, m := range h.taken {
		if w := s.taken[i]; m.Subject != w.Subject || m.Reply != w.Reply || !bytes.Equal(m.Data, w.Data) {
			t.Fatalf("message %d is %s %s of %d bytes", i, m.Subject, m.Reply, len(m.Data))
		}
	}
	if h.err != io.EOF {
		t.Errorf("it ended with %v", h.err)
	}
}

func TestTap(t *testing.T) {
	large := bytes.Repeat([]byte("MSG t.x 1 3\r\nabc\r\n"), 10_000) // looks like the protocol and is data
	var s said
	s.lib(`INFO {"server_id":"` + strings.Repeat("x", 3*bufferSize) + "\"}\r\n")
	s.lib("PONG\r\n+OK\r\n")
	s.msg("t.a", "", []byte("one"))
	s.msg("t.b.c", "_INBOX.7", nil)
	s.lib("MSG other 3 5\r\nhello\r\n")
	s.msg("t.a", "", large)
	s.msg("t.a", "", large[:5])
	s.lib(fmt.Sprintf("MSG other 3 reply %d\r\n%s\r\n", len(large), large))
	s.lib("HMSG t.a 3 12 17\r\nNATS/1.0\r\n\r\nhello\r\n")
	s.lib("HMSG t.a 3 reply 12 12\r\nNATS/1.0\r\n\r\n\r\n")
	s.lib("PING\r\n-ERR 'Slow Consumer'\r\nINFO {}\r\n")
	s.stream = append(s.stream, "MSG  t.a\t7   2\r\nxy\r\n"...)
	s.taken = append(s.taken, message{Subject: "t.a", Data: []byte("xy")})
	s.lib(fmt.Sprintf("MSG t.a 7 %d\r\n%s\r\n", largest+1, make([]byte, largest+1)))
	s.msg("t.a", "", []byte("last"))
	for _, piece := range []int{1, 2, 3, 7, 100, bufferSize - 1, bufferSize, 64 << 10, 1 << 30} {
		if h := hear(s.stream, piece, 32<<10); !h.plain {
			t.Error("the first PONG was not seen")
		} else {
			s.check(t, h)
		}
		s.check(t, hear(s.stream, piece, 11))
	}
}

// After bytes that a tap does not know it takes nothing, and changes nothing.
func TestTapIsBlind(t *testing.T) {
	hello := "INFO {\"tls_required\":true}\r\n"
	for name, rest := range map[string]string{
		"TLS":                "\x16\x03\x03\x00\x7a",
		"a web socket":       "HTTP/1.1 101 Switching Protocols\r\n\r\n",
		"another operation":  "MOVE t.a 1 3\r\n",
		"too few words":      "MSG t.a 3\r\nabc\r\n",
		"too many words":     "MSG t.a 1 r e 3\r\nabc\r\n",
		"headers, too few":   "HMSG t.a 1 3\r\nabc\r\n",
		"no size":            "MSG t.a 1 x\r\nabc\r\n",
		"a size below 0":     "MSG t.a 1 -3\r\nabc\r\n",
		"an impossible size": "MSG t.a 1 99999999999999999999\r\nabc\r\n",
		"an endless line":    "MSG t.a" + strings.Repeat(" ", bufferSize),
		"an empty line":      "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := said{stream: []byte(hello + rest + "PONG\r\nMSG t.a 1 3\r\nabc\r\n")}
			s.library = s.stream
			for _, piece := range []int{1, 5, 1 << 20} {
				h := hear(s.stream, piece, 1000)
				s.check(t, h)
				if h.plain {
					t.Error("it believes in a plain connection")
				}
			}
		})
	}
}

// The first bytes of TLS are passed on though no line ends in them: the library
// waits for them, and the queue manager for its answer.
func TestTapDoesNotWaitForALineOfTLS(t *testing.T) {
	s := said{stream: []byte("INFO {}\r\n\x16\x03\x03\x00\x7a")}
	s.library = s.stream
	s.check(t, hear(s.stream, 100, 100))
}

// A part of a message goes to neither side.
func TestTapAndTornMessages(t *testing.T) {
	whole := "MSG t.a 1 4\r\nabcd\r\n"
	for end := range len(whole) {
		if h := hear([]byte(whole[:end]), 3, 100); len(h.taken)+len(h.library) > 0 || h.err != io.EOF {
			t.Errorf("of %q %d messages were taken and %d bytes passed on; %v", whole[:end], len(h.taken), len(h.library), h.err)
		}
	}
	if h := hear([]byte("MSG t.a 1 4\r\nabcde\r\n"), 100, 100); len(h.taken) > 0 || !errors.Is(h.err, errTorn) {
		t.Errorf("a message that is longer than it says: %v", h.err)
	}
}

// FuzzTap compares the tap's results with the known parts of a stream. It compares the results for any other stream
// with those for the same stream in other pieces.
func FuzzTap(f *testing.F) {
	f.Add([]byte("abcdefghij"), uint16(3))
	f.Add([]byte("MSG t.a 1 3\r\nabc\r\nPING\r\nHMSG t.a 1 1 2\r\nab\r\nMSG x 1 1\r\n"), uint16(7))
	f.Add([]byte("INFO {}\r\n\x16\x03"), uint16(1))
	f.Fuzz(func(t *testing.T, b []byte, piece uint16) {
		n := int(piece) + 1
		var s said
		for i, c := range b {
			size := int(c) * i % 20_000
			switch c % 6 {
			case 0:
				s.lib("PING\r\n")
			case 1:
				s.lib(fmt.Sprintf("MSG lib.%d 1 %d\r\n%s\r\n", c, size, make([]byte, size)))
			case 2:
				s.lib(fmt.Sprintf("HMSG t.%d 1 0 %d\r\n%s\r\n", c, size, make([]byte, size)))
			case 3:
				s.lib("INFO " + strings.Repeat("i", size) + "\r\n")
			default:
				s.msg(fmt.Sprintf("t.%d", c), "", bytes.Repeat([]byte{c}, size))
			}
		}
		s.check(t, hear(s.stream, n, n))
		whole, pieces := hear(b, 1<<30, 1<<20), hear(b, n, 5)
		if !bytes.Equal(whole.library, pieces.library) || len(whole.taken) != len(pieces.taken) || whole.plain != pieces.plain {
			t.Errorf("%q in pieces of %d is understood differently", b, n)
		}
	})
}
