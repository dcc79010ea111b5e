package flow

import "sync"

// A Pool is the memory of one receiving connection, shared by the transfers
// that come in over it. Every transfer can always have one message in flight;
// beyond that all get the same share of the rest, and one that arrives late
// gets its share as the others use up what they were given.
type Pool struct {
	mu       sync.Mutex
	size     int64
	floor    int64 // reserved for each slot
	slots    int
	accounts map[*Account]struct{}
	peak     int64
}

// An Account is one transfer's part of a Pool.
type Account struct {
	pool  *Pool
	want  int64
	limit int64 // greatest limit announced in this epoch
	used  int64 // bytes taken in and dealt with in this epoch
	old   int64 // granted in the epoch before and not yet known to be gone
}

// NewPool makes a pool of size bytes for at most slots transfers of messages
// of up to message bytes.
func NewPool(size int64, slots int, message int64) *Pool {
	floor := message
	if slots > 0 {
		floor = min(floor, size/2/int64(slots))
	}
	return &Pool{size: size, floor: floor, slots: slots, accounts: map[*Account]struct{}{}}
}

// Open adds a transfer that would like want bytes.
func (p *Pool) Open(want int64) *Account {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &Account{pool: p, want: want}
	p.accounts[a] = struct{}{}
	return a
}

// Granted is how much is granted and not yet used, over all transfers.
func (p *Pool) Granted() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.granted()
}

// Peak is the most that Granted has ever been.
func (p *Pool) Peak() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.peak
}

func (p *Pool) granted() (n int64) {
	for a := range p.accounts {
		n += a.held()
	}
	return n
}

// common is what is left for all beyond the floors.
func (p *Pool) common() int64 {
	left := p.size - p.floor*int64(max(p.slots, len(p.accounts)))
	for a := range p.accounts {
		left -= max(0, a.held()-p.floor)
	}
	return max(left, 0)
}

func (a *Account) held() int64 { return a.limit - a.used + a.old }

// Grant raises the limit as far as the share allows and returns it.
func (a *Account) Grant() int64 {
	p := a.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	target := min(a.want, max(p.size/int64(len(p.accounts)), p.floor))
	more := target - a.held()
	more = min(more, max(0, p.floor-a.held())+p.common())
	if more > 0 {
		a.limit += more
		p.peak = max(p.peak, p.granted())
	}
	return a.limit
}

// Ahead is how much is granted and not yet used in this epoch.
func (a *Account) Ahead() int64 {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	return a.limit - a.used
}

// Use says that n bytes have come in and are dealt with.
func (a *Account) Use(n int64) {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	a.used = min(a.used+n, a.limit)
}

// NewEpoch starts counting at zero. What the old epoch had been granted stays
// held until Settle: its messages may still be on their way.
func (a *Account) NewEpoch() {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	a.old = max(a.old, a.limit-a.used) // several epochs without a message share one flight
	a.limit, a.used = 0, 0
}

// Settle says that the new epoch's first message is here, so that nothing of
// the old one can still come.
func (a *Account) Settle() {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	a.old = 0
}

// Close returns everything.
func (a *Account) Close() {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	delete(a.pool.accounts, a)
}
