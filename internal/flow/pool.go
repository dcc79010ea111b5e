package flow

import "sync"

// A Pool is the memory of a receiving agent for in-flight data, shared by the incoming transfers. Every transfer can
// always have one message in flight. Beyond that all get equal shares of the rest. A late transfer gets its share as
// the others use up their grants.
//
// Data over the queue manager's connection may take only a part of the pool: the queue manager closes a connection for
// which it holds too much.
type Pool struct {
	mu       sync.Mutex
	size     int64
	queue    int64 // the part for data through the queue manager
	floor    int64 // reserved for each slot
	slots    int
	accounts map[*Account]struct{}
	peak     int64
}

// An Account is one transfer's part of a Pool.
type Account struct {
	pool   *Pool
	want   int64
	direct bool  // its messages do not come through the queue manager
	grown  int64 // the announced limit when want last grew
	limit  int64 // greatest limit announced in this epoch
	used   int64 // bytes received and processed in this epoch
	old    int64 // granted in the previous epoch, and perhaps still in flight
}

// NewPool makes a pool of size bytes, with queue of them for data through the queue manager. It is for at most slots
// transfers of messages of up to message bytes.
func NewPool(size, queue int64, slots int, message int64) *Pool {
	queue = min(queue, size)
	floor := message
	if slots > 0 {
		floor = min(floor, queue/2/int64(slots))
	}
	return &Pool{size: size, queue: queue, floor: floor, slots: slots, accounts: map[*Account]struct{}{}}
}

// Open adds a transfer that wants a limit of want bytes.
func (p *Pool) Open(want int64) *Account {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := &Account{pool: p, want: want}
	p.accounts[a] = struct{}{}
	return a
}

// Granted returns the bytes that are granted and not yet used, over all transfers.
func (p *Pool) Granted() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.granted()
}

// Peak returns the greatest value of Granted so far.
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

// common returns the bytes beyond the floors that are left for all, or for all that use the queue manager.
func (p *Pool) common(direct bool) int64 {
	floors := p.floor * int64(max(p.slots, len(p.accounts)))
	left, queue := p.size-floors, p.queue-floors
	for a := range p.accounts {
		beyond := max(0, a.held()-p.floor)
		left -= beyond
		if !a.direct {
			queue -= beyond
		}
	}

	if !direct {
		left = min(left, queue)
	}
	return max(left, 0)
}

func (a *Account) held() int64 { return a.limit - a.used + a.old }

// Grant raises the limit as far as the share allows, and returns it.
func (a *Account) Grant() int64 {
	p := a.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	size := p.size
	if !a.direct {
		size = p.queue
	}

	target := min(a.want, max(size/int64(len(p.accounts)), p.floor))
	more := target - a.held()
	more = min(more, max(0, p.floor-a.held())+p.common(a.direct))
	if more > 0 {
		a.limit += more
		p.peak = max(p.peak, p.granted())
	}
	return a.limit
}

// Ahead returns the bytes that are granted and not yet used in this epoch.
func (a *Account) Ahead() int64 {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	return a.limit - a.used
}

// Direct says that the messages of this epoch do not pass through the queue manager.
func (a *Account) Direct() {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	a.direct = true
}

// Widen doubles the in-flight limit of the transfer: the path is longer than the granted bytes fill. It doubles the
// limit again only after the whole new limit was announced and used, which takes a round trip.
func (a *Account) Widen() {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	if a.used < a.grown || a.want >= a.pool.size {
		return
	}
	a.want = min(2*a.want, a.pool.size)
	a.grown = a.limit + a.want/2
}

// Want returns the bytes that the transfer may have in flight if there is room.
func (a *Account) Want() int64 {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	return min(a.want, a.pool.size)
}

// Used returns the bytes received and processed in this epoch.
func (a *Account) Used() int64 {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	return a.used
}

// Use records that n bytes were received and processed.
func (a *Account) Use(n int64) {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	a.used = min(a.used+n, a.limit)
}

// NewEpoch starts counting at zero. The credit of the old epoch stays reserved until Settle: its messages may still be
// in flight.
func (a *Account) NewEpoch() {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	a.old = max(a.old, a.limit-a.used) // several epochs without a message share one flight
	a.limit, a.used, a.grown, a.direct = 0, 0, 0, false
}

// Settle says that the new epoch's first message is here, so that no message of the old one can still arrive.
func (a *Account) Settle() {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	a.old = 0
}

// Close returns all memory of the account to the pool.
func (a *Account) Close() {
	a.pool.mu.Lock()
	defer a.pool.mu.Unlock()
	delete(a.pool.accounts, a)
}
