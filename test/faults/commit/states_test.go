//go:build linux

package commit_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"ferry/internal/faulty"
	"ferry/test/campaign"
)

const (
	firstBoot  = "the first boot"
	secondBoot = "the second boot"
	thirdBoot  = "the third boot"
)

// exhaustive is the maximum number of states of one moment that the campaign searches exhaustively.
const exhaustive = 256

// A recording is a work without any crash, with every operation.
type recording struct {
	w   *work
	mem *faulty.Memory
}

// A state is a crash after k operations of a recording.
type state struct {
	rec  *recording
	k    int
	kill bool // of the process alone
	loss faulty.Loss
}

// record does a work from its beginning to its end.
func record(t *testing.T, w *work) *recording {
	t.Helper()
	m := w.lay(t)
	var js faulty.JournalState
	if w.from > 0 {
		a := start(w, m, js, firstBoot)
		a.others.points = w.from
		if err := a.round(); err == nil {
			t.Fatalf("%v: there are no %d resume points", w, w.from)
		}
		js = a.j.State()
		a.stop()
	}
	a := start(w, m, js, firstBoot)
	if err := a.run(1); err != nil {
		t.Fatalf("%v without any crash: %v", w, err)
	}
	for _, s := range a.atEnd(nil, false) {
		t.Errorf("%v without any crash: %s", w, s)
	}
	return &recording{w, m}
}

// states lists all crashes at the moments of the recordings that have at most exhaustive states, in a fixed mixed
// order.
func states(recs []*recording) (all []state) {
	for _, rec := range recs {
		for k := range rec.mem.Ops() + 1 {
			all = append(all, state{rec: rec, k: k, kill: true})
			for _, l := range rec.mem.Losses(k, exhaustive) {
				all = append(all, state{rec: rec, k: k, loss: l})
			}
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// sample returns a random crash.
func sample(recs []*recording, r *rand.Rand) state {
	rec := recs[r.IntN(len(recs))]
	k := r.IntN(rec.mem.Ops() + 1)
	return state{rec: rec, k: k, loss: rec.mem.Sample(k, r)}
}

// TestCampaignCrashStates runs the agent on every state of the disk that a crash can leave. The run finds no incomplete
// file under a final name, and completes the work.
func TestCampaignCrashStates(t *testing.T) {
	campaign.Run(t, campaign.Spec{
		Name: "crash-states", Unit: "states", Full: 20000, Short: 3000,
		What:     "a crash of the process or of the host in every state that checkpoint, commit and delete-source can leave on a disk, and a second crash in the recovery",
		Packages: []string{"internal/place/local", "internal/content/digest", "internal/transfer"},
	}, func(t *testing.T, c *campaign.C) {
		var recs []*recording
		for _, w := range workloads() {
			recs = append(recs, record(t, w))
		}
		all := states(recs)
		t.Logf("%d states are searched exhaustively; seeds from there on choose among all", len(all))
		c.Loop(t, func(t *testing.T, seed uint64, r *rand.Rand) {
			s := sample(recs, r)
			if seed-1 < uint64(len(all)) {
				s = all[seed-1]
			}
			s.judge(t, r)
		})
	})
}

// judge crashes the recording, lets the next run do its work, and may crash that run as well.
func (s state) judge(t *testing.T, r *rand.Rand) {
	t.Helper()
	w, rec := s.rec.w, s.rec.mem
	fail := func(when string, m *faulty.Memory, k int, l faulty.Loss, wrong []string) {
		if len(wrong) > 0 {
			t.Errorf("%v, %s:\n%s\nafter these operations:\n%s", w, when, strings.Join(wrong, "\n"), m.Describe(k, l))
		}
	}
	c := &crash{state: faulty.JournalState{}.At(rec, s.k), sameBoot: s.kill}
	m, boot, base := rec.Killed(s.k), firstBoot, faulty.JournalState{}
	if !s.kill {
		m, boot, base = rec.Crashed(s.k, s.loss, device(r)), secondBoot, c.state
	}
	c.taken = w.gone(m, takes(rec, s.k))
	fail("at the crash", rec, s.k, s.loss, w.atCrash(m, c))
	if t.Failed() {
		return
	}
	others, err := w.changeFromOutside(m, c, r)
	must(t, err)
	from := m.Ops()
	a := start(w, m, c.state, boot)
	a.others.newer = c.newer // it comes once
	if s.kill {
		c.taken = nil // the operations that continue include them
	}
	others.expect(a, c)
	err = a.run(2)
	wrong := append(others.check(a), a.atEnd(c, others != nil && others.kind != 0)...)
	if err != nil {
		wrong = append(wrong, fmt.Sprintf("the next run: %v", err))
	}
	fail(others.String(), rec, s.k, s.loss, wrong)
	if t.Failed() || others != nil || r.IntN(3) > 0 {
		return
	}
	s.second(t, r, m, from, base, c)
}

// device returns the device number of the disk after a crash of the host, usually the same as before.
func device(r *rand.Rand) uint64 {
	if r.IntN(8) == 0 {
		return 78
	}
	return 77
}

// second crashes the recovery itself, after some of its operations.
func (s state) second(t *testing.T, r *rand.Rand, m *faulty.Memory, from int, base faulty.JournalState, first *crash) {
	t.Helper()
	w := s.rec.w
	k := from + r.IntN(m.Ops()-from+1)
	l := m.Sample(k, r)
	c := &crash{state: base.At(m, k), taken: addAll(takes(m, k), first.taken)}
	m2 := m.Crashed(k, l, device(r))
	c.taken = w.gone(m2, c.taken)
	wrong := w.atCrash(m2, c)
	if !first.promised(w) {
		for item, it := range first.state.Items { // these were given up at the first crash
			if it.Outcome != nil {
				c.state.Items[item] = it
			}
		}
	}
	a := start(w, m2, c.state, thirdBoot)
	a.others.newer = c.newer
	if len(wrong) == 0 {
		err := a.run(2)
		wrong = a.atEnd(c, false)
		if err != nil {
			wrong = append(wrong, fmt.Sprintf("the run after the second crash: %v", err))
		}
	}
	if len(wrong) > 0 {
		t.Errorf("%v, crash in the recovery from a crash:\n%s\nfirst:\n%s\nthen:\n%s", w, strings.Join(wrong, "\n"),
			s.rec.mem.Describe(s.k, s.loss), m.Describe(k, l))
	}
}
