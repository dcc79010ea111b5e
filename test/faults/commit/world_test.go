//go:build linux

package commit_test

import (
	"bytes"
	"path"
	"strings"
	"sync"

	"ferry/internal/faulty"
	"ferry/internal/localfs"
	"ferry/internal/transfer"
)

// Around the agent there are others: a program that puts a newer file under a
// source's name, a consumer that takes what arrives. And everything that is
// given a final name is looked at there and then.

var errDead = &deadError{}

// A deadError is what a process is told whose time is over.
type deadError struct{}

func (*deadError) Error() string { return "the process has been killed" }

// others are what is under way around an agent.
type others struct {
	mu       sync.Mutex
	points   int    // resume points until the process is killed; 0: it is not
	dead     bool   // nothing that the process does has an effect any more
	stranger string // a final name that a stranger has taken
	newer    string // where the newer file is; empty: it has not come
}

// took is recorded when a consumer takes a file.
type took struct{ name string }

func (a *agent) before(op faulty.Op) error {
	a.others.mu.Lock()
	defer a.others.mu.Unlock()
	if a.others.dead {
		return errDead
	}
	if a.w.newer == op.Call && strings.Contains(op.Path, "/src") && a.others.newer == "" {
		a.others.newer = a.w.files[0].name
		a.strike("/src/" + a.w.files[0].name)
	}
	return nil
}

// strike replaces a file by a newer one, as an editor does.
func (a *agent) strike(name string) {
	temp := path.Dir(name) + "/newer"
	err := a.mem.WriteFile(temp, []byte(newerContent))
	if err == nil {
		err = a.mem.SyncFile(temp)
	}
	if err == nil {
		err = a.mem.Move(temp, path.Base(name))
	}
	if err != nil {
		a.see("the newer file could not be made: %v", err)
	}
}

func (a *agent) after(op faulty.Op, err error) error {
	a.others.mu.Lock()
	defer a.others.mu.Unlock()
	if op.Call == faulty.CallPoint && err == nil && a.others.points > 0 {
		a.others.points--
		a.others.dead = a.others.points == 0
	}
	if op.Call == faulty.CallRename || op.Call == faulty.CallLink {
		a.landed(op)
	}
	return err
}

// landed looks at a name that may just have been given, whatever the call said.
func (a *agent) landed(op faulty.Op) {
	k := a.w.fileAt(op.To)
	if k < 0 || !strings.HasPrefix(path.Base(op.Path), ".ferry-") {
		return
	}
	content, err := a.mem.ReadFile(op.To)
	if err != nil || a.w.old[a.w.files[k].name] == string(content) || bytes.Equal(content, strangersFile) {
		return // it was not given
	}
	a.named[op.To]++
	a.flanked(k)
	if !a.w.whole(k, content) {
		a.see("%s has %d bytes under its final name that are not the file", op.To, len(content))
	}
	if a.w.consumer {
		a.take(op.To)
	}
}

// take takes a file away and makes sure that it is gone for good.
func (a *agent) take(name string) {
	a.mem.Record(took{name})
	err := a.mem.Remove(name)
	if err == nil {
		err = a.mem.SyncNames(path.Dir(name))
	}
	if err != nil {
		a.see("the consumer could not take %s: %v", name, err)
	}
}

// takes counts how often the consumer has taken each file among the first k
// operations.
func takes(m *faulty.Memory, k int) map[string]int {
	n := map[string]int{}
	for _, e := range m.Events(k) {
		if t, ok := e.(took); ok {
			n[t.name]++
		}
	}
	return n
}

// gone leaves of what was taken before a crash that which has not come back
// with it: a name that was not synced may.
func (w *work) gone(m *faulty.Memory, taken map[string]int) map[string]int {
	for k, f := range w.files {
		_, err := m.ReadFile("/dst/" + w.lands(f.name))
		_, terr := m.ReadFile(w.taking(k))
		if err == nil || terr == nil {
			delete(taken, "/dst/"+w.lands(f.name))
		}
	}
	return taken
}

// temporary is the name of a file's temporary.
func (w *work) temporary(k int) string {
	return path.Join("/dst", path.Dir(w.files[k].name), localfs.TempName(incarnation, 1, transferID, uint64(k)))
}

// taking is the name of the temporary that gets a file's name.
func (w *work) taking(k int) string {
	name := w.temporary(k)
	if _, had := w.old[w.files[k].name]; had && w.exists == transfer.IfExistsAppend {
		name = strings.TrimSuffix(name, ".part") + "-j.part"
	}
	return name
}

// fileAt is the number of the file with that final name, or -1.
func (w *work) fileAt(final string) int {
	for k, f := range w.files {
		if "/dst/"+w.lands(f.name) == final {
			return k
		}
	}
	return -1
}

// run brings the work to its end, in as many rounds as it takes.
func (a *agent) run(rounds int) (err error) {
	for range rounds {
		if err = a.round(); err == nil {
			return nil
		}
	}
	return err
}
