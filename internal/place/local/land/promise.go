package land

import (
	"sync"
	"syscall"
)

// promises prevent the files of one agent from taking each other's space where the file system reserves none. A file
// begins only if its whole size fits beside the space that the other open files still need. Otherwise several files
// could fill a disk together, and each would wait for the rest of its space for ever. Writes of other programs are not
// counted.
type promises struct {
	mu sync.Mutex
	of map[uint64]map[*Partial]int64 // by device: the final size of each open file
}

// make promises a file its space up to size, or fails with the error of a full disk.
func (s *promises) make(p *Partial, size int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	free, err := p.dir.Free()
	if err != nil {
		return nil // the file system does not report its free space: a write will find out
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

// owed returns the bytes that the open files on a device still need. The lock is held.
func (s *promises) owed(dev uint64) (sum int64) {
	for p, size := range s.of[dev] {
		sum += max(size-p.Offset(), 0)
	}
	return sum
}

// owedOn is owed for a caller that does not hold the lock.
func (s *promises) owedOn(dev uint64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.owed(dev)
}

// end withdraws a file's promise, if it has one.
func (s *promises) end(p *Partial) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of[p.dev], p)
}
