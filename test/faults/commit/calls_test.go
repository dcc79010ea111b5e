//go:build linux

package commit_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/faulty"
	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/test/campaign"
)

// A way describes how a call fails.
type way struct {
	name  string
	err   error
	good  bool // this call and all later ones
	all   bool // all other calls on the same host's disk fail as well
	late  bool // the call takes effect and returns the error
	short bool // half of a write is done
	taken bool // nothing fails: a stranger takes the final name just before
}

// A failing is one call of a work and its way to fail.
type failing struct {
	w   *work
	op  faulty.Op
	way way
}

func (f failing) String() string { return fmt.Sprintf("%v: %s fails: %s", f.w, f.op, f.way.name) }

// calls lists the calls that a work makes. Their order is always the same.
func calls(t *testing.T, w *work) (ops []faulty.Op) {
	t.Helper()
	a := start(w, w.lay(t), faulty.JournalState{}, firstBoot)
	if err := a.run(1); err != nil {
		t.Fatalf("%v without any fault: %v", w, err)
	}
	ops = a.disk.Log()
	for _, s := range a.atEnd(nil, false) {
		t.Errorf("%v without any fault: %s", w, s)
	}
	return ops
}

// looks are the calls that change nothing. They never fail for lack of space.
var looks = map[faulty.Call]bool{
	faulty.CallResolve: true, faulty.CallOpenRoot: true, faulty.CallCloseRoot: true, faulty.CallOpenBeneath: true, faulty.CallChild: true,
	faulty.CallCloseDir: true, faulty.CallWhere: true, faulty.CallStatDir: true, faulty.CallTrace: true, faulty.CallMounted: true, faulty.CallLstat: true, faulty.CallNames: true,
	faulty.CallFree: true, faulty.CallOpen: true, faulty.CallStat: true, faulty.CallRead: true, faulty.CallPunch: true, faulty.CallWatchFS: true, faulty.CallCloseWatch: true,
}

func journalCall(c faulty.Call) bool { return strings.HasPrefix(string(c), "journal-") }

// ways returns all ways of a call to fail.
func ways(w *work, op faulty.Op) (all []way) {
	add := func(v way) {
		all = append(all, v)
		if v.taken {
			return
		}
		name := v.name
		v.good, v.name = true, name+", for good"
		all = append(all, v)
		if v.err == syscall.EIO && !v.short {
			v.all, v.name = true, name+", and the disk is dead"
			all = append(all, v)
		}
	}
	for _, e := range []syscall.Errno{syscall.EIO, syscall.EACCES, syscall.EINTR} {
		add(way{name: e.Error(), err: e})
	}
	if !looks[op.Call] && !strings.HasPrefix(op.Path, "/src") {
		for _, e := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT} {
			add(way{name: e.Error(), err: e})
		}
	}
	if op.Call == faulty.CallWrite {
		add(way{name: "fewer bytes", short: true})
		add(way{name: "fewer bytes and no space", short: true, err: syscall.ENOSPC})
		add(way{name: "fewer bytes and an I/O error", short: true, err: syscall.EIO})
	}
	if !looks[op.Call] && op.Call != faulty.CallClose {
		add(way{name: "an I/O error, although it takes effect", err: syscall.EIO, late: true})
	}
	if (op.Call == faulty.CallRename || op.Call == faulty.CallLink) && w.fileAt(op.To) >= 0 && w.exists == "" {
		add(way{name: "a stranger takes the name", taken: true})
	}
	return all
}

// TestCampaignNthIO makes each call on the disk and on the ledger fail in its turn, once or permanently, until the
// fault is lifted.
func TestCampaignNthIO(t *testing.T) {
	campaign.Run(t, campaign.Spec{
		Name: "nth-io", Unit: "failing calls", Full: 18000, Short: 1500,
		What:     "one call on the disk or on the ledger failing, once or for good, in every way it can, at every place in checkpoint, commit and delete-source",
		Packages: []string{"internal/place/local", "internal/content/digest", "internal/transfer"},
	}, func(t *testing.T, c *campaign.C) {
		var all []failing
		for _, w := range workloads() {
			if w.newer != "" || w.from > 0 {
				continue // they make the same calls as similar works
			}
			for _, op := range calls(t, w) {
				for _, v := range ways(w, op) {
					all = append(all, failing{w, op, v})
				}
			}
		}
		r := rand.New(rand.NewPCG(3, 4))
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		t.Logf("there are %d ways in which one call can fail", len(all))
		c.Loop(t, func(t *testing.T, seed uint64, _ *rand.Rand) {
			f := all[(seed-1)%uint64(len(all))]
			for _, s := range f.run(t) {
				t.Errorf("%v: %s", f, s)
			}
		})
	})
}

// run does the work with the fault, lifts the fault, and returns the violations.
func (f failing) run(t *testing.T) (wrong []string) {
	t.Helper()
	m := f.w.lay(t)
	a := start(f.w, m, faulty.JournalState{}, firstBoot)
	if f.way.taken {
		a.stranger(f.op)
	} else {
		a.disk.Arm(faulty.Plan{Call: f.op.Call, Path: f.op.Path, Nth: f.op.Nth, Err: f.way.err, Late: f.way.late, Short: f.way.short,
			Good: f.way.good, All: f.way.all, Beneath: f.host()})
	}
	waits := a.run(3)
	if !f.way.taken && !a.disk.Met() {
		wrong = append(wrong, "the call was not made")
	}
	a.disk.Heal()
	wrong = append(wrong, f.waited(waits)...)
	if err := a.run(3); err != nil {
		wrong = append(wrong, fmt.Sprintf("I7: with the fault lifted: %v", err))
	}
	wrong = append(wrong, f.outcomes(a)...)
	wrong = append(wrong, a.atEnd(nil, true)...)
	return append(wrong, f.powerCut(a)...)
}

// stranger creates a file under a final name just before the agent gives that name.
func (a *agent) stranger(op faulty.Op) {
	a.others.stranger = op.To
	before := a.disk.Before
	a.disk.Before = func(now faulty.Op) error {
		if now.Call == op.Call && now.Path == op.Path && now.Nth == op.Nth {
			if err := a.mem.WriteFile(op.To, strangersFile); err != nil {
				a.see("the stranger's file could not be made: %v", err)
			}
			a.mem.SyncAll()
		}
		return before(now)
	}
}

// host returns the directory of the agent with the failing disk.
func (f failing) host() string {
	for _, dir := range []string{"/src", "/dst", "ledger:"} {
		if strings.HasPrefix(f.op.Path, dir) {
			return dir
		}
	}
	return ""
}

// space reports whether the fault is a full disk.
func (f failing) space() bool { return f.way.err == syscall.ENOSPC || f.way.err == syscall.EDQUOT }

// waited compares the transfer's reason for waiting with the fault.
func (f failing) waited(err error) (wrong []string) {
	if err == nil || journalCall(f.op.Call) {
		return nil
	}
	kind := transfer.KindOf(err)
	switch {
	case f.space() && kind != transfer.KindNoSpace:
		wrong = append(wrong, fmt.Sprintf("a full disk is called %v: %v", kind, err))
	case kind == transfer.KindInternal:
		wrong = append(wrong, fmt.Sprintf("a failing disk is called an internal error: %v", err))
	}
	if !f.names(err) {
		wrong = append(wrong, fmt.Sprintf("it is not said what it is about: %v", err))
	}
	return wrong
}

// names reports whether an error names the path of the call or a directory above it. The error names a temporary by its
// final name. A permanent fault may have hit another path since.
func (f failing) names(err error) bool {
	if f.way.good && strings.Contains(err.Error(), cmp.Or(f.host(), "/")) {
		return true
	}
	for p := f.op.Path; ; p = path.Dir(p) {
		if strings.Contains(err.Error(), transfer.Path(p).String()) {
			return p != "/" || f.op.Path == "/"
		}
		if p == "/" || p == "." {
			return false
		}
	}
}

// outcomes compares the recorded outcome of each item with the fault.
func (f failing) outcomes(a *agent) (wrong []string) {
	failed := 0
	state := a.j.State()
	if content, err := a.mem.ReadFile(f.op.To); f.way.taken && (err != nil || !bytes.Equal(content, strangersFile)) {
		wrong = append(wrong, "I4: the stranger's file is gone")
	}
	for item := range uint64(f.w.items()) {
		out := state.Items[item].Outcome
		if out == nil || out.OK() {
			continue
		}
		name := f.w.itemName(int(item))
		if f.w.set && (out.Err.Kind == transfer.KindTogether || f.w.fails && contains([]transfer.Kind{transfer.KindExists, transfer.KindWrongType}, out.Err.Kind)) {
			continue // another item has failed, or the item fails without any fault
		}
		failed++
		want := []transfer.Kind{transfer.KindUnwritable}
		switch {
		case f.way.taken:
			want = []transfer.Kind{transfer.KindExists}
		case f.host() == "/src":
			want = []transfer.Kind{transfer.KindUnreadable}
		case f.space() || journalCall(f.op.Call) || f.way.short && f.way.err == nil:
			want = nil
		}
		if !contains(want, out.Err.Kind) {
			wrong = append(wrong, fmt.Sprintf("%q has failed as %v, and not as one of %v: %v", name, out.Err.Kind, want, out.Err))
		}
		if text := out.Err.Error(); !strings.Contains(text, "/"+name) {
			wrong = append(wrong, fmt.Sprintf("%q has failed with a sentence that does not name it: %s", name, text))
		}
	}
	if f.way.taken && failed != 1 && !(f.w.set && f.w.fails) {
		wrong = append(wrong, "a name was taken, and no item has failed for it")
	}
	if failed > 1 && !f.way.good {
		wrong = append(wrong, fmt.Sprintf("%d items have failed for one call", failed))
	}
	for item, d := range state.Deletes {
		if d.Warning != "" && !strings.Contains(d.Warning, string(d.Source)) {
			wrong = append(wrong, fmt.Sprintf("the warning about source %d does not name it: %s", item, d.Warning))
		}
	}
	return wrong
}

func contains(all []transfer.Kind, k transfer.Kind) bool {
	for _, a := range all {
		if a == k {
			return true
		}
	}
	return false
}

// powerCut checks that the recorded state survives a power cut with the maximum loss.
func (f failing) powerCut(a *agent) []string {
	if !f.w.durable() {
		return nil
	}
	k := a.mem.Ops()
	l := make(faulty.Loss, a.mem.Pending(k))
	m := a.mem.Crashed(k, l, 77)
	return f.w.atCrash(m, &crash{state: a.j.State(), taken: takes(a.mem, k), stranger: a.others.stranger,
		refused: f.op.Call == faulty.CallRename || f.op.Call == faulty.CallLink})
}

// TestCampaignFullMemory runs out of blocks or inodes in the file system itself, without an injected fault. The
// transfer waits, gives the reason, and resumes by itself when there is space.
func TestCampaignFullMemory(t *testing.T) {
	campaign.Run(t, campaign.Spec{
		Name: "full-memory", Unit: "full disks", Full: 400, Short: 100,
		What:     "a file system in memory that runs out of blocks or inodes at every place in a transfer",
		Packages: []string{"internal/place/local", "internal/content/digest", "internal/transfer"},
	}, func(t *testing.T, c *campaign.C) {
		all := slices.DeleteFunc(workloads(), func(w *work) bool { return w.newer != "" }) // the other program's newer file needs space, too
		// Systematic part: each workload with each small number of free blocks and inodes.
		for _, w := range all {
			for left := range int64(12) {
				filled(t, w, true, left)
				filled(t, w, false, left)
			}
		}
		c.Loop(t, func(t *testing.T, seed uint64, r *rand.Rand) {
			w := all[r.IntN(len(all))]
			inodes, left := r.IntN(3) == 0, int64(r.IntN(20))
			filled(t, w, inodes, left)
		})
	})
}

// filled runs a transfer on a disk with the given number of free blocks or inodes, and then on one with space again.
func filled(t *testing.T, w *work, inodes bool, left int64) {
	t.Helper()
	m := w.lay(t)
	m.Limit(inodes, left)
	a := start(w, m, faulty.JournalState{}, firstBoot)
	err := a.run(2)
	var wrong []string
	if err != nil && transfer.KindOf(err) != transfer.KindNoSpace {
		wrong = append(wrong, fmt.Sprintf("a full disk is called %v: %v", transfer.KindOf(err), err))
	}
	if errors.As(err, new(*place.PendingError)) {
		wrong = append(wrong, fmt.Sprintf("there was no space after the commit was recorded: %v", err))
	}
	m.Limit(inodes, -1)
	if err := a.run(2); err != nil {
		wrong = append(wrong, fmt.Sprintf("with space again: %v", err))
	}
	for _, s := range append(wrong, a.atEnd(nil, false)...) {
		t.Errorf("%v, %d left (inodes: %v): %s", w, left, inodes, s)
	}
}
