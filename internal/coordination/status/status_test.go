package status_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/audit"
	"ferry/internal/coordination/status"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// id is the nth of a row of transfer IDs that sort by n.
func id(n int) (out transfer.ID) {
	out[0], out[1], out[2], out[6], out[8], out[15] = byte(n>>16), byte(n>>8), byte(n), 0x70, 0x80, 1
	return out
}

// wait lets the bubble's time go by.
func wait(d time.Duration) {
	//house:sleep because it runs in a bubble
	time.Sleep(d)
}

// withPicture runs a test with an empty picture, in a bubble.
func withPicture(t *testing.T, test func(t *testing.T, p *status.Picture)) {
	synctest.Test(t, func(t *testing.T) { test(t, status.New(clock.System)) })
}

func TestAgentsAge(t *testing.T) {
	withPicture(t, func(t *testing.T, p *status.Picture) {
		state := func(name transfer.AgentName) string {
			for _, a := range p.Agents() {
				if a.Agent == name {
					return a.Status
				}
			}
			return "none"
		}
		for _, want := range []bool{true, false} {
			if fresh, err := p.Beat(&wire.Beat{Agent: "BETA", Status: wire.AgentReady}); fresh != want || err != nil {
				t.Errorf("an agent is new once: %v, %v", fresh, err)
			}
		}
		p.Beat(&wire.Beat{Agent: "ALPHA", Status: wire.AgentStopped})
		if !p.Know("GAMMA") || p.Know("GAMMA") || p.Know("") || p.Know(audit.Coordination) || p.Know("BETA") {
			t.Error("Know does not report whether an agent is new")
		}
		if got := p.Names(); !reflect.DeepEqual(got, []transfer.AgentName{"ALPHA", "BETA", "GAMMA"}) {
			t.Errorf("names %v", got)
		}
		wait(wire.UnreachableAfter)
		if state("BETA") != wire.AgentReady || state("GAMMA") != wire.AgentUnreachable {
			t.Errorf("after 15 s: %s, %s", state("BETA"), state("GAMMA"))
		}
		wait(time.Millisecond)
		if state("BETA") != wire.AgentUnreachable || state("ALPHA") != wire.AgentStopped {
			t.Errorf("after more: %s, %s", state("BETA"), state("ALPHA"))
		}
		p.Beat(&wire.Beat{Agent: "BETA", Status: wire.AgentActive})
		if state("BETA") != wire.AgentActive {
			t.Errorf("back: %s", state("BETA"))
		}
		if a := p.Agents(); len(a) != 3 || a[0].Agent != "ALPHA" || a[0].Age != wire.UnreachableAfter+time.Millisecond {
			t.Errorf("agents: %+v", a)
		}
	})
}

// TestKnown is R4: no agent is called unknown before two heartbeats could have come.
func TestKnown(t *testing.T) {
	withPicture(t, func(t *testing.T, p *status.Picture) {
		if k := p.Known("ALPHA"); k.Known || k.Sure || k.Wait != 2*wire.BeatEvery {
			t.Errorf("at once: %+v", k)
		}
		wait(2*wire.BeatEvery - time.Second)
		if k := p.Known("ALPHA"); k.Sure || k.Wait != time.Second {
			t.Errorf("a second before: %+v", k)
		}
		p.Beat(&wire.Beat{Agent: "ALPHA"})
		wait(time.Second)
		if k := p.Known("ALPHA"); !k.Known || !k.Sure || k.Wait != 0 {
			t.Errorf("heard: %+v", k)
		}
		where := func(want, when string) {
			if k := p.Known("ALPHA"); !k.Known || k.Manager != want {
				t.Errorf("%s it is at %q", when, k.Manager)
			}
		}
		p.Beat(&wire.Beat{Agent: "ALPHA", Manager: "QM2", Status: wire.AgentReady})
		where("QM2", "present,")
		wait(wire.UnreachableAfter + 1)
		where("", "silent,")
		p.Beat(&wire.Beat{Agent: "ALPHA", Manager: "QM2", Status: wire.AgentStopped})
		where("", "stopped,")
		if k := p.Known("BETA"); k.Known || !k.Sure {
			t.Errorf("never heard: %+v", k)
		}
	})
}

func TestTheEndIsTheEnd(t *testing.T) {
	p := status.New(clock.System)
	p.Queued(&transfer.Progress{ID: id(1), State: transfer.Running})
	get := func() *transfer.Progress {
		t.Helper()
		g, err := p.Transfer(id(1).String(), "")
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	if s := get().State; s != transfer.Queued {
		t.Errorf("submitted: %s", s)
	}
	p.Progress(&transfer.Progress{ID: id(1), State: transfer.Running, Traffic: transfer.Traffic{BytesSent: 5}})
	p.Queued(&transfer.Progress{ID: id(1)})
	if g := get(); g.State != transfer.Running || g.BytesSent != 5 {
		t.Errorf("running: %+v", g)
	}
	p.Progress(&transfer.Progress{ID: id(1), State: transfer.Successful, Code: 0})
	p.Progress(&transfer.Progress{ID: id(1), State: transfer.Running})
	p.Record(&audit.Record{Role: audit.RoleSource, Transfer: id(1), Event: audit.Failed, State: transfer.Failed})
	if s := get().State; s != transfer.Successful {
		t.Errorf("after the end: %s", s)
	}
	get().State = transfer.Failed // the caller gets a copy
	if s := get().State; s != transfer.Successful {
		t.Errorf("the picture was changed from outside: %s", s)
	}
}

func TestRebuiltFromTheAudit(t *testing.T) {
	p := status.New(clock.System)
	who := &transfer.Originator{User: "ann", Host: "box"}
	rec := func(r audit.Record) {
		r.Agent, r.Role, r.Transfer, r.Source, r.Destination = "ALPHA", audit.RoleSource, id(1), "ALPHA", "BETA"
		p.Record(&r)
	}
	state := func() *transfer.Progress {
		g, err := p.Transfer(id(1).String()[24:], "")
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	rec(audit.Record{Event: audit.Accepted, Originator: who, Job: "job"})
	if g := state(); g.State != transfer.Accepted || g.Originator != "ann@box" || g.Job != "job" || g.Source != "ALPHA" {
		t.Errorf("accepted: %+v", g)
	}
	begun := time.Unix(1000, 0)
	rec(audit.Record{Event: audit.Started, Time: begun, Request: &audit.RequestFacts{Compress: "high"}})
	rec(audit.Record{Event: audit.Started, Time: begun.Add(time.Hour)})
	if g := state(); g.State != transfer.Running || !g.Started.Equal(begun) {
		t.Errorf("started: %+v", g)
	}
	bad := transfer.Outcome{Item: 3, Err: &transfer.Error{Kind: transfer.KindMissing}}
	rec(audit.Record{Event: audit.Items, Items: []transfer.Outcome{{Item: 1}, bad}})
	rec(audit.Record{Event: audit.Items, Items: []transfer.Outcome{bad}})
	if g := state(); len(g.Failures) != 1 || g.Failures[0].Item != 3 {
		t.Errorf("failures: %+v", g.Failures)
	}
	rec(audit.Record{Event: audit.Parked, Error: &transfer.Error{Text: "why"}})
	if g := state(); g.State != transfer.Parked || g.Reason.Text != "why" {
		t.Errorf("parked: %+v", g)
	}
	rec(audit.Record{Event: audit.Completed, State: transfer.Partial, Code: 20, Time: begun.Add(time.Minute), Figures: audit.Figures{Lane: "queue", Resumes: 2, BytesResent: 7, BytesWire: 8, Counts: &transfer.Counts{Files: 1, FilesFailed: 1}}})
	if g := state(); g.State != transfer.Partial || g.Code != 20 || g.Files != 1 || g.FilesFailed != 1 || g.Resumes != 2 || g.Lane != "queue" || g.Ended.IsZero() || g.BytesResent != 7 || g.BytesWire != 8 || g.Compress != "high" {
		t.Errorf("over: %+v", g)
	}
	// Only the source's word counts, and only about transfers.
	p.Record(&audit.Record{Role: audit.RoleDestination, Transfer: id(2), Event: audit.Started})
	p.Record(&audit.Record{Role: audit.RoleSource, Event: audit.Started})
	p.Record(&audit.Record{Role: audit.RoleSource, Transfer: id(3), Event: audit.Refused}) // a cancel of a transfer that ALPHA does not know
	if all, _ := p.Transfers(status.Query{Limit: 10}); len(all) != 1 {
		t.Errorf("transfers: %+v", all)
	}
}

func TestTransfersInPages(t *testing.T) {
	p := status.New(clock.System)
	for n := range 25 {
		p.Progress(&transfer.Progress{ID: id(n), State: transfer.Running, Failures: make([]transfer.Outcome, 3)})
	}
	var seen []transfer.ID
	var before transfer.ID
	for pages := 0; ; pages++ {
		list, left := p.Transfers(status.Query{Before: before, Limit: 10})
		for _, g := range list {
			if g.Failures != nil {
				t.Error("a list carries failures")
			}
			seen = append(seen, g.ID)
		}
		if left != 25-len(seen) {
			t.Errorf("%d are left after %d", left, len(seen))
		}
		if left == 0 {
			if pages != 2 {
				t.Errorf("%d pages", pages+1)
			}
			break
		}
		before = list[len(list)-1].ID
	}
	for n, got := range seen {
		if got != id(24-n) {
			t.Fatalf("transfer %d of the list is %s", n, got)
		}
	}
	if len(seen) != 25 {
		t.Errorf("%d transfers", len(seen))
	}
}

func TestTransferBySuffix(t *testing.T) {
	p := status.New(clock.System)
	a, b := id(1), id(2)
	p.Progress(&transfer.Progress{ID: a})
	p.Progress(&transfer.Progress{ID: b})
	for suffix, kind := range map[string]transfer.Kind{
		a.String(): transfer.KindNone, a.String()[24:]: transfer.KindUsage, "ffffff": transfer.KindNotFound, "1": transfer.KindUsage, "xyzxyz": transfer.KindUsage} {
		if _, err := p.Transfer(suffix, ""); transfer.KindOf(err) != kind {
			t.Errorf("%s: %v", suffix, err)
		}
	}
}

// TestPictureIsBounded: the oldest that are over give way, those that run never.
func TestPictureIsBounded(t *testing.T) {
	p := status.New(clock.System)
	p.Progress(&transfer.Progress{ID: id(0), State: transfer.Running})
	const all = status.MaxTransfers + status.MaxTransfers/10
	for n := 1; n <= all; n++ {
		p.Progress(&transfer.Progress{ID: id(n), State: transfer.Successful})
	}
	list, left := p.Transfers(status.Query{Limit: 2 * all})
	if left > 0 || len(list) != status.MaxTransfers {
		t.Fatalf("%d transfers, %d are left", len(list), left)
	}
	if list[0].ID != id(all) || list[len(list)-1].ID != id(0) || list[len(list)-2].ID == id(1) {
		t.Errorf("kept: %s … %s", list[0].ID, list[len(list)-1].ID)
	}
}

// An agent's report about another's transfer does not change the picture of that transfer, in either order of arrival.
func TestOnlyItsSourceSpeaksOfATransfer(t *testing.T) {
	for _, strangerFirst := range []bool{false, true} {
		p := status.New(clock.System)
		p.Queued(&transfer.Progress{ID: id(1), Source: "ALPHA", Destination: "BETA"})
		stranger := func() {
			p.Progress(&transfer.Progress{ID: id(1), Source: "MALLORY", Destination: "MALLORY", State: transfer.Successful})
			if p.Record(&audit.Record{Agent: "MALLORY", Role: audit.RoleSource, Transfer: id(1), Source: "ALPHA", Destination: "BETA", Event: audit.Failed, State: transfer.Failed}) {
				t.Error("a record of another's transfer is not seen to be one")
			}
			if p.Record(&audit.Record{Agent: "MALLORY", Role: audit.RoleDestination, Transfer: id(1), Source: "ALPHA", Destination: "BETA", Event: audit.Completed}) {
				t.Error("a record in the role of another destination is not seen to be one")
			}
			p.Record(&audit.Record{Agent: "MALLORY", Role: audit.RoleSource, Transfer: id(1), Event: audit.Cancelled, State: transfer.Cancelled})
		}
		if strangerFirst {
			stranger()
		}
		p.Record(&audit.Record{Agent: "ALPHA", Role: audit.RoleSource, Transfer: id(1), Source: "ALPHA", Destination: "BETA", Event: audit.Accepted})
		p.Progress(&transfer.Progress{ID: id(1), Source: "ALPHA", Destination: "BETA", State: transfer.Running, Traffic: transfer.Traffic{BytesSent: 5}})
		stranger()
		if !p.Record(&audit.Record{Agent: "BETA", Role: audit.RoleDestination, Transfer: id(1), Source: "ALPHA", Destination: "BETA", Event: audit.Items}) {
			t.Error("the destination's own record is taken for a stranger's")
		}
		g, err := p.Transfer(id(1).String(), "")
		if err != nil || g.Source != "ALPHA" || g.Destination != "BETA" || g.State != transfer.Running || g.BytesSent != 5 {
			t.Errorf("%+v, %v", g, err)
		}
		if all, left := p.Transfers(status.Query{Limit: 10}); left > 0 || len(all) != 1 || all[0].Source != "ALPHA" || all[0].State != transfer.Running {
			t.Errorf("%+v", all)
		}
	}
}

// An agent that reports transfers without end pushes out no other agent's.
func TestAFloodPushesOutItsOwn(t *testing.T) {
	p := status.New(clock.System)
	for n := range 100 {
		p.Progress(&transfer.Progress{ID: id(n), Source: "ALPHA", Destination: "BETA", State: transfer.Failed, Reason: transfer.Errorf(transfer.KindExists, "it is there")})
	}
	long := strings.Repeat("x", 4000)
	failed := make([]transfer.Outcome, 50)
	for n := range failed {
		failed[n] = transfer.Outcome{Item: uint64(n), Path: transfer.Path(long), Err: &transfer.Error{Text: long}}
	}
	for n := 100; n < 2*status.MaxTransfers; n++ {
		p.Progress(&transfer.Progress{ID: id(n), Source: "MALLORY", Destination: "BETA", State: transfer.Running, Originator: long, Failures: failed})
	}
	kept, held := 0, 0
	list, _ := p.Transfers(status.Query{Limit: 4 * status.MaxTransfers})
	for i := range list {
		if list[i].Source == "ALPHA" && list[i].Reason != nil {
			kept++
		}
		if i >= 200 { // the newest are those that hold anything
			continue
		}
		g, err := p.Transfer(list[i].ID.String(), "")
		if err != nil {
			t.Fatal(err)
		}
		held += len(g.Failures) * 8000
	}
	if kept != 100 {
		t.Errorf("%d of 100 transfers are left with their reasons", kept)
	}
	if limit := 70 << 20; held > limit {
		t.Errorf("%d bytes of reports are held; the limit is %d", held, limit)
	}
	if len(list) > status.MaxTransfers+status.MaxTransfers/10 {
		t.Errorf("%d transfers are held", len(list))
	}
}

// However many agents are made up, those that are heard stay. A new one finds room when others are away.
func TestAgentsAreBounded(t *testing.T) {
	withPicture(t, func(t *testing.T, p *status.Picture) {
		p.Know("OLD")
		for n := range status.MaxAgents + 100 {
			p.Beat(&wire.Beat{Agent: transfer.AgentName(fmt.Sprint("MADE", n)), Status: wire.AgentReady})
		}
		if n := len(p.Names()); n != status.MaxAgents {
			t.Errorf("%d agents are known", n)
		}
		if _, err := p.Beat(&wire.Beat{Agent: "ALPHA"}); transfer.KindOf(err) != transfer.KindBusy || p.Know("ALPHA") {
			t.Errorf("one more: %v", err)
		}
		if fresh, err := p.Beat(&wire.Beat{Agent: "MADE7"}); fresh || err != nil {
			t.Errorf("one that is known: %v, %v", fresh, err)
		}
		wait(wire.UnreachableAfter + time.Millisecond)
		p.Beat(&wire.Beat{Agent: "MADE7"})
		if fresh, err := p.Beat(&wire.Beat{Agent: "ALPHA"}); !fresh || err != nil {
			t.Errorf("one more, when others are away: %v, %v", fresh, err)
		}
		if !p.Known("ALPHA").Known || !p.Known("MADE7").Known || len(p.Names()) != status.MaxAgents {
			t.Error("one that is heard of has given way")
		}
	})
}

// A transfer with a silent source says so, until the source is heard again or the transfer has ended.
func TestTransferOfASilentSource(t *testing.T) {
	withPicture(t, func(t *testing.T, p *status.Picture) {
		p.Beat(&wire.Beat{Agent: "ALPHA", Status: wire.AgentActive})
		p.Progress(&transfer.Progress{ID: id(1), State: transfer.Running, Source: "ALPHA", Destination: "BETA"})
		p.Progress(&transfer.Progress{ID: id(2), State: transfer.Successful, Source: "ALPHA", Destination: "BETA"})
		reasons := func() (running, ended *transfer.Error) {
			all, _ := p.Transfers(status.Query{Limit: 10})
			one, err := p.Transfer(id(1).String(), "")
			if err != nil || len(all) != 2 || all[1].State != transfer.Running || (one.Reason == nil) != (all[1].Reason == nil) {
				t.Fatalf("%+v %+v %v", all, one, err)
			}
			return all[1].Reason, all[0].Reason
		}
		wait(wire.UnreachableAfter)
		if r, e := reasons(); r != nil || e != nil {
			t.Errorf("while it is heard of: %v, %v", r, e)
		}
		wait(time.Millisecond)
		if r, e := reasons(); transfer.KindOf(r) != transfer.KindUnreachable || e != nil {
			t.Errorf("when it is not: %v, %v", r, e)
		}
		p.Beat(&wire.Beat{Agent: "ALPHA", Status: wire.AgentActive})
		if r, e := reasons(); r != nil || e != nil {
			t.Errorf("when it is again: %v, %v", r, e)
		}
	})
}

func ExamplePicture_Known() {
	p := status.New(clock.System)
	p.Know("ALPHA")
	fmt.Println(p.Known("ALPHA").Known, p.Known("BETA").Known, p.Known("BETA").Sure)
	// Output: true false false
}

// A submitter's report about its own transfer holds until the source agent reports.
func TestASubmitterIsBelievedUntilItsAgentSpeaks(t *testing.T) {
	p := status.New(clock.System)
	say := func(n int, s transfer.State) {
		p.Queued(&transfer.Progress{ID: id(n), State: s, Source: "ALPHA", Destination: "BETA"})
	}
	is := func(n int, want transfer.State) {
		t.Helper()
		g, err := p.Transfer(id(n).String(), "")
		if err != nil || g.State != want || g.Destination != "BETA" {
			t.Errorf("transfer %d is %+v (%v), not %s", n, g, err, want)
		}
	}
	record := func(n int, e audit.Event, s transfer.State, to transfer.AgentName) {
		p.Record(&audit.Record{Agent: "ALPHA", Event: e, Role: audit.RoleSource, Transfer: id(n), State: s, Source: "ALPHA", Destination: to})
	}
	say(1, transfer.Queued)
	is(1, transfer.Queued)
	say(1, transfer.Withdrawn)
	is(1, transfer.Withdrawn)
	say(1, transfer.Queued)
	is(1, transfer.Withdrawn)
	record(1, audit.Cancelled, transfer.Withdrawn, "")
	is(1, transfer.Withdrawn)

	say(2, transfer.Withdrawn) // and the agent has it, unheard
	p.Progress(&transfer.Progress{ID: id(2), State: transfer.Running, Source: "ALPHA", Destination: "BETA"})
	is(2, transfer.Running)
	say(2, transfer.Withdrawn)
	is(2, transfer.Running)
	record(2, audit.Completed, transfer.Successful, "BETA")
	say(2, transfer.Withdrawn)
	is(2, transfer.Successful)

	record(3, audit.Cancelled, transfer.Withdrawn, "") // its request comes later
	record(3, audit.Submitted, "", "BETA")
	is(3, transfer.Withdrawn)
}

// A filter passes the transfers that it describes, and the rest is counted once.
func TestFilter(t *testing.T) {
	p := status.New(clock.System)
	base := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	at := func(hour int) time.Time { return base.Add(time.Duration(hour) * time.Hour) }
	for n, g := range []transfer.Progress{
		{State: transfer.Successful, Source: "ALPHA", Destination: "BETA", Job: "nightly/pay", Submitted: at(0), Ended: at(1)},
		{State: transfer.Partial, Source: "BETA", Destination: "GAMMA", Job: "nightly/stock", Submitted: at(2), Ended: at(9), Counts: transfer.Counts{FilesFailed: 1}},
		{State: transfer.Failed, Source: "GAMMA", Destination: "ALPHA", Submitted: at(4), Ended: at(5)},
		{State: transfer.Running, Source: "ALPHA", Destination: "GAMMA", Job: "nightly/pay", Submitted: at(6)},
	} {
		g.ID = id(n)
		p.Progress(&g)
	}
	p.Record(&audit.Record{Role: audit.RoleSource, Agent: "ALPHA", Transfer: id(3), Event: audit.Started, Meta: map[string]string{"run": "7", "dept": "a"}})
	p.Record(&audit.Record{Role: audit.RoleSource, Agent: "ALPHA", Transfer: id(0), Event: audit.Started, Meta: map[string]string{"run": "6", "dept": "a"}})
	for _, c := range []struct {
		f    wire.Filter
		want string // newest first
	}{
		{wire.Filter{}, "3210"},
		{wire.Filter{States: []transfer.State{transfer.Running, transfer.Failed}}, "32"},
		{wire.Filter{Agent: "ALPHA"}, "320"},
		{wire.Filter{Agent: "NOBODY"}, ""},
		{wire.Filter{Job: "nightly/pay"}, "30"},
		{wire.Filter{Job: "nightly*"}, "310"},
		{wire.Filter{Job: "*/sto?k"}, "1"},
		{wire.Filter{Job: "night"}, ""},
		{wire.Filter{Failed: true}, "21"},
		{wire.Filter{Since: at(5)}, "321"},
		{wire.Filter{Since: at(6)}, "31"},
		{wire.Filter{Until: at(4)}, "10"},
		{wire.Filter{Since: at(3), Until: at(5)}, "21"},
		{wire.Filter{Meta: map[string]string{"dept": "a"}}, "30"},
		{wire.Filter{Meta: map[string]string{"dept": "a", "run": "7"}}, "3"},
		{wire.Filter{Meta: map[string]string{"other": ""}}, ""},
		{wire.Filter{Agent: "ALPHA", Job: "nightly/*", States: []transfer.State{transfer.Successful}}, "0"},
	} {
		for limit := 1; limit < 6; limit++ {
			got, left := p.Transfers(status.Query{Limit: limit, Filter: &c.f})
			ids := ""
			for _, g := range got {
				for n := range 4 {
					if g.ID == id(n) {
						ids += fmt.Sprint(n)
					}
				}
			}
			if ids != c.want[:min(limit, len(c.want))] || left != max(0, len(c.want)-limit) {
				t.Errorf("%+v: %q and %d more, want %q", c.f, ids, left, c.want)
			}
		}
	}
}

func BenchmarkTransfers(b *testing.B) {
	p := status.New(clock.System)
	for n := range status.MaxTransfers {
		p.Progress(&transfer.Progress{ID: id(n), State: transfer.Successful, Source: "ALPHA", Destination: "BETA", Job: "nightly"})
	}
	for b.Loop() {
		if _, left := p.Transfers(status.Query{Limit: 400, Filter: &wire.Filter{Job: "night*"}}); left == 0 {
			b.Fatal("there are more")
		}
	}
}

// A request that its agent has refused is listed as failed after a restart, too. The agent's acceptance of it replaces that.
func TestRefusedRequestIsListed(t *testing.T) {
	p := status.New(clock.System)
	denied := transfer.Errorf(transfer.KindDenied, "bob does not have the authority source")
	r := &audit.Record{Agent: "ALPHA", Role: audit.RoleSource, Transfer: id(3), Event: audit.Refused, Destination: "BETA", Principal: "bob", Code: 53, Error: denied}
	p.Record(r)
	all, _ := p.Transfers(status.Query{Limit: 10})
	if len(all) != 1 || all[0].State != transfer.Failed || all[0].Code != 53 || all[0].Destination != "BETA" || all[0].Reason == nil {
		t.Fatalf("%+v", all)
	}
	p.Record(&audit.Record{Agent: "ALPHA", Role: audit.RoleSource, Transfer: id(3), Event: audit.Accepted, Destination: "BETA"})
	p.Record(r)
	if all, _ := p.Transfers(status.Query{Limit: 10}); len(all) != 1 || all[0].State != transfer.Accepted {
		t.Errorf("%+v", all)
	}
}

// A transfer to an agent that is silent waits for it, also if the agent was not heard since coordination started.
func TestTransferToASilentAgentWaits(t *testing.T) {
	withPicture(t, func(t *testing.T, p *status.Picture) {
		p.Know("BETA")
		p.Progress(&transfer.Progress{ID: id(3), Source: "ALPHA", Destination: "BETA", State: transfer.Running})
		beat := func() {
			if _, err := p.Beat(&wire.Beat{Agent: "ALPHA", Status: wire.AgentReady}); err != nil {
				t.Fatal(err)
			}
		}
		beat()
		if all, _ := p.Transfers(status.Query{Limit: 1}); all[0].State != transfer.Running {
			t.Errorf("before heartbeats could have come: %+v", all)
		}
		wait(2 * wire.UnreachableAfter)
		beat()
		all, _ := p.Transfers(status.Query{Limit: 1})
		if all[0].State != transfer.Waiting || all[0].Reason == nil || !strings.Contains(all[0].Reason.Text, "it waits for agent BETA") {
			t.Errorf("%+v", all)
		}
	})
}

// Sums are of all transfers that pass the filter, on each page, with the bytes of running ones.
func TestSums(t *testing.T) {
	p := status.New(clock.System)
	p.Progress(&transfer.Progress{ID: id(1), Source: "ALPHA", Destination: "BETA", State: transfer.Successful, Principal: "bob", Counts: transfer.Counts{Files: 2, Bytes: 10}})
	p.Progress(&transfer.Progress{ID: id(2), Source: "ALPHA", Destination: "BETA", State: transfer.Running, Principal: "bob", Traffic: transfer.Traffic{BytesSent: 7}})
	p.Progress(&transfer.Progress{ID: id(3), Source: "BETA", Destination: "ALPHA", State: transfer.Failed, Principal: "ann", Counts: transfer.Counts{FilesFailed: 3}})
	for _, c := range []struct {
		f    wire.Filter
		want wire.Sums
	}{
		{wire.Filter{}, wire.Sums{Transfers: 3, Failed: 1, Files: 2, FilesFailed: 3, Bytes: 17}},
		{wire.Filter{From: "ALPHA", To: "BETA"}, wire.Sums{Transfers: 2, Files: 2, Bytes: 17}},
		{wire.Filter{To: "ALPHA"}, wire.Sums{Transfers: 1, Failed: 1, FilesFailed: 3}},
		{wire.Filter{User: "b*"}, wire.Sums{Transfers: 2, Files: 2, Bytes: 17}},
		{wire.Filter{User: "nemo"}, wire.Sums{}},
	} {
		if got := p.Sums(status.Query{Limit: 1, Filter: &c.f}); got != c.want {
			t.Errorf("%+v: %+v, want %+v", c.f, got, c.want)
		}
	}
}
