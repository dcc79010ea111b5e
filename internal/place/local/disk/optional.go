package disk

import "sync/atomic"

// An OptionalFiles counts the descriptors that only make work faster: cached directories, files opened in advance, and files
// that a waiting transfer keeps open. A caller that gets none works without. It is safe for concurrent use; the zero
// value has no bound.
type OptionalFiles struct {
	bounded bool
	left    atomic.Int64
}

// SetLimit sets the number of descriptors; 0 sets no bound.
func (o *OptionalFiles) SetLimit(n int) {
	o.bounded = n > 0
	o.left.Store(int64(n))
}

// Take reports whether a descriptor was left, and takes it.
func (o *OptionalFiles) Take() bool {
	if !o.bounded {
		return true
	}
	if o.left.Add(-1) >= 0 {
		return true
	}
	o.left.Add(1)
	return false
}

// Give returns a descriptor that was taken.
func (o *OptionalFiles) Give() {
	if o.bounded {
		o.left.Add(1)
	}
}

// Width borrows up to n-1 descriptors for n parallel operations; one is always set aside. back returns them.
func (o *OptionalFiles) Width(n int) (wide int, back func()) {
	for wide = 1; wide < n && o.Take(); wide++ {
	}
	taken := wide - 1
	return wide, func() {
		for range taken {
			o.Give()
		}
	}
}

// Left returns the number of descriptors that are left, if there is a bound.
func (o *OptionalFiles) Left() int64 { return o.left.Load() }

// Scarce reports whether the descriptors are counted.
func (o *OptionalFiles) Scarce() bool { return o.bounded }
