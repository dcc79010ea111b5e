package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/transfer"
)

// findings are the state of the files at a start.
type findings struct {
	st       *state // nil: none, or an unusable one
	stateErr error  // reason why st is nil although the file exists
	nodes    int64  // number of stored hashes
	hashed   int64  // number of records with all hashes stored
	indexed  int64  // number of records in the index
	bytes    int64  // of records
}

// readFindings reads the findings. Beside a running writer, it reads the files in the reverse order of the writer. So each file
// covers at least the records of the file read before it.
func (l *files) readFindings() (f findings, err error) {
	if f.st, err = readState(l.disk, l.dir, l.id); err != nil {
		if transfer.KindOf(err) != transfer.KindInternal {
			return f, err
		}
		f.stateErr = err // the state only saves time; the records can be read instead
	}

	if f.nodes, err = l.hashes.cells(); err != nil {
		return f, err
	}

	f.hashed = recordsIn(f.nodes)
	if f.indexed, err = l.index.cells(); err != nil {
		return f, err
	}

	f.bytes, err = sizeOf(l.records)
	return f, err
}

// witnessed returns how many records were durable once, by the evidence of any file.
func (f *findings) witnessed() int64 {
	n := max(f.hashed, f.indexed)
	if f.st != nil {
		n = max(n, f.st.Size)
	}
	return n
}

// A recovery makes the files of a log agree. Its tip and its positions are then those of the log.
type recovery struct {
	files   *files
	found   findings
	tails   []Tail
	tip     tip
	streams streams
	saved   int64 // size at the last save of the state, as far as it is of use
	stage   *stage
	secured bool  // the tail of records is known to be durable
	wrote   bool  // index or hashes need a sync
	lost    *loss // the end of the records is missing; the state file has this
}

// recoverFiles reads the records that the state does not cover, completes index and hashes from them, and cuts off the
// rest of an interrupted append.
func recoverFiles(l *files, tails []Tail) (*recovery, error) {
	found, err := l.readFindings()
	if err != nil {
		return nil, err
	}

	if found.stateErr != nil && found.bytes <= headerSize && found.witnessed() == 0 {
		return nil, l.damaged(recordsName, fmt.Sprintf("it has no records, and how many there were cannot be told: %v", found.stateErr))
	}

	r := &recovery{files: l, found: found, tails: tails}
	if err := r.begin(); err != nil {
		return nil, err
	}
	r.saved = r.tip.tree.size
	for _, step := range []func() error{r.review, r.read, r.cut} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// begin sets the tip to the place in the state, if all files reach that far, or else to the beginning.
func (r *recovery) begin() error {
	r.tip, r.streams = tip{end: headerSize}, streams{}
	st := r.found.st
	if st == nil {
		return nil
	}

	r.lost = st.Lost
	if st.Size > r.found.hashed || st.Size > r.found.indexed || st.End > r.found.bytes {
		return nil
	}

	t, err := loadTree(st.Size, r.files.hashes)
	if err != nil {
		return err
	}

	if t.root() != st.Root {
		return r.files.damaged(hashesName, fmt.Sprintf("the root at %d records is not the one in the state", st.Size))
	}

	r.tip = tip{t, st.End}
	r.streams, err = st.streams()
	return err
}

// review passes the records before the tip on. read does so with those after it.
func (r *recovery) review() error {
	most := int64(0)
	for _, t := range r.tails {
		most = max(most, t.Last)
	}
	return r.files.scan(r.found.witnessed()-most, r.tip, func(i int64, raw []byte, rec *Record) error {
		r.pass(i, raw, rec)
		return nil
	})
}

// pass passes a record on to the tails that want it.
func (r *recovery) pass(i int64, raw []byte, rec *Record) {
	for _, t := range r.tails {
		if i >= r.found.witnessed()-t.Last {
			t.Each(i, raw, rec)
		}
	}
}

// read processes the records from the tip on, to the last good one.
func (r *recovery) read() error {
	w := newWalker(r.files.records, r.tip.end, r.found.bytes)
	r.next()
	for {
		body, err := w.next()
		var bad *badFrame
		switch {
		case err == io.EOF, errors.As(err, &bad):
			if err := r.settle(); err != nil {
				return err
			}
			return r.checkEnd(bad)
		case err != nil:
			return err
		}
		at, i := r.stage.tip.end, r.stage.tip.tree.size
		rec, err := Decode(body)
		if err == nil {
			err = r.stage.add(body, w.at-at, &rec)
		}
		if err != nil {
			return r.files.damaged(recordsName, fmt.Sprintf("offset %d, record %d: %v", at, i, err))
		}
		if st := r.found.st; st != nil && i+1 == st.Size && r.stage.tip.tree.root() != st.Root {
			return r.files.damaged(recordsName, fmt.Sprintf("the root of its first %d records is not the one in the state", st.Size))
		}
		if i+1-r.stage.first.tree.size >= saveEvery {
			if err := r.settle(); err != nil {
				return err
			}
		}
		r.pass(i, body, &rec)
	}
}

// next begins a stage at the tip.
func (r *recovery) next() {
	r.stage = &stage{first: r.tip, tip: r.tip, streams: r.streams}
}

// settle compares index and hashes with the right values for the staged records. If a crash has left other values, it
// writes the right ones.
func (r *recovery) settle() error {
	s := r.stage
	first := tlog.StoredHashCount(s.first.tree.size)
	stored, err := r.storedCells(r.files.hashes, first, len(s.hashes))
	if err != nil {
		return err
	}

	for i := 0; i < len(stored); i += cellSize {
		if !tornOf(stored[i:i+cellSize], s.hashes[i:]) {
			_, n := tlog.SplitStoredHashIndex(first + int64(i/cellSize))
			return r.files.damaged(recordsName, fmt.Sprintf("record %d, or one beside it, is not the one that was appended", n))
		}
	}

	cells, err := r.storedCells(r.files.index, s.first.tree.size, len(s.cells))
	if err != nil {
		return err
	}

	if !bytes.Equal(cells, s.cells) || !bytes.Equal(stored, s.hashes) {
		if err := r.secure(); err != nil {
			return err
		}
		r.wrote = true
		if err := r.files.index.write(s.cells, s.first.tree.size); err != nil {
			return err
		}
		if err := r.files.hashes.write(s.hashes, first); err != nil {
			return err
		}
	}

	r.tip = s.tip
	r.next()
	return nil
}

// storedCells reads the stored part of n bytes of cells.
func (r *recovery) storedCells(t table, first int64, n int) ([]byte, error) {
	have, err := t.cells()
	if err != nil {
		return nil, err
	}
	b := make([]byte, min(int64(n), max(have-first, 0)*cellSize))
	return b, t.read(b, first)
}

// tornOf reports whether a crash can have left the stored cell while the right one was written: each byte is the right
// one, or the zero of a block that was allocated and not written. Any other value is evidence, and is not overwritten.
func tornOf(stored, right []byte) bool {
	for i, c := range stored {
		if c != right[i] && c != 0 {
			return false
		}
	}
	return true
}

// secure makes the end of the records durable before index and hashes cover it. It writes the same bytes again: an
// earlier writer's sync may have failed, and then the system takes cached data for data on disk.
func (r *recovery) secure() error {
	if r.secured {
		return nil
	}

	r.secured = true
	from := max(r.found.bytes-maxAppend, headerSize)
	b := make([]byte, r.found.bytes-from)
	if err := readAt(r.files.records, b, from); err != nil {
		return err
	}

	if _, err := r.files.records.WriteAt(b, from); err != nil {
		return err
	}
	return r.files.records.Sync()
}

// checkEnd checks the end of the good records: the end of the file, or a bad frame.
func (r *recovery) checkEnd(bad *badFrame) error {
	have := r.tip.tree.size
	if have >= r.found.witnessed() {
		// Never receipted, so it may be removed, if one append can have left it.
		if bad == nil || r.found.bytes-bad.at <= maxAppend {
			return nil
		}
		return r.files.damaged(recordsName, fmt.Sprintf("%v, in record %d", bad, have))
	}

	whole, err := r.reachesPast(have)
	if err != nil {
		return err
	}

	if bad != nil && (!bad.short || whole) {
		return r.files.damaged(recordsName, fmt.Sprintf("%v, in record %d", bad, have))
	}

	r.lost, err = r.loss(have)
	return err
}

// reachesPast reports whether the records file is as long as it was with the record at an index. If so, nothing is
// missing at the end of the file.
func (r *recovery) reachesPast(i int64) (bool, error) {
	if st := r.found.st; st != nil && st.Size > i && st.End <= r.found.bytes {
		return true, nil
	}
	if i+1 >= r.found.indexed {
		return false, nil
	}
	c, err := r.files.index.cell(i + 1)
	return c.at > headerSize && c.at <= r.found.bytes, err
}

// loss describes the greatest log known from the files, if only left records of it remain.
func (r *recovery) loss(left int64) (*loss, error) {
	was := &loss{Left: left}
	if r.lost != nil {
		*was = *r.lost
		was.Left = min(was.Left, left)
	}

	if st := r.found.st; st != nil && st.Size > was.Size {
		was.Size, was.Root = st.Size, st.Root
	}

	if r.found.hashed > was.Size {
		t, err := loadTree(r.found.hashed, r.files.hashes)
		if err != nil {
			return nil, err
		}
		was.Size, was.Root = t.size, t.root()
	}

	was.Size = max(was.Size, r.found.indexed)
	return was, nil
}

// cut makes every file end with the last good record. It saves the evidence of a loss before it cuts the file.
func (r *recovery) cut() error {
	if r.lost != nil {
		if err := r.files.save(r.tip, r.streams, r.lost); err != nil {
			return err
		}
		r.saved = r.tip.tree.size
	}

	if r.found.bytes > r.tip.end {
		if err := errors.Join(r.files.records.Truncate(r.tip.end), r.files.records.Sync()); err != nil {
			return err
		}
	}

	for _, t := range []struct {
		table
		want int64
	}{{r.files.index, r.tip.tree.size}, {r.files.hashes, tlog.StoredHashCount(r.tip.tree.size)}} {
		n, err := sizeOf(t.f)
		if err != nil {
			return err
		}
		long := n > headerSize+t.want*cellSize
		if long {
			err = t.cut(t.want)
		}
		if err == nil && (long || r.wrote) {
			err = t.f.Sync()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
