package protocol_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/place/local/disk"
)

// A machine is the host of a node with the users' files. Names are beneath the root of the agent.
type machine interface {
	disk() disk.Disk
	put(name string, data []byte) error // durably, with the directories above
	get(name string) ([]byte, error)
	each(see func(name string, data []byte)) error // including Ferry's own files
}

// A realMachine has its files on the host of the test.
type realMachine struct{ root string }

func (m realMachine) disk() disk.Disk { return disk.RealDisk() }

func (m realMachine) path(name string) string { return filepath.Join(m.root, "files", name) }

func (m realMachine) put(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(m.path(name)), 0o755); err != nil {
		return err
	}
	return os.WriteFile(m.path(name), data, 0o644)
}

func (m realMachine) get(name string) ([]byte, error) { return os.ReadFile(m.path(name)) }

func (m realMachine) each(see func(string, []byte)) error {
	return filepath.WalkDir(m.path("."), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(m.path("."), p)
		see(filepath.ToSlash(rel), data)
		return err
	})
}

// A memoryMachine has its files in memory, where a power cut loses unsynced data.
type memoryMachine struct {
	fs      *faulty.Memory
	ledgers map[string]*books
	boots   int
}

// books are a ledger in memory.
type books struct {
	store *faulty.MemoryStore
	files *faulty.MemoryFiles
}

func newMemoryMachine() *memoryMachine {
	m := &memoryMachine{fs: faulty.NewMemory(faulty.MemoryOptions{}), ledgers: map[string]*books{}, boots: 1}
	for _, dir := range []string{"/files", "/state"} {
		if err := m.fs.MkdirAll(dir); err != nil {
			panic(err)
		}
	}
	m.fs.SyncAll()
	return m
}

func (m *memoryMachine) disk() disk.Disk { return m.fs }

func (m *memoryMachine) put(name string, data []byte) error {
	p := "/files/" + name
	if err := m.fs.MkdirAll(p[:strings.LastIndexByte(p, '/')]); err != nil {
		return err
	}
	err := m.fs.WriteFile(p, data)
	m.fs.SyncAll()
	return err
}

func (m *memoryMachine) get(name string) ([]byte, error) { return m.fs.ReadFile("/files/" + name) }

func (m *memoryMachine) each(see func(string, []byte)) error {
	m.fs.Files("/files", see)
	return nil
}

// boot names the machine's present boot.
func (m *memoryMachine) boot() string { return fmt.Sprint("boot ", m.boots) }

// open opens a ledger, and creates it if it is missing.
func (m *memoryMachine) open(dir string) *books {
	b := m.ledgers[dir]
	if b == nil {
		b = &books{faulty.NewMemoryStore(), faulty.NewMemoryFiles()}
	} else {
		b = &books{b.store.Snapshot(), b.files.Killed()}
	}
	m.ledgers[dir] = b
	return b
}

// leave keeps the state that a crash leaves: of the process, or, with power, of the machine.
func (m *memoryMachine) leave(from, to string, power *rand.Rand) {
	b := m.ledgers[from]
	left := &books{store: b.store.Snapshot()}
	if power == nil {
		left.files = b.files.Killed()
	} else {
		left.files = b.files.Crashed(power)
		k := m.fs.Ops()
		m.fs = m.fs.Crashed(k, m.fs.Sample(k, power), 77)
		m.boots++
		toll.add("power cuts among them", 1)
	}
	m.ledgers[to] = left
}

// options returns the options of a node's ledger.
func (n *node) options(dir string, m *crashable) ledger.Options {
	opt := ledger.Options{Reserve: -1, OutboxLimit: 1 << 40, Clock: n.clockOf()}
	if n.memory != nil {
		n.mu.Lock()
		defer n.mu.Unlock()
		b := n.memory.open(dir)
		opt.Store, opt.Files = crashableStore{b.store, m}, crashableFiles{b.files, m}
	}
	return opt
}

// bootID names the boot of a node's host.
func (n *node) bootID() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.memory != nil:
		return n.memory.boot()
	case n.boot != "":
		return n.boot
	}
	return disk.BootID()
}

// host returns the present machine of a node.
func (n *node) host() machine {
	if n.store != nil {
		return objectMachine{n.store}
	}
	if n.memory != nil {
		return lockedMachine{n}
	}
	return realMachine{n.root}
}

// A lockedMachine is a node's memory machine, which a power cut may replace at any time.
type lockedMachine struct{ n *node }

func (l lockedMachine) now() *memoryMachine {
	l.n.mu.Lock()
	defer l.n.mu.Unlock()
	m := *l.n.memory
	return &m
}

func (l lockedMachine) disk() disk.Disk                     { return l.now().disk() }
func (l lockedMachine) put(name string, data []byte) error  { return l.now().put(name, data) }
func (l lockedMachine) get(name string) ([]byte, error)     { return l.now().get(name) }
func (l lockedMachine) each(see func(string, []byte)) error { return l.now().each(see) }

// leave keeps the state that a crash of a node leaves.
func (n *node) leave(from, to string) {
	var power *rand.Rand
	if h := n.w.now(); h.power != nil {
		power = h.power(n)
	}
	n.w.naming.Lock()
	defer n.w.naming.Unlock()
	n.mu.Lock()
	n.memory.leave(from, to, power)
	n.mu.Unlock()
	if power != nil && n == n.w.dst {
		n.w.unnamed()
	}
}
