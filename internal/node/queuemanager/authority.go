package queuemanager

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"ferry/internal/node/member"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// An Authority is the settings of an authority in a process of its own.
type Authority struct {
	Dir, Network, Enrol string
	QM                  string // name of the first queue manager; a token for it is written
	External            bool   // the queue manager is a server of NATS that is not Ferry's
}

// Run runs the authority until ctx ends. It announces on out that it is ready.
func (f *Authority) Run(ctx context.Context, out io.Writer, log *slog.Logger) error {
	at := qmgr.Addresses(f.Network)
	if len(at) == 0 {
		return transfer.Errorf(transfer.KindUsage, "--network %q names no queue manager that asks for identities", f.Network).WithHint("write it as nats://HOST:PORT")
	}
	host, _, err := net.SplitHostPort(at[0])
	if err != nil {
		return err
	}
	if !member.Loopback(host) {
		host = ""
	}
	h, err := openLocalAuthority(ctx, f.Dir, log)
	if err != nil {
		return err
	}
	defer h.stop()
	if h.enrol, err = nextPort(f.Enrol, net.JoinHostPort(host, "0"), f.Network); err != nil {
		return err
	}
	if h.store != nil {
		if err := h.store.SetNetwork(h.Network(), at...); err != nil {
			return err
		}
	}
	h.tasks.Go(h.serveJoiners)
	if !f.External {
		err = h.first(out, f)
	}
	if err != nil {
		return err
	}
	w := &networkLink{}
	if f.External {
		a := &externalServer{authority: h, url: f.Network}
		if err := a.open(); err != nil {
			return err
		}
		w.admit = a.admit
	}

	conn, err := qmgr.Connect(ctx, qmgr.ConnConfig{URL: f.Network, Name: "ferry authority", Identity: h.self, Timeout: -1, Log: log,
		OnConnect: func() {
			select {
			case h.again <- struct{}{}:
			default:
			}
		}})
	if err != nil {
		return err
	}
	w.conn = conn
	if !f.External {
		w.admit = func(c roles.Claims) error {
			ctx, cancel := context.WithTimeout(h.ctx, admitWait)
			defer cancel()
			return qmgr.Admit(ctx, conn, c)
		}
	}
	if err := h.serve(w); err != nil {
		return err
	}
	fmt.Fprintf(out, "authority of the network %s ready\n", h.Network())
	<-ctx.Done()
	return nil
}

const (
	admitWait  = 10 * time.Second
	firstToken = "first-qm.token"
	firstFor   = 24 * time.Hour
)

// first writes a token for the first queue manager of a network that has none.
func (a *localAuthority) first(out io.Writer, f *Authority) error {
	for _, i := range a.Identities() {
		if i.Name.Role == identity.Manager && !i.Revoked {
			return nil
		}
	}
	name := identity.Name{Network: a.Network(), Role: identity.Manager, Name: f.QM}
	path := filepath.Join(f.Dir, firstToken)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := a.DropToken(name.String(), ""); err != nil { // of a start before
		return err
	}
	secret, err := a.NewToken(name, roles.Manager, firstFor, "")
	if err != nil {
		return err
	}
	line, err := a.token(secret)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(line+"\n"), 0o600); err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the token for the first queue manager cannot be written: %w", err)
	}
	fmt.Fprintf(out, "the network %s has no queue manager yet; %s has a token for one, good for %s. Start it with:\n  ferry up --authority none --name %s --join %s\n",
		a.Network(), path, firstFor, f.QM, path)
	return nil
}
