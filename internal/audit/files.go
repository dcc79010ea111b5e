package audit

import (
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"ferry/internal/transfer"
)

// The files of a log and their magics.
const (
	recordsName, recordsMagic = "records", "FerryRec"
	indexName, indexMagic     = "index", "FerryIdx"
	hashesName, hashesMagic   = "hashes", "FerryHsh"
	stateName, stateMagic     = "state", "FerrySta"
)

// files are the open files of a log. They have no size of their own: the log's tip is the end of its records.
type files struct {
	dir     string
	disk    disk
	id      uint64 // the log's incarnation
	records file
	index   table
	hashes  table
}

// logError adds the name of the log to an error that is no *transfer.Error.
func logError(dir string, err error) error {
	var e *transfer.Error
	if errors.As(err, &e) {
		return err
	}
	return transfer.Errorf(transfer.KindOf(err), "audit log %s: %w", dir, err)
}

// damaged returns the error for damage that no crash causes.
func (l *files) damaged(file, text string) error {
	return transfer.Errorf(transfer.KindInternal, "the audit log is damaged or was changed: %s: %s", filepath.Join(l.dir, file), text).WithHint(mending(l.dir))
}

// badRecord returns the error for a record that cannot be read.
func (l *files) badRecord(i int64, err error) error {
	var bad *badFrame
	var wrong *transfer.Error
	if errors.As(err, &bad) || errors.As(err, &wrong) {
		return l.damaged(recordsName, fmt.Sprintf("record %d: %v", i, err))
	}
	return logError(l.dir, err)
}

// open opens records, hashes and index; with O_RDWR it creates them.
func (l *files) open(flag int) error {
	path := filepath.Join(l.dir, recordsName)
	f, err := l.disk.open(path, flag)
	if errors.Is(err, fs.ErrNotExist) {
		if found, err := present(l.disk, l.dir, hashesName, indexName, stateName); err != nil || found {
			return errors.Join(err, l.damaged(recordsName, "it is missing, but the log's other files are there"))
		}
		if flag == os.O_RDWR {
			if err := l.create(path); err != nil {
				return err
			}
			f, err = l.disk.open(path, flag)
		}
	}
	if err != nil {
		return err
	}

	l.records = f
	var b [headerSize]byte
	if err := readAt(f, b[:], 0); err == io.ErrUnexpectedEOF {
		return l.damaged(recordsName, "offset 0: it ends inside the header")
	} else if err != nil {
		return err
	}

	if l.id, err = parseHeader(b[:], recordsMagic, path); err != nil {
		return err
	}

	if l.hashes, err = l.openTable(hashesName, hashesMagic, flag); err != nil {
		return err
	}

	l.index, err = l.openTable(indexName, indexMagic, flag)
	return err
}

// Exists reports whether a directory has a log, or parts of one.
func Exists(dir string) bool {
	found, err := present(osDisk{}, dir, recordsName, hashesName, indexName, stateName)
	return found || err != nil
}

// present reports whether a directory has any of the files.
func present(d disk, dir string, names ...string) (bool, error) {
	for _, name := range names {
		f, err := d.open(filepath.Join(dir, name), os.O_RDONLY)
		switch {
		case err == nil:
			return true, f.Close()
		case !errors.Is(err, fs.ErrNotExist):
			return false, err
		}
	}
	return false, nil
}

// create makes the records file of a new log. Records are created first and never removed. So any other file of a log
// shows that there was a log.
func (l *files) create(path string) error {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return replace(l.disk, path, header(recordsMagic, binary.BigEndian.Uint64(b[:])))
}

// openTable opens the index or the hashes. If the file is missing or ends inside its header, it is made anew, empty,
// and filled from the records.
func (l *files) openTable(name, magic string, flag int) (table, error) {
	path := filepath.Join(l.dir, name)
	f, err := l.disk.open(path, flag)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return table{}, err
	}
	if err == nil {
		var b [headerSize]byte
		err = readAt(f, b[:], 0)
		if err == nil {
			id, err := parseHeader(b[:], magic, path)
			if err == nil && id != l.id {
				err = l.damaged(name, "it belongs to another log than records does")
			}
			if err != nil {
				f.Close()
				return table{}, err
			}
			return table{f}, nil
		}
		f.Close()
		if err != io.ErrUnexpectedEOF {
			return table{}, err
		}
	}

	if flag != os.O_RDWR {
		return table{}, nil
	}
	if err := replace(l.disk, path, header(magic, l.id)); err != nil {
		return table{}, err
	}

	f, err = l.disk.open(path, flag)
	if err != nil {
		return table{}, err
	}
	return table{f}, nil
}

func (l *files) close() error {
	var list []error
	for _, f := range []file{l.records, l.index.f, l.hashes.f} {
		if f != nil {
			list = append(list, f.Close())
		}
	}
	return errors.Join(list...)
}

// moved returns the files that are no longer at their path. They were removed, renamed or replaced under a writer,
// which continues with its open files. A path that cannot be examined does not count.
func (l *files) moved() (names []string, err error) {
	for _, f := range []struct {
		name string
		file
	}{{recordsName, l.records}, {indexName, l.index.f}, {hashesName, l.hashes.f}} {
		mine, err := f.Stat()
		if err != nil {
			return nil, err
		}
		named, err := os.Stat(filepath.Join(l.dir, f.name))
		if os.IsNotExist(err) || err == nil && !os.SameFile(mine, named) {
			names = append(names, f.name)
		}
	}
	return names, nil
}

// record reads the record at an index. Its cell has its place.
func (l *files) record(i int64, c cell) ([]byte, Record, error) {
	body, err := readRecord(l.records, c.at)
	if err != nil {
		return nil, Record{}, l.badRecord(i, err)
	}
	r, err := Decode(body)
	if err != nil {
		return nil, Record{}, l.badRecord(i, err)
	}
	return body, r, nil
}

// texts calls fn for the text of each record from an index on, in the order of the log, up to a tip. The text is valid
// until fn returns. If fn returns fs.SkipAll, texts ends without an error.
func (l *files) texts(from int64, to tip, fn func(i int64, raw []byte) error) error {
	if from = max(from, 0); from >= to.tree.size {
		return nil
	}

	c, err := l.index.cell(from)
	if err != nil {
		return logError(l.dir, err)
	}

	w := newWalker(l.records, c.at, to.end)
	for i := from; i < to.tree.size; i++ {
		body, err := w.next()
		if err == io.EOF {
			err = shortFrame(w.at)
		}
		if err != nil {
			return l.badRecord(i, err)
		}
		if err := fn(i, body); err == fs.SkipAll {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// scan is texts with each record decoded.
func (l *files) scan(from int64, to tip, fn func(i int64, raw []byte, r *Record) error) error {
	return l.texts(from, to, func(i int64, raw []byte) error {
		r, err := Decode(raw)
		if err != nil {
			return l.badRecord(i, err)
		}
		return fn(i, raw, &r)
	})
}
