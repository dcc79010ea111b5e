package agent_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/client"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An agent notices by the owner's record of its name that its ledger is an older copy, and is
// DEGRADED, also in its next run.
func TestAnOlderLedgerIsNoticed(t *testing.T) {
	s, dir, older := newStage(t), t.TempDir(), t.TempDir()
	net := &client.Client{Conn: s.connect("ann"), Clock: clock.System, Who: transfer.Originator{User: "ann", Host: "box"}}
	cancel := func() { // which has an audit record
		t.Helper()
		if _, err := net.Cancel(s.ctx, client.Transfer{Source: "ALPHA", ID: transfer.NewID(time.Now())}); err != nil {
			t.Fatal(err)
		}
	}
	run := func(degraded bool, between func()) {
		t.Helper()
		a, said, err := s.start(dir)
		if err != nil {
			t.Fatal(err)
		}
		between()
		b, _, err := net.Ping(s.ctx, "ALPHA")
		if err != nil {
			t.Fatal(err)
		}
		if is := b.Status == wire.AgentDegraded && strings.Contains(b.Reason, "the ledger is an older copy"); is != degraded {
			t.Errorf("the agent is %s: %s\n%s", b.Status, b.Reason, said)
		}
		a.Stop()
	}
	run(false, cancel)
	if err := os.CopyFS(older, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	run(false, func() { cancel(); cancel() })
	run(false, func() {})
	had := numbered(t, dir)
	dir = older
	run(true, cancel)
	if n := numbered(t, dir); n <= had+1 { // the warning and the cancel
		t.Errorf("the last audit record of the copy has the number %d, and the others know %d of the ledger", n, had)
	}
	run(true, func() {})
}

// An agent sends no audit record before coordination's log was compared with its ledger. If the log has another record
// under the newest number, the ledger is an older copy that has gone on: it has another mark then.
func TestAnOlderLedgerThatHasGoneOn(t *testing.T) {
	s, dir := newStage(t), t.TempDir()
	net := &client.Client{Conn: s.connect("ann"), Clock: clock.System, Who: transfer.Originator{User: "ann", Host: "box"}}
	sent := make(chan struct{}, 100)
	hear := func(subject string, f func(qmgr.Message)) {
		t.Helper()
		stop, err := s.conn.Subscribe(subject, f)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	hear(wire.AllEvents, func(qmgr.Message) { sent <- struct{}{} })
	run := func(degraded bool, between func()) {
		t.Helper()
		a, said, err := s.start(dir)
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := net.Ping(s.ctx, "ALPHA")
		if err != nil {
			t.Fatal(err)
		}
		if is := b.Status == wire.AgentDegraded && strings.Contains(b.Reason, "the ledger is an older copy"); is != degraded {
			t.Errorf("the agent is %s: %s\n%s", b.Status, b.Reason, said)
		}
		between()
		a.Stop()
	}
	state := func() (mark, hash string, last uint64) {
		t.Helper()
		l, err := ledger.Open(dir, ledger.Options{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if mark, err = ledger.Mark(l); err == nil {
			err = l.View(func(tx *ledger.Tx) error {
				last = ledger.LastAuditNumber(tx)
				hash = audit.HashOf(ledger.AuditRecord(tx, last))
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		return mark, hash, last
	}

	run(false, func() {
		if _, err := net.Cancel(s.ctx, client.Transfer{Source: "ALPHA", ID: transfer.NewID(time.Now())}); err != nil {
			t.Fatal(err)
		}
	})
	if len(sent) > 0 {
		t.Error("a record was sent before the comparison")
	}
	before, hash, last := state()
	var answer atomic.Pointer[wire.Registered]
	answer.Store(&wire.Registered{Last: last, Hash: hash})
	hear(wire.AskSubject(wire.Coordination, "ALPHA"), func(m qmgr.Message) {
		if a, err := wire.DecodeAsk(m.Data); err == nil && a.Kind == wire.AskRegister {
			_ = s.conn.Publish(m.Reply, wire.Marshal(wire.Answer{V: wire.Version, Body: wire.Marshal(answer.Load())}))
		}
	})
	run(false, func() { <-sent })
	if now, _, _ := state(); now != before {
		t.Errorf("the mark was %s, and is %s", before, now)
	}
	answer.Store(&wire.Registered{Last: last, Hash: audit.HashOf([]byte("of another one"))})
	run(true, func() {})
	if now, _, n := state(); now == before || n <= last {
		t.Errorf("the mark was %s, and is %s; the last record has the number %d", before, now, n)
	}
}

// numbered is the number of the last audit record of the ledger in a directory.
func numbered(t *testing.T, dir string) (n uint64) {
	t.Helper()
	l, err := ledger.Open(dir, ledger.Options{Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		err = l.View(func(tx *ledger.Tx) error { n = ledger.LastAuditNumber(tx); return nil })
	}
	if err == nil {
		err = l.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A transfer that coordination has on record and that the ledger does not know ends. Its request does not run when it
// comes again, and a cancel gets the answer that it is over. The statement of an agent that claims to be the
// destination makes no record, and that of a user neither.
func TestATransferThatTheLedgerDoesNotKnow(t *testing.T) {
	s := newStage(t)
	_, said, err := s.start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ask := func(as string, b wire.Begun) (*transfer.Progress, error) {
		t.Helper()
		conn, err := qmgr.Connect(s.ctx, qmgr.ConnConfig{Timeout: 90 * time.Second, URL: s.server.URL(), Self: as, Name: as, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		data, err := conn.Request(s.ctx, wire.AskAgent("ALPHA", conn.Self()), wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskBegun, ID: b.Transfer, Body: wire.Marshal(b)}), 90*time.Second)
		if err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		ans, err := wire.DecodeAnswer(data)
		if err != nil {
			return nil, err
		}
		return ans.Progress, nil
	}
	net := &client.Client{Conn: s.connect("ann"), Clock: clock.System, Who: transfer.Originator{User: "ann", Host: "box"}}
	request := func(to transfer.AgentName) *transfer.Request {
		return &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Submitted: time.Now(), Originator: net.Who, Source: "ALPHA", Destination: to, Items: transfer.ItemsOf("a"), Dest: transfer.File("b")}
	}
	lost := func(p *transfer.Progress, err error, want transfer.State) {
		t.Helper()
		if err != nil || p == nil || p.State != want || p.Code != transfer.CodeNothing || p.Reason == nil || p.Reason.Kind != transfer.KindLost {
			t.Errorf("the transfer is %+v, %v", p, err)
		}
	}

	q := request("BETA")
	if _, err := ask("ann%40box", wire.Begun{Transfer: q.ID, Destination: "BETA"}); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("a user is answered %v", err)
	}
	for _, as := range []string{"BETA", "GAMMA", "PIPE-0123456789AB"} {
		p, err := ask(as, wire.Begun{Transfer: q.ID, Destination: "BETA", Principal: "ann", Counts: transfer.Counts{Items: 2, Files: 1, Bytes: 5}})
		if transfer.KindOf(err) != transfer.KindNotFound {
			t.Errorf("%s is answered %+v, %v", as, p, err)
		}
	}
	for range 2 {
		p, err := ask(wire.Coordination, wire.Begun{Transfer: q.ID, Destination: "BETA", Counts: transfer.Counts{Items: 2, Files: 1, Bytes: 5}})
		lost(p, err, transfer.Partial)
	}
	p, err := ask("BETA", wire.Begun{Transfer: q.ID})
	lost(p, err, transfer.Partial)
	if p, err := ask("GAMMA", wire.Begun{Transfer: q.ID}); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("another agent hears of it %+v, %v", p, err)
	}
	p, err = net.Submit(s.ctx, q, nil)
	lost(p, err, transfer.Partial)
	if _, err := net.Cancel(s.ctx, client.Transfer{Source: "ALPHA", ID: q.ID}); transfer.KindOf(err) != transfer.KindEnding || !strings.Contains(err.Error(), "already over: partial") {
		t.Errorf("a cancel is answered %v", err)
	}

	q = request("BETA") // that has not come, and is asked about
	if _, err := ask("BETA", wire.Begun{Transfer: q.ID}); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("BETA is answered %v", err)
	}
	ctx, cancel := context.WithTimeout(s.ctx, 90*time.Second)
	defer cancel()
	if p, err := net.Submit(ctx, q, nil); err != nil || p.State.Final() {
		t.Errorf("a request is %+v, %v", p, err)
	}

	q = request("BETA") // that is cancelled before it comes
	if p, err = net.Cancel(s.ctx, client.Transfer{Source: "ALPHA", ID: q.ID}); err != nil || p.State != transfer.Cancelled {
		t.Errorf("a cancel is answered %+v, %v", p, err)
	}
	for _, as := range []string{"BETA", wire.Coordination} {
		if p, err = ask(as, wire.Begun{Transfer: q.ID, Destination: "BETA"}); err != nil || p.State != transfer.Cancelled {
			t.Errorf("%s is answered %+v, %v", as, p, err)
		}
	}
}
