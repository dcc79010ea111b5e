package codepage

import (
	"runtime"
	"sync"
	"unicode/utf8"
)

// minPart is the least number of bytes that is worth a goroutine of its own.
const minPart = 32 << 10

// maxLook bounds the bytes that Split searches for a position.
const maxLook = 4 << 10

// settle is the number of bytes at the beginning of a text that are converted before it is cut, so that its byte-order
// mark is among them.
const settle = 16

// Split returns the greatest position of block where the next bytes of the source may be cut for parallel conversion.
// It is not above at, and not far below it; 0 if there is none. The bytes before it end with a complete character that
// is no CR. Split never cuts text with shifts, or text for a page that writes some pairs of characters as one code.
func (c *Converter) Split(block []byte, at int) int {
	at = min(at, len(block))
	from, to := c.opt.From, c.opt.To
	if from.Shifts() || to.Shifts() || c.enc.table != nil && c.enc.table.opens != nil || at <= 0 {
		return 0
	}
	for least := max(at-maxLook, 0); at > least; at-- {
		if c.whole(block, at) {
			return at
		}
	}
	return 0
}

// whole reports whether a character other than a CR ends just before position i of b, 0 < i.
func (c *Converter) whole(b []byte, i int) bool {
	last := b[i-1]
	switch c.opt.From.form {
	case formUTF8:
		if last == carriageReturn || c.st.pending > 0 && i < utf8.UTFMax || i < len(b) && !utf8.RuneStart(b[i]) {
			return false
		}
		for k := 1; k < utf8.UTFMax && k <= i; k++ {
			if utf8.RuneStart(b[i-k]) {
				return utf8.FullRune(b[i-k : i]) // an incomplete character is a fault of the next part, too
			}
		}
		return true
	case formUTF16:
		if !c.aligned(i, 2) {
			return false
		}
		u := c.dec.unit(b[i-2:])
		return u != carriageReturn && (u < 0xd800 || u >= 0xdc00)
	case formUTF32:
		if !c.aligned(i, 4) {
			return false
		}
		r, _ := c.dec.next(b[i-4:])
		return r != carriageReturn
	case formPair:
		return c.aligned(i, 2)
	case formMulti:
		return last < '0' && last != carriageReturn // no byte but the first is below '0'
	}
	return last != carriageReturn
}

// aligned reports whether a unit of size bytes that is completely in the next bytes ends at position i: the first bytes
// may belong to a unit that has begun.
func (c *Converter) aligned(i, size int) bool {
	return (i+int(c.st.pending))%size == 0 && i >= size
}

// ConvertParallel is Convert on up to n goroutines if that is faster. The appended bytes, the state and the errors are
// the same. It takes twice the memory of the appended bytes.
func (c *Converter) ConvertParallel(dst, src []byte, n int) ([]byte, error) {
	n = min(n, len(src)/minPart, runtime.GOMAXPROCS(0))
	if n < 2 || c.last != nil || c.Identity() {
		return c.Convert(dst, src)
	}

	if !c.st.begun || !c.st.wrote {
		dst, err := c.Convert(dst, src[:settle])
		if err != nil || !c.st.begun || !c.st.wrote {
			return c.rest(dst, src[settle:], err)
		}
		return c.ConvertParallel(dst, src[settle:], n)
	}

	cuts := []int{0}
	for i := 1; i < n; i++ {
		if cut := c.Split(src, len(src)/n*i); cut > cuts[len(cuts)-1] {
			cuts = append(cuts, cut)
		}
	}
	return c.convertParts(dst, src, append(cuts, len(src)))
}

func (c *Converter) rest(dst, src []byte, err error) ([]byte, error) {
	if err != nil {
		return dst, err
	}
	return c.Convert(dst, src)
}

// A part is the work of one goroutine.
type part struct {
	c     Converter
	out   []byte
	fault *Fault
}

// convertParts converts the first part directly into dst and the others at the same time.
func (c *Converter) convertParts(dst, src []byte, cuts []int) ([]byte, error) {
	parts := make([]part, len(cuts)-2)
	for len(c.buffer) < len(parts) {
		c.buffer = append(c.buffer, nil)
	}

	var wait sync.WaitGroup
	for i := range parts {
		p := &parts[i]
		p.c, p.out = *c, c.buffer[i][:0]
		p.c.buffer = nil
		p.c.st.In, p.c.st.Out, p.c.st.Line = c.st.In+int64(cuts[i+1]), 0, 0
		p.c.hold(nil)
		p.c.st.cr = false
		wait.Go(func() { p.out, p.fault = p.c.run(p.out, src[cuts[i+1]:cuts[i+2]]) })
	}

	mark := len(dst)
	dst, fault := c.run(dst, src[:cuts[1]])
	wait.Wait()
	for i := range parts {
		p := &parts[i]
		c.buffer[i] = p.out
		if fault != nil {
			continue
		}
		dst = append(dst, p.out...)
		if fault = p.fault; fault != nil {
			fault.Line += c.st.Line
		}
		p.c.st.Out, p.c.st.Line = c.st.Out, c.st.Line+p.c.st.Line
		c.st, c.dec, c.enc = p.c.st, p.c.dec, p.c.enc
	}

	c.st.Out += int64(len(dst) - mark)
	return dst, c.end(fault)
}
