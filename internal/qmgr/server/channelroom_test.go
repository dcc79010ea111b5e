package server

import (
	"crypto/rand"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/forward"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/quota"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// large is the size of a message's body that is too large for a charged member.
const large = 64 << 10

// charge charges a member for a stored message to BETA: all but 32 KiB of its share.
func charge(t *testing.T, s *Server, member, via string) {
	t.Helper()
	st := s.limits.stocks[wire.ClassCommand]
	must(t, st.Admit(quota.Message{Subject: "ferry.command.BETA." + member, Member: member, Destination: "BETA", Via: via, Size: 64<<20 - large/2}))
	s.limits.look(st)
	s.limits.look(st)
}

// The requests that a queue manager forwards are charged to their author and to that queue manager. Messages of an
// author without room are held, and those of others behind them are stored.
func TestABatchIsCharged(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	s := linked(t, a, "ONE")
	c := trusted(t, s)
	ask := func(from string, size int, authors ...string) forward.BatchResult {
		t.Helper()
		b := forward.Batch{V: 1}
		for _, name := range authors {
			b.Messages = append(b.Messages, forward.Forwarded{Subject: "ferry.command.BETA." + name, Data: make([]byte, size)})
			b.Proofs = append(b.Proofs, placedAt(t, authoritytest.Identity(t, a, identity.User, name, roles.User), from, time.Now()))
		}
		return handOn(t, c, from, b)
	}
	kind := func(r forward.BatchResult) transfer.Kind {
		if r.Error == nil {
			return transfer.KindNone
		}
		return r.Error.Kind
	}
	if r := ask("TWO", 1, "bob", "carol", "dave", "frank"); r.Error != nil || r.Stored != 4 {
		t.Fatalf("a batch is refused: %+v", r)
	}
	charge(t, s, "bob", "TWO")
	if r := ask("TWO", large, "bob", "alice", "bob"); r.Stored != 1 || !slices.Equal(r.Held, []int{0, 2}) || kind(r) != transfer.KindNoSpace {
		t.Errorf("bob has no room, and alice has: %+v", r)
	}
	for _, member := range []string{"carol", "dave", "frank"} {
		charge(t, s, member, "TWO")
	}
	if r := ask("TWO", large, "alice"); r.Stored != 0 || kind(r) != transfer.KindNoSpace {
		t.Errorf("TWO has handed on more than its share: %+v", r)
	}
	if r := ask("THREE", large, "grace"); r.Error != nil || r.Stored != 1 {
		t.Errorf("THREE has no room: %+v", r)
	}
}

// A queue manager refuses requests that another one forwards for an agent that is not enrolled.
func TestABatchIsForEnrolledAgents(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	claims, err := a.Claims()
	must(t, err)
	s, err := Start(qmgrtest.Context(t), Config{Name: "ONE", Dir: t.TempDir(), Listen: "127.0.0.1:0", ChannelListen: "127.0.0.1:0", Log: qmgrtest.Log(t),
		Guard: &Guard{Identity: authoritytest.Identity(t, a, identity.Manager, "ONE", roles.Manager), Claims: claims, Enrolled: func(token string) bool { return token == "BETA" }}})
	must(t, err)
	t.Cleanup(s.Shutdown)
	b := forward.Batch{V: 1, Messages: []forward.Forwarded{{Subject: "ferry.command.NOSUCH.bob"}, {Subject: "ferry.command.BETA.bob"}},
		Proofs: []json.RawMessage{placedAt(t, authoritytest.Identity(t, a, identity.User, "bob", roles.User), "TWO", time.Now())}}
	if r := handOn(t, trusted(t, s), "TWO", b); r.Stored != 1 || !slices.Equal(r.Held, []int{0}) || r.Error.Kind != transfer.KindUnknownAgent {
		t.Errorf("a request for an unknown agent: %+v", r)
	}
}

// Requests of a user without room at the other queue manager wait where they are stored. Those of another user pass, and later
// all have come in their order.
func TestAnAuthorWithoutRoomHoldsUpNoOther(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	one := linked(t, a, "ONE")
	two := linked(t, a, "TWO", to(one))
	running(t, two)
	beta := as(t, a, two, "BETA")
	user := func(name string) *qmgr.Conn {
		return connect(t, qmgr.ConnConfig{URL: one.URL(), Identity: authoritytest.Identity(t, a, identity.User, name, roles.User)})
	}
	alice, bob := user("alice"), user("bob")
	enqueue(t, alice, "ferry.command.BETA.alice", "first")
	qmgrtest.Eventually(t, "a request is handed on", func() bool { return stored(t, two, streams.StreamCommand) == 1 })
	charge(t, two, "alice", "ONE")
	noise := make([]byte, large) // does not shrink
	rand.Read(noise)
	second, third := "second"+string(noise), "third"+string(noise)
	enqueue(t, alice, "ferry.command.BETA.alice", second)
	enqueue(t, alice, "ferry.command.BETA.alice", third)
	enqueue(t, bob, "ferry.command.BETA.bob", "bob's")
	qmgrtest.Eventually(t, "the request of another user is handed on", func() bool { return stored(t, two, streams.StreamCommand) == 2 })
	qmgrtest.Eventually(t, "two requests wait for room", func() bool { return stored(t, one, streams.StreamCommand) == 2 })
	got, _ := consume(t, beta, streams.Commands("BETA"))
	for _, want := range []string{"first", "bob's", second, third} {
		if m := qmgrtest.Receive(t, "the request "+want[:5], got); m != want {
			t.Errorf("%.10s comes, and not %.10s", m, want)
		}
	}
	qmgrtest.Eventually(t, "no request waits", func() bool { return stored(t, one, streams.StreamCommand)+stored(t, two, streams.StreamCommand) == 0 })
}
