package queuemanager

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// A token is given out once the authority listens for joiners. Where it cannot listen, the command that makes the token
// says so.
func TestTokenIsGivenOutWhenJoinersAreHeard(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	a, err := openLocalAuthority(t.Context(), t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer a.stop()
	a.enrol = taken.Addr().String()
	a.tasks.Go(a.serveJoiners)
	secret, err := a.NewToken(identity.Name{Network: a.Network(), Role: identity.Agent, Name: "ALPHA"}, roles.Agent, time.Hour, "")
	if err != nil {
		t.Fatal(err)
	}
	if line, err := a.token(secret); transfer.KindOf(err) != transfer.KindUnreachable {
		t.Errorf("the address is taken: %q, %v", line, err)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.token(secret); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", a.enrol)
	if err != nil {
		t.Fatalf("the authority does not listen: %v", err)
	}
	c.Close()
}
