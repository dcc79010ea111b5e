package ledger

import "ferry/internal/transfer"

// OpenBolt opens the real store for the contract suite.
var OpenBolt = openBolt

type DirFiles = dirFiles

// DropReserve gives up the reserve, as on a full disk.
func (l *Ledger) DropReserve() { l.reserve.drop() }

// MaxWaitingParts bounds the parts that wait for their head.
const MaxWaitingParts = maxWaitingParts

// WaitingParts returns how many bytes of parts wait for their head: all, as they are counted, or those of an ID.
func (l *Ledger) WaitingParts(of ...transfer.ID) (n int64) {
	l.Update(func(t *Tx) error {
		n = 0
		if len(of) == 0 {
			n = t.l.counted.used[sharedParts].all
			return nil
		}
		return each(t.tx.Bucket(bParts), nil, func(k, v []byte) error {
			if transfer.ID(k[principalSize:principalSize+len(of[0])]) == of[0] {
				n += sizeOf(k, v)
			}
			return nil
		})
	})
	return n
}
