package ledger

import (
	"bufio"
	"errors"
	"io"
	"io/fs"

	"ferry/internal/transfer"
)

// JournalItems returns up to most items of a transfer's journal, beginning with number from; fewer if the journal has
// fewer. It may be called while the journal is open, and if there is none. It reads the whole journal up to there; see
// Journal.Items.
func (l *Ledger) JournalItems(id transfer.ID, from uint64, most int) (items []transfer.Item, err error) {
	f, err := l.files.Open(id.String())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()

	head := int64(len(journalHead()))
	r := records{id: id, r: bufio.NewReaderSize(io.NewSectionReader(f, head, 1<<62-head), 256<<10)}
	for n := uint64(0); len(items) < most; n++ {
		body, err := r.next()
		if errors.Is(err, errTorn) {
			return items, nil
		}
		if err != nil {
			return nil, err
		}
		it, end, _, err := decodeItem(body, n < from)
		if err != nil {
			return nil, transfer.Errorf(transfer.KindInternal, "item journal %s is damaged at item %d: %w", l.journalPath(id), n, err)
		}
		if end {
			return items, nil
		}
		if n >= from {
			items = append(items, it)
		}
	}
	return items, nil
}
