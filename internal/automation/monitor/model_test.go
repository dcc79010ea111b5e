package monitor

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/transfer"
)

// A model has the expected transfers of a monitor: the number of states of each name. Each state lasted until all its
// triggers were submitted.
type model struct {
	*bench
	r     *rand.Rand
	made  int
	wants map[string]int
	there []string
}

// Each state of a file is sent once, after any changes of files, definitions and the agent.
func TestModel(t *testing.T) {
	for seed := range uint64(30) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &model{bench: newBench(t), r: rand.New(rand.NewPCG(seed, 1)), wants: map[string]int{}}
				m.start()
				defer func() { m.end() }()
				m.faults()
				m.define(false)
				for range 40 {
					m.step()
				}
				m.settle()
			})
		})
	}
}

func (m *model) define(replace bool) {
	m.create(files(func(d *Definition) {
		d.Batch, d.Levels, d.Condition.Kind, d.Poll = 1+m.r.IntN(3), 2, ConditionMatch, transfer.Duration(time.Second)
		if m.r.IntN(3) == 0 {
			d.Condition = Condition{ConditionUnchanged, 1 + m.r.Int64N(2)}
		} else if m.r.IntN(2) == 0 {
			d.Settle = transfer.Duration(m.r.IntN(3000)) * transfer.Duration(time.Millisecond)
		}
		if m.r.IntN(2) == 0 {
			d.Request.Dest, d.Request.Job = transfer.File("to/${FileName}"), "\xff${FilePath}"
		}
	}), replace)
}

// faults makes submissions wait, or fail in the agent, before or after they were accepted.
func (m *model) faults() {
	busy, r := 0, rand.New(rand.NewPCG(m.r.Uint64(), 2)) // of the goroutine that submits
	m.refuse = func(*transfer.Request) error {
		if busy > 0 || r.IntN(4) == 0 {
			if busy--; busy < 0 {
				busy = r.IntN(4)
			}
			kinds := []transfer.Kind{transfer.KindBusy, transfer.KindNoSpace, transfer.KindInternal, transfer.KindCancelled, transfer.KindClock, transfer.KindAlive}
			return transfer.Errorf(kinds[r.IntN(len(kinds))], "not now")
		}
		return nil
	}
	m.after = func(*transfer.Request) error {
		if r.IntN(8) == 0 {
			return transfer.Errorf(transfer.KindInternal, "the ledger is closed")
		}
		return nil
	}
}

func (m *model) step() {
	switch m.r.IntN(10) {
	case 0, 1, 2, 3:
		for range 1 + m.r.IntN(5) {
			m.drop()
		}
	case 4: // at the Nth transaction, before or after it took effect
		m.fault.late.Store(m.r.IntN(2) == 0)
		m.fault.at.Store(m.fault.calls.Load() + 1 + m.r.Int64N(6))
	case 5:
		m.again()
	case 6:
		m.healed(func() { m.define(true) })
	case 7:
		m.healed(func() { m.must(m.as("ann", CommandPause, Named{Name: "m"})) })
		pass(time.Duration(m.r.IntN(2000)) * time.Millisecond)
		m.healed(func() { m.must(m.as("ann", CommandResume, Named{Name: "m"})) })
	case 8:
		m.settle()
		m.change()
	case 9:
		m.must(os.Rename(m.path("in"), m.path("away")))
		pass(time.Duration(m.r.IntN(4000)) * time.Millisecond)
		m.must(os.Rename(m.path("away"), m.path("in")))
	}
	pass(time.Duration(m.r.IntN(1500)) * time.Millisecond)
}

// drop makes a new file.
func (m *model) drop() {
	m.made++
	name := fmt.Sprintf("%sf%d\xfe", []string{"", "sub/", "sub-", "sub/sub/"}[m.r.IntN(4)], m.made)
	m.write("in/"+name, "one")
	m.wants[name]++
	m.there = append(m.there, name)
}

// change replaces a file, or removes it.
func (m *model) change() {
	if len(m.there) == 0 {
		return
	}
	k := m.r.IntN(len(m.there))
	name := m.there[k]
	if m.r.IntN(3) == 0 {
		m.must(os.Remove(m.path("in/" + name)))
		m.there = append(m.there[:k], m.there[k+1:]...)
		return
	}
	m.write("in/"+name, fmt.Sprintf("another one, of round %d", m.made))
	m.must(os.Chtimes(m.path("in/"+name), time.Time{}, time.Unix(int64(1e9+m.made+m.wants[name]*1000), 0)))
	m.wants[name]++
}

// again ends the agent, and starts it with the same ledger.
func (m *model) again() {
	m.crash()
	m.start()
}

// healed gives a command in a new run of the agent, with a ledger that accepts it.
func (m *model) healed(do func()) {
	m.again()
	do()
}

// settle waits until everything is sent, and compares.
func (m *model) settle() {
	m.t.Helper()
	m.again()
	for n, quiet := 0, 0; quiet < 3; n++ {
		before := m.shown()
		pass(10 * time.Second)
		if s := m.shown(); s.Waiting == 0 && s.Problem == nil && s.Triggers == before.Triggers && s.Triggers == s.Submitted {
			quiet++ // files that are unchanged for long enough may be on their way for a while
		} else {
			quiet = 0
		}
		if n == 1000 {
			m.t.Fatalf("it does not come to rest: %+v", m.shown())
		}
	}
	got := map[string]int{}
	for source, n := range m.sent() {
		got[strings.TrimPrefix(source, m.path("in")+"/")] += n
	}
	for name, n := range m.wants {
		if got[name] != n {
			m.t.Errorf("%q was sent %d times, not %d", name, got[name], n)
		}
	}
	if len(got) != len(m.wants) {
		m.t.Errorf("%d names were sent, not %d", len(got), len(m.wants))
	}
	if s := m.shown(); s.Refused != 0 || s.History != len(m.wants) {
		m.t.Errorf("%d files: shown is %+v; the log is %+v", len(m.wants), s, m.triggers()[:min(3, len(m.triggers()))])
	}
}
