package land

import (
	"errors"
	"io/fs"
	"os"

	"ferry/internal/place/local/disk"
	"ferry/internal/sys/failpoint"
)

// A takeover is an item that resumes the work of an instance of an earlier generation.
type takeover struct {
	l         *Landing
	d         *sharedDir
	place     disk.Location
	item      uint64
	at        int64 // safe bytes
	size      int64
	allocated int64
}

// resume resumes an item that an instance of an earlier generation began. It copies the safe bytes into a temporary of
// this generation, makes them durable, and removes the earlier temporary. The earlier instance may be suspended rather
// than dead. It may still write to its own temporary, and rename it: then it changes a removed file without readers, or
// a missing name. It returns nil, nil if no generation has left enough bytes.
func (t *takeover) resume() (*Partial, error) {
	l, d := t.l, t.d
	for n := len(l.temps.older) - 1; n >= 0; n-- {
		name := disk.TempOf(l.temps.before(l.temps.older[n]), t.item)
		if st, err := d.Lstat(name); errors.Is(err, fs.ErrNotExist) || err == nil && st.Size < t.at {
			continue
		} else if err != nil {
			return nil, err
		}
		part, err := t.copyOf(name)
		if err != nil {
			return nil, err
		}
		failpoint.Hit("takeover.copied")
		if err := l.temps.unlink(d.Dir, name); err != nil {
			l.fs.log.Warn("cannot remove the temporary file of another instance; retried at the end of the transfer", "of", part.path(), "error", err)
		}
		return part, nil
	}
	return nil, nil
}

// copyOf makes the item's temporary with the first bytes of an earlier one.
func (t *takeover) copyOf(name string) (*Partial, error) {
	l, d := t.l, t.d
	from, err := l.disk.Open(d.Dir, name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer l.disk.Close(from)
	st, err := l.disk.Stat(from)
	if err != nil {
		return nil, err
	}
	if st.Type != disk.TypeFile || st.Nlink != 1 || !st.MayBeOwn() || st.Size < t.at {
		return nil, errors.New("the temporary file of another instance is not a file that this agent made")
	}

	temp := l.temps.name(t.item)
	if err := l.temps.unlink(d.Dir, temp); err != nil {
		return nil, err
	}
	f, err := l.disk.Open(d.Dir, temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, tempMode)
	if err != nil {
		return nil, err
	}
	part, err := l.newPartial(f, d, t.place, temp, t.item, t.size, t.allocated)
	if err == nil {
		err = part.fill(from, t.at)
	}
	if err == nil {
		err = part.Sync() // the ledger records these bytes as safe
	}
	if err != nil {
		l.disk.Close(f)
		return nil, errors.Join(err, l.temps.unlink(d.Dir, temp))
	}
	return part, nil
}
