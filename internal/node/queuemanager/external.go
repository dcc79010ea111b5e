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
	h, err := openLocalAuthority(ctx, from, log)
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

// An externalServer serves an external server for an authority: it sends claims and does errands.
type externalServer struct {
	authority *localAuthority
	url       string

	mu    sync.Mutex
	last  *roles.Claims // the last claims sent to the server
	facts qmgr.Facts
}

// errandsName is the name of the identity that does errands for an external server.
const errandsName = "errands"

// admit sends claims to the server, unless it has sent the same ones before.
func (s *externalServer) admit(c roles.Claims) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last != nil && server.SameClaims(*s.last, c) {
		return nil
	}
	jwt, seed, err := s.authority.SystemUser(time.Hour)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.authority.ctx, admitWait)
	defer cancel()
	f, err := qmgr.AdmitExternal(ctx, s.url, s.authority.self, errands.SystemUser{JWT: jwt, Seed: seed}, c)
	if err != nil {
		return err
	}
	s.last, s.facts = &c, f
	return nil
}

func (s *externalServer) known() qmgr.Facts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.facts
}

// open connects to the external server and sends it the claims. Until the authority stops, it does the errands that an
// embedded queue manager does itself.
func (s *externalServer) open() error {
	i, err := s.authority.issue(filepath.Join(s.authority.dir, identitiesDir, errandsName), identity.Manager, errandsName, roles.Manager)
	if err != nil {
		return err
	}
	conn, err := qmgr.Connect(s.authority.ctx, qmgr.ConnConfig{URL: s.url, Name: "ferry errands", Identity: i, Timeout: -1, Log: s.authority.log})
	if err != nil {
		return err
	}
	claims, err := s.authority.Claims()
	if err == nil {
		err = s.admit(claims)
	}
	var stop func()
	if err == nil {
		stop, err = qmgr.DoErrands(conn, s.known, (&queueRules{document: s.authority.document}).may)
	}
	if err != nil {
		conn.Close()
		return err
	}
	s.authority.tasks.Go(func() { <-s.authority.ctx.Done(); stop(); conn.Close() })
	return nil
}
