package localfs

import (
	"errors"
	"io/fs"
	"os"

	"ferry/internal/failpoint"
)

// copyPiece is how much of an earlier temporary is copied at a time.
const copyPiece = 1 << 20

// before is the prefix of the temporaries of an earlier generation.
func before(l *Landing, generation uint64) string {
	return tempPrefix(l.fs.cfg.Incarnation, generation, l.cfg.Transfer)
}

// An heir is an item that goes on where an instance of an earlier generation has left it.
type heir struct {
	l         *Landing
	d         *held
	place     location
	item      uint64
	at        int64 // so much is safe
	size      int64
	allocated int64
}

// succeed goes on with what an instance of an earlier generation has left of an item: it
// copies what is safe into a temporary of this generation, makes that safe, and removes
// the other one. The instance may be stopped and not dead, so that it may still write to
// its own temporary, and rename it: to a file that nobody reads, under a name that is
// gone. nil, nil: none of them has left enough.
func (h *heir) succeed() (*Partial, error) {
	l, d := h.l, h.d
	for n := len(l.cfg.Older) - 1; n >= 0; n-- {
		name := tempName(before(l, l.cfg.Older[n]), h.item)
		if st, err := d.lstat(name); errors.Is(err, fs.ErrNotExist) || err == nil && st.Size < h.at {
			continue
		} else if err != nil {
			return nil, err
		}
		part, err := h.copyOf(name)
		if err != nil {
			return nil, err
		}
		failpoint.Hit("takeover.copied")
		if err := l.unlinkTemp(d.Dir, name); err != nil {
			l.fs.log.Warn("cannot remove the temporary file of another instance; retried at the end of the transfer", "of", part.path(), "error", err)
		}
		return part, nil
	}
	return nil, nil
}

// copyOf makes the item's temporary, with the first bytes of another one.
func (h *heir) copyOf(name string) (*Partial, error) {
	l, d := h.l, h.d
	from, err := l.disk.Open(d.Dir, name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer l.disk.Close(from)
	st, err := l.disk.Stat(from)
	if err != nil {
		return nil, err
	}
	if st.Type != TypeFile || st.Nlink != 1 || !st.mine() || st.Size < h.at {
		return nil, errors.New("what another instance has left is not a file that this agent made")
	}

	temp := l.temp(h.item)
	if err := l.unlinkTemp(d.Dir, temp); err != nil {
		return nil, err
	}
	f, err := l.disk.Open(d.Dir, temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, tempMode)
	if err != nil {
		return nil, err
	}
	part, err := l.newPartial(f, d, h.place, temp, h.item, h.size, h.allocated)
	if err == nil {
		err = part.fill(from, h.at)
	}
	if err == nil {
		err = part.Sync() // the ledger says that so much is safe
	}
	if err != nil {
		l.disk.Close(f)
		return nil, errors.Join(err, l.unlinkTemp(d.Dir, temp))
	}
	return part, nil
}

// fill appends the first bytes of another file.
func (p *Partial) fill(from File, bytes int64) error {
	b := make([]byte, min(bytes, copyPiece))
	for off := int64(0); off < bytes; {
		piece := b[:min(bytes-off, int64(len(b)))]
		n, err := p.l.disk.ReadAt(from, piece, off)
		if n == 0 {
			return errors.Join(err, errors.New("it is shorter than its last safe point"))
		}
		if err := p.Write(piece[:n]); err != nil {
			return err
		}
		off += int64(n)
	}
	return nil
}

// dropOlder removes what instances of earlier generations have left of an item.
func (l *Landing) dropOlder(d *Dir, item uint64) (err error) {
	for _, g := range l.cfg.Older {
		err = errors.Join(err, l.unlinkTemp(d, tempName(before(l, g), item)))
	}
	return err
}
