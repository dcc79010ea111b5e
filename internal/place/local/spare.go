package local

import "sync/atomic"

// A lending counts the descriptors that only make work faster: cached directories, files opened in advance, and files
// that a waiting transfer keeps open. A caller that gets none works without. It is safe for concurrent use; the zero
// value has no bound.
type lending struct {
	bounded bool
	left    atomic.Int64
}

func (s *lending) open(n int) {
	s.bounded = n > 0
	s.left.Store(int64(n))
}

// take reports whether a descriptor was left, and takes it.
func (s *lending) take() bool {
	if !s.bounded {
		return true
	}
	if s.left.Add(-1) >= 0 {
		return true
	}
	s.left.Add(1)
	return false
}

// give returns a descriptor that was taken.
func (s *lending) give() {
	if s.bounded {
		s.left.Add(1)
	}
}

// width borrows up to n-1 descriptors for n parallel operations; one is always set aside. back returns them.
func (s *lending) width(n int) (wide int, back func()) {
	for wide = 1; wide < n && s.take(); wide++ {
	}
	taken := wide - 1
	return wide, func() {
		for range taken {
			s.give()
		}
	}
}

// scarce reports whether the descriptors are counted.
func (s *lending) scarce() bool { return s.bounded }
