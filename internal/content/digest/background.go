package digest

import (
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"
	"sync/atomic"

	"ferry/internal/transfer"
)

// ErrPrefix reports that the bytes before a resume point have changed since the point was made.
var ErrPrefix = errors.New("the bytes before the resume point have changed")

// backlogMost is the number of bytes that the digests of one transfer may be behind before Full reports it.
const backlogMost = 4 << 20

// A Backlog counts the bytes that were given to the digests of one transfer and are not digested yet. It is safe for
// concurrent use; a nil Backlog bounds nothing.
type Backlog struct {
	bytes   atomic.Int64
	changed func()
}

// NewBacklog makes a Backlog that calls changed whenever a digest has ended, and when the backlog is no longer full.
// changed must not block.
func NewBacklog(changed func()) *Backlog { return &Backlog{changed: changed} }

// Full reports whether the caller should wait until the digests have caught up.
func (l *Backlog) Full() bool { return l != nil && l.bytes.Load() >= backlogMost }

func (l *Backlog) add(n int64) {
	if l == nil {
		return
	}
	if after := l.bytes.Add(n); n < 0 && after < backlogMost && after-n >= backlogMost {
		l.changed()
	}
}

func (l *Backlog) ended() {
	if l != nil && l.changed != nil {
		l.changed()
	}
}

// pieceSize is the memory of one piece in a queue.
const pieceSize = 64 << 10

var pieces = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// A piece is bytes to be digested, zeros if it has no memory, or a request for a copy of the digest at that position.
type piece struct {
	mem  *[pieceSize]byte
	n    int64
	copy chan<- hash.Hash
}

// A background digests a file in a goroutine of its own. It reads back the bytes that another process has written, and
// those that are written meanwhile. When it has caught up, it takes the bytes from a queue.
type background struct {
	log  *Backlog
	sum  hash.Hash
	segs []transfer.Segment // the expected segments at the beginning of r
	done chan struct{}      // closed when there is a result
	wake chan struct{}

	mu      sync.Mutex
	r       io.ReaderAt // nil after it has caught up
	given   int64       // bytes that have been written
	queue   []piece
	ended   bool
	stopped bool
	err     error
}

// startBackground begins a digest. If r is not nil, it reads back the bytes below the end of the segments and compares
// them with the segments.
func startBackground(log *Backlog, sum hash.Hash, segs []transfer.Segment, r io.ReaderAt) *background {
	b := &background{log: log, sum: sum, segs: segs, r: r, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	if n := len(segs); n > 0 {
		b.given = segs[n-1].End
	}
	go b.run()
	return b
}

func (b *background) poke() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// write passes bytes, or n zeros if p is nil. The caller may reuse the memory of p.
func (b *background) write(p []byte, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.given += n
	if b.r == nil && !b.stopped && b.err == nil {
		b.enqueue(p, n)
	}
	b.poke()
}

// enqueue appends to the queue. b.mu is held.
func (b *background) enqueue(p []byte, n int64) {
	if p == nil {
		b.queue = append(b.queue, piece{n: n})
		b.log.add(n)
		return
	}

	for len(p) > 0 {
		last := len(b.queue) - 1
		if last < 0 || b.queue[last].mem == nil || b.queue[last].n == pieceSize {
			b.queue = append(b.queue, piece{mem: pieces.Get().(*[pieceSize]byte)})
			b.log.add(pieceSize)
			last++
		}
		q := &b.queue[last]
		k := copy(q.mem[q.n:], p)
		q.n += int64(k)
		p = p[k:]
	}
}

// drop frees a piece's memory.
func (b *background) drop(p piece) {
	if p.mem == nil {
		b.log.add(-p.n)
		return
	}
	pieces.Put(p.mem)
	b.log.add(-pieceSize)
}

// end announces that no more bytes follow.
func (b *background) end() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.poke()
}

// stop ends the digest and waits until the file is no longer read.
func (b *background) stop() {
	b.mu.Lock()
	b.stopped = true
	b.mu.Unlock()
	b.poke()
	<-b.done
}

// failure returns the reason why there is no result, or nil if there is one or will be one.
func (b *background) failure() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

var errStopped = errors.New("the digest was given up")

func (b *background) run() {
	err := b.readBack()
	if err == nil {
		err = b.takeAll()
	}

	b.mu.Lock()
	b.err = err
	for _, p := range b.queue {
		b.drop(p)
	}

	b.queue = nil
	b.mu.Unlock()
	close(b.done)
	b.log.ended()
}

// readBack digests the earlier bytes, and continues until it has caught up.
func (b *background) readBack() error {
	if b.r == nil {
		return nil
	}

	mem := pieces.Get().(*[pieceSize]byte)
	defer pieces.Put(mem)
	left, seg := b.segs, XXH3.New()
	for at := int64(0); ; {
		to, err := b.readTo(at)
		if err != nil || to == at {
			return err
		}
		if len(left) > 0 {
			to = min(to, left[0].End)
		}
		n, err := b.r.ReadAt(mem[:min(pieceSize, to-at)], at)
		if n == 0 && err != nil {
			return fmt.Errorf("reading back at offset %d: %w", at, err)
		}
		b.sum.Write(mem[:n])
		at += int64(n)
		if len(left) == 0 {
			continue
		}
		seg.Write(mem[:n])
		if at == left[0].End {
			if hex.EncodeToString(seg.Sum(nil)) != left[0].Sum {
				return fmt.Errorf("%w: segment ending at %d", ErrPrefix, at)
			}
			seg.Reset()
			left = left[1:]
		}
	}
}

// readTo returns the end of the readable part of the file. If that is at, the rest comes from the queue.
func (b *background) readTo(at int64) (to int64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stopped {
		return 0, errStopped
	}
	if b.given == at {
		b.r = nil
	}
	return b.given, nil
}

// takeAll digests the pieces of the queue, to the end.
func (b *background) takeAll() error {
	for {
		p, ended, err := b.next()
		switch {
		case err != nil || ended:
			return err
		case p.copy != nil:
			p.copy <- clone(b.sum)
		case p.n == 0:
			<-b.wake
		default:
			digestPiece(b.sum, p)
			b.drop(p)
		}
	}
}

// next takes the first piece of the queue, or an empty one if there is none.
func (b *background) next() (p piece, ended bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.stopped:
		return p, false, errStopped
	case len(b.queue) == 0:
		return p, b.ended, nil
	}
	p = b.queue[0]
	b.queue = b.queue[1:]
	return p, false, nil
}

func digestPiece(h hash.Hash, p piece) {
	if p.mem != nil {
		h.Write(p.mem[:p.n])
		return
	}
	for n := p.n; n > 0; {
		k := min(n, int64(len(zeros)))
		h.Write(zeros[:k])
		n -= k
	}
}

// clone returns a second digest of the bytes so far, or nil after an error.
func (b *background) clone() hash.Hash {
	c := make(chan hash.Hash, 1)
	b.mu.Lock()
	b.queue = append(b.queue, piece{copy: c})
	b.mu.Unlock()
	b.poke()
	select {
	case h := <-c:
		return h
	case <-b.done:
		if b.failure() != nil {
			return nil
		}
		return clone(b.sum)
	}
}
