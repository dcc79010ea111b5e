package server

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/own"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/authority"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// guarded runs a queue manager in a directory, which admits the identities of an authority.
func guarded(t *testing.T, a *authority.Authority, dir string) *Server {
	t.Helper()
	claims, err := a.Claims()
	must(t, err)
	s, err := Start(qmgrtest.Context(t), Config{Dir: dir, Listen: qmgrtest.FreePort(t), Log: qmgrtest.Log(t),
		Guard: &Guard{Identity: authoritytest.Identity(t, a, identity.Manager, "QM", roles.Manager), Claims: claims}})
	must(t, err)
	t.Cleanup(s.Shutdown)
	return s
}

// trusted connects with an identity that may read every queue.
func trusted(t *testing.T, s *Server) *qmgr.Conn {
	t.Helper()
	return connect(t, qmgr.ConnConfig{URL: s.URL(), Identity: s.cfg.Guard.Identity})
}

var allCommands = []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}

// A queue manager that gets a guard delivers the messages that it stored without one, and has not lost them after a
// restart.
func TestAGuardTakesOverTheQueues(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a, dir := authoritytest.New(t), filled(t, false)
	s := guarded(t, a, dir)
	if d := s.Degraded(); d != "" {
		t.Errorf("degraded: %s", d)
	}
	s.Shutdown()
	s = guarded(t, a, dir)
	if d := s.Degraded(); d != "" {
		t.Errorf("degraded after a restart: %s", d)
	}
	c := trusted(t, s)
	if left := commandsLeft(t, c); !slices.Equal(left, allCommands) {
		t.Errorf("the commands are %v", left)
	}
	must(t, s.Reopen())
	enqueue(t, c, "ferry.command.A.me", "one more")
	for got, _ := consume(t, c, commands); qmgrtest.Receive(t, "a command after the store was opened anew", got) != "one more"; {
	}
}

// Damage in the store of a queue manager with a guard is reported, and the readable commands are kept.
func TestADamagedStoreBehindAGuard(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a, dir := authoritytest.New(t), filled(t, false)
	s := guarded(t, a, dir)
	s.Shutdown()
	store := filepath.Join(dir, server.JetStreamStoreDir)
	must(t, os.Rename(filepath.Join(store, s.AccountName), filepath.Join(store, server.DEFAULT_GLOBAL_ACCOUNT)))
	flip(t, dir, "command 3")
	must(t, os.Rename(filepath.Join(store, server.DEFAULT_GLOBAL_ACCOUNT), filepath.Join(store, s.AccountName)))

	s = guarded(t, a, dir)
	if d := s.Degraded(); !strings.Contains(d, "1 of its messages cannot be read") {
		t.Errorf("degraded: %s", d)
	}
	if left := commandsLeft(t, trusted(t, s)); !slices.Equal(left, slices.Concat(allCommands[:3], allCommands[4:])) {
		t.Errorf("the commands are %v", left)
	}
}

// The queue manager answers on after its own connection was ended, as the server ends each one
// when its JWT ends.
func TestTheQueueManagerComesBackToItself(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	s := guarded(t, a, t.TempDir())
	c := connect(t, qmgr.ConnConfig{URL: s.URL(), Identity: authoritytest.Identity(t, a, identity.Agent, "ALPHA", roles.Agent)})
	z, err := s.NS.Connz(nil)
	must(t, err)
	ended := 0
	for _, x := range z.Conns {
		if x.Name == own.Name {
			must(t, s.NS.DisconnectClientByID(x.Cid))
			ended++
		}
	}
	if ended != 2 { // one for control, one for data
		t.Fatalf("%d connections of the queue manager's own are ended", ended)
	}
	answers := func() bool {
		_, err := c.ReaderPosition(qmgrtest.Context(t), streams.Commands("ALPHA"))
		return transfer.KindOf(err) == transfer.KindNotFound
	}
	qmgrtest.Eventually(t, "it answers again", answers)
	for range 2 { // the library gives it up
		before := s.answers.NATS()
		before.Close()
		qmgrtest.Eventually(t, "it is made anew", func() bool { return s.answers.NATS() != before })
		qmgrtest.Eventually(t, "it answers", answers)
		qmgrtest.Eventually(t, "it hears", func() bool {
			must(t, trusted(t, s).Publish(wire.ManagerSubject("TWO"), []byte(`{"v":1,"name":"TWO","domain":"TWO"}`)))
			s.forwarder.Announcer.Mu.Lock()
			defer s.forwarder.Announcer.Mu.Unlock()
			defer delete(s.forwarder.Announcer.Others, "TWO")
			_, heard := s.forwarder.Announcer.Others["TWO"]
			return heard
		})
	}
}

// Claims that are signed again without a change have no effect.
func TestTheSameClaimsChangeNothing(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	s := guarded(t, a, t.TempDir())
	admit := func() (changed bool) {
		t.Helper()
		claims, err := a.Claims()
		must(t, err)
		before := s.account.Load()
		must(t, s.Admit(claims))
		return s.account.Load() != before
	}
	if admit() {
		t.Error("claims that say the same are taken as new")
	}
	gone := authoritytest.Identity(t, a, identity.Agent, "ALPHA", roles.Agent)
	must(t, a.Revoke(gone.Name(), ""))
	if !admit() || admit() {
		t.Error("a revocation is not taken, or is taken twice")
	}
}

// No message is stored on a subject that is longer or deeper than those of stored delivery: all of them are listed for
// their destinations.
func TestWhatIsStoredHasShortSubjects(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	s := guarded(t, a, t.TempDir())
	c := connect(t, qmgr.ConnConfig{URL: s.URL(), Self: "ALPHA", Identity: authoritytest.Identity(t, a, identity.Agent, "ALPHA", roles.Agent)})
	at := qmgr.StoreOf(c, "ALPHA")
	_, err := at.OutgoingAt(qmgrtest.Context(t), "")
	must(t, err)
	good := wire.StoredEpoch{From: "ALPHA", To: "BETA", ID: transfer.ID{1, 6: 0x70, 8: 0x80}, Epoch: 1}
	for _, subject := range []string{"ferry.store.BETA.ALPHA.x." + strings.Repeat("1", 300), "ferry.store.BETA.ALPHA.x.1.2"} {
		at.Put("", subject, []byte("x"))
	}
	must(t, at.Put("", good.Subject(), []byte("x")).Wait(qmgrtest.Context(t)))
	st, err := s.answers.JS().Stream(qmgrtest.Context(t), string(streams.StreamStore))
	must(t, err)
	if n := st.CachedInfo().State.NumSubjects; n != 1 {
		t.Errorf("something is stored on %d subjects", n)
	}
}

// However many messages there are, the server lists their subjects in a second or two.
func TestTheStoreHasNotTooManyMessages(t *testing.T) {
	for most, want := range map[int64]int64{streams.MinMaxStored: streams.StoreMessagesMin, streams.DefaultMaxStored: 57344, 1 << 40: streams.StoreMessagesMax} {
		if got := streams.StoreConfig(most).MaxMsgs; got != want {
			t.Errorf("a store of %d bytes has %d messages", most, got)
		}
	}
}
