package qmgr

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/time/rate"

	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/server"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A slowLine is a link to a queue manager that carries so many bytes a second, in each direction.
type slowLine struct {
	url     string
	carried atomic.Int64 // from the queue manager

	mu    sync.Mutex
	conns []net.Conn
}

const (
	lineRate    = 64 << 10
	slowCommand = 96 << 10
)

func layLine(t *testing.T, s *server.Server) *slowLine {
	t.Helper()
	in, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	x := &slowLine{url: "nats://" + in.Addr().String()}
	up, down := rate.NewLimiter(lineRate, 4<<10), rate.NewLimiter(lineRate, 4<<10)
	var all sync.WaitGroup
	t.Cleanup(func() { in.Close(); end(); x.cut(); all.Wait() })
	carry := func(to, from net.Conn, l *rate.Limiter, count *atomic.Int64) {
		defer to.Close()
		for buf := make([]byte, 1<<10); ; {
			n, err := from.Read(buf)
			if n > 0 && l.WaitN(ctx, n) == nil {
				count.Add(int64(n))
				_, err = to.Write(buf[:n])
			}
			if err != nil {
				return
			}
		}
	}
	all.Go(func() {
		for {
			near, err := in.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", strings.TrimPrefix(s.URL(), "nats://"))
			if err != nil {
				near.Close()
				continue
			}
			// Bytes in buffers of the host are not on the link.
			near.(*net.TCPConn).SetWriteBuffer(8 << 10)
			far.(*net.TCPConn).SetReadBuffer(8 << 10)
			x.mu.Lock()
			x.conns = append(x.conns, near, far)
			x.mu.Unlock()
			all.Go(func() { carry(far, near, up, new(atomic.Int64)) })
			all.Go(func() { carry(near, far, down, &x.carried) })
		}
	})
	return x
}

// cut ends all connections over the link.
func (x *slowLine) cut() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.conns {
		c.Close()
	}
	x.conns = nil
}

// answering has a Conn answer each question to it with data, a time after the question.
func answering(t *testing.T, c *Conn, after time.Duration, data []byte) {
	t.Helper()
	stop, err := c.Subscribe(wire.AllAsks(c.Self()), func(m link.Message) {
		time.AfterFunc(after, func() { c.Answer(wire.LastToken(m.Subject), m.Reply, data) })
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
}

// A question does not time out while its answer arrives, neither over a slow link of the asker nor over a slow link of
// the answerer. The answerer has the whole time-out, also if the question needs most of it on the link. A question
// without an answer times out.
func TestQuestionsOverSlowLines(t *testing.T) {
	s := start(t, t.TempDir(), "127.0.0.1:0")
	line := layLine(t, s)
	data, long := qmgrtest.Noise(lineRate), qmgrtest.Noise(3*lineRate)
	near, far := connect(t, ConnConfig{URL: s.URL(), Name: "NEAR"}), connect(t, ConnConfig{URL: line.url, Name: "FAR"})
	answering(t, near, 0, data)
	answering(t, far, 0, long)
	const (
		limit = 700 * time.Millisecond // less than the time of the answer
		more  = 4 * limit              // less than the time of the long answer; a busy host can be silent for limit
		short = 50 * time.Millisecond  // less than the time of a part of it on the asker's link

		lateLimit = 600 * time.Millisecond // more than a question needs on the link, and less than that and the answerer need
	)
	for _, c := range []struct {
		asker, of *Conn
		question  int
		limit     time.Duration
		answer    []byte
	}{{far, near, 10, limit, data}, {near, far, 10, more, long}, {far, near, 10, short, data}, {far, near, lineRate / 2, short, data}} {
		answer, err := c.asker.Request(qmgrtest.Context(t), wire.AskSubject(c.of.Self(), c.asker.Self()), qmgrtest.Noise(c.question), c.limit)
		if err != nil || !bytes.Equal(answer, c.answer) {
			t.Errorf("%s asks %s, which has %s: %d of %d bytes, %v", c.asker.Self(), c.of.Self(), c.limit, len(answer), len(c.answer), err)
		}
	}
	late := connect(t, ConnConfig{URL: s.URL(), Name: "LATE"})
	answering(t, late, lateLimit/2, []byte("late"))
	// The question is on the link for four fifths of its time-out.
	asked := qmgrtest.Noise(int(lateLimit.Seconds() * lineRate * 8 / 10))
	if answer, err := far.Request(qmgrtest.Context(t), wire.AskSubject(late.Self(), far.Self()), asked, lateLimit); err != nil || string(answer) != "late" {
		t.Errorf("a question of %d bytes, with an answer after half of %s: %q, %v", len(asked), lateLimit, answer, err)
	}
	stop, err := near.Subscribe(wire.AllAsks("MUTE"), func(link.Message) {})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	_, err = near.Request(t.Context(), wire.AskSubject("MUTE", near.Self()), nil, 100*time.Millisecond)
	qmgrtest.WantKind(t, err, transfer.KindTimeout)
}

// Each page of a list travels compressed, also where one page follows another at once.
func TestPagesAreCompressed(t *testing.T) {
	s := start(t, t.TempDir(), "127.0.0.1:0")
	line := layLine(t, s)
	near, far := connect(t, ConnConfig{URL: s.URL(), Name: "NEAR"}), connect(t, ConnConfig{URL: line.url, Name: "FAR"})
	page := bytes.Repeat([]byte(`{"kind":"item","path":"/srv/in/a","size":10}`), 1000)
	answering(t, near, 0, page)
	const pages = 5
	before := line.carried.Load()
	for range pages {
		answer, err := far.Request(qmgrtest.Context(t), wire.AskSubject(near.Self(), far.Self()), nil, 5*time.Second)
		if err != nil || !bytes.Equal(answer, page) {
			t.Fatalf("a page of %d bytes, not %d: %v", len(answer), len(page), err)
		}
	}
	if carried := line.carried.Load() - before; carried > int64(len(page)/2) {
		t.Errorf("the line has carried %d bytes for %d pages of %d", carried, pages, len(page))
	}
}

// A command that needs longer on its way than a sign of life may, and than its acknowledgement, comes once. A process
// that the host does not run for a second loses its turn: one round of three must be right.
func TestCommandOverSlowLine(t *testing.T) {
	for round := 1; ; round++ {
		wrong := commandsOverSlowLine(t)
		if wrong == "" {
			return
		}
		if round == 3 {
			t.Fatal(wrong)
		}
		t.Logf("round %d: %s", round, wrong)
	}
}

// commandsOverSlowLine returns a description of the first error, or "".
func commandsOverSlowLine(t *testing.T) string {
	s := start(t, t.TempDir(), "127.0.0.1:0")
	line := layLine(t, s)
	near, far := connect(t, ConnConfig{URL: s.URL(), Name: "NEAR"}), connect(t, ConnConfig{URL: line.url, Name: "FAR", times: times{defaultTimes.probeEvery, link.ProbeTimeout, time.Second, 500 * time.Millisecond}})
	large := string(qmgrtest.Noise(slowCommand))
	for _, data := range []string{large, "small", large} {
		enqueue(t, near, "ferry.command.FAR.bob", data)
	}
	before := line.carried.Load()
	got := make(chan Delivery, 10)
	stop := consumeWith(t, far, streams.Commands("FAR"), func(d Delivery) { got <- d; d.Ack() })
	defer stop()
	for _, want := range []string{large, "small", large} {
		if d := qmgrtest.Receive(t, "a command", got); string(d.Data) != want || d.Attempts != 1 {
			return fmt.Sprintf("a command of %d bytes came at attempt %d; one of %d was due", len(d.Data), d.Attempts, len(want))
		}
	}
	if carried := line.carried.Load() - before; carried > 2*slowCommand*12/10 {
		return fmt.Sprintf("the line has carried %d bytes for %d", carried, 2*slowCommand)
	}
	return ""
}

// Messages of a queue come over a slow link once, also if the connection is lost: the part of an answer that has
// arrived is kept.
func TestQueueOverSlowLine(t *testing.T) {
	s := start(t, t.TempDir(), "127.0.0.1:0")
	line := layLine(t, s)
	near, far := connect(t, ConnConfig{URL: s.URL(), Name: "NEAR"}), connect(t, ConnConfig{URL: line.url, Name: "FAR"})
	far.admin = remoteAdminOf(far)
	if _, err := QueuesOf(near).Create(qmgrtest.Context(t), "Q", 0, 0); err != nil {
		t.Fatal(err)
	}
	span := wire.QueueSpan{Queue: "Q"}
	want := qmgrtest.Noise(3 * lineRate)
	for _, part := range [][]byte{want[:2*lineRate], want[2*lineRate : 2*lineRate+7], nil, want[2*lineRate+7:]} {
		if _, err := QueuesOf(near).Put(qmgrtest.Context(t), span, false, part); err != nil {
			t.Fatal(err)
		}
	}
	r := QueuesOf(far).Reader(span, 0)
	defer r.Close()
	before := line.carried.Load()
	var got []byte
	messages, cut := 0, false
	for {
		p, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p.Data...)
		if p.Last {
			messages++
		}
		if !cut && len(got) > lineRate {
			cut = true
			line.cut()
		}
	}
	if messages != 4 || !bytes.Equal(got, want) {
		t.Errorf("%d messages with %d bytes of %d came, or others", messages, len(got), len(want))
	}
	if n := far.control.Socket.Load().In.Load() + far.data.Socket.Load().In.Load(); n > lineRate/2 {
		t.Errorf("%d bytes came on the connections that are not for messages of queues", n)
	}
	// Two answers may have been on their way when the link was cut.
	if carried, most := line.carried.Load()-before, int64(len(want))*13/10+2*lineRate; carried > most {
		t.Errorf("the line has carried %d bytes for %d", carried, len(want))
	}
}
