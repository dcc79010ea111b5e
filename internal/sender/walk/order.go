package walk

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"ferry/internal/ledger"
	"ferry/internal/sys/extsort"
	"ferry/internal/transfer"
)

// orderMemory is the memory for the sorting of a transfer's items, in bytes; the rest is in a file.
const orderMemory = 4 << 20

// walkOrdered writes the items of the request into the journal in the requested order. No item is offered before the
// journal has ended (see Guarded). So it begins an unfinished journal anew: the order of its items may have changed
// by now.
func (c *Config) walkOrdered(ctx context.Context, rec *ledger.Source, j *ledger.Journal) (tally ledger.Tally, err error) {
	if err := j.Restart(); err != nil {
		return tally, err
	}
	s := extsort.New(c.Scratch, orderMemory)
	defer s.Close()
	n := uint64(0)
	tally, err = c.walk(ctx, rec, nil, ledger.Totals{}, func(it transfer.Item) error {
		n++
		if err := s.Add(sortable(rec.Request.Order, &it, n)); err != nil {
			return c.sortFault(err)
		}
		return nil
	})
	if err != nil {
		return tally, err
	}

	sorted, err := s.Sorted()
	if err != nil {
		return tally, c.sortFault(err)
	}
	w := journalWriter{c: c, j: j, last: c.Clock.Now()}
	for ctx.Err() == nil {
		next, err := sorted.Next()
		if err == io.EOF {
			return tally, nil
		}
		var it transfer.Item
		if err == nil {
			it, err = itemIn(next)
		}
		if err != nil {
			return tally, c.sortFault(err)
		}
		if err := w.put(it); err != nil {
			return tally, err
		}
	}
	return tally, ctx.Err()
}

// sortFault returns a reason to wait: a fault of the agent's own disk is no verdict on a source.
func (c *Config) sortFault(err error) error {
	kind := transfer.KindBusy
	if transfer.KindOf(err) == transfer.KindNoSpace {
		kind = transfer.KindNoSpace
	}
	return transfer.Errorf(kind, "the files cannot be put in order in %s: %w", c.Scratch, err).
		WithHint("look at the disk of the agent's state directory; the transfer goes on by itself")
}

// The first byte of a sortable string. Bad items come first, so that their errors are known early. Directories come
// after all files, because a file that lands in a directory changes the directory's time.
const (
	sortsBad = iota
	sortsFile
	sortsDir
)

// sortable returns a string that contains an item. The strings sort by their bytes as the items sort by the order.
// Equal items stay in the order of the walk; n counts them.
func sortable(order string, it *transfer.Item, n uint64) string {
	var b []byte
	switch it.Type {
	case transfer.ItemBad:
		b = append(b, sortsBad)
	case transfer.ItemDir:
		b = append(b, sortsDir)
	default:
		word, down := strings.CutPrefix(order, "-")
		b = append(b, sortsFile)
		switch word {
		case transfer.OrderTime:
			b = binary.BigEndian.AppendUint64(b, uint64(it.Mtime)^1<<63) // before 1970 it is below 0
		case transfer.OrderSize:
			b = binary.BigEndian.AppendUint64(b, uint64(it.Size))
		default:
			b = append(append(b, it.Name...), 0) // which is in no path
		}
		if down {
			for k := range b[1:] {
				b[k+1] ^= 0xff
			}
		}
		if word != transfer.OrderName {
			b = append(append(b, it.Name...), 0)
		}
	}
	b = binary.BigEndian.AppendUint64(b, n)
	item, _ := json.Marshal(it)
	b = append(b, item...)
	return string(binary.BigEndian.AppendUint32(b, uint32(len(item))))
}

// itemIn returns the item of a sortable string.
func itemIn(s string) (it transfer.Item, err error) {
	end := len(s) - 4
	if end < 0 {
		return it, fmt.Errorf("a scratch file of items is damaged")
	}
	size := int(binary.BigEndian.Uint32([]byte(s[end:])))
	if size > end {
		return it, fmt.Errorf("a scratch file of items is damaged")
	}
	return it, json.Unmarshal([]byte(s[end-size:end]), &it)
}
