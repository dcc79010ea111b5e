package link

import (
	"context"
	"sync"
	"time"

	"ferry/internal/sys/sleep"
	"ferry/internal/sys/tcp"
)

// Times of a question.
const (
	// still is the time without movement on a connection after which a question on it is given up.
	still = ProbeTimeout
	// prompt is the part of the time-out after which the first sign of life follows a question. A later one that takes
	// longer than this part was delayed.
	prompt = 4
	// prompter is the part of the time-out within which the first sign of life returns if the question is no longer on
	// the link.
	prompter = 40
	// lookEvery is between two looks whether something moves.
	lookEvery = 500 * time.Millisecond
)

// A question is the context of a question to or by way of the queue manager. Its time-out is the time of the answerer.
// The time that the link needs to carry the question and the answer is added, however slow the link is: as long as
// bytes move on it, in either direction, the question is not given up.
//
// A question that takes a quarter of its time-out is followed by a sign of life. The queue manager answers it behind
// the question. If the sign of life is late, the question was on the link until then, and its time begins when the sign
// of life returns.
//
// When the time is over, another sign of life follows. The queue manager answers it behind all messages that it has for
// this connection. So an answer that is on its way arrives before it. If this sign of life has been delayed, the
// question may have been, too, and its time begins again, once.
type question struct {
	context.Context // the caller's
	link            *Link
	timeout         time.Duration
	done            chan struct{}

	mu  sync.Mutex
	err error
}

// WithLinkTime makes the context of a question. Its cancel function must be called.
func (l *Link) WithLinkTime(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	p := &question{Context: ctx, link: l, timeout: timeout, done: make(chan struct{})}
	stop := context.AfterFunc(ctx, func() { p.end(ctx.Err()) })
	timer := time.AfterFunc(timeout/prompt, p.follow)
	return p, func() {
		timer.Stop()
		stop()
		p.end(context.Canceled)
	}
}

// Deadline always returns a deadline, since the library would use a time-out of its own without one.
func (p *question) Deadline() (time.Time, bool) {
	if at, ok := p.Context.Deadline(); ok {
		return at, true
	}
	return time.Now().Add(time.Hour), true
}

func (p *question) Done() <-chan struct{} { return p.done }

func (p *question) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

func (p *question) end(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = why
		close(p.done)
	}
}

// follow ends the question when its time is over, unless it or its answer may still be on the link.
func (p *question) follow() {
	end := time.Now().Add(p.timeout - p.timeout/prompt)
	if p.delayed(prompter) {
		end = time.Now().Add(p.timeout)
	}
	if !sleep.For(p, time.Until(end), nil) && p.delayed(prompt) && !sleep.For(p, p.timeout, nil) {
		p.link.AnswersPing(p)
	}
	p.end(context.DeadlineExceeded)
}

// delayed sends a sign of life and reports whether it came back, but took longer than a part of the time-out.
func (p *question) delayed(part time.Duration) bool {
	began := time.Now()
	return p.link.AnswersPing(p) && time.Since(began) > p.timeout/part
}

// AnswersPing sends a sign of life and reports whether it came back. It waits as long as bytes move on the connection, and
// until ctx ends.
func (l *Link) AnswersPing(ctx context.Context) bool {
	ctx, cancel := l.Socket.Load().Moving(ctx, still)
	defer cancel()
	return l.RoundTrip(ctx) == nil
}

// Moving returns a context that ends when nothing has moved on the connection for a time.
func (s *Socket) Moving(ctx context.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	go func() {
		defer cancel()
		look := time.NewTicker(lookEvery)
		defer look.Stop()
		for moved, at := s.movement(), time.Now(); time.Since(at) < limit; {
			select {
			case <-ctx.Done():
				return
			case <-look.C:
				if now := s.movement(); now != moved {
					moved, at = now, time.Now()
				}
			}
		}
	}()
	return ctx, cancel
}

// A trafficCount is a count that changes when bytes come, or when the other host has acknowledged some.
type trafficCount struct {
	Traffic
	acked uint64
}

func (s *Socket) movement() trafficCount {
	acked, _ := tcp.Acked(s.Conn)
	return trafficCount{s.Traffic(), acked}
}
