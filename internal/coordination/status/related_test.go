package status_test

import (
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/audit"
	"ferry/internal/coordination/status"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A transfer that was repeated names the repetition, and is not open any more. A repetition that was refused does not
// count, and a cancelled one leaves the transfer open.
func TestRetriedAs(t *testing.T) {
	p := status.New(clock.System)
	id := func(n byte) transfer.ID { return transfer.ID{5: n, 6: 0x70, 8: 0x80, 15: n} }
	end := func(n, of byte, event audit.Event, state transfer.State) {
		r := audit.Record{Agent: "ALPHA", Role: audit.RoleSource, Source: "ALPHA", Destination: "BETA", Transfer: id(n), Time: time.Now(), Principal: "ann"}
		first := r
		first.Event, first.Request = audit.Submitted, &audit.RequestFacts{}
		if of > 0 {
			first.Request.Parent = id(of)
		}
		p.Record(&first)
		r.Event, r.State = event, state
		p.Record(&r)
	}
	check := func(when string, retried transfer.ID, open, left int) {
		t.Helper()
		g, err := p.Transfer(id(1).String(), "")
		if err != nil || g.RetriedAs != retried {
			t.Errorf("%s: it was retried as %v, not %v; %v", when, g.RetriedAs, retried, err)
		}
		q := status.Query{Limit: 10, Filter: &wire.Filter{Failed: true, Open: true}}
		list, _ := p.Transfers(q)
		if sums := p.Sums(q); len(list) != open || int(sums.Transfers) != open || int(sums.Retried) != left {
			t.Errorf("%s: %d are open, not %d; the sums are %+v", when, len(list), open, sums)
		}
		q.Filter.Open = false
		if list, _ := p.Transfers(q); len(list) != open+left {
			t.Errorf("%s: of all there are %d, not %d", when, len(list), open+left)
		}
	}
	end(1, 0, audit.Failed, transfer.Failed)
	check("at first", transfer.ID{}, 1, 0)
	end(2, 1, audit.Cancelled, transfer.Withdrawn)
	check("after a refused repetition", transfer.ID{}, 1, 0)
	end(3, 1, audit.Cancelled, transfer.Cancelled)
	check("after a cancelled repetition", id(3), 1, 0)
	end(4, 1, audit.Failed, transfer.Failed)
	check("after a repetition that failed", id(4), 1, 1)
	end(5, 4, audit.Completed, transfer.Successful)
	check("after the repetition of that", id(4), 0, 2)
	end(6, 1, audit.Cancelled, transfer.Cancelled)
	check("after another one was cancelled", id(4), 0, 2)

	if g, err := p.Transfer(id(3).String(), ""); err != nil || g.CancelledBy != "ann" || g.RetryOf != id(1) {
		t.Errorf("the cancelled one is %+v, %v", g.Related, err)
	}
	if g, err := p.Transfer(id(2).String(), ""); err != nil || g.CancelledBy != "" {
		t.Errorf("the refused one was cancelled by %q, %v", g.CancelledBy, err)
	}
}

// A transfer counts as repeated by its own submitter, and by a submitter that the source agent lets end it. Otherwise any
// submitter could hide the failure of another one from the lists of failures.
func TestRetryOfAnother(t *testing.T) {
	p := status.New(clock.System)
	id := func(n byte) transfer.ID { return transfer.ID{5: n, 6: 0x70, 8: 0x80, 15: n} }
	record := func(n, of byte, by string, mayEnd bool) audit.Record {
		return audit.Record{Event: audit.Submitted, Agent: "ALPHA", Role: audit.RoleSource, Source: "ALPHA", Destination: "BETA", Transfer: id(n), Time: time.Now(), Principal: by,
			Request: &audit.RequestFacts{Parent: id(of), MayEnd: mayEnd}}
	}
	fail := func(n byte, by string) {
		r := record(n, 0, by, false)
		r.Request.Parent = transfer.ID{}
		p.Record(&r)
		r.Event, r.State, r.Request = audit.Failed, transfer.Failed, nil
		p.Record(&r)
	}
	check := func(when string, n byte, retried transfer.ID) {
		t.Helper()
		g, err := p.Transfer(id(n).String(), "")
		if err != nil || g.RetriedAs != retried || g.Retried == retried.IsZero() {
			t.Errorf("%s: it was retried as %v (%v), not %v; %v", when, g.RetriedAs, g.Retried, retried, err)
		}
	}
	for n := range byte(3) {
		fail(n+1, "ann")
	}
	for _, r := range []audit.Record{record(11, 1, "eve", false), record(12, 2, "ann", false), record(13, 3, "root", true)} {
		p.Record(&r)
	}
	check("by another one", 1, transfer.ID{})
	check("by the submitter", 2, id(12))
	check("by an operator", 3, id(13))
	if g, err := p.Transfer(id(11).String(), ""); err != nil || g.RetryOf != id(1) {
		t.Errorf("the repetition of eve names %v, %v", g.RetryOf, err)
	}

	// One transfer repeats one other; its later records change nothing about that.
	for _, r := range []audit.Record{record(12, 1, "ann", true), record(12, 3, "ann", true)} {
		p.Record(&r)
	}
	check("after a second request of a repetition", 1, transfer.ID{})
	check("after a second request of a repetition", 2, id(12))
	check("after a second request of a repetition", 3, id(13))
}

// Of a repetition that was cancelled, the items that it has brought are open no more.
func TestCancelledRetryHasBroughtSome(t *testing.T) {
	p := status.New(clock.System)
	id := func(n byte) transfer.ID { return transfer.ID{5: n, 6: 0x70, 8: 0x80, 15: n} }
	bad := transfer.Errorf(transfer.KindExists, "it exists already")
	skipped := transfer.Errorf(transfer.KindSkipped, "it exists already, and is left")
	send := func(n, of byte, end audit.Event, state transfer.State, items ...transfer.Outcome) {
		r := audit.Record{Agent: "ALPHA", Role: audit.RoleSource, Source: "ALPHA", Destination: "BETA", Transfer: id(n), Time: time.Now(), Principal: "ann"}
		first, of1, last := r, r, r
		first.Event, first.Request = audit.Submitted, &audit.RequestFacts{}
		if of > 0 {
			first.Request.Parent = id(of)
		}
		of1.Event, of1.Items = audit.Items, items
		last.Event, last.State, last.Code, last.Counts = end, state, state.Code(), &transfer.Counts{}
		for i := range items {
			items[i].Item = uint64(i + 1)
			last.Counts.Add(&items[i])
		}
		for _, r := range []audit.Record{first, of1, last} {
			p.Record(&r)
		}
	}
	file := func(source transfer.Path, to uint64, err *transfer.Error) transfer.Outcome {
		return transfer.Outcome{Type: transfer.ItemFile, Source: source, Path: "/in" + source, To: to, Err: err}
	}
	check := func(when string, retried transfer.ID, over bool, brought int64) {
		t.Helper()
		g, err := p.Transfer(id(1).String(), "")
		if err != nil || g.RetriedAs != retried || g.Retried != over || g.RetriedFiles != brought {
			t.Errorf("%s: it was retried as %v, is over %v and %d files were brought; %v", when, g.RetriedAs, g.Retried, g.RetriedFiles, err)
		}
		list, _ := p.Transfers(status.Query{Limit: 10, Filter: &wire.Filter{States: []transfer.State{transfer.Partial}, Open: true}})
		if over != (len(list) == 0) {
			t.Errorf("%s: %d are open", when, len(list))
		}
	}
	send(1, 0, audit.Completed, transfer.Partial, file("/a", 0, nil), file("/b", 1, bad), file("/b", 2, bad), file("/c", 0, bad))
	check("at first", transfer.ID{}, false, 0)
	send(2, 1, audit.Cancelled, transfer.Cancelled, file("/a", 0, nil), file("/b", 1, nil), file("/c", 0, bad))
	check("after one that has brought /b to its first target", id(2), false, 1)
	send(3, 1, audit.Cancelled, transfer.Cancelled, file("/b", 1, nil), file("/b", 2, skipped), file("/c", 0, nil))
	check("after one that has brought /c, and has left the second target of /b as it was", id(3), false, 2)
	send(4, 1, audit.Cancelled, transfer.Cancelled, file("/b", 2, nil))
	check("after all were brought", id(4), true, 3)
}

// A failure that was acknowledged is not open, and the first acknowledgement counts. A report of the agent replaces that of
// the submitter, and with it the acknowledgement of that.
func TestAcknowledged(t *testing.T) {
	p := status.New(clock.System)
	id := transfer.ID{6: 0x70, 8: 0x80, 15: 1}
	at := time.Date(2026, 11, 1, 8, 0, 0, 0, time.UTC)
	r := audit.Record{Event: audit.Failed, Agent: "ALPHA", Role: audit.RoleSource, Source: "ALPHA", Destination: "BETA", Transfer: id, Time: at, State: transfer.Failed}
	ack := func(by, reason string, source transfer.AgentName) {
		p.Record(&audit.Record{Event: audit.Acked, Agent: audit.Coordination, Role: audit.RoleCoordination, Source: source, Transfer: id, Time: at, Principal: by, Reason: reason})
	}
	check := func(when, by string, open, left int) {
		t.Helper()
		q := status.Query{Limit: 10, Filter: &wire.Filter{Failed: true, Open: true}}
		list, _ := p.Transfers(q)
		if sums := p.Sums(q); len(list) != open || int(sums.Transfers) != open || int(sums.Acknowledged) != left || sums.Retried != 0 {
			t.Errorf("%s: %d are open, the sums are %+v", when, len(list), sums)
		}
		g, err := p.Transfer(id.String(), "")
		if err != nil || by == "" && g.Acknowledged != nil || by != "" && (g.Acknowledged == nil || *g.Acknowledged != transfer.Acknowledgement{By: by, Time: at, Reason: "seen"}) {
			t.Errorf("%s: it was acknowledged by %+v, %v", when, g.Acknowledged, err)
		}
	}
	p.Queued(&transfer.Progress{ID: id, Source: "ALPHA", Destination: "BETA", State: transfer.Queued})
	p.Queued(&transfer.Progress{ID: id, Source: "ALPHA", Destination: "BETA", State: transfer.Failed})
	ack("ann", "seen", "ALPHA")
	check("after the submitter's report", "ann", 0, 1)
	p.Record(&r)
	check("at first", "", 1, 0)
	ack("ann", "seen", "BETA")
	check("of another one", "", 1, 0)
	ack("ann", "seen", "ALPHA")
	ack("bob", "again", "ALPHA")
	check("twice", "ann", 0, 1)
	p.Record(&audit.Record{Event: audit.Acked, Agent: "ALPHA", Role: audit.RoleSource, Source: "ALPHA", Transfer: transfer.ID{6: 0x70, 8: 0x80, 15: 2}, Time: at, Principal: "eve"})
	check("by an agent", "ann", 0, 1)
}

// The rate is that of the last seconds, and stays while the transfer waits. A resume makes no negative one.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := status.New(clock.System)
		id := transfer.ID{6: 0x70, 8: 0x80, 15: 1}
		report := func(state transfer.State, bytes int64) int64 {
			p.Progress(&transfer.Progress{ID: id, Source: "ALPHA", Destination: "BETA", State: state, Traffic: transfer.Traffic{BytesSent: bytes}})
			g, err := p.Transfer(id.String(), "")
			if err != nil {
				t.Fatal(err)
			}
			return g.Rate
		}
		bytes := int64(1 << 30) // sent before this coordination started
		if r := report(transfer.Running, bytes); r != 0 {
			t.Errorf("the first report gives the rate %d", r)
		}
		for range 60 {
			wait(time.Second)
			bytes += 300_000
			if r := report(transfer.Running, bytes); r != 300_000 {
				t.Fatalf("the rate is %d", r)
			}
		}
		wait(time.Hour)
		if r := report(transfer.Waiting, bytes); r != 300_000 {
			t.Errorf("while it waits the rate is %d", r)
		}
		wait(time.Hour)
		if r := report(transfer.Running, bytes-1000); r != 300_000 {
			t.Errorf("when it runs again the rate is %d", r)
		}
		for range 60 {
			wait(time.Second)
			bytes += 600_000
			report(transfer.Running, bytes)
		}
		if r := report(transfer.Running, bytes); r < 590_000 || r > 610_000 {
			t.Errorf("a minute later the rate is %d", r)
		}
	})
}

// A picture that has forgotten transfers says since when it is complete.
func TestCompleteSince(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := status.New(clock.System)
		wait(24 * time.Hour)
		began := time.Now()
		wait(time.Hour)
		for n := range status.MaxTransfers + status.MaxTransfers/10 + 1 {
			if n == 1000 && !p.CompleteSince().IsZero() {
				t.Fatal("it is not complete at first")
			}
			at := began.Add(time.Duration(n) * time.Millisecond)
			p.Progress(&transfer.Progress{ID: transfer.NewID(at), Source: "ALPHA", Destination: "BETA", State: transfer.Successful, Submitted: at, Ended: at})
		}
		gone := began.Add(status.MaxTransfers / 10 * time.Millisecond)
		if got := p.CompleteSince(); got.Sub(gone).Abs() > time.Second {
			t.Errorf("it is complete since %v, not %v", got, gone)
		}
		p.Begin(began)
		if got := p.CompleteSince(); !got.After(began) {
			t.Errorf("records from before make it complete since %v", got)
		}
		p.Begin(time.Now())
		if got := p.CompleteSince(); !got.Equal(time.Now()) {
			t.Errorf("without the records before now it is complete since %v", got)
		}
	})
}
