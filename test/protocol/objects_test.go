package protocol_test

import (
	"errors"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// An objectMachine has the users' files in an object store, which outlives every process and every power cut.
type objectMachine struct{ store *faulty.ObjectStore }

func (m objectMachine) disk() disk.Disk { panic("an object store has no disk") }

func (m objectMachine) put(name string, data []byte) error {
	m.store.Put(name, slices.Clone(data))
	return nil
}

func (m objectMachine) get(name string) ([]byte, error) {
	objects, _ := m.store.All()
	if o, ok := objects[path.Clean(filepath.ToSlash(name))]; ok {
		return o.Data, nil
	}
	return nil, errors.New(name + " is not in the store")
}

func (m objectMachine) each(see func(name string, data []byte)) error {
	objects, uploads := m.store.All()
	for key, o := range objects {
		see(key, o.Data)
	}
	for id, u := range uploads {
		see(path.Join(path.Dir(u.Key), ".ferry-"+id), nil)
	}
	return nil
}

// objectsOf are the sides with files in an object store.
type objectsOf []transfer.AgentName

var sidesWithObjects = []objectsOf{{srcName}, {dstName}, {srcName, dstName}}

// errUnanswered is the error of a call that had its effect.
var errUnanswered = errors.New("the connection was closed before the answer came")

// objectsReading are the calls that change nothing.
var objectsReading = []string{"head", "get", "read", "list", "parts", "uploads"}

// around makes a call to the object store of a run's node.
func (m *crashable) around(op, key string, call func() error) error {
	n := m.r.node
	if slices.Contains(objectsReading, op) {
		if m.crashed() {
			<-m.gone
			return errDead
		}
		if h := n.w.now(); h.reads != nil {
			if err := h.reads(n, op, key); err != nil {
				return err
			}
		}
		return call()
	}
	return m.do(op, key, func() error {
		if op == "delete" {
			n.w.leaves(n, n.files(key))
		}
		if err := call(); err != nil {
			return err
		}
		if op == "complete" {
			n.w.renamed(n.files(key))
		}
		if h := n.w.now(); h.lost != nil && h.lost(n, op, key) {
			toll.add("answers lost", 1)
			return errUnanswered
		}
		return nil
	})
}

// objectBreakage lets calls to object stores fail: before they had an effect, or after.
func (w *world) objectBreakage(s *script) {
	if len(w.set.objects) == 0 || s.one(3) {
		return
	}
	start, always, rarely := time.Now().Add(s.time(2*time.Second)/time.Duration(1+s.n(50))), !s.one(3), 4+s.n(20)
	end := start.Add(s.time(20 * time.Second))
	fails := func(n *node) bool {
		if !slices.Contains(w.set.objects, n.name) || s.over() {
			return false
		}
		now := time.Now()
		return always && s.one(rarely) || !always && now.After(start) && now.Before(end) && s.one(2)
	}
	s.broken = true
	w.reads = func(n *node, _, _ string) error {
		if fails(n) {
			return errUnanswered
		}
		return nil
	}
	w.lost = func(n *node, _, _ string) bool { return fails(n) }
	inject := w.inject
	w.inject = func(n *node, op, name string) error {
		if inject != nil {
			if err := inject(n, op, name); err != nil {
				return err
			}
		}
		if op != "ledger" && op != "journal" && fails(n) {
			return errUnanswered
		}
		return nil
	}
}

// TestObjects sends files from and to an object store without failures.
func TestObjects(t *testing.T) {
	for _, sides := range sidesWithObjects {
		for _, checksum := range []string{"", "md5", "none"} {
			bubble(t, setup{objects: sides, memory: true}, func(w *world) {
				files := map[string][]byte{"in/a": content(1, 100<<10), "in/b": nil, "in/d/c": content(2, 5<<10), "in/d/e": content(3, 1)}
				w.write(files)
				w.expect("out", files)
				id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true, Checksum: checksum, Disposition: transfer.DispositionDelete}})
				w.want(id, transfer.Successful, "out", maps.Clone(files))
				w.finish(time.Minute)
			})
		}
	}
}

// objectFaults are the possible faults of one call.
var objectFaults = []string{"fails", "is not answered", "is the last before a crash", "is not made, for a crash", "to the ledger fails"}

// TestObjectsEachCallOnce affects every single call to the stores and ledgers of both sides once. The call fails, gets
// no answer, or is where the process dies. Every file arrives whole, once, and every source is deleted after that. A
// message is lost as well, so that an item begins again.
func TestObjectsEachCallOnce(t *testing.T) {
	for _, fault := range objectFaults {
		for _, side := range []transfer.AgentName{srcName, dstName} {
			t.Run(string(side)+": a call "+fault, func(t *testing.T) {
				for n := 1; !t.Failed(); n++ {
					if !oneCall(t, side, fault, n) {
						if n <= 4 {
							t.Errorf("there were %d calls", n)
						}
						return
					}
				}
			})
		}
	}
}

// oneCall runs a world with a fault at the nth call of a side. It returns false if there was no such call.
func oneCall(t *testing.T, side transfer.AgentName, fault string, nth int) bool {
	var calls atomic.Int64
	is := func(n *node, op string) bool {
		toLedger := op == "ledger" || op == "journal"
		return n.name == side && toLedger == (fault == "to the ledger fails") && calls.Add(1) == int64(nth)
	}
	bubble(t, setup{memory: true, objects: objectsOf{srcName, dstName}}, func(w *world) {
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			return faulty.Handling{Drop: p.Kind == faulty.Chunk && p.N == 9}
		}
		switch fault {
		case "fails", "to the ledger fails":
			fails := func(n *node, op, _ string) error {
				if is(n, op) {
					return errUnanswered
				}
				return nil
			}
			w.reads, w.inject = fails, fails
		case "is not answered":
			w.lost = func(n *node, op, _ string) bool { return is(n, op) }
		default:
			made := fault == "is the last before a crash"
			w.crash = func(n *node, op, _ string, _ int, after bool) bool { return after == made && is(n, op) }
		}
		files := map[string][]byte{"in/a": content(1, 40<<10), "in/b": nil, "in/c": content(2, 5<<10), "in/d/e": content(3, 1)}
		w.write(files)
		w.expect("out", files)
		id := w.submitAnyhow(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true, Disposition: transfer.DispositionDelete}})
		w.want(id, transfer.Successful, "out", files)
		w.finish(5 * time.Minute)
		if objects, _ := w.src.store.All(); len(objects) > 0 {
			w.t.Errorf("%d sources are left", len(objects))
		}
		if w.t.Failed() {
			w.t.Logf("call %d", nth)
		}
	})
	return calls.Load() >= int64(nth)
}
