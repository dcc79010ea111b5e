package agent_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A slow line is between clients and a queue manager. It loses nothing, and holds back the queue manager's answers
// until the line is open.
type slowLine struct {
	net.Listener
	to    string
	open  chan struct{}
	asked chan struct{} // one for each question about a name
}

func newSlowLine(t *testing.T, to string) *slowLine {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s := &slowLine{Listener: l, to: to, open: make(chan struct{}), asked: make(chan struct{}, 100)}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				in.Close()
				continue
			}
			held := make(chan struct{})
			go s.up(out, in, held)
			go s.down(in, out, held)
		}
	}()
	return s
}

// up passes on a client's messages. From the first question on, its answers wait.
func (s *slowLine) up(to, from net.Conn, held chan struct{}) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for first := true; ; {
		n, err := from.Read(buf)
		if bytes.Contains(buf[:n], []byte("ferry.ask.ALPHA.")) {
			if first {
				first = false
				close(held)
			}
			select {
			case s.asked <- struct{}{}:
			default:
			}
		}
		if _, e := to.Write(buf[:n]); err != nil || e != nil {
			return
		}
	}
}

func (s *slowLine) down(to, from net.Conn, held chan struct{}) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		select {
		case <-held:
			<-s.open
		default:
		}
		if _, e := to.Write(buf[:n]); err != nil || e != nil {
			return
		}
	}
}

// start brings ALPHA up on a connection of its own.
func start(t *testing.T, ctx context.Context, url string) (*agent.Agent, error) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	conn, err := qmgr.Connect(ctx, qmgr.ConnConfig{Timeout: 90 * time.Second, URL: url, Name: "ALPHA", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	a, err := agent.Start(ctx, agent.Config{Name: "ALPHA", Dir: t.TempDir(), Roots: []string{t.TempDir()}, Log: log,
		Direct: agent.Direct{Mode: agent.DirectOff}}, conn)
	if err == nil {
		t.Cleanup(a.Stop)
	}
	return a, err
}

// A link that loses packets delays answers for seconds. That does not make an agent that lives and is silent. An agent
// that lives counts as alive over any link.
func TestASlowLinkIsNoSecondInstance(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	server, err := server.Start(ctx, server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	line := newSlowLine(t, strings.TrimPrefix(server.URL(), "nats://"))
	go func() {
		for range 3 { // the patience with the first two is over
			<-line.asked
		}
		close(line.open)
	}()
	if _, err := start(t, ctx, "nats://"+line.Addr().String()); err != nil {
		t.Fatalf("no other agent has the name: %v", err)
	}
	if _, err := start(t, ctx, server.URL()); transfer.KindOf(err) != transfer.KindAlive {
		t.Errorf("a second agent of the name: %v", err)
	}
}

// A process that listens and says nothing has the name, for any reason of its silence.
func TestASilentInstanceCounts(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	log := slog.New(slog.DiscardHandler)
	server, err := server.Start(ctx, server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	conn, err := qmgr.Connect(ctx, qmgr.ConnConfig{Timeout: 90 * time.Second, URL: server.URL(), Name: "silent", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if _, err := conn.Subscribe(wire.AllAsks("ALPHA"), func(qmgr.Message) {}); err != nil {
		t.Fatal(err)
	}
	if err := conn.Healthy(ctx); err != nil { // now the queue manager knows
		t.Fatal(err)
	}
	if _, err := start(t, ctx, server.URL()); transfer.KindOf(err) != transfer.KindAlive {
		t.Errorf("an agent starts beside it: %v", err)
	}
}
