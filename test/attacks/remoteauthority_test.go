package attacks

import (
	"errors"
	"sync"
	"testing"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/server"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// TestOnlyTheAuthorityTellsAQueueManagerWhomToLetIn sends signed claims to a queue manager with its authority
// elsewhere. It takes them from the authority alone, only the newest ones, and only after they are kept.
func TestOnlyTheAuthorityTellsAQueueManagerWhomToLetIn(t *testing.T) {
	n := &network{Authority: authoritytest.New(t), t: t, ctx: t.Context()}
	n.qm = n.identity(identity.Manager, "QM", roles.Manager)
	first, err := n.Claims()
	must(t, err)
	var mu sync.Mutex
	var kept []roles.Claims
	full := false
	n.server, err = server.Start(n.ctx, server.Config{Dir: t.TempDir(), Listen: "127.0.0.1:0",
		Guard: &server.Guard{Identity: n.qm, Claims: first, Keep: func(c roles.Claims) error {
			mu.Lock()
			defer mu.Unlock()
			if full {
				return errors.New("the disk is full")
			}
			kept = append(kept, c)
			return nil
		}}})
	must(t, err)
	t.Cleanup(n.server.Shutdown)
	all := func() int { mu.Lock(); defer mu.Unlock(); return len(kept) }

	authority, err := n.connect(n.identity(identity.Authority, "", roles.Authority))
	must(t, err)
	alpha, bob := n.identity(identity.Agent, "ALPHA", roles.Agent), n.identity(identity.User, "bob", roles.Operator)
	must(t, n.Revoke(alpha.Name(), ""))
	second, err := n.Claims()
	must(t, err)
	user, err := n.connect(bob)
	must(t, err)
	if err := qmgr.Admit(n.ctx, user, second); transfer.KindOf(err) != transfer.KindDenied || all() > 0 {
		t.Errorf("a user tells it whom to let in: %v", err)
	}
	mu.Lock()
	full = true
	mu.Unlock()
	if err := qmgr.Admit(n.ctx, authority, second); transfer.KindOf(err) != transfer.KindUnwritable {
		t.Errorf("what cannot be kept is taken: %v", err)
	}
	mu.Lock()
	full = false
	mu.Unlock()
	must(t, qmgr.Admit(n.ctx, authority, second))
	must(t, qmgr.Admit(n.ctx, authority, second)) // a repetition of the present claims
	if all() != 1 || kept[0].Account != second.Account || kept[0].Operator != first.Operator {
		t.Errorf("%d claims are kept", all())
	}
	if _, err := n.connect(alpha); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("who is revoked is let in: %v", err)
	}
	if err := qmgr.Admit(n.ctx, authority, first); transfer.KindOf(err) != transfer.KindConflict || all() != 1 {
		t.Errorf("older claims are taken: %v", err)
	}
	other, err := authoritytest.New(t).Claims()
	must(t, err)
	if err := qmgr.Admit(n.ctx, authority, other); transfer.KindOf(err) != transfer.KindConflict || all() != 1 {
		t.Errorf("another network's claims are taken: %v", err)
	}
}
