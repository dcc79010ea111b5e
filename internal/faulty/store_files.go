package faulty

import (
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"

	"ferry/internal/ledger"
)

const (
	journalSector = 512
	journalPage   = 4096
)

// MemoryFiles are ledger.Files in memory with two states: the process's view, and the disk's content. Sync copies the
// pages that were written since the last one to the disk. A failed Sync leaves them out for ever, unless they are
// written again.
type MemoryFiles struct {
	mu   sync.Mutex
	now  map[string]*memoryInode
	disk map[string]*memoryInode // the durable names
}

type memoryInode struct {
	now   []byte
	disk  []byte
	dirty map[int]bool // pages that the next Sync copies
	old   map[int]bool // pages that differ from the disk's, dirty or left out
}

// NewMemoryFiles returns an empty directory.
func NewMemoryFiles() *MemoryFiles {
	return &MemoryFiles{now: map[string]*memoryInode{}, disk: map[string]*memoryInode{}}
}

// Killed returns the files as the next process finds them after this one is killed: with all written data, and the same
// state of the disk.
func (m *MemoryFiles) Killed() *MemoryFiles {
	m.mu.Lock()
	defer m.mu.Unlock()
	copies := map[*memoryInode]*memoryInode{}
	of := func(names map[string]*memoryInode) map[string]*memoryInode {
		out := map[string]*memoryInode{}
		for name, f := range names {
			if copies[f] == nil {
				copies[f] = &memoryInode{slices.Clone(f.now), slices.Clone(f.disk), maps.Clone(f.dirty), maps.Clone(f.old)}
			}
			out[name] = copies[f]
		}
		return out
	}
	return &MemoryFiles{now: of(m.now), disk: of(m.disk)}
}

// Crashed returns one possible state after a crash of the host. Names that were made or removed since the last Sync of
// the directory are there or not. Any part of the data written to a file since its last Sync may be there: all of it,
// nothing, a beginning that ends anywhere or is torn at a sector or a page, zeros after the tear, or some sectors of
// it.
func (m *MemoryFiles) Crashed(r *rand.Rand) *MemoryFiles {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := NewMemoryFiles()
	var names []string
	for name := range m.now {
		names = append(names, name)
	}

	for name := range m.disk {
		if m.now[name] != m.disk[name] {
			names = append(names, name)
		}
	}

	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		f := m.now[name]
		if f != m.disk[name] && r.IntN(2) == 0 {
			f = m.disk[name]
		}
		if f != nil {
			b := f.torn(r)
			left := &memoryInode{now: b, disk: slices.Clone(b), dirty: map[int]bool{}, old: map[int]bool{}}
			out.now[name], out.disk[name] = left, left
		}
	}
	return out
}

// torn returns one possible content of a file after a crash.
func (f *memoryInode) torn(r *rand.Rand) []byte {
	if len(f.old) == 0 && len(f.now) == len(f.disk) {
		return slices.Clone(f.disk)
	}

	least, most := min(len(f.now), len(f.disk)), max(len(f.now), len(f.disk))
	cut := least + r.IntN(most-least+1)
	switch r.IntN(6) {
	case 0: // no new data
		return slices.Clone(f.disk)
	case 1: // all data that the disk can have
		return f.mixed(len(f.now), func(s int) bool { return f.dirty[s*journalSector/journalPage] })
	case 2: // a correct beginning, cut off
		unit := []int{1, journalSector, journalPage}[r.IntN(3)]
		return f.mixed(min(max(cut/unit*unit, least), most), func(int) bool { return true })
	case 3: // a correct beginning, and zeros to the end
		return f.mixed(len(f.now), func(s int) bool { return s*journalSector < cut })
	case 4: // some pages
		kept := r.Uint64()
		return f.mixed(len(f.now), func(s int) bool { return kept>>(s*journalSector/journalPage%64)&1 == 1 })
	default: // some sectors
		kept := r.Uint64()
		return f.mixed(most, func(s int) bool { return kept>>(s%64)&1 == 1 })
	}
}

// mixed returns a file of a size. The sectors selected by keep have the written data. The others have the disk's
// earlier data, or zeros.
func (f *memoryInode) mixed(size int, keep func(sector int) bool) []byte {
	out := make([]byte, size)
	copy(out, f.disk)
	for s := 0; s*journalSector < min(size, len(f.now)); s++ {
		if f.old[s*journalSector/journalPage] && keep(s) {
			copy(out[s*journalSector:], f.now[s*journalSector:min((s+1)*journalSector, len(f.now))])
		}
	}
	return out
}

// Bytes returns a file's content as the process sees it, or nil if there is none.
func (m *MemoryFiles) Bytes(name string) []byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	if f := m.now[name]; f != nil {
		return append([]byte{}, f.now...)
	}
	return nil
}

// Create opens a file for reading and writing, and makes it if it is missing.
func (m *MemoryFiles) Create(name string) (ledger.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now[name] == nil {
		m.now[name] = &memoryInode{dirty: map[int]bool{}, old: map[int]bool{}}
	}
	return &memoryFile{m: m, f: m.now[name], writable: true}, nil
}

// Open opens a file for reading.
func (m *MemoryFiles) Open(name string) (ledger.File, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now[name] == nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &memoryFile{m: m, f: m.now[name]}, nil
}

// Remove removes a name. An open file stays usable.
func (m *MemoryFiles) Remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.now[name] == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	delete(m.now, name)
	return nil
}

// List returns the names, sorted.
func (m *MemoryFiles) List() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.now)), nil
}

// Sync makes the names durable.
func (m *MemoryFiles) Sync() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.disk = maps.Clone(m.now)
	return nil
}

type memoryFile struct {
	m        *MemoryFiles
	f        *memoryInode
	writable bool
	closed   bool
}

// use holds the lock during a call on an open file.
func (f *memoryFile) use(write bool, call func() error) error {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	switch {
	case f.closed:
		return fs.ErrClosed
	case write && !f.writable:
		return fs.ErrPermission
	}
	return call()
}

func (f *memoryFile) ReadAt(b []byte, off int64) (n int, err error) {
	err = f.use(false, func() error {
		if off < 0 {
			return fs.ErrInvalid
		}
		if off < int64(len(f.f.now)) {
			n = copy(b, f.f.now[off:])
		}
		if n < len(b) {
			return io.EOF
		}
		return nil
	})
	return n, err
}

func (f *memoryFile) WriteAt(b []byte, off int64) (n int, err error) {
	err = f.use(true, func() error {
		if off < 0 {
			return fs.ErrInvalid
		}
		if len(b) == 0 {
			return nil
		}
		if old, end := len(f.f.now), int(off)+len(b); end > old {
			f.f.now = append(f.f.now, make([]byte, end-old)...)
			f.f.touch(old, end)
		}
		n = copy(f.f.now[off:], b)
		f.f.touch(int(off), int(off)+n)
		return nil
	})
	return n, err
}

// touch notes that bytes were written.
func (f *memoryInode) touch(from, to int) {
	for p := from / journalPage; p*journalPage < to; p++ {
		f.dirty[p], f.old[p] = true, true
	}
}

func (f *memoryFile) Truncate(size int64) error {
	return f.use(true, func() error {
		old := len(f.f.now)
		switch {
		case size < 0:
			return fs.ErrInvalid
		case int(size) < old:
			f.f.now = f.f.now[:size:size]
			if size%journalPage != 0 { // the rest of the page becomes zeros
				f.f.touch(int(size), int(size)+1)
			}
		case int(size) > old:
			f.f.now = append(f.f.now, make([]byte, int(size)-old)...)
			f.f.touch(old, int(size))
		}
		return nil
	})
}

func (f *memoryFile) Sync() error {
	return f.use(true, func() error {
		disk := make([]byte, len(f.f.now))
		copy(disk, f.f.disk)
		for p := range f.f.dirty {
			if p*journalPage < len(disk) {
				copy(disk[p*journalPage:min((p+1)*journalPage, len(disk))], f.f.now[p*journalPage:])
			}
			delete(f.f.old, p)
		}
		f.f.disk, f.f.dirty = disk, map[int]bool{}
		return nil
	})
}

// FailSync has the effect of a failed Sync. Pages named by the bits of some become durable, and all pages count as
// clean.
func (f *memoryFile) FailSync(some uint64) {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	for p := range f.f.dirty {
		if from, to := p*journalPage, min((p+1)*journalPage, len(f.f.now)); some>>(p%64)&1 == 1 && to <= len(f.f.disk) {
			copy(f.f.disk[from:to], f.f.now[from:])
			delete(f.f.old, p)
		}
	}
	f.f.dirty = map[int]bool{}
}

func (f *memoryFile) Close() error {
	return f.use(false, func() error { f.closed = true; return nil })
}
