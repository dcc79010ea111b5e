package qm

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

	"ferry/internal/cli/session"
	"ferry/internal/node/queuemanager"
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
	c := NewReady()
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
	desk, err := queuemanager.OpenResponder(conn, server.Channels(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := ""
	for limit := 500 * time.Millisecond; limit < time.Minute; limit *= 2 { // a busy host may not be connected in time
		if out, err = runReady(t.Context(), server, limit); transfer.KindOf(err) != transfer.KindNoManager {
			break
		}
	}
	if transfer.KindOf(err) != transfer.KindTimeout || !strings.Contains(err.Error(), "coordination") {
		t.Errorf("before coordination has started: %v %s", err, out)
	}
	desk.Begin()
	if out, err := runReady(t.Context(), server, time.Minute); err != nil || !strings.Contains(out, "ready, 0 agents in its process") {
		t.Errorf("afterwards: %v %s", err, out)
	}
}

// `ferry ready` says that coordination is degraded, and why. The queue manager and its agents are ready all the same: exit code 0.
func TestReadySaysThatCoordinationIsDegraded(t *testing.T) {
	server, conn := startManager(t)
	var refused error // nil: every user is an administrator
	desk, err := queuemanager.OpenResponder(conn, server.Channels(), func() (*trust.Document, error) { return nil, refused }, nil)
	if err != nil {
		t.Fatal(err)
	}
	desk.Begin()
	desk.Tell(errors.New("records: record 17 is another one"))
	out, err := runReady(t.Context(), server, time.Minute)
	if err != nil || !strings.Contains(out, "ready, 0 agents in its process; coordination is degraded: records: record 17 is another one") {
		t.Errorf("%v %s", err, out)
	}
	refused = errors.New("this user is no administrator")
	if out, err := runReady(t.Context(), server, time.Minute); err != nil || !strings.Contains(out, "; coordination is degraded: it cannot use its files; ") || strings.Contains(out, "record 17") {
		t.Errorf("without the authority admin: %v %s", err, out)
	}
	desk.Tell(nil)
	if out, err := runReady(t.Context(), server, time.Minute); err != nil || strings.Contains(out, "degraded") {
		t.Errorf("once it runs: %v %s", err, out)
	}
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
			end(session.SignalError{Sig: syscall.SIGTERM})
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := runReady(ctx, server, time.Minute)
		stop()
		if code := session.ExitCode(err, io.Discard); code != session.CodeTerminated || strings.Contains(err.Error(), "agent") {
			t.Errorf("%s: exit code %d, %v %s", name, code, err, out)
		}
	}
}
