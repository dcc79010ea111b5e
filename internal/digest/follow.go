package digest

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"sync"

	"ferry/internal/transfer"
)

// ErrPrefix says that the bytes before a resume point are not what they were
// when the point was made.
var ErrPrefix = errors.New("the bytes before the resume point have changed")

// A Follower digests a file from its first byte by reading it, at its own pace,
// beside whoever writes or sends it.
type Follower struct {
	r      io.ReaderAt
	method Method
	segs   []transfer.Segment
	from   int64 // bytes that are to be there before it starts

	started sync.Once
	ctx     context.Context

	mu     sync.Mutex
	avail  int64 // bytes that can be read
	final  int64 // where the file ends; -1 until known
	wake   chan struct{}
	cancel context.CancelFunc
	prefix chan struct{} // closed when the segments are checked
	done   chan struct{} // closed when there is a result
	err    error
	sum    hash.Hash // of the method, or xxh3 for None
}

// Follow starts reading. Bytes up to the end of the segments can be read at
// once, others as Grow allows. The caller ends it with Finish or Stop.
func Follow(r io.ReaderAt, m Method, segs []transfer.Segment) *Follower {
	f := newFollower(r, m, segs, 0)
	f.start()
	return f
}

// Later is Follow for a file that begins, with no hurry: a file of fewer bytes than
// from comes to its end first, so that several of them are digested at once.
func Later(r io.ReaderAt, m Method, from int64) *Follower { return newFollower(r, m, nil, from) }

func newFollower(r io.ReaderAt, m Method, segs []transfer.Segment, from int64) *Follower {
	ctx, cancel := context.WithCancel(context.Background())
	f := &Follower{r: r, method: m, segs: segs, from: from, final: -1, ctx: ctx, cancel: cancel,
		wake: make(chan struct{}, 1), prefix: make(chan struct{}), done: make(chan struct{})}
	f.sum = m.New()
	if f.sum == nil {
		f.sum = XXH3.New()
	}
	if n := len(segs); n > 0 {
		f.avail = segs[n-1].End
	}
	return f
}

func (f *Follower) start() { f.started.Do(func() { go f.run() }) }

// Grow says that the bytes below to can be read.
func (f *Follower) Grow(to int64) {
	f.mu.Lock()
	f.avail = max(f.avail, to)
	f.mu.Unlock()
	if to >= f.from {
		f.start()
	}
	f.poke()
}

func (f *Follower) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// Checked is closed when the segments have been read and compared; Err then
// tells the result.
func (f *Follower) Checked() <-chan struct{} { return f.prefix }

// Err is what went wrong so far: ErrPrefix, or a read error.
func (f *Follower) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// End says where the file ends.
func (f *Follower) End(size int64) {
	f.mu.Lock()
	f.final, f.avail = size, max(f.avail, size)
	f.mu.Unlock()
	f.start()
	f.poke()
}

// Done is closed when the whole file has been read, or cannot be.
func (f *Follower) Done() <-chan struct{} { return f.done }

// Result is the digest of the whole file as Content gives it, once Done.
func (f *Follower) Result() (string, error) {
	if err := f.Err(); err != nil {
		return "", err
	}
	m := f.method
	if m == None {
		m = XXH3
	}
	return m.Sum(f.sum), nil
}

// Finish is End, Done and Result in one. When ctx ends first the Follower has
// stopped.
func (f *Follower) Finish(ctx context.Context, size int64) (string, error) {
	f.End(size)
	select {
	case <-f.done:
	case <-ctx.Done():
		f.Stop()
		return "", context.Cause(ctx)
	}
	return f.Result()
}

// Stop gives up and waits until the file is no longer read.
func (f *Follower) Stop() {
	f.cancel()
	f.start()
	f.poke()
	<-f.done
}

func (f *Follower) run() {
	defer f.cancel()
	defer close(f.done)
	err := f.follow(f.ctx)
	f.mu.Lock()
	f.err = err
	f.mu.Unlock()
	select {
	case <-f.prefix:
	default:
		close(f.prefix)
	}
}

// buffers are what Followers read into.
var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

func (f *Follower) follow(ctx context.Context) error {
	b := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(b)
	buf, left := b[:], f.segs
	var seg hash.Hash // of the current one of those that are left
	if len(left) == 0 {
		close(f.prefix)
	} else {
		seg = XXH3.New()
	}
	var at int64
	for {
		limit, ended, err := f.next(ctx, at)
		if err != nil || ended {
			return err
		}
		if len(left) > 0 {
			limit = min(limit, left[0].End)
		}
		n, err := f.r.ReadAt(buf[:min(int64(len(buf)), limit-at)], at)
		if n == 0 && err != nil {
			return fmt.Errorf("reading back at offset %d: %w", at, err)
		}
		f.sum.Write(buf[:n])
		at += int64(n)
		if len(left) == 0 {
			continue
		}
		seg.Write(buf[:n])
		if at == left[0].End {
			if hex.EncodeToString(seg.Sum(nil)) != left[0].Sum {
				return fmt.Errorf("%w: segment ending at %d", ErrPrefix, at)
			}
			seg.Reset()
			if left = left[1:]; len(left) == 0 {
				close(f.prefix)
			}
		}
	}
}

// next waits until there is something to read at `at`, or the file has ended.
func (f *Follower) next(ctx context.Context, at int64) (limit int64, ended bool, err error) {
	for {
		f.mu.Lock()
		avail, final := f.avail, f.final
		f.mu.Unlock()
		if final >= 0 && at >= final {
			if at > final {
				return 0, false, fmt.Errorf("%w: it ends at %d", ErrPrefix, final)
			}
			return 0, true, nil
		}
		if at < avail {
			return avail, false, ctx.Err()
		}
		select {
		case <-f.wake:
		case <-ctx.Done():
			return 0, false, ctx.Err()
		}
	}
}
