package ledger

import (
	"encoding/binary"
	"path"
	"slices"

	"ferry/internal/transfer"
)

// The file IDs of a transfer's files are kept until it ends. One record has those of up to 256 files with neighbouring
// numbers, because files that were made in a row often have such numbers. A record for each of a million files would
// cost more than the files.
//
// The key of a record is the transfer, the volume, and the number without its last byte. The value is the version (1)
// and the file IDs. Each is the number's last byte, 4 bytes of stamp, the item, and the directory of its path as a
// length and bytes. An empty directory is that of the file ID before. Numbers and lengths are varints.
const fileIDVersion = 1

// A fileIDEntry is a file ID in a record.
type fileIDEntry struct {
	low   byte // of the number
	stamp uint32
	item  uint64
	dir   string
}

func fileIDKey(id transfer.ID, m transfer.FileID) []byte {
	k := binary.BigEndian.AppendUint64(slices.Clone(id[:]), m.Volume)
	return binary.BigEndian.AppendUint64(k, m.Number>>8)
}

func packFileIDs(all []fileIDEntry) []byte {
	b := append(make([]byte, 0, 1+16*len(all)), fileIDVersion)
	last := ""
	for _, m := range all {
		b = binary.BigEndian.AppendUint32(append(b, m.low), m.stamp)
		b = binary.AppendUvarint(b, m.item)
		dir := m.dir
		if dir == last {
			dir = ""
		}
		last = m.dir
		b = append(binary.AppendUvarint(b, uint64(len(dir))), dir...)
	}
	return b
}

func unpackFileIDs(b []byte) (all []fileIDEntry, err error) {
	if len(b) == 0 || b[0] != fileIDVersion {
		return nil, errPacked
	}
	last := ""
	for b = b[1:]; len(b) > 0; {
		if len(b) < 5 {
			return nil, errPacked
		}
		m := fileIDEntry{low: b[0], stamp: binary.BigEndian.Uint32(b[1:])}
		var size uint64
		if m.item, b, err = uvarint(b[5:]); err != nil {
			return nil, err
		}
		if size, b, err = uvarint(b); err != nil || size > uint64(len(b)) {
			return nil, errPacked
		}
		if size > 0 {
			last = string(b[:size])
		}
		m.dir, b = last, b[size:]
		all = append(all, m)
	}
	return all, nil
}

// readFileIDs reads the record of a key; a missing one is no error.
func readFileIDs(t *Tx, key []byte) ([]fileIDEntry, error) {
	v := t.tx.Bucket(bFileIDs).Get(key)
	if v == nil {
		return nil, nil
	}
	all, err := unpackFileIDs(v)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindInternal, "ledger: record %x of marks is damaged: %w", key, err)
	}
	return all, nil
}

// PutFileIDs keeps the file IDs of intents, and replaces those with the same numbers.
func PutFileIDs(t *Tx, id transfer.ID, ins []transfer.Intent) error {
	records := map[string][]fileIDEntry{}
	for n := range ins {
		m := ins[n].FileID
		if m == nil {
			continue
		}
		key := fileIDKey(id, *m)
		all, read := records[string(key)]
		if !read {
			var err error
			if all, err = readFileIDs(t, key); err != nil {
				return err
			}
		}
		is := fileIDEntry{byte(m.Number), m.Stamp, ins[n].Outcome.Item, path.Dir(string(ins[n].Outcome.Path))}
		if at := slices.IndexFunc(all, func(o fileIDEntry) bool { return o.low == is.low }); at >= 0 {
			all[at] = is
		} else {
			all = append(all, is)
		}
		records[string(key)] = all
	}

	for key, all := range records {
		if err := t.tx.Bucket(bFileIDs).Put([]byte(key), packFileIDs(all)); err != nil {
			return err
		}
	}
	return nil
}

// FindFileID finds the item, other than the given one, that has a file ID. It returns the directory of that item's
// path; empty: no item has it.
func FindFileID(t *Tx, id transfer.ID, item uint64, m transfer.FileID) (dir transfer.Path, err error) {
	all, err := readFileIDs(t, fileIDKey(id, m))
	for _, o := range all {
		if o.low == byte(m.Number) && o.stamp == m.Stamp && o.item != item {
			return transfer.Path(o.dir), nil
		}
	}
	return "", err
}

// HasTargets reports whether items of an incoming transfer have a DEST or options of their own.
func HasTargets(t *Tx, id transfer.ID) bool {
	k, _ := t.tx.Bucket(bTargets).Cursor().Seek(id[:])
	return hasPrefix(k, id[:])
}
