package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// `ferry ready` waits for coordination of the same process, also where that has no agents.
func TestReadyWaitsForCoordination(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	log := slog.New(slog.DiscardHandler)
	server, err := qmgr.StartServer(t.Context(), qmgr.ServerConfig{Name: "QM", Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Shutdown()
	conn, err := qmgr.Connect(t.Context(), qmgr.ConnConfig{Server: server, Name: "ferry up", Self: wire.Up, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	desk, err := openDesk(conn, server.Channels(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	ready := func(timeout time.Duration) (string, error) {
		var out bytes.Buffer
		c := newReady()
		c.SetOut(&out)
		c.SetErr(&out)
		c.SetContext(t.Context())
		c.SetArgs([]string{"--timeout", timeout.String(), server.URL()})
		err := c.Execute()
		return out.String(), err
	}
	if out, err := ready(500 * time.Millisecond); transfer.KindOf(err) != transfer.KindTimeout || !strings.Contains(err.Error(), "coordination") {
		t.Errorf("before coordination has started: %v %s", err, out)
	}
	desk.begun.Store(true)
	if out, err := ready(time.Minute); err != nil || !strings.Contains(out, "ready, 0 agents") {
		t.Errorf("afterwards: %v %s", err, out)
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
