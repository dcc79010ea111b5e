package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// startManager starts a queue manager without identities, and connects to it as its own process does.
func startManager(t *testing.T) (*server.Server, *qmgr.Conn) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	log := slog.New(slog.DiscardHandler)
	server, err := server.Start(t.Context(), server.Config{Name: "QM", Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	conn, err := qmgr.Connect(t.Context(), qmgr.ConnConfig{Server: server, Name: "ferry up", Self: wire.Up, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return server, conn
}

// runReady runs `ferry ready`, and returns all that it has printed.
func runReady(ctx context.Context, at *server.Server, timeout time.Duration) (string, error) {
	var out bytes.Buffer
	c := newReady()
	c.SetOut(&out)
	c.SetErr(&out)
	c.SetContext(ctx)
	c.SetArgs([]string{"--timeout", timeout.String(), at.URL()})
	err := c.Execute()
	return out.String(), err
}

// `ferry ready` waits for coordination of the same process, also where that has no agents.
func TestReadyWaitsForCoordination(t *testing.T) {
	server, conn := startManager(t)
	desk, err := openDesk(conn, server.Channels(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := runReady(t.Context(), server, 500*time.Millisecond); transfer.KindOf(err) != transfer.KindTimeout || !strings.Contains(err.Error(), "coordination") {
		t.Errorf("before coordination has started: %v %s", err, out)
	}
	desk.begun.Store(true)
	if out, err := runReady(t.Context(), server, time.Minute); err != nil || !strings.Contains(out, "ready, 0 agents") {
		t.Errorf("afterwards: %v %s", err, out)
	}
}

// `ferry ready` says that coordination is degraded, and why. The queue manager and its agents are ready all the same: exit code 0.
func TestReadySaysThatCoordinationIsDegraded(t *testing.T) {
	server, conn := startManager(t)
	desk, err := openDesk(conn, server.Channels(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	desk.begun.Store(true)
	desk.tell(errors.New("records: record 17 is another one"))
	out, err := runReady(t.Context(), server, time.Minute)
	if err != nil || !strings.Contains(out, "ready, 0 agents; coordination is degraded: records: record 17 is another one") {
		t.Errorf("%v %s", err, out)
	}
	desk.rules = func() (*trust.Document, error) { return nil, errors.New("this user is no administrator") }
	if out, err := runReady(t.Context(), server, time.Minute); err != nil || !strings.Contains(out, "; "+coordinationAway) || strings.Contains(out, "record 17") {
		t.Errorf("without the authority admin: %v %s", err, out)
	}
	desk.tell(nil)
	if out, err := runReady(t.Context(), server, time.Minute); err != nil || strings.Contains(out, "degraded") {
		t.Errorf("once it runs: %v %s", err, out)
	}
}

// While coordination does not run, questions to it are answered with its reason, except the question of another
// coordination that is to start.
func TestCoordinationThatIsAwayIsSaidToBe(t *testing.T) {
	server, conn := startManager(t)
	own, err := qmgr.Connect(t.Context(), qmgr.ConnConfig{Server: server, Name: "ferry coordination", Self: wire.Coordination})
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	away := &absence{conn: own, log: slog.New(slog.DiscardHandler)}
	away.begin()
	away.begin() // after another try
	net := newClient(conn, server.URL(), time.Minute)
	if err := net.Agents(t.Context(), func(*wire.AgentStatus) error { return nil }); transfer.KindOf(err) != transfer.KindUnreachable || !strings.Contains(err.Error(), coordinationAway) {
		t.Error(err)
	}
	ask := wire.AskSubject(wire.Coordination, conn.Self())
	if data, err := conn.Request(t.Context(), ask, wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskPing}), 300*time.Millisecond); transfer.KindOf(err) != transfer.KindTimeout {
		t.Errorf("%s, %v", data, err)
	}
	away.end()
	// A question that meets the end of the subscription has no answer.
	var err2 error
	for end := time.Now().Add(90 * time.Second); time.Now().Before(end); {
		_, err2 = conn.Request(t.Context(), ask, wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskAgents}), time.Second)
		if transfer.KindOf(err2) == transfer.KindUnreachable && !strings.Contains(err2.Error(), coordinationAway) {
			return
		}
	}
	t.Errorf("after its end: %v", err2)
}

// A signal ends `ferry ready` with the signal's own error and exit code: the command names no agent that it still waits for.
func TestReadyInterrupted(t *testing.T) {
	server, conn := startManager(t)
	for name, answer := range map[string][]byte{"no answer": nil, "an agent is not ready": []byte(`{"v":1,"agents":{"ALPHA":false}}`)} {
		ctx, end := context.WithCancelCause(t.Context())
		stop, err := conn.Subscribe(wire.AllAsks(wire.Up), func(m qmgr.Message) {
			if answer != nil {
				conn.Answer(wire.LastToken(m.Subject), m.Reply, answer)
			}
			end(signalError{syscall.SIGTERM})
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := runReady(ctx, server, time.Minute)
		stop()
		if code := exitCode(err, io.Discard); code != codeTerminated || strings.Contains(err.Error(), "agent") {
			t.Errorf("%s: exit code %d, %v %s", name, code, err, out)
		}
	}
}

// A message that was put without an answer may be in the queue. One that was refused is not.
func TestPutWithoutAnAnswer(t *testing.T) {
	for _, c := range []struct {
		err    error
		unsure bool
	}{
		{transfer.Errorf(transfer.KindTimeout, "coordination has not answered within 5s"), true},
		{transfer.Errorf(transfer.KindNoManager, "the connection is lost"), true},
		{transfer.Errorf(transfer.KindUnreachable, "coordination does not answer"), false},
		{transfer.Errorf(transfer.KindNoSpace, "the queue Q is full"), false},
		{transfer.Errorf(transfer.KindDenied, "bob may not operate"), false},
	} {
		err := unanswered("Q", c.err)
		unsure := strings.Contains(err.Error(), "may have been stored")
		if unsure != c.unsure || unsure && transfer.KindOf(err).Code() != transfer.CodeNoManager || !errors.Is(err, c.err) {
			t.Errorf("%v becomes %v, code %d", c.err, err, transfer.KindOf(err).Code())
		}
	}
	if err := unanswered("Q", nil); err != nil {
		t.Error(err)
	}
}
