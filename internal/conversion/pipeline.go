package conversion

import (
	"encoding/binary"
	"errors"
	"runtime"
	"sync"

	"ferry/internal/codepage"
	"ferry/internal/record"
	"ferry/internal/transfer"
)

// MaxState is the most bytes that the state of a pipeline can have.
const MaxState = 4 + 2*(record.MaxState+4) + codepage.MaxState

const (
	stateVersion = 1
	// piece is how many bytes a step takes or gives at once.
	piece = 256 << 10
	// kept is the largest memory that a step keeps between two pieces.
	kept = 4 << 20
)

// A Pipeline converts one file. It is one goroutine's.
type Pipeline struct {
	steps []step
	clean bool // nothing has been changed yet
	last  *record.Converter
}

// A step is one conversion. It takes all of src, in pieces that it bounds itself,
// and passes on what becomes of it.
type step interface {
	write(src []byte, next func([]byte) error) error
	finish(next func([]byte) error) error
	state() ([]byte, error)
	restore([]byte) error
	release() // gives its memory back
}

// A sieve is a step that can tell that bytes will come out as they go in.
type sieve interface {
	unchanged(src []byte) bool
	suspects() (Pair, bool) // unchanged is true of what has neither of them
}

// A Pair is two bytes, which may be the same.
type Pair [2]byte

// In reports whether one of them is in b.
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

// binary is the pipeline of binary mode: one step, or none.
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

// Resume makes the pipeline for the rest of a file from a State of the same plan.
// One that is not is refused with KindVersion; the file is then begun again.
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

// State is where the pipeline stands; it belongs to the bytes that have been
// given to it, and to those that it has given, and to the plan.
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

// Clean reports whether the bytes, coming next, would be given as they are, and
// so were all before them. The caller may then leave them out of the pipeline,
// and must take them for given. absent says that neither of the Suspects is in them.
func (l *Pipeline) Clean(src []byte, absent bool) bool {
	if l.clean {
		s, ok := l.sieve()
		l.clean = ok && (absent || s.unchanged(src))
	}
	return l.clean
}

// Suspects are the two bytes without which Clean stays true of what comes next. ok
// is false where there are none: it is false already, or needs a closer look.
func (l *Pipeline) Suspects() (p Pair, ok bool) {
	if s, is := l.sieve(); is && l.clean {
		return s.suspects()
	}
	return p, false
}

// sieve is the only step, where it is one.
func (l *Pipeline) sieve() (sieve, bool) {
	if len(l.steps) != 1 {
		return nil, false
	}
	s, ok := l.steps[0].(sieve)
	return s, ok
}

// Write takes the next bytes and gives what becomes of them, in as many pieces
// as it likes. A piece stays as it is until next has returned from its next call,
// or Write returns: what is done with it may go on beside the conversion of
// the one after it. After an error the pipeline is of no use.
func (l *Pipeline) Write(src []byte, next func([]byte) error) error {
	l.clean = false
	return l.sink(0, next)(src)
}

// Finish gives what is held back at the end of the source, as Write does.
func (l *Pipeline) Finish(next func([]byte) error) error {
	l.clean = false
	for i, s := range l.steps {
		if err := s.finish(l.sink(i+1, next)); err != nil {
			return err
		}
	}
	return nil
}

// sink is what takes the bytes that come to a step.
func (l *Pipeline) sink(i int, next func([]byte) error) func([]byte) error {
	if i == len(l.steps) {
		return next
	}
	onward := l.sink(i+1, next)
	return func(b []byte) error { return l.steps[i].write(b, onward) }
}

// Stats says how many records have been written, and how many lines or records
// were too long for one.
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
	inside bool // what it takes is the text of records, not the file
	turns
}

// Release gives back the memory of a pipeline that nobody uses any more, be it in
// the middle of a file; nor may what it gave be used. It may be called again.
func (l *Pipeline) Release() {
	for _, s := range l.steps {
		s.release()
	}
}

// turns are the two memories that a step gives its pieces from by turns.
type turns [2][]byte

// stock has memories of files that have ended: making one, and clearing it, takes as
// long as converting what goes into it. They are for whole pieces, at least.
var stock sync.Pool

// memory is the next one, empty; where there is none it is made with room for n
// bytes, or taken from the stock.
func (t *turns) memory(n int) []byte {
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

func (t *turns) release() {
	for i, b := range t {
		if t[i] = nil; cap(b) >= piece {
			stock.Put(&b)
		}
	}
}

// give passes on what has been put in the memory, which may have moved.
func (t *turns) give(out []byte, next func([]byte) error) error {
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

// explain says of which bytes a fault's offset is.
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

// recording is a step to records, from them, or both.
type recording struct {
	conv *record.Converter
	turns
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
