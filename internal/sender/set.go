package sender

import (
	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// announce sends the number of a set's items before the first item: the destination reserves item slots for all of them
// or none. If an item cannot be sent, no file is read.
func announce(p *pump, j *ledger.Journal) error {
	if !p.rec.read().Request.Together {
		return nil
	}

	for c := j.Cursor(0); p.none == nil; {
		_, it, more, _, err := c.Next()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if it.Type == transfer.ItemBad {
			p.none = transfer.SetFailed(it.Source, it.Err)
		}
	}

	if err := p.out.room(0); err != nil {
		return err
	}
	p.out.b.Last(uint64(j.Totals().Items))
	return nil
}
