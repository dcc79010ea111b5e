package qmgr

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/tcp"

	"github.com/nats-io/nats-server/v2/server"
)

// What the queue manager may send, which of it is the library's, and which
// messages go past it.
type said struct {
	stream, library []byte
	taken           []Message
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
	s.taken = append(s.taken, Message{subject, reply, data})
}

// A heard is what comes of a stream that is read with a tap: the stream in
// pieces of so many bytes, by a library that reads so many at a time.
type heard struct {
	library []byte
	taken   []Message
	plain   bool
	err     error
}

func hear(stream []byte, piece, most int) (h heard) {
	left := stream
	to := &tapTarget{[]byte("t."), func(n int) []byte { return make([]byte, n, n+100) }, func(m Message) { h.taken = append(h.taken, m) }}
	tap := &tap{in: func(p []byte) (int, error) {
		if len(left) == 0 {
			return 0, io.EOF
		}
		n := copy(p[:min(len(p), piece)], left)
		left = left[n:]
		return n, nil
	}, find: func(subject []byte) *tapTarget {
		if bytes.HasPrefix(subject, to.prefix) {
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
	h.plain = tap.plain.Load()
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
	s.lib(`INFO {"server_id":"` + strings.Repeat("x", 3*tapBuffer) + "\"}\r\n")
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
	s.taken = append(s.taken, Message{Subject: "t.a", Data: []byte("xy")})
	s.lib(fmt.Sprintf("MSG t.a 7 %d\r\n%s\r\n", tapLargest+1, make([]byte, tapLargest+1)))
	s.msg("t.a", "", []byte("last"))
	for _, piece := range []int{1, 2, 3, 7, 100, tapBuffer - 1, tapBuffer, 64 << 10, 1 << 30} {
		if h := hear(s.stream, piece, 32<<10); !h.plain {
			t.Error("the first PONG was not seen")
		} else {
			s.check(t, h)
		}
		s.check(t, hear(s.stream, piece, 11))
	}
}

// Behind what a tap does not know it takes nothing, and changes nothing.
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
		"an endless line":    "MSG t.a" + strings.Repeat(" ", tapBuffer),
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

// Half a message is nobody's.
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

// FuzzTap holds the tap against a stream of which it is known what it is made
// of, and any other against itself, read in other pieces.
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

// webServer runs a queue manager that can be reached through web sockets.
func webServer(t *testing.T) *server.Server {
	web, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
		Websocket: server.WebsocketOpts{Host: "127.0.0.1", Port: -1, NoTLS: true}, MaxPayload: serverMaxPayload})
	if err != nil {
		t.Fatal(err)
	}
	web.Start()
	t.Cleanup(func() { web.Shutdown(); web.WaitForShutdown() })
	if !web.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	return web
}

// What waits for a connection that is slow for a while does not break it.
func TestMuchAtOnceThroughAWebSocket(t *testing.T) {
	noLeaks(t)
	web := webServer(t)
	p := newProxy(t, strings.TrimPrefix(web.WebsocketURL(), "ws://"))
	from, to := connect(t, ConnConfig{URL: web.ClientURL()}), connect(t, ConnConfig{URL: "ws://" + p.Addr().String()})
	got := make(chan Message, 1000)
	if _, err := to.SubscribeData("d.>", nil, func(m Message) { got <- m }); err != nil {
		t.Fatal(err)
	}
	const n, size = 40, 1 << 20
	p.stalled(func() {
		for range n {
			if err := from.PublishData("d.x", make([]byte, size)); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, "most of it waits for the connection", func() bool {
			all, err := web.Connz(nil)
			return err == nil && slices.ContainsFunc(all.Conns, func(c *server.ConnInfo) bool { return c.Pending > 9*serverMaxPayload })
		})
	})
	for range n {
		if m := receive(t, "message", got); len(m.Data) != size {
			t.Fatalf("a message has %d bytes", len(m.Data))
		}
	}
	if n := to.data.conn().Stats().Reconnects; n != 0 {
		t.Errorf("the connection was lost %d times", n)
	}
}

// Over a plain connection data does not pass through the library, in either
// direction; over a web socket it does, and arrives as well.
func TestDataPastTheLibrary(t *testing.T) {
	noLeaks(t)
	s := start(t, t.TempDir(), "127.0.0.1:0")
	web := webServer(t)
	for _, c := range []struct {
		name string
		cfg  ConnConfig
		past bool
	}{
		{"TCP", ConnConfig{URL: s.URL()}, true},
		{"in process", ConnConfig{Server: s}, true},
		{"web socket", ConnConfig{URL: web.WebsocketURL()}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			from, to := connect(t, c.cfg), connect(t, c.cfg)
			lent := make(chan int, 1000)
			got := make(chan Message, 1000)
			stop, err := to.SubscribeData("d.x.>", func(n int) []byte { lent <- n; return make([]byte, n) }, func(m Message) { got <- m })
			if err != nil {
				t.Fatal(err)
			}
			before := from.data.conn().Stats().OutMsgs
			for i := range 100 {
				if err := from.PublishData("d.x.y", bytes.Repeat([]byte{byte(i)}, i*10_000)); err != nil {
					t.Fatal(err)
				}
			}
			for i := range 100 {
				if m := receive(t, "message", got); m.Subject != "d.x.y" || !bytes.Equal(m.Data, bytes.Repeat([]byte{byte(i)}, i*10_000)) {
					t.Fatalf("message %d is another: %d bytes on %s", i, len(m.Data), m.Subject)
				}
			}
			out, in := from.data.conn().Stats().OutMsgs-before, to.data.conn().Stats().InMsgs
			if past := out == 0 && in == 0; past != c.past || past != (len(lent) == 100) {
				t.Errorf("the library sent %d and received %d messages, and memory was lent for %d", out, in, len(lent))
			}
			stop()
			if err := from.PublishData("d.x.y", []byte("late")); err != nil {
				t.Fatal(err)
			}
			if err := to.Healthy(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(got) > 0 {
				t.Error("a message comes after the end of the subscription")
			}
		})
	}
}

// After a loss both directions go past the library again.
func TestDataPastTheLibraryAfterALoss(t *testing.T) {
	s := start(t, t.TempDir(), "127.0.0.1:0")
	c := connect(t, ConnConfig{URL: s.URL()})
	got := make(chan Message, 10)
	if _, err := c.SubscribeData("d.>", nil, func(m Message) { got <- m }); err != nil {
		t.Fatal(err)
	}
	old := c.data.socket.Load()
	old.Close()
	for end := time.Now().Add(patience); c.data.socket.Load() == old || c.PublishData("d.x", []byte("again")) != nil; {
		if time.Now().After(end) {
			t.Fatal("the connection does not come back")
		}
	}
	receive(t, "message after the loss", got)
	if st := c.data.conn().Stats(); st.OutMsgs+st.InMsgs != 0 {
		t.Errorf("the library sent %d messages and received %d", st.OutMsgs, st.InMsgs)
	}
}

// A message that nobody takes ends the socket: nothing may follow a half.
func TestStuckMessageEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer far.Close()
		s := newSocket(near, tcp.Options{}, nil)
		if tried, err := s.publish("x", make([]byte, 1000)); tried || err != nil {
			t.Fatalf("it was tried before the connection was let in: %v", err)
		}
		s.tap.plain.Store(true)
		go io.ReadFull(far, make([]byte, 20))
		begun := time.Now()
		if tried, err := s.publish("x", make([]byte, 1000)); !tried || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("%t, %v", tried, err)
		}
		if d := time.Since(begun); d != (1+writeSteps)*writeStep { // in the first step 20 bytes went out
			t.Errorf("it took %s", d)
		}
		if _, err := s.Write([]byte("PING\r\n")); err != io.ErrClosedPipe {
			t.Errorf("something follows half a message: %v", err)
		}
	})
}
