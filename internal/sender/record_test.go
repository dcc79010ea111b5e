package sender

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/place/pipe"
	"ferry/internal/security/word"
	"ferry/internal/sender/walk"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// handClock is a clock that a test sets.
type handClock struct {
	clock.Clock
	now time.Time
}

func (c *handClock) Now() time.Time { return c.now }

// made is a transfer in a ledger, in Accepted, that keeps its notes.
type made struct {
	*Outgoing
	clock *handClock
	notes []audit.Record
	told  []*wire.Message
}

func (m *made) Send(_ transfer.AgentName, msg *wire.Message) error {
	m.told = append(m.told, msg)
	return nil
}

func newMade(t *testing.T, journals ledger.Files) *made {
	t.Helper()
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	l, err := ledger.Open(t.TempDir(), ledger.Options{Store: faulty.NewMemoryStore(), Files: journals, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	m := &made{clock: &handClock{Clock: clock.System, now: time.Unix(1_000_000, 0)}}
	q := transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(m.clock.now), Source: "ALPHA", Destination: "BETA", Items: transfer.ItemsOf("a"), Dest: transfer.File("b")}
	rec := NewRecord(q, word.Origin{Principal: "ann@box"}, m.clock.now)
	if err := rec.Move(transfer.Accepted); err != nil {
		t.Fatal(err)
	}
	if err := l.Update(func(tx *ledger.Tx) error { return tx.PutSource(rec) }); err != nil {
		t.Fatal(err)
	}
	m.Outgoing = New(Config{Agent: "ALPHA", Place: pipe.NoSource{}, Ledger: l, Clock: m.clock, Log: log, Link: m, Progress: func(*transfer.Progress) {}, Changed: func(*Outgoing) {},
		Note: func(_ *ledger.Tx, r audit.Record) error { m.notes = append(m.notes, r); return nil }}, rec)
	return m
}

// A record moves by the table of states. A refused move leaves no part of the change.
func TestARecordMovesByTheTable(t *testing.T) {
	m := newMade(t, faulty.NewMemoryFiles())
	err := m.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error { rec.Nonce = 7; return nil }, transfer.Settling)
	if err == nil || !strings.Contains(err.Error(), "from accepted to settling") {
		t.Errorf("the error is %v", err)
	}
	if rec := m.rec.read(); rec.State != transfer.Accepted || rec.Nonce != 0 {
		t.Errorf("the record is in %s with nonce %d", rec.State, rec.Nonce)
	}
	if err := m.rec.update(nil, transfer.Negotiating, transfer.Running, transfer.Settling, transfer.Successful); err != nil {
		t.Error(err)
	}
	if rec := m.rec.read(); rec.State != transfer.Successful || rec.Progress.State != rec.State {
		t.Errorf("the record is in %s, its progress in %s", rec.State, rec.Progress.State)
	}
	if err := m.rec.update(nil, transfer.Negotiating); err == nil {
		t.Error("a transfer that is over has moved")
	}
}

// The recovery time-out counts this process's time, from the beginning of a recovery to its end, without the time that
// a limit held the transfer up.
func TestOverdue(t *testing.T) {
	m := newMade(t, faulty.NewMemoryFiles())
	limit := m.rec.read().Request.RecoveryTimeout()
	overdue := func(want bool, when string) {
		t.Helper()
		if m.rec.overdue() != want {
			t.Errorf("%s: overdue is %v", when, !want)
		}
	}
	after := func(d time.Duration) { m.clock.now = m.clock.now.Add(d) }
	after(2 * limit)
	overdue(false, "before it has begun")
	if err := m.rec.begin(); err != nil {
		t.Fatal(err)
	}
	if got, want := m.rec.givesUp(), m.clock.now.Add(limit); !got.Equal(want) {
		t.Errorf("it gives up at %s, want %s", got, want)
	}
	after(limit - time.Second)
	overdue(false, "a second before the time is over")
	m.rec.extendDeadline(time.Minute)
	if got, want := m.rec.givesUp(), m.clock.now.Add(time.Second+time.Minute); !got.Equal(want) {
		t.Errorf("held up for a minute, it gives up at %s, want %s", got, want)
	}
	after(time.Second)
	overdue(false, "held up for a minute")
	after(time.Minute)
	overdue(true, "afterwards")
	if err := m.rec.recovering(); err != nil {
		t.Error(err)
	}
	overdue(true, "noted again that nothing moves")
	if err := m.rec.progressed(); err != nil {
		t.Error(err)
	}
	overdue(false, "since something moves")
	if got := m.rec.givesUp(); !got.IsZero() {
		t.Errorf("while something moves it gives up at %s", got)
	}
	after(2 * limit)
	overdue(false, "for as long as it moves")
}

// Sent bytes count once for each file, and again when they are sent again.
func TestFigures(t *testing.T) {
	f := &figures{high: map[uint64]int64{}}
	f.count(1, 0, 100)
	f.count(1, 100, 50)
	f.count(2, 0, 10)
	f.count(1, 120, 60) // 30 of them again
	if f.sent != 220 || f.resent != 30 || f.high[1] != 180 {
		t.Errorf("%d bytes sent, %d again, up to %d", f.sent, f.resent, f.high[1])
	}
	for _, c := range []struct {
		ack         wire.Ack
		bytes, past bool
	}{
		{wire.Ack{Bytes: 220, Safe: &wire.Safe{Item: 1, Offset: 180}}, false, false},
		{wire.Ack{Bytes: 221}, true, false},
		{wire.Ack{Safe: &wire.Safe{Item: 2, Offset: 11}}, false, true},
		{wire.Ack{Safe: &wire.Safe{Item: 3, Offset: 1}}, false, true},
	} {
		if bytes, past := f.checkAck(&c.ack); bytes != c.bytes || past != c.past {
			t.Errorf("%+v: %v %v", c.ack, bytes, past)
		}
	}
	f.broke()
	f.broke()
	if !f.acked(&wire.Ack{Safe: &wire.Safe{Item: 1, Offset: 100}}) || f.acked(&wire.Ack{Safe: &wire.Safe{Item: 1, Offset: 100}}) {
		t.Error("a safe point is new once")
	}
	if n := f.broke(); n != 1 {
		t.Errorf("the lane has broken %d times since the safe point", n)
	}
}

// The last outcomes end a transfer only if they are all items of the walk.
func TestLastOutcomes(t *testing.T) {
	m := newMade(t, faulty.NewMemoryFiles())
	if err := m.rec.begin(); err != nil {
		t.Fatal(err)
	}
	if err := m.items.Open(m.rec.read(), 0); err != nil {
		t.Fatal(err)
	}
	j := m.items.Journal()
	for _, p := range []transfer.Path{"/a", "/b"} {
		if err := j.Append(transfer.Item{Type: transfer.ItemFile, Source: p, Name: p[1:]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Sync(); err != nil {
		t.Fatal(err)
	}
	outcome := func(n uint64, p transfer.Path) transfer.Outcome {
		return transfer.Outcome{Item: n, Type: transfer.ItemFile, Source: p, Path: p}
	}
	both := []transfer.Outcome{outcome(0, "/a"), outcome(1, "/b")}
	for n, oc := range both {
		m.sent.begin(uint64(n), transfer.Item{Type: transfer.ItemFile, Source: oc.Source}, &walk.Task{})
		m.sent.end(uint64(n), "")
	}
	m.outcomes.record(&wire.Outcomes{Batch: 1, Last: true, Outcomes: both})
	if s := m.State(); s != transfer.Negotiating || len(m.told) > 0 {
		t.Fatalf("while the walk goes on the transfer is %s, and %d batches are acknowledged", s, len(m.told))
	}
	if err := j.End(ledger.Tally{}); err != nil {
		t.Fatal(err)
	}
	m.outcomes.record(&wire.Outcomes{Batch: 1, Last: true, Outcomes: both[:1]})
	if s := m.State(); s != transfer.Negotiating || len(m.told) > 0 {
		t.Fatalf("with one item of two it is %s, and %d batches are acknowledged", s, len(m.told))
	}
	m.notes = nil // notes of refused changes
	m.outcomes.record(&wire.Outcomes{Batch: 1, Outcomes: both[:1]})
	m.outcomes.record(&wire.Outcomes{Batch: 2, Last: true, Outcomes: both})
	m.outcomes.record(&wire.Outcomes{Batch: 2, Last: true, Outcomes: both}) // its acknowledgement was lost
	rec := m.rec.read()
	if rec.State != transfer.Successful || rec.Progress.Files != 2 || len(m.told) != 3 {
		t.Errorf("it is %s with %d files, and %d batches are acknowledged", rec.State, rec.Progress.Files, len(m.told))
	}
	var events []string
	for _, n := range m.notes {
		events = append(events, string(n.Event))
	}
	if got := strings.Join(events, " "); got != "item item completed" {
		t.Errorf("the audit has %s", got)
	}
}

// After a crash a transfer resumes by the table of states. A transfer that crashes its agent again and again is parked.
func TestRevive(t *testing.T) {
	for _, c := range []struct {
		was             transfer.State
		crashed, cancel bool
		crashes         int
		is              transfer.State
		parked, changed bool
	}{
		{transfer.Accepted, true, false, 0, transfer.Accepted, false, false},
		{transfer.Settling, true, false, 0, transfer.Settling, false, false},
		{transfer.Waiting, true, false, 2, transfer.Waiting, false, true},
		{transfer.Negotiating, true, false, 2, transfer.Negotiating, false, true},
		{transfer.Running, false, false, 2, transfer.Negotiating, false, true},
		{transfer.Running, true, false, 1, transfer.Negotiating, false, true},
		{transfer.Running, true, true, 2, transfer.Negotiating, false, true},
		{transfer.Running, true, false, 2, transfer.Parked, true, true},
	} {
		rec := &ledger.Source{State: c.was, Crashes: c.crashes, Cancel: c.cancel, Nonce: 4}
		parked, changed, err := Revive(rec, c.crashed, time.Unix(9, 0))
		if rec.State != c.is || parked != c.parked || changed != c.changed || err != nil {
			t.Errorf("%+v: is %s, parked %v, changed %v, %v", c, rec.State, parked, changed, err)
		}
		if again := rec.Nonce == 5; again != (c.is == transfer.Negotiating || c.is == transfer.Parked) {
			t.Errorf("%+v: the nonce is %d", c, rec.Nonce)
		}
		if rec.Recovering.IsZero() == c.changed {
			t.Errorf("%+v: recovering since %v", c, rec.Recovering)
		}
	}
}

// The final status is published once, even if it is to be shown more often. Each publication costs 400 bytes of a slow
// link.
func TestTheEndIsShownOnce(t *testing.T) {
	m := newMade(t, faulty.NewMemoryFiles())
	shown := map[transfer.State]int{}
	m.cfg.Progress = func(p *transfer.Progress) { shown[p.State]++ }
	m.shown.show(true)
	m.shown.show(true)
	if _, err := m.CancelNow(); err != nil {
		t.Fatal(err)
	}
	m.shown.show(true)
	m.shown.show(true)
	if shown[transfer.Accepted] != 2 || shown[transfer.Cancelled] != 1 {
		t.Errorf("shown: %v", shown)
	}
}

// Outcomes that contradict the journal of an earlier run end the transfer: the journal is damaged. They end no
// transfer if this run has made the journal.
func TestOutcomesAgainstADamagedJournal(t *testing.T) {
	file := func(n uint64, p transfer.Path) transfer.Outcome {
		return transfer.Outcome{Item: n, Type: transfer.ItemFile, Source: p, Path: p}
	}
	for name, c := range map[string]struct {
		said wire.Outcomes
		ends bool // with stored delivery, too
	}{
		"an item of the journal":   {wire.Outcomes{Outcomes: []transfer.Outcome{file(1, "/b")}}, false},
		"an item that it lacks":    {wire.Outcomes{Outcomes: []transfer.Outcome{file(0, "/a"), file(2, "/c")}}, true},
		"another file":             {wire.Outcomes{Outcomes: []transfer.Outcome{file(1, "/c")}}, true},
		"another type":             {wire.Outcomes{Outcomes: []transfer.Outcome{{Item: 1, Type: transfer.ItemDir, Source: "/b"}}}, true},
		"the last, without an end": {wire.Outcomes{Outcomes: []transfer.Outcome{file(0, "/a"), file(1, "/b")}, Last: true}, true},
	} {
		for _, delivery := range []string{"", transfer.DeliveryStored} {
			for _, made := range []bool{true, false} {
				m := newMade(t, faulty.NewMemoryFiles())
				err := errors.Join(m.rec.begin(), m.items.Open(m.rec.read(), 0))
				j := m.items.Journal()
				for _, p := range []transfer.Path{"/a", "/b"} {
					err = errors.Join(err, j.Append(transfer.Item{Type: transfer.ItemFile, Source: p, Name: p[1:]}))
				}
				err = errors.Join(err, j.Sync(), m.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
					rec.Journal, rec.Request.Delivery = made, delivery
					if made {
						rec.Dest = "earlier"
					}
					return nil
				}))
				if err != nil {
					t.Fatal(err)
				}
				m.items.Close()
				m.notes = nil
				o := New(*m.cfg, m.rec.read())
				o.outcomes.record(&c.said)
				rec, where := o.rec.read(), fmt.Sprintf("%s, delivery %q, journal of an earlier run: %v", name, delivery, made)
				if !made || !c.ends {
					if rec.State != transfer.Negotiating {
						t.Errorf("%s: the transfer is %s: %v", where, rec.State, rec.Progress.Reason)
					}
					continue
				}
				if why := rec.Progress.Reason; rec.State != transfer.Failed || why == nil || why.Kind != transfer.KindLost || rec.Progress.Code != transfer.CodeNothing || rec.Progress.Files > 0 {
					t.Errorf("%s: the transfer is %s with %d files: %v", where, rec.State, rec.Progress.Files, why)
				}
				if len(m.told) != 2 || m.told[0].Kind != wire.KindCancel || m.told[1].Kind != wire.KindOutcomesAck {
					t.Errorf("%s: the destination is told %v", where, m.told)
				}
				if len(m.notes) != 2 || m.notes[0].Event != audit.Failed || m.notes[1].Event != audit.Warning || len(m.notes[1].Items) != len(c.said.Outcomes) {
					t.Errorf("%s: the audit has %+v", where, m.notes)
				}
			}
		}
	}
}

// The journal of a guarded request that lacks its end is damaged once an item was offered.
func TestAGuardedJournalWithoutItsEnd(t *testing.T) {
	for _, guarded := range []bool{false, true} {
		for offered := range uint64(3) {
			m := newMade(t, faulty.NewMemoryFiles())
			err := errors.Join(m.rec.begin(), m.items.Open(m.rec.read(), 0))
			err = errors.Join(err, m.items.Journal().Append(transfer.Item{Type: transfer.ItemFile, Source: "/a", Name: "a"}), m.items.Journal().Sync(),
				m.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
					rec.Journal, rec.Request.Together = true, guarded
					return nil
				}))
			if err != nil {
				t.Fatal(err)
			}
			m.items.Close()
			err = m.items.Open(m.rec.read(), offered)
			if damaged := offered > 1 || guarded && offered > 0; damaged != (transfer.KindOf(err) == transfer.KindLost) || !damaged && err != nil {
				t.Errorf("guarded %v, %d offered: %v", guarded, offered, err)
			}
			m.items.Close()
		}
	}
}

// The destination gets the end once the ledger has it, and not before.
func TestTheEndIsOnRecordBeforeItIsTold(t *testing.T) {
	m := newMade(t, faulty.NewMemoryFiles())
	if err := m.rec.begin(); err != nil {
		t.Fatal(err)
	}
	cfg, full := *m.cfg, errors.New("the ledger is full")
	cfg.Note = func(*ledger.Tx, audit.Record) error { return full }
	if _, err := New(cfg, m.rec.read()).giveUp(nil); !errors.Is(err, full) || len(m.told) > 0 {
		t.Errorf("with a full ledger: %v, and the destination is told %v", err, m.told)
	}
	if _, err := m.giveUp(nil); err != nil || len(m.told) != 1 || m.told[0].Kind != wire.KindCancel || m.State() != transfer.Failed {
		t.Errorf("%v: the transfer is %s, and the destination is told %v", err, m.State(), m.told)
	}
}

// unreadable are item journals that cannot be read.
type unreadable struct{ ledger.Files }

func (unreadable) Open(string) (ledger.File, error) { return nil, errors.New("input/output error") }

// A cancelled transfer ends if its item journal cannot be read: the outcomes go into the audit. Another transfer gives
// the journal as the reason of its wait.
func TestOutcomesWithAnUnreadableJournal(t *testing.T) {
	for _, cancelled := range []bool{false, true} {
		m := newMade(t, unreadable{faulty.NewMemoryFiles()})
		err := errors.Join(m.rec.begin(), m.rec.update(func(_ *ledger.Tx, rec *ledger.Source) error {
			rec.Journal, rec.Dest = true, "earlier"
			if cancelled {
				return rec.Move(transfer.Cancelling)
			}
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		m.notes = nil
		o := New(*m.cfg, m.rec.read())
		o.outcomes.record(&wire.Outcomes{Last: true, Outcomes: []transfer.Outcome{{Type: transfer.ItemFile, Source: "/a", Path: "/a"}}})
		why := o.outcomes.unrecorded()
		switch {
		case !cancelled && (len(m.told) > 0 || len(m.notes) > 0 || why == nil || !why.Kind.Waits() || !strings.Contains(why.Text, "input/output error")):
			t.Errorf("the destination is told %v, the audit has %+v, and the reason is %v", m.told, m.notes, why)
		case cancelled && (len(m.told) != 1 || m.told[0].Kind != wire.KindOutcomesAck || len(m.notes) != 1 || m.notes[0].Event != audit.Warning || len(m.notes[0].Items) != 1):
			t.Errorf("cancelled, the destination is told %v, and the audit has %+v", m.told, m.notes)
		}
	}
}
