// Package turns has queues with turns for speakers. The messages of one speaker delay a message of another by one message. In
// one queue for all, a speaker without rights had delayed and displaced the messages of all others.
package turns

import (
	"sync"

	"ferry/internal/sys/wake"
)

// A Round has messages of speakers. It gives one message of each speaker after the other, and those of one speaker in
// their order. The zero value is empty. It is not safe for concurrent use.
type Round[M any] struct {
	order []string // speakers with a message, in the order of their turns
	of    map[string][]M
}

// Add adds a message of a speaker.
func (r *Round[M]) Add(from string, m M) {
	if r.of == nil {
		r.of = map[string][]M{}
	}
	if len(r.of[from]) == 0 {
		r.order = append(r.order, from)
	}
	r.of[from] = append(r.of[from], m)
}

// Take removes and returns the next message and its speaker. It is not ok if there is none.
func (r *Round[M]) Take() (from string, m M, ok bool) {
	if len(r.order) == 0 {
		return "", m, false
	}
	from, r.order = r.order[0], r.order[1:]
	all := r.of[from]
	m = all[0]
	clear(all[:1])
	if len(all) > 1 {
		r.of[from] = all[1:]
		r.order = append(r.order, from)
	} else {
		delete(r.of, from)
	}
	return from, m, true
}

// Speakers returns the number of speakers with a message.
func (r *Round[M]) Speakers() int { return len(r.order) }

// Limits of the messages that wait in a Queue.
const (
	room     = 64 << 20 // bytes of all speakers
	part     = 8        // a speaker may hold an eighth of the free room, so twenty of them leave a tenth
	overhead = 256      // bytes of a message beside those that its adder counts
)

// A Queue is a Round of bounded size. It is safe for concurrent use.
type Queue[M any] struct {
	wake chan struct{}

	mu    sync.Mutex
	round Round[sized[M]]
	of    map[string]int // bytes of each speaker
	held  int            // bytes of all
	count int
}

type sized[M any] struct {
	m    M
	size int
}

// New returns an empty Queue.
func New[M any]() *Queue[M] {
	return &Queue[M]{wake: make(chan struct{}, 1), of: map[string]int{}}
}

// Wake has one after a message was added.
func (q *Queue[M]) Wake() <-chan struct{} { return q.wake }

// Add adds a message of a speaker with a size in bytes. It reports false if the speaker has no room for it.
func (q *Queue[M]) Add(from string, size int, m M) bool {
	size += overhead
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.of[from]+size > (room-q.held)/part {
		return false
	}
	q.round.Add(from, sized[M]{m, size})
	q.of[from] += size
	q.held += size
	q.count++
	wake.Up(q.wake)
	return true
}

// Len returns the number of messages that wait.
func (q *Queue[M]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count
}

// Take removes and returns the next message. It is not ok if none waits.
func (q *Queue[M]) Take() (m M, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	from, next, ok := q.round.Take()
	if !ok {
		return m, false
	}
	q.held -= next.size
	q.count--
	if q.of[from] -= next.size; q.of[from] == 0 {
		delete(q.of, from)
	}
	return next.m, true
}
