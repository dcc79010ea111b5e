package land

import (
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// temps names and removes the temporaries of one transfer.
type temps struct {
	disk        disk.Disk
	log         *slog.Logger
	of          transfer.ID
	incarnation uint64
	generation  uint64
	older       []uint64    // earlier generations, from before takeovers of the transfer, the newest last
	prefix      string      // of the temporaries of this generation
	left        atomic.Bool // whether a temporary could not be removed
}

// name returns the name of the temporary of an item.
func (t *temps) name(item uint64) string { return disk.TempOf(t.prefix, item) }

// joinedName returns the name of the joined temporary of an item.
func (t *temps) joinedName(item uint64) string {
	return t.prefix + strconv.FormatUint(item, 36) + "-j" + disk.TempSuffix
}

// sidecarName returns the name of the temporary for an item's sidecar.
func (t *temps) sidecarName(item uint64) string {
	return t.prefix + strconv.FormatUint(item, 36) + "-a" + disk.TempSuffix
}

// before returns the prefix of the temporaries of an earlier generation.
func (t *temps) before(generation uint64) string {
	return disk.TempPrefix(t.incarnation, generation, t.of)
}

// unlink removes a temporary, which may be missing. If it fails, it records that a Sweep is needed.
func (t *temps) unlink(d *disk.Dir, temp string) error {
	err := t.disk.Unlink(d, temp)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	t.left.Store(true) // also because a power cut may bring it back
	return err
}

// drop removes the temporaries of an item from this and earlier generations.
func (t *temps) drop(d *disk.Dir, item uint64) error {
	err := t.unlink(d, t.name(item))
	for _, g := range t.older {
		err = errors.Join(err, t.unlink(d, disk.TempOf(t.before(g), item)))
	}
	return err
}

// sweptGenerations bounds the earlier generations that a sweep searches for beyond those in the transfer's record. Each
// start of the agent is one generation.
const sweptGenerations = 64

// sweep removes the temporaries of this and earlier generations from a directory, and syncs the directory after that.
func (t *temps) sweep(d *disk.Dir, sync func(*disk.Dir) error) error {
	own := map[string]bool{}
	for _, g := range t.older {
		own[t.before(g)] = true
	}
	for g, n := t.generation, 0; n < sweptGenerations; g, n = g-1, n+1 {
		own[t.before(g)] = true
		if g == 0 {
			break
		}
	}

	var all error
	for {
		names, err := d.Names(1024)
		for _, name := range names {
			if len(name) > len(t.prefix) && own[name[:len(t.prefix)]] && strings.HasSuffix(name, disk.TempSuffix) {
				all = errors.Join(all, t.sweepName(d, name))
			}
		}
		if err == io.EOF || err == nil && len(names) == 0 {
			return errors.Join(all, sync(d)) // a power cut must not bring back temporaries that the ledger records as removed
		}
		if err != nil {
			return errors.Join(all, err)
		}
	}
}

// sweepName removes a temporary. A directory of that name was made by another program and stays.
func (t *temps) sweepName(d *disk.Dir, name string) error {
	err := t.disk.Unlink(d, name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if st, serr := d.Lstat(name); serr == nil && st.Type == disk.TypeDir {
		t.log.Warn("directory with the name of a temporary file left in place", "directory", d.Path(), "name", name)
		return nil
	}
	return err
}
