package walk

import (
	"cmp"
	"context"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// A selection is the files that an exit has chosen, with their names. nil: all files are sent.
type selection struct {
	names map[transfer.ItemPath]transfer.Path // by source
	dirs  map[transfer.ItemPath]bool          // of the names
	into  bool                                // the common DEST takes the names
	asked *Reader
}

// chosen returns the selection of a transfer.
func (c *Config) chosen(rec *ledger.Source) (*selection, error) {
	if !rec.Programs.Chosen {
		return nil, nil
	}
	choice, err := c.Choice(&rec.Request)
	if err != nil {
		return nil, err
	}
	if choice == nil || !choice.Chosen {
		return nil, transfer.Errorf(transfer.KindInternal, "the ledger has lost the files that the exit of transfer %s has chosen", rec.Request.ID)
	}
	s := &selection{names: map[transfer.ItemPath]transfer.Path{}, dirs: choice.Directories(), asked: c.Reader(rec)}
	for _, f := range choice.Files {
		s.names[transfer.ItemPath{Item: f.Item, Path: f.Source}] = f.Name
	}
	if r := rec.Resolution; r != nil {
		s.into = r.Into
	} else {
		to, err := c.CommonDest(c.Reader(rec))
		if err != nil {
			return nil, err
		}
		s.into = to.Several || to.Dest.Directory()
	}
	return s, nil
}

// takes reports whether an item is sent, and gives it its name. An item with a name that the destination cannot take
// becomes a bad one.
func (s *selection) takes(it *transfer.Item) bool {
	if s == nil || it.Type == transfer.ItemBad {
		return true
	}
	if it.Type == transfer.ItemDir {
		return s.dirs[transfer.ItemPath{Item: it.Arg, Path: it.Name}]
	}
	name, ok := s.names[transfer.ItemPath{Item: it.Arg, Path: it.Source}]
	if !ok {
		return false
	}
	into := s.into
	if own, err := s.asked.Item(it.Arg); err == nil && !own.Dest.IsZero() {
		into = own.Dest.Directory()
	}
	if name != it.Name && !into {
		it.Type, it.Err = transfer.ItemBad, transfer.Errorf(transfer.KindExit, "the exit has renamed %s, and DEST is no directory", it.Source).
			WithHint("end DEST in /")
		return true
	}
	it.Name = name
	return true
}

// Files calls put for each file that a request would send at present. The limits of the request are for the files that an
// exit then chooses.
func (c *Config) Files(ctx context.Context, rec *ledger.Source, put func(transfer.ExitFile) error) error {
	whole := rec.Request
	whole.Items, whole.Rest = nil, nil
	if err := c.Reader(rec).each(0, func(_ int, it *transfer.RequestItem) bool {
		whole.Items = append(whole.Items, *it)
		return true
	}); err != nil {
		return err
	}
	s, err := c.Survey(&whole)
	if err != nil {
		return err
	}
	_, err = c.Place.Walk(ctx, s.Walk, func(it transfer.Item) error {
		if !whole.Takes(&it) || it.Type != transfer.ItemFile {
			return nil
		}
		f := fileOf(&it)
		f.Dest = whole.Items[it.Arg].Dest
		return put(f)
	})
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// fileOf returns an item for an exit.
func fileOf(it *transfer.Item) transfer.ExitFile {
	f := transfer.ExitFile{Source: it.Source, Name: it.Name, Size: it.Size, Item: it.Arg}
	if it.Mtime != 0 {
		f.Modified = time.Unix(0, it.Mtime).UTC()
	}
	return f
}

// ItemsFor calls put for the files of the item journal. failures are known failures of items. arrived are the items that
// are known to have arrived.
func (s *List) ItemsFor(failures []transfer.Outcome, arrived transfer.ItemRanges, put func(transfer.ExitFile) error) error {
	failed := map[uint64]*transfer.Error{}
	for n := range failures {
		failed[failures[n].Item] = failures[n].Err
	}
	for n := uint64(0); ; {
		items, err := s.From(n, journalBatch)
		if err != nil || len(items) == 0 {
			return err
		}
		for k := range items {
			it := &items[k]
			if it.Type == transfer.ItemDir {
				continue
			}
			f := fileOf(it)
			if e := cmp.Or(it.Err, failed[n+uint64(k)]); e != nil {
				f.Failed, f.Error = true, e.Text
			} else {
				f.Arrived = arrived.Has(n + uint64(k))
			}
			if err := put(f); err != nil {
				return err
			}
		}
		n += uint64(len(items))
	}
}
