package qmgr

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/sleep"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const (
	// readTries is how often a read of a queue is tried from the same position on before it is given up.
	readTries = 3
	// readAhead is how many answers may wait behind the one that is being read: the link is used when the reader
	// pauses.
	readAhead = 3
)

// An answerReader reads the messages of a span, one after the other, in pieces. The next answer is asked for while the
// present one arrives, and each of them has as many bytes as the link carries in about a second. If an answer is
// interrupted, the pieces that have arrived are kept, and the next question begins behind them.
//
// One goroutine uses it.
type answerReader struct {
	q    *Queues
	ctx  context.Context // ends with Close
	end  context.CancelFunc
	left wire.QueueSpan     // begins with the message of the next piece
	at   int                // in it
	now  *pendingAnswer     // nil: none
	stop context.CancelFunc // of its questions
	bad  int                // tries without a piece
}

// Reader makes a reader of a span, from an offset in its first message on.
func (q *Queues) Reader(of wire.QueueSpan, offset int) wire.QueuePieces {
	ctx, end := context.WithCancel(q.c.base.Ctx)
	return &answerReader{q: q, ctx: ctx, end: end, left: of, at: offset}
}

// Close ends the questions.
func (r *answerReader) Close() { r.end() }

// begin begins to ask where the reader is.
func (r *answerReader) begin() {
	if r.now == nil {
		var ctx context.Context
		ctx, r.stop = context.WithCancel(r.ctx)
		r.now = r.ask(ctx, r.left, r.at, 0, new(atomic.Int64))
	}
}

// Next returns the next piece; io.EOF: there are no more. Its data are the caller's.
func (r *answerReader) Next() (p wire.QueuePiece, err error) {
	for {
		r.begin()
		p, there, err := r.now.take(r.ctx)
		switch {
		case there && (p.Offset != r.at || p.Offset > 0 && p.Number != r.left.First):
			return p, transfer.Errorf(transfer.KindConflict, "message %d of the queue %s was taken while it was read", r.left.First, r.left.Queue)
		case there:
			r.bad = 0
			if r.left.First, r.at = p.Number, p.Offset+len(p.Data); p.Last {
				r.left.First, r.at = p.Number+1, 0
			}
			return p, nil
		case err == nil:
			if r.now = r.now.follow(); r.now == nil {
				return p, io.EOF
			}
			continue
		}
		r.stop()
		r.now = nil
		if r.bad++; r.ctx.Err() != nil || r.bad >= readTries || !transient(err) {
			r.bad = 0
			return p, err
		}
		sleep.For(r.ctx, consumeWait, r.q.c.control.ComesUp())
	}
}

// Wait returns nil if Next does not block for longer than it takes to ask again after an error.
func (r *answerReader) Wait() <-chan struct{} {
	for {
		r.begin()
		wait := r.now.wait()
		if wait != nil || !r.now.ended() {
			return wait
		}
		next := r.now.follow()
		if next == nil {
			return nil
		}
		r.now = next
	}
}

// transient reports whether a repeated question may soon succeed.
func transient(err error) bool {
	switch transfer.KindOf(err) {
	case transfer.KindNoManager, transfer.KindTimeout, transfer.KindUnreachable, transfer.KindBusy:
		return true
	}
	return false
}

// A pendingAnswer is an answer that arrives.
type pendingAnswer struct {
	r     *answerReader
	ctx   context.Context // ends with it and those behind it
	of    wire.QueueSpan
	index int64         // its place among them
	read  *atomic.Int64 // that of the one that is read

	mu     sync.Mutex
	come   chan struct{}       // closed when something has changed
	res    streams.QueueResult // as far as it is here
	over   bool
	err    error
	next   *pendingAnswer // nil: it has not been asked for, or there is none
	n      int            // pieces that were taken
	offset int            // bytes of the next one that were, or come before it in its message
	done   int            // bytes of the next one that were
	used   int            // bytes of all of them
}

// ask asks for the pieces from a message on, and from an offset in it.
func (r *answerReader) ask(ctx context.Context, from wire.QueueSpan, at int, index int64, read *atomic.Int64) *pendingAnswer {
	f := &pendingAnswer{r: r, ctx: ctx, of: from, index: index, read: read, offset: at, come: make(chan struct{})}
	go func() {
		c := r.q.c
		asked, came, first := time.Now(), time.Time{}, 0
		res, err := r.q.taskPartly(ctx, streams.QueueTask{Do: streams.QueueRead, Span: from, Offset: at, Room: c.amounts.taken.bytes(streams.QueueBytes)}, func(res *streams.QueueResult) {
			if came.IsZero() {
				came, first = time.Now(), len(res.Behind)
			}
			f.arrived(res)
		})
		if err == nil {
			f.arrived(&res)
			if came.IsZero() {
				came, first = time.Now(), len(res.Behind)
			}
			heads := streams.QueueFrame * len(res.Pieces)
			_, trip := c.control.Trip.Times()
			c.amounts.taken.answered(len(res.Behind)+heads, first+heads, asked, came, trip)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.over, f.err = true, err
		f.wake()
	}()
	return f
}

// wake wakes the reader. f.mu is held.
func (f *pendingAnswer) wake() {
	close(f.come)
	f.come = make(chan struct{})
}

// arrived takes the part of the answer that has arrived. From the first part on, the beginning of the next answer is
// known.
func (f *pendingAnswer) arrived(res *streams.QueueResult) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.res = *res
	f.requestNext()
	f.wake()
}

// requestNext asks for the next answer while the present one arrives, unless enough wait to be read. f.mu is held.
func (f *pendingAnswer) requestNext() {
	if f.next == nil && f.res.Next > 0 && f.index-f.read.Load() < readAhead {
		of := f.of
		of.First = f.res.Next
		f.next = f.r.ask(f.ctx, of, f.res.Offset, f.index+1, f.read)
	}
}

// follow returns the next answer; nil if there is none.
func (f *pendingAnswer) follow() *pendingAnswer {
	f.read.Store(f.index + 1)
	var next *pendingAnswer
	for g := f; g != nil; {
		g.mu.Lock()
		g.requestNext()
		after := g.next
		g.mu.Unlock()
		if g == f {
			next = after
		}
		g = after
	}
	return next
}

// take waits for a piece, and returns the arrived part of it. Without a piece and an error all were taken.
func (f *pendingAnswer) take(ctx context.Context) (p wire.QueuePiece, there bool, err error) {
	for {
		f.mu.Lock()
		p, there = f.piece()
		over, err, come := f.over, f.err, f.come
		f.mu.Unlock()
		if there || over {
			return p, there, err
		}
		select {
		case <-come:
		case <-ctx.Done():
			return p, false, ctx.Err()
		}
	}
}

// wait returns nil if take does not block.
func (f *pendingAnswer) wait() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.over || f.n < len(f.res.Pieces) && (len(f.res.Behind) > f.used || f.res.Pieces[f.n][1] == 0) {
		return nil
	}
	return f.come
}

// ended reports whether all pieces were taken, without an error.
func (f *pendingAnswer) ended() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over && f.err == nil && f.n == len(f.res.Pieces)
}

// piece returns the part of the next piece that is here. f.mu is held.
func (f *pendingAnswer) piece() (p wire.QueuePiece, there bool) {
	if f.n == len(f.res.Pieces) {
		return p, false
	}
	number, size := f.res.Pieces[f.n][0], int(f.res.Pieces[f.n][1])
	n := min(len(f.res.Behind)-f.used, size-f.done)
	if n <= 0 && size > f.done {
		return p, false
	}
	p = wire.QueuePiece{Number: number, Offset: f.offset, Data: f.res.Behind[f.used : f.used+n : f.used+n]}
	f.used, f.done, f.offset = f.used+n, f.done+n, f.offset+n
	if f.done == size {
		p.Last = f.n < len(f.res.Pieces)-1 || f.res.Offset == 0 || f.res.Next != number
		f.n, f.done, f.offset = f.n+1, 0, 0
	}
	return p, true
}
