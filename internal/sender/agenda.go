package sender

import (
	"slices"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// How far a pump looks ahead where the digest is slow: it opens the files that come
// next and has several of them digested at once, so that the end of a file has its
// digest to say when its turn comes. At half of either it looks further. What is read
// ahead should still be in the page cache when it is sent: it is as many bytes as the
// run-ahead so many times, and a larger file is digested as it is sent.
const (
	aheadItems    = 16
	aheadRunAhead = 8
	readAtOnce    = 256 << 10 // bytes; the system reads smaller files ahead by itself
)

// An agenda is what a pump is to send, in order.
type agenda struct {
	p       *pump
	cursor  *ledger.Cursor
	decided transfer.ItemSet // by the destination, when the epoch began
	now     *upcoming        // was taken last
	next    []*upcoming
	bytes   int64
	ended   bool
}

// An upcoming item may have been opened ahead.
type upcoming struct {
	n      uint64
	it     transfer.Item
	r      *reading // nil: it is opened when its turn comes
	offset int64    // where the destination can go on
	// unsized: it was not as long as its size says, and had not changed; whole: that
	// was so twice, and it is read to its end before it is sent.
	unsized, whole bool
}

// close closes what was opened ahead and is not sent.
func (u *upcoming) close() {
	if u != nil && u.r != nil {
		u.r.close()
		u.r = nil
	}
}

func (a *agenda) close() {
	a.now.close()
	for _, u := range a.next {
		u.close()
	}
}

// take gives the next item; nil at the end.
func (a *agenda) take() (*upcoming, error) {
	a.now.close()
	a.now = nil
	if err := a.fill(); err != nil || len(a.next) == 0 {
		return nil, err
	}
	a.now = a.next[0]
	a.next = slices.Delete(a.next, 0, 1)
	if a.now.r != nil {
		a.bytes -= a.now.r.src.Size()
	}
	return a.now, nil
}

// fill waits for the walk only where there is nothing else to do.
func (a *agenda) fill() error {
	most, low := 1, 0
	if a.p.method.Slow() {
		most, low = aheadItems, aheadItems/2
	}
	if len(a.next) > low || len(a.next) > 0 && a.bytes > a.p.ahead/2 {
		return nil
	}
	for !a.ended && len(a.next) < most && a.bytes < a.p.ahead {
		n, it, more, wait, err := a.cursor.Next()
		switch {
		case err != nil:
			return err
		case more && (a.decided.Has(n) || a.p.o.decided(n)):
		case more:
			u := &upcoming{n: n, it: it}
			a.next = append(a.next, u)
			if most > 1 && it.Type == transfer.ItemFile && it.Size <= a.p.ahead {
				a.open(u)
			}
		case wait == nil:
			a.ended = true
		case len(a.next) > 0:
			return nil
		default:
			if err := a.p.awaitJournal(wait); err != nil {
				return err
			}
		}
	}
	return nil
}

// open opens a file ahead. One that cannot be opened is tried again when its turn
// comes: it may be for want of descriptors.
func (a *agenda) open(u *upcoming) {
	fs := a.p.o.cfg.FS
	if !fs.Borrow() {
		return
	}
	r, offset, err := a.p.openReading(u)
	if err != nil {
		fs.Return()
		return
	}
	if r.borrowed != nil { // one that was kept of an earlier epoch
		fs.Return()
	}
	r.borrowed = fs
	u.r, u.offset = r, offset
	a.bytes += r.src.Size()
}

// takeReading gives what was opened ahead, once, or opens it.
func (p *pump) takeReading(u *upcoming) (*reading, int64, error) {
	if r := u.r; r != nil {
		u.r = nil
		return r, u.offset, nil
	}
	return p.openReading(u)
}
