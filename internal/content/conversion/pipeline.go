package conversion

import (
	"encoding/binary"
	"errors"
	"runtime"
	"sync"

	"ferry/internal/content/codepage"
	"ferry/internal/content/record"
	"ferry/internal/transfer"
)

// MaxState is the greatest length of the state of a pipeline, in bytes.
const MaxState = 4 + 2*(record.MaxState+4) + codepage.MaxState

const (
	stateVersion = 1
	// piece is the number of bytes that a step takes or gives at once.
	piece = 256 << 10
	// kept is the largest memory that a step keeps between two pieces.
	kept = 4 << 20
)

// A Pipeline converts one file. Only one goroutine may use it.
type Pipeline struct {
	steps []step
	clean bool // no byte has been changed yet
	last  *record.Converter
}

// A step is one conversion. It takes all of src, in pieces that it bounds itself, and passes its output on to next.
type step interface {
	write(src []byte, next func([]byte) error) error
	finish(next func([]byte) error) error
	state() ([]byte, error)
	restore([]byte) error
	release() // frees its memory
}

// A blockFilter is a step that can recognise bytes that will not change.
type blockFilter interface {
	unchanged(src []byte) bool
	suspects() (Pair, bool) // the two bytes that a change needs: unchanged is true for bytes without them
}

// A Pair is two bytes, which may be equal.
type Pair [2]byte

// In reports whether one of the two bytes is in b.
func (p Pair) In(b []byte) bool { return codepage.Holds(b, p[0], p[1]) }

// Start makes the pipeline for the beginning of a file.
func (p *Plan) Start() (*Pipeline, error) {
	l := &Pipeline{clean: true}
	if !p.text {
		return l, l.binary(p)
	}

	if !p.from.IsZero() {
		if err := l.record(record.ToText(p.from, p.fromPage, p.opt)); err != nil {
			return nil, err
		}
		l.last = nil
	}

	if s := lineEnds(&p.pages); s != nil {
		s.inner = !p.from.IsZero()
		l.steps = append(l.steps, s)
	} else {
		c, err := codepage.New(p.pages)
		if err != nil {
			return nil, err
		}
		l.steps = append(l.steps, &paging{opt: p.pages, conv: c, inside: !p.from.IsZero()})
	}

	if !p.to.IsZero() {
		if err := l.record(record.FromText(p.to, p.toPage, p.opt)); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// binary makes the pipeline of binary mode: one step, or none.
func (l *Pipeline) binary(p *Plan) error {
	switch {
	case p.Nothing():
		return nil
	case p.from.IsZero():
		return l.record(record.FromBinary(p.to))
	case p.to.IsZero():
		return l.record(record.ToBinary(p.from))
	}
	return l.record(record.Reblock(p.from, p.to, 0, p.opt))
}

func (l *Pipeline) record(c *record.Converter, err error) error {
	l.steps, l.last = append(l.steps, &recording{conv: c}), c
	return err
}

// Resume makes the pipeline for the rest of a file from a State of the same plan. It refuses another State with
// KindVersion; the caller then begins the file again.
func (p *Plan) Resume(state []byte) (*Pipeline, error) {
	l, err := p.Start()
	if err != nil {
		return nil, err
	}

	bad := transfer.Errorf(transfer.KindVersion, "the state of a conversion cannot be read")
	if len(state) < 2 || state[0] != stateVersion || int(state[1]) != len(l.steps) {
		return nil, bad
	}

	state = state[2:]
	for _, s := range l.steps {
		n, k := binary.Uvarint(state)
		if k <= 0 || n > uint64(len(state)-k) {
			return nil, bad
		}
		if err := s.restore(state[k : k+int(n)]); err != nil {
			return nil, err
		}
		state = state[k+int(n):]
	}

	if len(state) > 0 {
		return nil, bad
	}

	l.clean = false
	return l, nil
}

// State returns the state of the pipeline. It belongs to the plan, and to the bytes taken and given so far.
func (l *Pipeline) State() ([]byte, error) {
	b := []byte{stateVersion, byte(len(l.steps))}
	for _, s := range l.steps {
		st, err := s.state()
		if err != nil {
			return nil, err
		}
		b = append(binary.AppendUvarint(b, uint64(len(st))), st...)
	}
	return b, nil
}

// Clean reports whether the pipeline would pass src unchanged as the next bytes, and has changed none before. The
// caller may then bypass the pipeline for them. absent means that src has neither of the Suspects.
func (l *Pipeline) Clean(src []byte, absent bool) bool {
	if l.clean {
		s, ok := l.sieve()
		l.clean = ok && (absent || s.unchanged(src))
	}
	return l.clean
}

// Suspects returns the two bytes that can make Clean false: it stays true for bytes without them. ok is false if there
// are no such bytes, because Clean is false already or needs a closer look.
func (l *Pipeline) Suspects() (p Pair, ok bool) {
	if s, is := l.sieve(); is && l.clean {
		return s.suspects()
	}
	return p, false
}

// sieve returns the only step if it is a sieve.
func (l *Pipeline) sieve() (blockFilter, bool) {
	if len(l.steps) != 1 {
		return nil, false
	}
	s, ok := l.steps[0].(blockFilter)
	return s, ok
}

// Write converts the next bytes and passes the output to next, in any number of pieces. A piece stays valid until the
// next call of next has returned, or Write returns: the caller may use it while the pipeline converts the following
// piece. After an error the pipeline must not be used.
func (l *Pipeline) Write(src []byte, next func([]byte) error) error {
	l.clean = false
	return l.sink(0, next)(src)
}

// Finish passes the bytes that were held back until the end of the source to next, as Write does.
func (l *Pipeline) Finish(next func([]byte) error) error {
	l.clean = false
	for i, s := range l.steps {
		if err := s.finish(l.sink(i+1, next)); err != nil {
			return err
		}
	}
	return nil
}

// sink returns the function that takes the input of step i.
func (l *Pipeline) sink(i int, next func([]byte) error) func([]byte) error {
	if i == len(l.steps) {
		return next
	}
	onward := l.sink(i+1, next)
	return func(b []byte) error { return l.steps[i].write(b, onward) }
}

// Stats returns the number of written records, and the number of lines or records that were too long for one record.
func (l *Pipeline) Stats() record.Stats {
	if l.last == nil {
		return record.Stats{}
	}
	return l.last.Stats()
}

// paging is a step from one code page to another.
type paging struct {
	opt    codepage.Options
	conv   *codepage.Converter
	inside bool // its input is the text of records, not the file
	stepBuffers
}

// Release frees the memory of a pipeline that is no longer used, also in the middle of a file. Its output must not be
// used any more either. Release may be called again.
func (l *Pipeline) Release() {
	for _, s := range l.steps {
		s.release()
	}
}

// stepBuffers are the two buffers that a step uses alternately for its output.
type stepBuffers [2][]byte

// stock has the buffers of finished files: making and clearing a buffer takes as long as converting its contents. Each
// has room for a complete piece.
var stock sync.Pool

// memory returns the next buffer, empty. If there is none, it takes one from the stock, or makes one with room for n
// bytes.
func (t *stepBuffers) memory(n int) []byte {
	t[0], t[1] = t[1], t[0]
	if t[0] == nil && n >= piece {
		if old, ok := stock.Get().(*[]byte); ok {
			t[0] = *old
		}
	}
	if cap(t[0]) < n {
		t[0] = make([]byte, 0, n)
	}
	return t[0][:0]
}

func (t *stepBuffers) release() {
	for i, b := range t {
		if t[i] = nil; cap(b) >= piece {
			stock.Put(&b)
		}
	}
}

// give passes on the output in a buffer, which may have been moved by append.
func (t *stepBuffers) give(out []byte, next func([]byte) error) error {
	t[0] = nil
	if cap(out) <= kept {
		t[0] = out
	}
	if len(out) == 0 {
		return nil
	}
	return next(out)
}

func (s *paging) write(src []byte, next func([]byte) error) error {
	cores := min(runtime.GOMAXPROCS(0), 4)
	for len(src) > 0 {
		n := min(len(src), piece)
		out, err := s.conv.ConvertParallel(s.memory(n), src[:n], cores)
		if werr := s.give(out, next); werr != nil {
			return werr
		}
		if err != nil {
			return s.explain(err)
		}
		src = src[n:]
	}
	return nil
}

func (s *paging) finish(next func([]byte) error) error {
	out, err := s.conv.Finish(s.memory(64))
	if werr := s.give(out, next); werr != nil {
		return werr
	}
	return s.explain(err)
}

// explain adds to a fault that its offset is one in the text of the records.
func (s *paging) explain(err error) error {
	if err == nil || !s.inside {
		return err
	}
	e := transfer.AsError(err)
	return transfer.Errorf(e.Kind, "in the text of the records, %w", errors.New(e.Text)).WithHint(e.Hint)
}

func (s *paging) state() ([]byte, error) { return s.conv.State().MarshalBinary() }

func (s *paging) restore(b []byte) error {
	var st codepage.State
	if err := st.UnmarshalBinary(b); err != nil {
		return err
	}
	c, err := codepage.Resume(s.opt, st)
	s.conv = c
	return err
}

// recording is a step to records, from records, or between records.
type recording struct {
	conv *record.Converter
	stepBuffers
}

func (s *recording) write(src []byte, next func([]byte) error) error {
	for {
		buf := s.memory(piece)[:piece]
		n, m, err := s.conv.Convert(buf, src)
		if werr := s.give(buf[:n], next); werr != nil {
			return werr
		}
		if err != nil {
			return err
		}
		if src = src[m:]; len(src) == 0 && n < len(buf) {
			return nil
		}
	}
}

func (s *recording) finish(next func([]byte) error) error {
	for {
		buf := s.memory(piece)[:piece]
		n, done, err := s.conv.Finish(buf)
		if werr := s.give(buf[:n], next); werr != nil {
			return werr
		}
		if err != nil || done {
			return err
		}
	}
}

func (s *recording) state() ([]byte, error) { return s.conv.MarshalBinary() }
func (s *recording) restore(b []byte) error { return s.conv.UnmarshalBinary(b) }
