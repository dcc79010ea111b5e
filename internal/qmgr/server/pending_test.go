package server

import (
	"testing"
	"time"
)

// A connection that reads nothing is cut before one that reads slowly, as soon as the sum is too large. Bytes that may
// still be held for cut connections count.
func TestJudgePending(t *testing.T) {
	const mib = 1 << 20
	now := time.Unix(1000, 0)
	c := slowReaders{}
	look := func(after time.Duration, all ...waiting) map[uint64]bool {
		t.Helper()
		now = now.Add(after)
		got, _ := c.judge(now, all)
		cut := map[uint64]bool{}
		for _, w := range got {
			cut[w.id] = true
		}
		return cut
	}
	strangers := func(pending int64) (all []waiting) {
		for id := range uint64(20) {
			all = append(all, waiting{id: id, pending: pending})
		}
		return all
	}
	agent := func(taken int64) waiting { return waiting{id: 100, pending: 30 * mib, taken: taken} }
	if cut := look(0, append(strangers(mib), agent(1))...); len(cut) > 0 {
		t.Errorf("%v are cut while little waits", cut)
	}
	if cut := look(time.Second, append(strangers(11*mib), agent(1*mib))...); len(cut) > 0 {
		t.Errorf("%v are cut while less than the budget waits", cut)
	}
	cut := look(time.Second, append(strangers(20*mib), agent(2*mib))...)
	if len(cut) != 20 || cut[100] {
		t.Errorf("%v are cut, and not the 20 that read nothing", cut)
	}
	// Their memory may not be free yet: newcomers that do not read are cut with fewer bytes.
	others := func(pending int64) []waiting {
		return []waiting{{id: 200, pending: pending}, {id: 201, pending: mib / 2}, agent(now.Unix() * mib)}
	}
	if cut := look(time.Second, others(2*mib)...); len(cut) > 0 {
		t.Errorf("%v are cut, which have just come", cut)
	}
	if cut := look(notReading, others(3*mib)...); len(cut) != 1 || !cut[200] {
		t.Errorf("%v are cut, and not the one with too many waiting bytes", cut)
	}
	if cut := look(2*pendingKept, others(4*mib)...); len(cut) > 0 {
		t.Errorf("%v are cut while little waits and nothing is held any more", cut)
	}
	// All read, and yet the sum is too large: the connections with the most waiting bytes are cut, and no more of them
	// than necessary.
	var readers []waiting
	for id := range uint64(12) {
		readers = append(readers, waiting{id: 300 + id, pending: int64(20+id) * mib, taken: int64(id)})
	}
	look(time.Second, readers...)
	for n := range readers {
		readers[n].taken += mib
	}
	cut = look(time.Second, readers...)
	if len(cut) != 4 || !cut[311] || !cut[308] {
		t.Errorf("of readers %v are cut", cut)
	}
}
