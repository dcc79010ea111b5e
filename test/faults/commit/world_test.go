//go:build linux

package commit_test

import (
	"bytes"
	"path"
	"strings"
	"sync"

	"ferry/internal/faulty"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// Other programs run around the agent: one puts a newer file under a source's name, and a consumer takes arriving
// files. Each file is checked at the moment when it gets its final name.

var errDead = &deadError{}

// A deadError is the result of each call of a killed process.
type deadError struct{}

func (*deadError) Error() string { return "the process has been killed" }

// others are the events around an agent.
type others struct {
	mu       sync.Mutex
	points   int    // resume points until the process is killed; 0: it is not killed
	dead     bool   // the calls of the process have no effect any more
	stranger string // a final name that a stranger has taken
	newer    string // path of the newer file; empty: it has not come
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

// landed checks the file under a name that may just have been given, even if the call reported an error.
func (a *agent) landed(op faulty.Op) {
	k := a.w.fileAt(op.To)
	if k < 0 || !strings.HasPrefix(path.Base(op.Path), ".ferry-") {
		return
	}
	content, err := a.mem.ReadFile(op.To)
	if err != nil || a.w.old[a.w.files[k].name] == string(content) || bytes.Equal(content, strangersFile) {
		return // the name was not given
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

// take removes a file durably.
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

// takes counts the consumer's takings of each file among the first k operations.
func takes(m *faulty.Memory, k int) map[string]int {
	n := map[string]int{}
	for _, e := range m.Events(k) {
		if t, ok := e.(took); ok {
			n[t.name]++
		}
	}
	return n
}

// gone removes from taken the files that a crash has brought back. This can happen if the directory was not synced.
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

// temporary returns the name of a file's temporary.
func (w *work) temporary(k int) string {
	return path.Join("/dst", path.Dir(w.files[k].name), disk.TempName(incarnation, 1, transferID, uint64(k)))
}

// taking returns the name of the temporary that gets a file's name.
func (w *work) taking(k int) string {
	name := w.temporary(k)
	if _, had := w.old[w.files[k].name]; had && w.exists == transfer.IfExistsAppend {
		name = strings.TrimSuffix(name, ".part") + "-j.part"
	}
	return name
}

// fileAt returns the number of the file with a final name, or -1.
func (w *work) fileAt(final string) int {
	for k, f := range w.files {
		if "/dst/"+w.lands(f.name) == final {
			return k
		}
	}
	return -1
}

// run completes the work in at most the given number of rounds.
func (a *agent) run(rounds int) (err error) {
	for range rounds {
		if err = a.round(); err == nil {
			return nil
		}
	}
	return err
}
