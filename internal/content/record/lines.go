package record

import (
	"bytes"
	"math"
)

// A lineSource finds the lines of text for a Writer of records without control characters.
type lineSource struct {
	page    Page
	matched int // bytes of a line end seen so far
	lit     int // first of the bytes of a line end that go out as data: they were none …
	litEnd  int // … up to here
}

func (l *lineSource) step(c *Converter, dst, src []byte) (nDst, nSrc int, stop bool, err error) {
	w, le := c.w, l.page.LineEnd
	if l.lit < l.litEnd {
		n, m, stop, err := c.putRun(dst, le[l.lit:l.litEnd])
		l.lit += m
		return n, 0, stop, err
	}

	if len(src) == 0 {
		return 0, 0, true, nil
	}

	if len(le) == 1 && w.a.Format.fixed() && !w.in {
		if nDst, nSrc = l.wholeLines(c, dst, src); nSrc > 0 {
			return nDst, nSrc, false, nil
		}
	}

	if src[0] == le[l.matched] {
		if l.matched++; l.matched == len(le) {
			l.matched = 0
			if !w.in {
				w.begin()
			}
			w.end()
			c.lines++
		}
		return 0, 1, false, nil
	}

	if l.matched > 0 {
		l.mismatch()
		return 0, 0, false, nil
	}

	run := src[:min(len(src), w.window())]
	if i := bytes.IndexByte(run, le[0]); i > 0 {
		run = run[:i]
	}
	return c.putRun(dst, run)
}

// wholeLines makes fixed records of complete lines, as long as each line fits into a record and the records fit into
// dst.
func (l *lineSource) wholeLines(c *Converter, dst, src []byte) (nDst, nSrc int) {
	w, size := c.w, c.w.a.LRECL
	for len(dst)-nDst >= size {
		line := src[nSrc:min(len(src), nSrc+size+1)]
		i := bytes.IndexByte(line, l.page.LineEnd[0])
		if i < 0 {
			break
		}
		record := dst[nDst : nDst+size]
		copy(record, line[:i])
		copy(record[i:], w.pads)
		nDst, nSrc = nDst+size, nSrc+i+1
		w.stats.Records++
		c.lines++
	}
	return nDst, nSrc
}

// mismatch returns the bytes that cannot be the beginning of a line end.
func (l *lineSource) mismatch() {
	le := l.page.LineEnd
	for k := l.matched - 1; k >= 0; k-- {
		if string(le[l.matched-k:l.matched]) == string(le[:k]) {
			l.lit, l.litEnd, l.matched = 0, l.matched-k, k
			return
		}
	}
}

func (l *lineSource) finish(c *Converter, dst []byte) (nDst int, stop, done bool, err error) {
	if l.lit == l.litEnd {
		if l.matched == 0 {
			return 0, false, true, nil
		}
		l.lit, l.litEnd, l.matched = 0, l.matched, 0
	}
	nDst, _, stop, err = l.step(c, dst, nil)
	return nDst, stop, false, err
}

func (l *lineSource) encode(e *encoder) {
	e.small(l.matched)
	e.small(l.lit)
	e.small(l.litEnd)
}

func (l *lineSource) decode(d *decoder) {
	l.matched = d.small(len(l.page.LineEnd) - 1)
	l.lit = d.small(maxLineEnd)
	l.litEnd = d.small(len(l.page.LineEnd))
	d.check(l.lit <= l.litEnd)
}

// An asaSource finds the lines of text for a Writer of records that begin with a control character: the motion of the
// printer before it prints. The package comment has the table. The start of the text counts as a line end, so that the
// first record is like the others.
type asaSource struct {
	page   Page
	breaks [256]bool // the bytes that end a line
	motion byte      // the pending motion: LineEnd[0], FormFeed or Return
	count  int       // with LineEnd: their number, 1 to 3; the start of the text counts as one
	start  bool      // only the start of the text is pending
}

func newASASource(p Page) *asaSource {
	s := &asaSource{page: p, motion: p.LineEnd[0], count: 1, start: true}
	for _, b := range []byte{p.LineEnd[0], p.FormFeed, p.Return} {
		s.breaks[b] = true
	}
	return s
}

// control returns the control character of a motion.
func (s *asaSource) control(motion byte, count int) byte {
	switch {
	case motion == s.page.FormFeed:
		return s.page.One
	case motion == s.page.Return:
		return s.page.Plus
	case count == 2:
		return s.page.Zero
	case count == 3:
		return s.page.Minus
	}
	return s.page.Blank
}

func (s *asaSource) step(c *Converter, dst, src []byte) (nDst, nSrc int, stop bool, err error) {
	w := c.w
	if len(src) == 0 {
		return 0, 0, true, nil
	}

	if s.breaks[src[0]] {
		s.lineBreak(w, src[0])
		if src[0] == s.page.LineEnd[0] {
			c.lines++
		}
		return 0, 1, false, nil
	}

	if !w.in {
		w.beginASA(s.control(s.motion, s.count))
		s.start = false
		return 0, 0, false, nil
	}

	run := src[:min(len(src), w.window())]
	for i, b := range run {
		if s.breaks[b] {
			run = run[:i]
			break
		}
	}
	return c.putRun(dst, run)
}

// lineBreak ends the line, or adds to the pending motion. A motion without a control character is a record without text
// and a further motion.
func (s *asaSource) lineBreak(w *Writer, b byte) {
	switch {
	case w.in:
		w.end()
		s.count = 1
	case b == s.page.LineEnd[0] && s.motion == b && s.count < 3:
		s.count++
	case b != s.page.LineEnd[0] && s.start:
		// At the start there is no line to end.
	default:
		w.beginASA(s.control(s.motion, s.count))
		w.end()
		s.count = 1
	}

	s.motion, s.start = b, false
}

func (s *asaSource) finish(c *Converter, _ []byte) (nDst int, stop, done bool, err error) {
	count := s.count
	if s.motion == s.page.LineEnd[0] {
		count-- // the line end at the end of the text
	}

	switch {
	case c.w.in:
		c.w.end()
	case count > 0:
		c.w.beginASA(s.control(s.motion, count))
		c.w.end()
	}

	s.motion, s.count = s.page.LineEnd[0], 1
	return 0, false, true, nil
}

func (s *asaSource) encode(e *encoder) {
	e.small(int(s.motion))
	e.small(s.count)
	e.flag(s.start)
}

func (s *asaSource) decode(d *decoder) {
	s.motion = byte(d.small(math.MaxUint8))
	s.count = d.small(3)
	s.start = d.flag()
	d.check(s.count >= 1 && s.breaks[s.motion])
}
