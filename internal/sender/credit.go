package sender

import "sync"

// A credit is the number of bytes that an epoch may send. The destination raises its limit, and the pump takes from it.
// It is safe for concurrent use.
type credit struct {
	mu    sync.Mutex
	limit int64 // of taken
	taken int64
}

// raise takes a limit from the destination; a lower one came late, and changes nothing.
func (c *credit) raise(limit int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limit = max(c.limit, limit)
}

// take takes the available credit, most bytes at most. If less than least is available, it takes none.
func (c *credit) take(least, most int64) (got int64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limit-c.taken < least {
		return 0, false
	}
	got = min(most, c.limit-c.taken)
	c.taken += got
	return got, true
}

// giveBack returns n taken bytes that are not needed.
func (c *credit) giveBack(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.taken -= n
}

// used returns the bytes that the epoch has taken.
func (c *credit) used() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken
}
