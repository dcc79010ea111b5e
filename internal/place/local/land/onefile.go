package land

import (
	"encoding/binary"
	"hash/crc32"
	"path"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// Two items of one transfer may have one destination file although their paths differ: by a symbolic link to a
// directory beneath the root, by a directory that is mounted twice, or by two spellings of DEST. The second item fails.
// Otherwise it would replace the file of the first item, and both sources could be deleted.
//
// Within a group, items are compared by directory and name. Between groups, and after a crash, the file that
// would be replaced is looked up among the marks of the transfer's files, which are in the ledger.

// oneFile returns the error of the second of two items that have one destination file.
func oneFile(p, first transfer.Path) *transfer.Error {
	const hint = "send them to different destinations"
	if p == first {
		return disk.Wrap(transfer.KindExists, nil, hint, "two items of this transfer have the destination %s", p)
	}
	return disk.Wrap(transfer.KindExists, nil, hint, "two items of this transfer have one destination file: %s is %s", p, first)
}

// refuseDuplicates fails a file that would get the name of another one in its group. Where existing files
// stay, the rename decides.
func (c *commit) refuseDuplicates() {
	given := make(map[disk.Entry]*work, len(c.work))
	for _, w := range c.work {
		if w.failed() || w.isDir() || w.l.rule.skips() {
			continue
		}
		is := disk.Entry{Dir: w.dir.ID(), Name: w.place.Base()}
		first := given[is]
		if first == nil {
			given[is] = w
			continue
		}
		w.fail(oneFile(w.in.Outcome.Path, first.in.Outcome.Path))
		w.early, w.in.Sidecar = true, nil
		w.part.Close()
	}
}

// markOf returns the mark of a file. It omits the ctime, which a rename changes.
func markOf(st *disk.Stat) *transfer.FileID {
	b := binary.BigEndian.AppendUint64(nil, uint64(st.Size))
	b = binary.BigEndian.AppendUint64(b, uint64(st.Mtime))
	return &transfer.FileID{Volume: st.Dev, Number: st.Ino, Stamp: crc32.ChecksumIEEE(b)}
}

// marked is LandConfig.Marked.
type marked = func(item uint64, mark transfer.FileID) (dir transfer.Path, err error)

// checkMark fails an item that would replace the file of another item of its transfer.
func checkMark(find marked, o *transfer.Outcome, there *disk.Stat) error {
	if find == nil || there.Type != disk.TypeFile {
		return nil
	}
	dir, err := find(o.Item, *markOf(there))
	if err == nil && dir != "" {
		return oneFile(o.Path, transfer.Path(path.Join(string(dir), path.Base(string(o.Path)))))
	}
	return err
}
