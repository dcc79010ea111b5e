package localfs

import "sync/atomic"

// A lending is the descriptors that only make things faster: directories that are
// kept because they may be needed again, files that are opened ahead of their turn,
// what a transfer that waits keeps open. Who gets none does without. It is safe for
// concurrent use; the zero value lends without end.
type lending struct {
	bounded bool
	left    atomic.Int64
}

func (s *lending) open(n int) {
	s.bounded = n > 0
	s.left.Store(int64(n))
}

// take reports whether there was one more.
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

// give returns one that was taken.
func (s *lending) give() {
	if s.bounded {
		s.left.Add(1)
	}
}

// width borrows as many as make up n with the one that is set aside, or fewer, for
// doing something so often at once; back returns them.
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

// Borrow asks for a descriptor that could be done without, and Return gives it back.
func (f *FS) Borrow() bool { return f.spare.take() }

// Return ends a Borrow that succeeded.
func (f *FS) Return() { f.spare.give() }

// Scarce reports whether the descriptors are counted, so that what waits should keep
// nothing open.
func (f *FS) Scarce() bool { return f.spare.bounded }
