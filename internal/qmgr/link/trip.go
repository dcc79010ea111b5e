package link

import (
	"context"
	"sync"
	"time"

	"ferry/internal/sys/tcp"
)

// Alive reports whether there is a reason to leave the link's socket alone: it
// answers, something moves on it, or it is being replaced already.
func (l *Link) Alive(sock *Socket, timeout time.Duration) bool {
	before := sock.Traffic()
	acked, _ := tcp.Acked(sock.Conn)
	ctx, cancel := context.WithTimeout(l.Base.Ctx, timeout)
	defer cancel()
	if l.RoundTrip(ctx) == nil {
		return true
	}

	// On a slow link the question itself may be behind others: the other host takes them in, and there are more.
	if now, more := tcp.Acked(sock.Conn); more && now > acked {
		return true
	}
	return !l.Up.Load() || l.Socket.Load() != sock || sock.Traffic() != before
}

// A trip measures round trips to the queue manager. The zero value is ready.
type trip struct {
	mu          sync.Mutex
	last, least time.Duration
	began       time.Time // of the newest that is under way; zero: none
	asked, told time.Time // of the newest that was answered, its beginning and its end
}

func (t *trip) Begin() (now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began = time.Now()
	return t.began
}

// End ends a round trip. A trip without an answer shows only that the time is longer.
func (t *trip) End(began time.Time, answered bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.began = time.Time{}
	t.last = time.Since(began)
	if answered && (t.least == 0 || t.last < t.least) {
		t.least = t.last
	}
	if answered && began.After(t.asked) {
		t.asked, t.told = began, time.Now()
	}
}

// HeldFor returns the least time for which the other side has had a message that was sent at a moment: a round trip that
// began later was answered. It is 0 if that is not known.
func (t *trip) HeldFor(sent, now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.asked.After(sent) {
		return 0
	}
	return now.Sub(t.told)
}

// Forget drops the last round trip: the connection is new.
func (t *trip) Forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.last, t.began = t.least, time.Time{}
}

// Times returns the shortest round trip, and the last one, or the one in progress if that takes longer already.
func (t *trip) Times() (last, least time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last = t.last
	if !t.began.IsZero() {
		last = max(last, time.Since(t.began))
	}
	return last, t.least
}
