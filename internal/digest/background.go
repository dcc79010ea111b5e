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

// ErrPrefix says that the bytes before a resume point are not what they were
// when the point was made.
var ErrPrefix = errors.New("the bytes before the resume point have changed")

// backlogMost is how many bytes the digests of one transfer may be behind before
// Full says so.
const backlogMost = 4 << 20

// A Backlog counts the bytes that the digests of one transfer have been given and
// have not taken in yet. It is safe for concurrent use; nil bounds nothing.
type Backlog struct {
	bytes   atomic.Int64
	changed func()
}

// NewBacklog makes one that calls changed, which must not block, whenever a
// digest has ended, and when the backlog is no longer full.
func NewBacklog(changed func()) *Backlog { return &Backlog{changed: changed} }

// Full reports whether nothing more should be given until the digests have caught up.
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

// A piece is bytes on their way to a digest, zeros where it has no memory, or a
// question for a copy of the digest as it is then.
type piece struct {
	mem  *[pieceSize]byte
	n    int64
	copy chan<- hash.Hash
}

// A background digests a file in a goroutine of its own. It reads back what had gone by
// in another process, and what goes by meanwhile; once it has caught up it takes the
// bytes from a queue.
type background struct {
	log  *Backlog
	sum  hash.Hash
	segs []transfer.Segment // that r must begin with
	done chan struct{}      // closed when there is a result
	wake chan struct{}

	mu      sync.Mutex
	r       io.ReaderAt // nil once it has caught up
	given   int64       // bytes that have gone by
	queue   []piece
	ended   bool
	stopped bool
	err     error
}

// startBackground begins a digest. Where r is there the bytes below the end of the
// segments are read back and compared with them.
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

// write hands bytes over, or n zeros where p is nil. The memory of p stays the caller's.
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

// drop gives a piece's memory back.
func (b *background) drop(p piece) {
	if p.mem == nil {
		b.log.add(-p.n)
		return
	}
	pieces.Put(p.mem)
	b.log.add(-pieceSize)
}

// end says that no more bytes come.
func (b *background) end() {
	b.mu.Lock()
	b.ended = true
	b.mu.Unlock()
	b.poke()
}

// stop gives up and waits until nothing is read any more.
func (b *background) stop() {
	b.mu.Lock()
	b.stopped = true
	b.mu.Unlock()
	b.poke()
	<-b.done
}

// failure is why there is no result; nil where there is one, or will be.
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

// readBack digests what was there before, and goes on until it has caught up.
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

// readTo is how far can be read; where that is at, the rest comes by the queue.
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

// takeAll digests what comes by the queue, to the end.
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

// next takes the first piece of the queue; an empty one where there is none.
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

// clone is a second digest of what has been given so far; nil where there is an error.
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
