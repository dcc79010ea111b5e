package disk

import "sync/atomic"

// A Lending counts the descriptors that only make work faster: cached directories, files opened in advance, and files
// that a waiting transfer keeps open. A caller that gets none works without. It is safe for concurrent use; the zero
// value has no bound.
type Lending struct {
	bounded bool
	left    atomic.Int64
}

// Open sets the number of descriptors; 0 sets no bound.
func (s *Lending) Open(n int) {
	s.bounded = n > 0
	s.left.Store(int64(n))
}

// Take reports whether a descriptor was left, and takes it.
func (s *Lending) Take() bool {
	if !s.bounded {
		return true
	}
	if s.left.Add(-1) >= 0 {
		return true
	}
	s.left.Add(1)
	return false
}

// Give returns a descriptor that was taken.
func (s *Lending) Give() {
	if s.bounded {
		s.left.Add(1)
	}
}

// Width borrows up to n-1 descriptors for n parallel operations; one is always set aside. back returns them.
func (s *Lending) Width(n int) (wide int, back func()) {
	for wide = 1; wide < n && s.Take(); wide++ {
	}
	taken := wide - 1
	return wide, func() {
		for range taken {
			s.Give()
		}
	}
}

// Left returns the number of descriptors that are left, if there is a bound.
func (s *Lending) Left() int64 { return s.left.Load() }

// Scarce reports whether the descriptors are counted.
func (s *Lending) Scarce() bool { return s.bounded }
