package localfs

import (
	"sync"
	"syscall"
)

// promises keep the files of one agent from taking the space of each other where
// the file system reserves none: a file is begun only if what it will have fits
// beside what the others that are open have yet to get. Without that, several
// could fill a disk together, each wait for the rest of its space, and none ever
// end. Of what others than this agent write nothing is known.
type promises struct {
	mu sync.Mutex
	of map[uint64]map[*Partial]int64 // by device: how far each open file is to grow
}

// make promises a file its space up to size, or fails as a full disk does.
func (s *promises) make(p *Partial, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	free, err := p.dir.free()
	if err != nil {
		return nil // a file system that does not say: writing will tell
	}

	if size-p.Offset() > free-s.owed(p.dev) {
		return p.noSpace(size-p.Offset(), syscall.ENOSPC)
	}

	if s.of == nil {
		s.of = map[uint64]map[*Partial]int64{}
	}

	if s.of[p.dev] == nil {
		s.of[p.dev] = map[*Partial]int64{}
	}

	s.of[p.dev][p] = size
	return nil
}

// owed is what the open files on a device have yet to get. The lock is held.
func (s *promises) owed(dev uint64) (sum int64) {
	for p, size := range s.of[dev] {
		sum += max(size-p.Offset(), 0)
	}
	return sum
}

// owedOn is owed, for who has no file there.
func (s *promises) owedOn(dev uint64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owed(dev)
}

// end takes a file's promise back; it may have none.
func (s *promises) end(p *Partial) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of[p.dev], p)
}
