package queuemanager

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/server"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// IssueFrom issues the identity of an external server from the authority in a directory.
func IssueFrom(ctx context.Context, from, path, name string, log *slog.Logger) (i *identity.Identity, claims roles.Claims, err error) {
	h, err := openHome(ctx, from, log)
	if transfer.KindOf(err) == transfer.KindAlive {
		return nil, claims, transfer.Errorf(transfer.KindAlive, "the authority in %s runs", from).WithHint("leave out --dir and give --network, or stop it for a moment")
	}
	if err != nil {
		return nil, claims, err
	}
	defer h.stop()
	dir, err := keyfile.Make(path)
	if err != nil {
		return nil, claims, err
	}
	want := identity.Name{Network: h.Network(), Role: identity.Manager, Name: name}
	if err := want.Check(); err != nil {
		return nil, claims, err
	}
	if i, err = h.IssueTo(dir, want, roles.Manager, ""); err != nil {
		return nil, claims, err
	}
	claims, err = h.Claims()
	return i, claims, err
}

// An abroad serves an external server for an authority: it sends claims and does errands.
type abroad struct {
	h   *home
	url string

	mu    sync.Mutex
	last  *roles.Claims // the last claims sent to the server
	facts qmgr.Facts
}

// errandsName is the name of the identity that does errands for an external server.
const errandsName = "errands"

// admit sends claims to the server, unless it has sent the same ones before.
func (a *abroad) admit(c roles.Claims) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last != nil && server.SameClaims(*a.last, c) {
		return nil
	}
	jwt, seed, err := a.h.SystemUser(time.Hour)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(a.h.ctx, admitWait)
	defer cancel()
	f, err := qmgr.AdmitExternal(ctx, a.url, a.h.self, errands.SystemUser{JWT: jwt, Seed: seed}, c)
	if err != nil {
		return err
	}
	a.last, a.facts = &c, f
	return nil
}

func (a *abroad) known() qmgr.Facts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.facts
}

// open connects to the external server and sends it the claims. Until the authority stops, it does the errands that an
// embedded queue manager does itself.
func (a *abroad) open() error {
	i, err := a.h.issue(filepath.Join(a.h.dir, identitiesDir, errandsName), identity.Manager, errandsName, roles.Manager)
	if err != nil {
		return err
	}
	conn, err := qmgr.Connect(a.h.ctx, qmgr.ConnConfig{URL: a.url, Name: "ferry errands", Identity: i, Timeout: -1, Log: a.h.log})
	if err != nil {
		return err
	}
	claims, err := a.h.Claims()
	if err == nil {
		err = a.admit(claims)
	}
	var stop func()
	if err == nil {
		stop, err = qmgr.DoErrands(conn, a.known, (&queueRules{document: a.h.document}).may)
	}
	if err != nil {
		conn.Close()
		return err
	}
	a.h.tasks.Go(func() { <-a.h.ctx.Done(); stop(); conn.Close() })
	return nil
}
