package status_test

import (
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/coordination/status"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// A member that knows the ID of another one's transfer may report it. The records of the source replace the report, so
// the transfer stays that of its submitter.
func TestReportOfAStrangerTakesNoTransfer(t *testing.T) {
	r := audit.Record{Agent: "ALPHA", Role: audit.RoleSource, Transfer: id(1), Source: "ALPHA", Destination: "BETA", Principal: "ann", Time: time.Unix(1000, 0),
		Originator: &transfer.Originator{User: "ann", Host: "box"}, Job: "ours"}
	submitted, items, failed, cancelled, resumed := r, r, r, r, r
	submitted.Event = audit.Submitted
	items.Event, items.Items = audit.Items, []transfer.Outcome{{Item: 1, Type: transfer.ItemFile, Path: "/in/secret", Source: "/out/secret", Err: transfer.Errorf(transfer.KindExists, "it is there")}}
	failed.Event, failed.State, failed.Counts = audit.Failed, transfer.Failed, &transfer.Counts{FilesFailed: 1}
	cancelled.Event, cancelled.State, cancelled.Principal = audit.Cancelled, transfer.Cancelled, "root"
	resumed.Event, resumed.State, resumed.Principal = audit.Resumed, transfer.Queued, "root"
	for name, c := range map[string]struct {
		records []audit.Record
		by      string // its submitter, as far as the records name it
		end     transfer.State
	}{
		"all":                      {[]audit.Record{submitted, items, failed}, "ann", transfer.Failed},
		"without the first":        {[]audit.Record{items, failed}, "ann", transfer.Failed},
		"the end alone":            {[]audit.Record{failed}, "ann", transfer.Failed},
		"an operator's cancel":     {[]audit.Record{cancelled}, "", transfer.Cancelled},
		"an operator's resume":     {[]audit.Record{resumed, failed}, "", transfer.Failed},
		"cancelled by an operator": {[]audit.Record{submitted, cancelled}, "ann", transfer.Cancelled},
	} {
		for _, state := range []transfer.State{transfer.Queued, transfer.Withdrawn, transfer.Failed} {
			p := status.New(clock.System)
			report := transfer.Progress{ID: id(1), Source: "ALPHA", Destination: "GAMMA", Principal: "mallory", Originator: "mallory@den", Job: "theirs", Priority: 9, State: transfer.Queued}
			p.Queued(&report)
			report.State, report.Reason = state, transfer.Errorf(transfer.KindDenied, "theirs")
			p.Queued(&report)
			for n := range c.records {
				p.Record(&c.records[n])
			}
			if g, err := p.Transfer(id(1).String(), "mallory"); transfer.KindOf(err) != transfer.KindNotFound {
				t.Errorf("%s, after %s: mallory sees %+v, %v", name, state, g, err)
			}
			g, err := p.Transfer(id(1).String(), "")
			if err != nil || g.Principal != c.by || g.State != c.end || g.Destination != "BETA" || g.Job != "ours" || g.Originator == "mallory@den" || g.Priority != 0 || g.Reason != nil {
				t.Errorf("%s, after %s: the transfer is %+v, %v", name, state, g, err)
			}
		}
	}
}

// A source that has not taken a request leaves the report of its submitter as it is.
func TestReportStaysWithoutARequest(t *testing.T) {
	p := status.New(clock.System)
	p.Queued(&transfer.Progress{ID: id(1), Source: "ALPHA", Destination: "BETA", Principal: "ann", Job: "ours"})
	p.Record(&audit.Record{Agent: "ALPHA", Role: audit.RoleSource, Source: "ALPHA", Transfer: id(1), Event: audit.Cancelled, State: transfer.Cancelled, Principal: "root"})
	if g, err := p.Transfer(id(1).String(), "ann"); err != nil || g.State != transfer.Cancelled || g.Destination != "BETA" || g.Job != "ours" {
		t.Errorf("the transfer is %+v, %v", g, err)
	}
}

// The figures of a source replace the report of a submitter. Later commands of others do not take the transfer.
func TestFiguresEndTheClaimOfAReport(t *testing.T) {
	p := status.New(clock.System)
	p.Queued(&transfer.Progress{ID: id(1), Source: "ALPHA", Destination: "BETA", Principal: "ann"})
	p.Progress(&transfer.Progress{ID: id(1), Source: "ALPHA", Destination: "BETA", Principal: "ann", State: transfer.Running})
	p.Record(&audit.Record{Agent: "ALPHA", Role: audit.RoleSource, Source: "ALPHA", Destination: "BETA", Transfer: id(1), Event: audit.Cancelled, State: transfer.Cancelled, Principal: "root"})
	if g, err := p.Transfer(id(1).String(), "ann"); err != nil || g.State != transfer.Cancelled {
		t.Errorf("the transfer is %+v, %v", g, err)
	}
}

// Of the transfers with one ID the one is shown that a source has spoken of, also after a report that names another
// source.
func TestReportForAnotherSourceHidesNothing(t *testing.T) {
	withPicture(t, func(t *testing.T, p *status.Picture) {
		p.Queued(&transfer.Progress{ID: id(1), Source: "EVIL", Destination: "BETA", Principal: "mallory"})
		if !status.Unread(p, id(1)) || status.Unread(p, id(2)) {
			t.Error("the log is not read for a report alone")
		}
		status.NoteRead(p, id(1))
		if status.Unread(p, id(1)) {
			t.Error("the log is read at each question")
		}
		wait(time.Hour)
		if !status.Unread(p, id(1)) {
			t.Error("the log is read once only")
		}
		p.Record(&audit.Record{Agent: "ALPHA", Role: audit.RoleSource, Source: "ALPHA", Destination: "BETA", Transfer: id(1), Event: audit.Failed, State: transfer.Failed, Principal: "ann"})
		if g, err := p.Transfer(id(1).String(), ""); err != nil || g.Source != "ALPHA" {
			t.Errorf("the transfer is %+v, %v", g, err)
		}
		if all, left := p.Transfers(status.Query{Limit: 10}); left > 0 || len(all) != 1 || all[0].Source != "ALPHA" {
			t.Errorf("the list is %+v", all)
		}
		if status.Unread(p, id(1)) {
			t.Error("the log is read for a transfer that its source has spoken of")
		}
	})
}

// The word of another agent about an ID hides no transfer from its submitter.
func TestWordOfAnotherAgentHidesNothing(t *testing.T) {
	for _, strangerFirst := range []bool{false, true} {
		p := status.New(clock.System)
		stranger := func() {
			p.Progress(&transfer.Progress{ID: id(1), Source: "MALLORY", Destination: "MALLORY", State: transfer.Running, Principal: "mallory"})
		}
		if strangerFirst {
			stranger()
		}
		p.Queued(&transfer.Progress{ID: id(1), Source: "ALPHA", Destination: "BETA", Principal: "ann"})
		if !strangerFirst {
			stranger()
		}
		q := status.Query{Limit: 10, Whose: "ann"}
		if all, left := p.Transfers(q); left > 0 || len(all) != 1 || all[0].Source != "ALPHA" || p.Sums(q).Transfers != 1 {
			t.Errorf("the stranger first: %t; ann has %+v, and the sums %+v", strangerFirst, all, p.Sums(q))
		}
		if g, err := p.Transfer(id(1).String(), "ann"); err != nil || g.Source != "ALPHA" {
			t.Errorf("the stranger first: %t; ann finds %+v, %v", strangerFirst, g, err)
		}
	}
}
