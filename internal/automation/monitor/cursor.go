package monitor

import (
	"strings"

	"ferry/internal/ledger"
)

// pageSize is the number of entries of a history that are read at once: a long read transaction keeps the ledger from
// reusing space in its file.
const pageSize = 1000

// A cursor reads the history of a monitor in the order of its keys, page by page.
type cursor struct {
	l      *ledger.Ledger
	prefix string
	after  string // the last key that was read
	page   []known
	done   bool
}

// known is a file in the history.
type known struct {
	key string // see fileKey
	entry
	damaged error // the reason why the entry cannot be read; the history must forget it
}

// peek returns the next entry, or nil after the last.
func (c *cursor) peek() (*known, error) {
	if len(c.page) == 0 && !c.done {
		c.page = c.page[:0:0]
		err := c.l.View(func(t *ledger.Tx) error {
			for key, value := range drawerOf(t).All(c.prefix, c.after) {
				if len(c.page) == pageSize {
					return nil
				}
				e, err := decodeEntry(value)
				c.page, c.after = append(c.page, known{strings.TrimPrefix(key, c.prefix), e, err}), key
			}
			c.done = true
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(c.page) == 0 {
		return nil, nil
	}
	return &c.page[0], nil
}

func (c *cursor) next() { c.page = c.page[1:] }
