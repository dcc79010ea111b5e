package server

import (
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/cluster"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A member that is gone for good is removed from its cluster. The others, absent ones among them, keep all stored
// messages, continue, and forget it. One under another name takes its place, and queues have three replicas again. The
// removed one is not admitted any more.
func TestAMemberIsRemoved(t *testing.T) {
	t.Parallel()
	c := newTrio(t, authoritytest.New(t))
	c.start(0, 1, 2)
	c.whole(0, 1, 2)
	conn := connect(t, qmgr.ConnConfig{URL: c.urls(0), Identity: c.is[0], Timeout: electing})
	replicated(t, conn)
	enqueueSoon(t, conn, "ferry.command.A.me", "with three")
	enrolment := connect(t, qmgr.ConnConfig{URL: c.urls(0), Identity: authoritytest.Identity(t, c.a, identity.Authority, "", roles.Authority), Timeout: electing})
	remove := func(name string) error {
		jwt, seed, err := c.a.SystemUser(time.Minute)
		must(t, err)
		return qmgr.RemoveMember(qmgrtest.Context(t), enrolment, name, errands.SystemUser{JWT: jwt, Seed: seed})
	}
	qmgrtest.WantKind(t, remove("QM3"), transfer.KindAlive, "stop it first")
	qmgrtest.WantKind(t, remove("QM1"), transfer.KindAlive)
	qmgrtest.WantKind(t, remove("QM7"), transfer.KindNotFound, "QM1, QM2, QM3")

	c.up[1].Shutdown()
	c.up[2].Shutdown()
	until(t, "one alone sees that it is", func() bool {
		now := c.up[0].member.Now.Load()
		return !now.Quorum && len(now.Here) == 0 // an election ends the quorum, too, while the third one is still there
	})
	qmgrtest.WantKind(t, remove("QM3"), transfer.KindNoManager, "most members")
	c.start(1)
	c.whole(0, 1)
	var err error
	until(t, "every queue is led", func() bool { err = remove("QM3"); return transfer.KindOf(err) != transfer.KindNoManager })
	must(t, err)
	qmgrtest.WantKind(t, remove("QM3"), transfer.KindNotFound, "was removed")
	for _, n := range []int{0, 1} {
		until(t, "it is forgotten", func() bool {
			all, err := c.up[n].Members(qmgrtest.Context(t))
			return err == nil && len(all) == 2 && !strings.Contains(c.up[n].Passing(), "QM3")
		})
	}
	enqueueSoon(t, conn, "ferry.command.A.me", "with two")

	c.start(2) // an operator without news of the removal may start it
	for _, n := range []int{0, 1} {
		if err := c.up[n].member.Admits("QM3"); err == nil || !strings.Contains(err.Error(), "was removed") {
			t.Errorf("the removed one is let in: %v", err)
		}
	}
	cfg := c.config(2)
	cfg.Name, cfg.Dir, cfg.Listen = "QM4", t.TempDir(), qmgrtest.FreePort(t)
	cfg.Cluster.Listen = qmgrtest.FreePort(t)
	cfg.Guard.Identity = authoritytest.Identity(t, c.a, identity.Manager, "QM4", roles.Manager)
	four, err := Start(qmgrtest.Context(t), cfg)
	must(t, err)
	t.Cleanup(four.Shutdown)
	got, _ := consume(t, conn, commands)
	for _, want := range []string{"with three", "with two"} {
		if m := qmgrtest.Receive(t, "a command", got); m != want {
			t.Errorf("read %q, not %q", m, want)
		}
	}
	replicated(t, conn, commands.Durable)
	until(t, "nothing is wrong", func() bool { return c.up[0].Passing() == "" && c.up[1].Passing() == "" && four.Passing() == "" })
	for _, s := range []*Server{c.up[0], c.up[1], four} {
		if here := s.member.Now.Load().Here; slices.Contains(here, "QM3") {
			t.Errorf("connected to %s are %v", s.Name(), here)
		}
	}
	c.up[0].Shutdown() // and any one may go
	other := connect(t, qmgr.ConnConfig{URL: c.urls(1), Identity: c.is[1], Timeout: electing})
	enqueueSoon(t, other, "ferry.command.A.me", "without another")
}

// Only the authority has a member removed.
func TestWhoRemovesMembers(t *testing.T) {
	e := errands.Errand{Op: errands.OpRemove}
	for _, who := range []string{"ALPHA", "bob", wire.Coordination, wire.Manager} {
		if e.Allowed(who) {
			t.Errorf("%s removes members", who)
		}
	}
}

// cluster.PeerID returns the name that servers use for each other.
func TestPeerID(t *testing.T) {
	s := start(t, t.TempDir(), "")
	if got, want := cluster.PeerID(s.Name()), s.NS.Node(); got != want {
		t.Errorf("%s is %q, not %q", s.Name(), got, want)
	}
}
