// Package turns has queues with turns for speakers. The messages of one speaker delay a message of another by one message. In
// one queue for all, a speaker without rights had delayed and displaced the messages of all others.
package turns

import "sync"

// Limits of the messages that wait.
const (
	room     = 64 << 20 // bytes of all speakers
	part     = 8        // a speaker may hold an eighth of the free room, so twenty of them leave a tenth
	overhead = 256      // bytes of a message beside those that its adder counts
)

// A Queue has messages that wait. Its methods may be called at the same time.
type Queue[M any] struct {
	wake chan struct{}

	mu    sync.Mutex
	order []string // speakers that have a message, in the order of their turns
	of    map[string]*turn[M]
	held  int // bytes
}

// A turn has the messages of one speaker, oldest first.
type turn[M any] struct {
	messages []sized[M]
	held     int // bytes
}

type sized[M any] struct {
	m    M
	size int
}

// New returns an empty Queue.
func New[M any]() *Queue[M] {
	return &Queue[M]{wake: make(chan struct{}, 1), of: map[string]*turn[M]{}}
}

// Wake has one after a message was added.
func (q *Queue[M]) Wake() <-chan struct{} { return q.wake }

// Add has a message of a speaker wait. It reports false where the speaker has no room for so many bytes.
func (q *Queue[M]) Add(from string, size int, m M) bool {
	size += overhead
	q.mu.Lock()
	defer q.mu.Unlock()
	x := q.of[from]
	if x == nil {
		x = &turn[M]{}
	}
	if x.held+size > (room-q.held)/part {
		return false
	}
	if len(x.messages) == 0 {
		q.of[from] = x
		q.order = append(q.order, from)
	}
	x.messages = append(x.messages, sized[M]{m, size})
	x.held += size
	q.held += size
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return true
}

// Len returns the number of messages that wait.
func (q *Queue[M]) Len() (n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, x := range q.of {
		n += len(x.messages)
	}
	return n
}

// Take returns the next message. It is not ok if none waits.
func (q *Queue[M]) Take() (m M, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.order) == 0 {
		return m, false
	}
	from := q.order[0]
	x := q.of[from]
	next := x.messages[0]
	x.messages[0] = sized[M]{}
	x.messages = x.messages[1:]
	x.held -= next.size
	q.held -= next.size
	q.order = q.order[1:]
	if len(x.messages) > 0 {
		q.order = append(q.order, from)
	} else {
		delete(q.of, from)
	}
	return next.m, true
}
