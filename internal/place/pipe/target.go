package pipe

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"math"
	"sync"

	"ferry/internal/content/digest"
	"ferry/internal/place"
	"ferry/internal/transfer"
)

// A Target is a stream as a place where one file lands. It writes arriving bytes at once and cannot take them back. A
// file that begins again is compared with the written bytes.
type Target struct {
	out io.Writer
	id  transfer.ID

	mu      sync.Mutex
	written int64
	sum     hash.Hash // of the bytes written
	failed  error     // of the stream

	abandon   sync.Once
	abandoned chan struct{}
}

var (
	_ place.Target  = (*Target)(nil)
	_ place.Limiter = (*Target)(nil)
)

// NewTarget makes a place of a stream, for one transfer.
func NewTarget(out io.Writer, id transfer.ID) *Target {
	return &Target{out: out, id: id, sum: digest.XXH3.New(), abandoned: make(chan struct{})}
}

// Limits returns the promises that a Target does not keep, for the audit.
func (*Target) Limits() []string {
	return []string{"bytes are written to standard output as they arrive, before the file is whole"}
}

// Abandon ends a Write that waits for the reader of the stream, and fails those that come.
func (t *Target) Abandon() { t.abandon.Do(func() { close(t.abandoned) }) }

var errAbandoned = errors.New("the command was interrupted")

// write writes, and waits for that no longer than until Abandon.
func (t *Target) write(b []byte) (n int, err error) {
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	b = bytes.Clone(b) // it may outlive the call
	go func() {
		n, err := t.out.Write(b)
		done <- result{n, err}
	}()

	select {
	case r := <-done:
		return r.n, r.err
	case <-t.abandoned:
		return 0, errAbandoned
	}
}

// Resolve takes the one name that there is.
func (t *Target) Resolve(dest transfer.Location, several bool, _ place.Permit) (transfer.Resolution, error) {
	if dest != Stdio || several {
		return transfer.Resolution{}, transfer.Errorf(transfer.KindUsage, "standard output takes one file")
	}
	return transfer.Resolution{Place: transfer.Streams, Base: Name}, nil
}

// Resolved returns the resolution as it is.
func (t *Target) Resolved(res transfer.Resolution, _ place.Permit) (transfer.Resolution, error) {
	return res, nil
}

// Ready returns nil: faults of a stream appear when it is written.
func (t *Target) Ready(transfer.Resolution) error { return nil }

// Free is not known of a stream.
func (t *Target) Free(transfer.Resolution) (int64, error) { return math.MaxInt64, nil }

// Land lands the one file.
func (t *Target) Land(cfg place.LandConfig) place.Landing { return &landing{t, cfg} }

type landing struct {
	t   *Target
	cfg place.LandConfig
}

// At is the same: a stream is one destination.
func (l *landing) At(place.Destination) place.Landing { return l }

func (l *landing) Path(transfer.Path) transfer.Path { return Name }

func (l *landing) Locate(name, _ transfer.Path) (place.Location, error) {
	if l.cfg.Transfer != l.t.id {
		return place.Location{}, transfer.Errorf(transfer.KindUsage, "standard output is that of another transfer")
	}
	return place.Location{Name: name, TempDirs: []transfer.Path{Name}}, nil
}

func (l *landing) Look(transfer.Path, int64, int64) (transfer.Path, error) { return Name, nil }

func (l *landing) Create(item uint64, s place.Staging) (place.Part, error) {
	if item > 0 {
		return nil, transfer.Errorf(transfer.KindUsage, "standard output takes one file, and %s is another", s.Name)
	}
	return &part{t: l.t, sum: digest.XXH3.New()}, nil
}

func (l *landing) Reopen(_ uint64, _ place.Staging, point []byte) (place.Part, error) {
	if len(point) == 0 || point[0] != pointFormat {
		return nil, transfer.Errorf(transfer.KindVersion, "a resume point in a stream is in a format that is not known")
	}
	at, n := binary.Uvarint(point[1:])
	l.t.mu.Lock()
	defer l.t.mu.Unlock()
	if n <= 0 || n != len(point)-1 || at > uint64(l.t.written) {
		return nil, transfer.Errorf(transfer.KindMissing, "standard output does not have the bytes up to the resume point")
	}
	return &part{t: l.t, at: int64(at)}, nil
}

func (l *landing) Drop(uint64, transfer.Path) error            { return nil }
func (l *landing) RemoveLeftovers([]transfer.Path, bool) error { return nil }
func (l *landing) Close() error                                { return nil }

// intentFormat is all that an intent of a stream has.
const intentFormat = 1

// Commit records that the file is whole: all of it is written.
func (l *landing) Commit(_ context.Context, group []place.Pending) (done []transfer.Outcome, err error) {
	var intents []transfer.Intent
	for n := range group {
		o := group[n].Outcome
		if p, ok := group[n].Part.(*part); ok && o.Err == nil {
			o.Err = transfer.AsError(p.incomplete())
		}
		if o.Err == nil {
			o.Path = Name
			intents = append(intents, transfer.Intent{Outcome: o, Place: []byte{intentFormat}})
		}
		done = append(done, o)
	}

	if len(intents) > 0 {
		if err := l.cfg.Journal.Committing(intents); err != nil {
			return nil, err
		}
	}
	if err := l.cfg.Journal.Committed(done); err != nil {
		return nil, err
	}
	return done, nil
}

// incomplete returns the reason why the written bytes are not the file: a write has failed, or the file has become
// shorter since it was written.
func (p *part) incomplete() error {
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	if p.t.failed == nil && p.at < p.t.written {
		return transfer.Errorf(transfer.KindChanging, "the file has changed: it has %d bytes, and %d were written to standard output before", p.at, p.t.written)
	}
	return p.t.failed
}

// Recover reports an item that is recorded as complete as done: nothing is left to do for it.
func (l *landing) Recover(in transfer.Intent, _ string) (place.Verdict, transfer.Outcome, error) {
	return place.Done, in.Outcome, nil
}

// pointFormat begins a point; the offset follows as a varint.
const pointFormat = 1

// A part is the file on its way.
type part struct {
	t   *Target
	at  int64
	sum hash.Hash // of the bytes that came again; nil where they began behind the start
}

func (p *part) Offset() int64 {
	p.t.mu.Lock()
	defer p.t.mu.Unlock()
	return p.at
}

func (p *part) Point() []byte {
	return binary.AppendUvarint([]byte{pointFormat}, uint64(p.Offset()))
}

// Write writes the bytes that were not written before.
func (p *part) Write(b []byte) error {
	t := p.t
	t.mu.Lock()
	defer t.mu.Unlock()
	if again := min(t.written-p.at, int64(len(b))); again > 0 {
		if p.sum != nil {
			p.sum.Write(b[:again])
		}
		p.at, b = p.at+again, b[again:]
		if p.at == t.written && p.sum != nil && !bytes.Equal(p.sum.Sum(nil), t.sum.Sum(nil)) {
			t.failed = transfer.Errorf(transfer.KindChanging, "the file has changed: its first %d bytes, which were written to standard output, are others now", t.written)
		}
	}

	if t.failed != nil || len(b) == 0 {
		return t.failed
	}

	n, err := t.write(b)
	t.sum.Write(b[:n])
	t.written, p.at = t.written+int64(n), p.at+int64(n)
	if err != nil {
		t.failed = transfer.Errorf(transfer.KindUnwritable, "standard output cannot be written: %w", err)
	}

	p.sum = nil
	return t.failed
}

var zeros [64 << 10]byte

func (p *part) Skip(n int64) error {
	for n > 0 {
		k := min(n, int64(len(zeros)))
		if err := p.Write(zeros[:k]); err != nil {
			return err
		}
		n -= k
	}
	return nil
}

func (p *part) Sync() error    { return nil }
func (p *part) Close() error   { return nil }
func (p *part) Discard() error { return nil }

// NoTarget is a place that cannot receive.
type NoTarget struct{ place.Target }

// Resolve refuses.
func (NoTarget) Resolve(transfer.Location, bool, place.Permit) (transfer.Resolution, error) {
	return transfer.Resolution{}, transfer.Errorf(transfer.KindUsage, "nothing can be sent to a process that only sends")
}

// Resolved refuses.
func (NoTarget) Resolved(transfer.Resolution, place.Permit) (transfer.Resolution, error) {
	return NoTarget{}.Resolve(transfer.Location{}, false, nil)
}

// NoSource is a place that cannot send.
type NoSource struct{ place.Source }

// For is Nothing.
func (n NoSource) For(transfer.Place, place.Permit) place.Source { return n }

// Expands says that a source is one file; Walk refuses it.
func (NoSource) Expands(transfer.Location) (several, unnamed bool) { return false, false }

// Walk refuses.
func (NoSource) Walk(context.Context, place.WalkRequest, func(transfer.Item) error) (int64, error) {
	return 0, transfer.Errorf(transfer.KindUsage, "nothing can be sent from a process that only receives")
}
