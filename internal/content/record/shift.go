package record

import "ferry/internal/transfer"

const (
	shiftOut = 0x0e // characters of two bytes follow
	shiftIn  = 0x0f // characters of one byte follow
)

// leastShifted is the number of bytes that one character of two bytes takes with its shifts.
const leastShifted = 4

// A shift is the position of a record's data in a page that shifts.
type shift struct {
	out  bool // behind a shift-out
	half bool // within a character of two bytes
}

// next advances the position by a byte.
func (s *shift) next(b byte) {
	switch {
	case s.half:
		s.half = false
	case b == shiftOut:
		s.out = true
	case b == shiftIn:
		s.out = false
	default:
		s.half = s.out
	}
}

// need returns the bytes that a record must still hold for b and for the bytes that must follow it in the record: the
// other half of its character, and a shift-in.
func (s *shift) need(b byte) int {
	switch {
	case s.half:
		return 2
	case !s.out && b == shiftOut:
		return leastShifted
	case s.out && b != shiftIn && b != shiftOut:
		return 3
	}
	return 1
}

// shifting makes a Writer keep the shifts of each record complete. Truncated lines end shifted in, too.
func (w *Writer) shifting() error {
	least := leastShifted
	if w.controls {
		least++
	}
	if w.a.MaxData() < least {
		return transfer.Errorf(transfer.KindUsage, "a record of %s has no room for a character of two bytes and its shifts, %d bytes", w.a, least).
			WithHint("choose a larger LRECL")
	}
	w.shifts = true
	return nil
}

// fits returns the number of bytes from the front of p that the present record takes.
func (w *Writer) fits(p []byte) int {
	room := w.a.MaxData() - w.n
	if !w.shifts {
		return min(len(p), room)
	}
	s := w.shift
	for i, b := range p {
		if room < s.need(b) {
			return i
		}
		room--
		s.next(b)
	}
	return len(p)
}

// passed records data that the present record has taken.
func (w *Writer) passed(p []byte) {
	if !w.shifts {
		return
	}
	for _, b := range p {
		w.shift.next(b)
	}
}

// inject adds a byte that is not part of the source.
func (w *Writer) inject(b byte) {
	if w.a.Format.fixed() {
		w.add(b)
	} else {
		w.push(b)
	}
	w.n++
}

// endShiftState ends a run of characters of two bytes, and reports whether there was one.
func (w *Writer) endShiftState() bool {
	was := w.shift.out
	if was {
		w.inject(shiftIn)
		w.shift = shift{}
	}
	return was
}
