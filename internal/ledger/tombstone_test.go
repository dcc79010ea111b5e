package ledger_test

import (
	"testing"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// UnmarkFirstMessageMissing removes the tombstone of a missing first message. A transfer that its source has cancelled
// stays cancelled, in either order of the two notes.
func TestRestoreKeepsCancels(t *testing.T) {
	l := open(t, t.TempDir())
	defer l.Close()
	for n, c := range []struct {
		name   string
		notes  []func(*ledger.Tx, transfer.ID, transfer.AgentName) error
		buried bool
	}{
		{"a missing message", []func(*ledger.Tx, transfer.ID, transfer.AgentName) error{ledger.MarkFirstMessageMissing}, false},
		{"a cancel", []func(*ledger.Tx, transfer.ID, transfer.AgentName) error{(*ledger.Tx).PutSourceTombstone}, true},
		{"a missing message and a cancel", []func(*ledger.Tx, transfer.ID, transfer.AgentName) error{ledger.MarkFirstMessageMissing, (*ledger.Tx).PutSourceTombstone}, true},
		{"a cancel and a missing message", []func(*ledger.Tx, transfer.ID, transfer.AgentName) error{(*ledger.Tx).PutSourceTombstone, ledger.MarkFirstMessageMissing}, true},
	} {
		id := transfer.ID{15: byte(n)}
		for _, note := range c.notes {
			if err := l.Update(func(tx *ledger.Tx) error { return note(tx, id, "ALPHA") }); err != nil {
				t.Fatal(err)
			}
		}
		buried := func() (is bool) {
			if err := l.View(func(tx *ledger.Tx) error { is = tx.HasSourceTombstone(id, "ALPHA"); return nil }); err != nil {
				t.Fatal(err)
			}
			return is
		}
		if !buried() {
			t.Errorf("%s: there is no tombstone", c.name)
		}
		if err := l.Update(func(tx *ledger.Tx) error { return ledger.UnmarkFirstMessageMissing(tx, id, "ALPHA") }); err != nil {
			t.Fatal(err)
		}
		if buried() != c.buried {
			t.Errorf("%s: after Restore the tombstone stands: %v, want %v", c.name, !c.buried, c.buried)
		}
	}
}

// A ledger that was found to be an older copy of itself has another mark, also after it was opened again.
func TestMarkOfAnOlderCopy(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	mark := func() string {
		t.Helper()
		m, err := ledger.Mark(l)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	before := mark()
	if before != l.IncarnationText() {
		t.Errorf("the mark is %s, want the incarnation %s", before, l.IncarnationText())
	}
	same := func(record []byte, _ uint64) ([]byte, error) { return record, nil }
	if err := l.Update(func(tx *ledger.Tx) error { return ledger.Renumber(tx, 17, same) }); err != nil {
		t.Fatal(err)
	}
	after := mark()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, dir)
	defer l.Close()
	if after == before || mark() != after {
		t.Errorf("the mark was %s, and is %s, then %s", before, after, mark())
	}
}

// A laterClock is a clock that a test sets.
type laterClock struct {
	clock.Clock
	now time.Time
}

func (c *laterClock) Now() time.Time { return c.now }

// A ledger keeps the time of its making, or of the last Remark. Since then it has all transfers of its agent.
func TestTimeOfMaking(t *testing.T) {
	dir, c := t.TempDir(), &laterClock{clock.System, time.UnixMilli(1_800_000_000_000)}
	made := func(want time.Time) {
		t.Helper()
		l, err := ledger.Open(dir, ledger.Options{Reserve: -1, Clock: c})
		must(t, err)
		defer l.Close()
		if at, err := ledger.Made(l); err != nil || !at.Equal(want) {
			t.Errorf("it was made at %v, not %v; %v", at, want, err)
		}
		if c.now.After(want) {
			must(t, l.Update(ledger.Remark))
		}
	}
	first := c.now
	made(first)
	c.now = first.Add(time.Hour)
	made(first)
	made(c.now)
}
