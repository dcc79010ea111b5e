package status_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/coordination/status"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// failures adds failed transfers of a source, each with a reason.
func failures(p *status.Picture, source transfer.AgentName, from, n int) {
	for i := range n {
		r := audit.Record{Agent: source, Role: audit.RoleSource, Source: source, Destination: "BETA", Transfer: id(from + i), Principal: "ann", Event: audit.Submitted, Time: time.Unix(1000, 0)}
		p.Record(&r)
		r.Event, r.State, r.Counts, r.Error = audit.Failed, transfer.Failed, &transfer.Counts{FilesFailed: 1}, transfer.Errorf(transfer.KindExists, "it is there")
		p.Record(&r)
	}
}

// open counts the failures of a principal that are shown with their reasons.
func open(p *status.Picture, principal string) (n int) {
	list, _ := p.Transfers(status.Query{Limit: 1000, Whose: principal, Filter: &wire.Filter{Failed: true}})
	for i := range list {
		if list[i].Reason != nil {
			n++
		}
	}
	return n
}

// A member may report transfers without end. Its reports take no transfer of a source, nor those of another member, out
// of the picture, and no list says for them that it is not complete.
func TestReportsOfAMemberTakeNoRoomOfOthers(t *testing.T) {
	const some = 100
	for name, text := range map[string]string{"many": "", "large": strings.Repeat("j", 4<<10)} {
		for _, state := range []transfer.State{transfer.Queued, transfer.Withdrawn} {
			p := status.New(clock.System)
			failures(p, "ALPHA", 1, some)
			for n := range some {
				p.Queued(&transfer.Progress{ID: id(1000 + n), Source: "ALPHA", Destination: "BETA", Principal: "carl", State: transfer.Queued})
			}
			for n := range status.MaxTransfers * 12 / 10 {
				p.Queued(&transfer.Progress{ID: id(10_000 + n), Source: "ALPHA", Destination: "BETA", Principal: "mallory", State: state, Job: text, Originator: text,
					Reason: transfer.Errorf(transfer.KindDenied, "%s", text)})
			}
			if n := open(p, "ann"); n != some {
				t.Errorf("%s reports as %s: %d of %d failures are shown", name, state, n, some)
			}
			if list, _ := p.Transfers(status.Query{Limit: 1000, Whose: "carl"}); len(list) != some {
				t.Errorf("%s reports as %s: %d of %d queued transfers of another member are shown", name, state, len(list), some)
			}
			if since := p.CompleteSince(); !since.IsZero() {
				t.Errorf("%s reports as %s: the lists are complete since %s alone", name, state, since)
			}
		}
	}
}

// In a full picture a member with many reports has a tenth of it, and the rest is that of the sources.
func TestReportsGiveWayInAFullPicture(t *testing.T) {
	p := status.New(clock.System)
	for n := range status.MaxTransfers {
		p.Queued(&transfer.Progress{ID: id(n + 1), Source: "ALPHA", Destination: "BETA", Principal: "mallory", State: transfer.Queued})
	}
	failures(p, "ALPHA", 50_000, status.MaxTransfers)
	_, left := p.Transfers(status.Query{Whose: "mallory"})
	_, failed := p.Transfers(status.Query{Whose: "ann"})
	if most := status.MaxTransfers / 10; left > most || left+failed < status.MaxTransfers {
		t.Errorf("of the reports %d are left, of the failures %d; want %d reports at most, and %d transfers in all", left, failed, most, status.MaxTransfers)
	}
}

// A source names the principals of the requests that it refuses. Their number gives it no room of other sources.
func TestRefusedRequestsAreThoseOfTheirSource(t *testing.T) {
	const some = 100
	p := status.New(clock.System)
	failures(p, "ALPHA", 1, some)
	for n := range status.MaxTransfers * 12 / 10 {
		p.Record(&audit.Record{Agent: "GAMMA", Role: audit.RoleSource, Source: "GAMMA", Destination: "BETA", Transfer: id(10_000 + n), Principal: fmt.Sprintf("user%d", n/10),
			Event: audit.Refused, Error: transfer.Errorf(transfer.KindDenied, "no"), Time: time.Unix(2000, 0)})
	}
	if n := open(p, "ann"); n != some {
		t.Errorf("%d of %d failures of another source are shown", n, some)
	}
}
