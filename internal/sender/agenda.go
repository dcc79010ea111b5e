package sender

import (
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
	next    []upcoming
	bytes   int64
	ended   bool
}

// An upcoming item may have been opened ahead.
type upcoming struct {
	n  uint64
	it transfer.Item
}

// An opened source, and where the destination can go on.
type opened struct {
	r      *reading
	offset int64
}

// take gives the next item; more is false at the end.
func (a *agenda) take() (u upcoming, more bool, err error) {
	if err := a.fill(); err != nil || len(a.next) == 0 {
		return u, false, err
	}
	u, a.next = a.next[0], a.next[1:]
	if o := a.p.opened[u.n]; o != nil {
		a.bytes -= o.r.src.Identity().Size
	}
	return u, true, nil
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
			a.next = append(a.next, upcoming{n, it})
			if most > 1 && it.Type == transfer.ItemFile && it.Size <= a.p.ahead {
				a.open(n, it)
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
func (a *agenda) open(n uint64, it transfer.Item) {
	r, offset, err := a.p.openReading(n, it)
	if err != nil {
		return
	}
	a.p.opened[n] = &opened{r, offset}
	a.bytes += r.src.Identity().Size
}

// takeReading gives what was opened ahead, or opens it.
func (p *pump) takeReading(n uint64, it transfer.Item) (*reading, int64, error) {
	if o := p.opened[n]; o != nil {
		delete(p.opened, n)
		return o.r, o.offset, nil
	}
	return p.openReading(n, it)
}

// unopen closes what was opened ahead and is not sent.
func (p *pump) unopen(n uint64) {
	if o := p.opened[n]; o != nil {
		o.r.close()
	}
	delete(p.opened, n)
}

func (p *pump) unopenAll() {
	for n := range p.opened {
		p.unopen(n)
	}
}
