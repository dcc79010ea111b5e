package status

import (
	"slices"
	"testing"
	"time"

	"ferry/internal/transfer"
)

// Transfers are in the section of their state. Only a wait for space needs a person.
func TestPlace(t *testing.T) {
	full := transfer.Errorf(transfer.KindNoSpace, "no space beneath /srv: the file needs 2.0 GiB, and 1.0 GiB are free")
	busy := transfer.Errorf(transfer.KindBusy, "the destination has no free slot")
	for _, c := range []struct {
		p    transfer.Progress
		in   int // failed, parked, waiting, running
		need bool
	}{
		{transfer.Progress{State: transfer.Failed}, 0, true},
		{transfer.Progress{State: transfer.Partial}, 0, true},
		{transfer.Progress{State: transfer.Parked}, 1, true},
		{transfer.Progress{State: transfer.Waiting, Reason: busy}, 2, false},
		{transfer.Progress{State: transfer.Waiting, Reason: full}, 2, true},
		{transfer.Progress{State: transfer.Queued}, 2, false},
		{transfer.Progress{State: transfer.Running}, 3, false},
		{transfer.Progress{State: transfer.Settling}, 3, false},
		{transfer.Progress{State: transfer.Successful}, -1, false},
		{transfer.Progress{State: transfer.Cancelled}, -1, false},
	} {
		all := []*section{{trouble: true}, {trouble: true}, {}, {}}
		place(&c.p, all[0], all[1], all[2], all[3])
		need := false
		for n, s := range all {
			if got := len(s.objects) > 0; got != (n == c.in) {
				t.Errorf("%s: section %d has it: %v", c.p.State, n, got)
			}
			need = need || s.trouble && len(s.objects) > 0
		}
		if need != c.need {
			t.Errorf("%s, %v: it needs a person: %v", c.p.State, c.p.Reason, need)
		}
	}
}

// A section has a bounded number of lines, and counts the others.
func TestSectionIsBounded(t *testing.T) {
	s := &section{}
	for range most + 3 {
		s.add(nil, "x")
	}
	if len(s.rows) != most || s.more != 3 || len(s.objects) != most+3 {
		t.Errorf("%d lines, %d more, %d objects", len(s.rows), s.more, len(s.objects))
	}
}

// The command asks for transfers of the states that a section shows, and for no others: a network may have thousands that
// succeeded since yesterday.
func TestFilterOfTheScreen(t *testing.T) {
	f := filterOf(time.Date(2026, 12, 1, 9, 30, 0, 0, time.UTC))
	if want := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC); !f.Since.Equal(want) {
		t.Errorf("since %s, want %s", f.Since, want)
	}
	for _, state := range transfer.States() {
		all := []*section{{}, {}, {}, {}}
		place(&transfer.Progress{State: state}, all[0], all[1], all[2], all[3])
		shown := slices.ContainsFunc(all, func(s *section) bool { return len(s.objects) > 0 })
		if slices.Contains(f.States, state) != shown {
			t.Errorf("%s: it is shown: %v, and asked for: %v", state, shown, !shown)
		}
	}
}
