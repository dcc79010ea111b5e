package queuemanager

import (
	"errors"
	"log/slog"
	"net"
	"sync"
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

// A failing listener accepts no connection after its failure.
type failing struct {
	net.Listener
	failed chan struct{}
	once   *sync.Once
}

func (f failing) Accept() (net.Conn, error) {
	if c, err := f.Listener.Accept(); err == nil {
		c.Close()
	}
	f.once.Do(func() { close(f.failed) })
	return nil, errors.New("the listener has failed")
}

// The authority listens again after an error of its listener, and gives out tokens after that.
func TestJoinersAreHeardAfterAnErrorOfTheListener(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	a, err := openLocalAuthority(t.Context(), t.TempDir(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer a.stop()
	addresses := make(chan string, 100)
	failed, once := make(chan struct{}), new(sync.Once)
	a.enrol = "127.0.0.1:0"
	a.open = func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		if err != nil {
			return nil, err
		}
		addresses <- l.Addr().String()
		select {
		case <-failed:
			return l, nil
		default:
			return failing{l, failed, once}, nil
		}
	}
	a.tasks.Go(a.serveJoiners)
	secret, err := a.NewToken(identity.Name{Network: a.Network(), Role: identity.Agent, Name: "ALPHA"}, roles.Agent, time.Hour, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.token(secret); err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("tcp", <-addresses); err == nil {
		c.Close()
	}
	<-failed
	var again string
	select {
	case again = <-addresses:
	case <-time.After(time.Minute):
		t.Fatal("the authority does not listen again")
	}
	if _, err := a.token(secret); err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", again)
	if err != nil {
		t.Fatalf("the authority does not listen: %v", err)
	}
	c.Close()
}
