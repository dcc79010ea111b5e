package entry

import (
	"slices"

	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// tempsAhead is for how many items at once the ledger records that temporaries may exist, so that small files do not
// cost a synced entry each.
const tempsAhead = 256

// NoteTemporary records the places of temporaries before there are any (R23), and the directories that will be made.
func (e *Entry) NoteTemporary(item uint64, loc *place.Location) error {
	dirs := append(loc.NewDirs, loc.TempDirs...)
	if item < e.In.Temps && !slices.ContainsFunc(dirs, func(d transfer.Path) bool { return !e.dirs[d] }) {
		return nil
	}

	if len(e.dirs) > 4096 {
		clear(e.dirs) // recording one twice does no harm
	}

	err := e.update(func(t *ledger.Tx, in *ledger.Incoming) error {
		in.Temps = max(in.Temps, item+tempsAhead)
		return e.putDirs(t, loc)
	})
	failpoint.Hit("receiver.after_temporary")
	if err == nil {
		e.notedDirs(dirs)
	}
	return err
}

// notedDirs records that the ledger has directories.
func (e *Entry) notedDirs(dirs []transfer.Path) {
	for _, dir := range dirs {
		e.dirs[dir] = true
	}
}

// putDirs records directories in the ledger, the missing ones first.
func (e *Entry) putDirs(t *ledger.Tx, loc *place.Location) error {
	for _, dir := range loc.NewDirs {
		if err := t.PutDir(e.ID, dir, true); err != nil {
			return err
		}
	}
	for _, dir := range loc.TempDirs {
		if err := t.PutDir(e.ID, dir, false); err != nil {
			return err
		}
	}
	return nil
}

// Dirs returns the directories that may have temporaries of the transfer.
func (e *Entry) Dirs() (dirs []transfer.Path, err error) {
	err = e.all.Ledger.View(func(t *ledger.Tx) (err error) {
		dirs, err = t.Dirs(e.ID)
		return err
	})
	return dirs, err
}

// HasMade reports whether an earlier run of this agent has recorded that it makes a directory for this transfer.
// Another transfer may make a directory that this run has recorded: the landing itself tracks the directories that it
// has made.
func (e *Entry) HasMade(dir transfer.Path) bool {
	var in uint64
	err := e.all.Ledger.View(func(t *ledger.Tx) error {
		in = ledger.MissingIn(t, e.ID, dir)
		return nil
	})
	return err == nil && in != 0 && in < e.all.Ledger.Generation()
}

// Marked finds the item of this transfer, other than the given one, that has a mark. It returns the directory of that
// item.
func (e *Entry) Marked(item uint64, mark transfer.FileID) (dir transfer.Path, err error) {
	err = e.all.Ledger.View(func(t *ledger.Tx) error {
		dir, err = ledger.FindFileID(t, e.ID, item, mark)
		return err
	})
	if err != nil {
		return "", e.Unwritable(err)
	}
	return dir, nil
}
