package ledger

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// The item journal of a transfer, one file. Integers are big-endian.
//
//	 8 bytes  "FERRYITM"
//	 4        version, 5
//	then per item:
//	 4        length, from behind the checksum
//	 4        CRC-32C of the transfer's ID, the record's number (8 bytes, from 0), and all that follows
//	 1        item type, or 255: END, no more items
//	 4        number of the request item that it came from
//	 8        size
//	 2+n      source path   2+n  name   1 error kind   2+n error text   2+n hint
//	END has, after its type: 8 symbolic links skipped   8 files left out
//
// A crash may leave any part of the unsynced data. So the file is cut off at the first bad record: no item behind it
// was ever offered. Damage before that point looks the same here. The ledger's count of decided items shows it, see
// CheckDamage.
const (
	journalMagic   = "FERRYITM"
	journalVersion = 5
	journalEnd     = 255
	maxJournalItem = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A Journal is open for appending by the walk and for reading by the sender,
// at the same time.
type Journal struct {
	l    *Ledger
	id   transfer.ID
	f    File
	name string // for messages

	extent        // of the appended records
	buf    []byte // the appended records that are not in the file yet
	behind bool   // the file may have more than the appended records

	mu     sync.Mutex
	wake   chan struct{} // closed and replaced at every change
	synced extent        // the durable records, which may be read
}

// An extent is the length of a journal.
type extent struct {
	tail  int64 // bytes in the file
	items uint64
	files int64
	bytes int64
	ended bool
	tally Tally
	last  *transfer.Item
	index []int64 // offset of every indexEvery-th item, from the first one
}

// indexEvery is how many items lie between two entries of the index. A reading can begin there.
const indexEvery = 1024

// Totals are the totals of a walk so far.
type Totals struct {
	Items, Files, Bytes int64
	Ended               bool
	Tally
}

// A Tally counts the files that a finished walk passed over.
type Tally struct {
	Links   int64 // symbolic links
	LeftOut int64 // files that the request excludes, since the walk was interrupted last
}

func (l *Ledger) journalPath(id transfer.ID) string {
	return filepath.Join(l.dir, "items", id.String())
}

// Journal opens the item journal of a transfer, and makes it if it is missing.
func (l *Ledger) Journal(id transfer.ID) (*Journal, error) { return l.openJournal(id, false) }

// ResumeJournal opens an item journal that Journal has made. A missing or empty one is lost. If it were begun again,
// items would get the numbers of others, and the destination has those numbers.
func (l *Ledger) ResumeJournal(id transfer.ID) (*Journal, error) { return l.openJournal(id, true) }

func (l *Ledger) openJournal(id transfer.ID, made bool) (*Journal, error) {
	if err := l.Fence(); err != nil {
		return nil, err
	}
	var j *Journal
	err := l.reserve.writeWithReserve(func() error {
		f, err := l.files.Create(id.String())
		if err != nil {
			return err
		}
		j = &Journal{l: l, id: id, f: f, name: l.journalPath(id), wake: make(chan struct{})}
		if err = errors.Join(j.recover(made), l.files.Sync()); err != nil {
			f.Close()
		}
		return err
	})
	if err != nil {
		return nil, journalError(l, "opened", err)
	}
	return j, nil
}

// journalError returns the error of a journal that cannot be opened, written or synced.
func journalError(l *Ledger, be string, err error) error {
	var known *transfer.Error
	switch {
	case transfer.KindOf(err) == transfer.KindNoSpace:
		return transfer.Errorf(transfer.KindNoSpace, "the item journal cannot be %s, the disk of the ledger %s: %w", be, l.Shortage(), err).
			WithHint("free some space; the transfer goes on by itself")
	case errors.As(err, &known):
		return err
	}
	return transfer.Errorf(transfer.KindOf(err), "the item journal cannot be %s: %w", be, err)
}

// CheckDamage returns an error if the journal has fewer items than the n that were offered from it.
func (j *Journal) CheckDamage(n uint64) error {
	if j.items < n {
		return journalMismatch(j.name, "it has %d items, and %d were offered", j.items, n)
	}
	return nil
}

// DamagedJournal returns the error of a transfer's journal that lacks items which were offered.
func DamagedJournal(l *Ledger, id transfer.ID, format string, args ...any) *transfer.Error {
	return journalMismatch(l.journalPath(id), format, args...)
}

// journalMismatch returns an error of KindLost: another walk may give other items the numbers of items that the
// destination has.
func journalMismatch(name, format string, args ...any) *transfer.Error {
	return transfer.Errorf(transfer.KindLost, "item journal %s is damaged, or older than its transfer: %s", name, fmt.Sprintf(format, args...)).
		WithHint("look at the destination, then submit the missing files as a new transfer")
}

// DropJournal removes the item journal of a transfer that has ended.
func (l *Ledger) DropJournal(id transfer.ID) error {
	if err := l.Fence(); err != nil {
		return err
	}
	err := l.files.Remove(id.String())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// recover reads the journal, cuts off a torn tail and finds the last item. made says that the journal must not be
// empty. It writes the records again before it syncs: after a failed sync, in this run or an earlier one, records may
// look whole without being durable.
func (j *Journal) recover(made bool) error {
	begun, err := j.scan()
	if err != nil {
		return err
	}

	if made && !begun {
		return transfer.Errorf(transfer.KindLost, "item journal %s is lost: nothing is left of it", j.name).
			WithHint("look at the destination, then submit the missing files as a new transfer")
	}

	if !begun { // empty, or a crash while the header was written
		if _, err := j.f.WriteAt(journalHead(), 0); err != nil {
			return err
		}
		j.tail = int64(len(journalHead()))
	} else if err := j.rewrite(); err != nil {
		return err
	}
	if err := j.l.Fence(); err != nil {
		return err
	}
	if err := j.f.Truncate(j.tail); err != nil {
		return err
	}
	if err := j.f.Sync(); err != nil {
		return err
	}

	j.synced = j.extent
	return nil
}

// rewrite writes the file's bytes again in place.
func (j *Journal) rewrite() error {
	b := make([]byte, min(j.tail, 256<<10))
	for at := int64(0); at < j.tail; at += int64(len(b)) {
		if err := j.l.Fence(); err != nil {
			return err
		}
		b = b[:min(j.tail-at, int64(len(b)))]
		if _, err := j.f.ReadAt(b, at); err != nil {
			return err
		}
		if _, err := j.f.WriteAt(b, at); err != nil {
			return err
		}
	}
	return nil
}

func journalHead() []byte {
	return binary.BigEndian.AppendUint32([]byte(journalMagic), journalVersion)
}

// scan reads the file up to END or the first bad record, and does not change it. begun is false if it lacks even a
// header.
func (j *Journal) scan() (begun bool, err error) {
	head := make([]byte, 12)
	n, err := j.f.ReadAt(head, 0)
	if n < len(head) {
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		return false, err
	}

	if !bytes.HasPrefix(journalHead(), bytes.TrimRight(head, "\x00")) {
		// It is neither a header nor the remains of a header after a crash.
		return false, transfer.Errorf(transfer.KindVersion, "item journal %s is of another format", j.name)
	}

	if !bytes.Equal(head, journalHead()) {
		return false, nil
	}

	j.tail = int64(len(head))
	r := records{id: j.id, r: bufio.NewReaderSize(io.NewSectionReader(j.f, j.tail, 1<<62), 256<<10)}
	var last []byte
	for !j.ended {
		body, err := r.next()
		if errors.Is(err, errTorn) {
			break
		}
		if err != nil {
			return true, err
		}
		it, end, tally, err := decodeItem(body, true)
		if err != nil {
			return true, transfer.Errorf(transfer.KindInternal, "item journal %s is damaged at byte %d: %w", j.name, j.tail, err)
		}
		if j.ended = end; end {
			j.tally = tally
		} else {
			j.count(&it, j.tail)
			last = append(last[:0], body...)
		}
		j.tail += int64(8 + len(body))
	}

	if len(last) > 0 {
		it, _, _, err := decodeItem(last, false)
		j.last = &it
		return true, err
	}
	return true, nil
}

// JournalTotals returns the totals of a transfer's journal as it is on disk, without opening it for writing.
func (l *Ledger) JournalTotals(id transfer.ID) (Totals, error) {
	f, err := l.files.Open(id.String())
	if errors.Is(err, fs.ErrNotExist) {
		return Totals{}, nil
	}
	if err != nil {
		return Totals{}, err
	}
	defer f.Close()
	j := &Journal{l: l, id: id, f: f, name: l.journalPath(id)}
	_, err = j.scan()
	return j.totals(), err
}

// count counts an item that begins at byte at.
func (e *extent) count(it *transfer.Item, at int64) {
	if e.items%indexEvery == 0 {
		e.index = append(e.index, at)
	}
	e.items++
	if it.Type != transfer.ItemDir {
		e.files++
		e.bytes += it.Size
	}
}

func (e *extent) totals() Totals {
	return Totals{int64(e.items), e.files, e.bytes, e.ended, e.tally}
}

// Last returns the item after which an interrupted walk goes on; nil at the start.
func (j *Journal) Last() *transfer.Item { return j.last }

// Append adds an item; readers get it after Sync. If Append, Sync or End fails, everything since the last Sync is taken
// back: Last returns the item to resume from.
func (j *Journal) Append(it transfer.Item) error {
	j.count(&it, j.tail+int64(len(j.buf)))
	j.last = &it
	j.buf = encodeItem(j.buf, j.id, j.items-1, it)
	if len(j.buf) >= 256<<10 {
		return j.flush()
	}
	return nil
}

// Restart removes all items, also durable ones; no item may have been acted on. The next appended item is the first
// one. Restart makes the removal durable first: otherwise a crash could leave the beginning of one list before the end
// of another.
func (j *Journal) Restart() error {
	begun := j.synced.items > 0
	j.mu.Lock()
	j.synced = extent{tail: int64(len(journalHead()))}
	j.mu.Unlock()
	j.takeBack()
	if !begun {
		return nil
	}
	if err := j.l.Fence(); err != nil {
		return err
	}
	if err := j.f.Truncate(j.tail); err != nil {
		return journalError(j.l, "written", err)
	}
	j.behind = false
	if err := j.f.Sync(); err != nil {
		return journalError(j.l, "synced", err)
	}
	return nil
}

// flush writes the buffer at the end of the journal. It first removes taken-back records from the file.
func (j *Journal) flush() (err error) {
	if len(j.buf) == 0 {
		return nil
	}

	err = j.l.reserve.writeWithReserve(func() error {
		if err := j.l.Fence(); err != nil {
			return err
		}
		if j.behind {
			if err := j.f.Truncate(j.tail); err != nil {
				return err
			}
		}
		j.behind = true
		_, err := j.f.WriteAt(j.buf, j.tail)
		return err
	})
	if err != nil {
		j.takeBack()
		return journalError(j.l, "written", err)
	}

	j.tail += int64(len(j.buf))
	j.buf, j.behind = j.buf[:0], false
	return nil
}

// takeBack forgets the records that are not durable. After a failed sync they must be written again: another sync finds
// nothing to do and succeeds.
func (j *Journal) takeBack() {
	j.extent, j.buf, j.behind = j.synced, j.buf[:0], true
}

// Sync makes the appended items durable and offers them to readers.
func (j *Journal) Sync() error {
	if err := j.flush(); err != nil {
		return err
	}

	if j.tail == j.synced.tail {
		return nil
	}

	failpoint.Hit("journal.before_sync")
	if err := j.f.Sync(); err != nil {
		j.takeBack()
		if transfer.KindOf(err) == transfer.KindNoSpace {
			j.l.reserve.drop() // frees its space for the records when they are written again
		}
		return journalError(j.l, "synced", err)
	}

	failpoint.Hit("journal.after_sync")
	j.mu.Lock()
	j.synced = j.extent
	close(j.wake)
	j.wake = make(chan struct{})
	j.mu.Unlock()
	return nil
}

// End closes the list: there are no more items.
func (j *Journal) End(tally Tally) error {
	body := binary.BigEndian.AppendUint64([]byte{journalEnd}, uint64(tally.Links))
	j.buf = appendRecord(j.buf, j.id, j.items, binary.BigEndian.AppendUint64(body, uint64(tally.LeftOut)))
	j.tally, j.ended = tally, true
	return j.Sync()
}

// Totals returns the totals of the synced items.
func (j *Journal) Totals() Totals {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.synced.totals()
}

// Close closes the file.
func (j *Journal) Close() error { return j.f.Close() }

// A Cursor reads a journal.
type Cursor struct {
	j    *Journal
	buf  *bufio.Reader
	r    records
	at   int64
	end  int64 // of the bytes that r may read: behind it the file is being written
	next uint64
	from uint64 // the first item to return
}

// Cursor starts a reading at item from. If the journal has fewer items yet, the reading returns none until that item
// has come.
func (j *Journal) Cursor(from uint64) *Cursor {
	c := &Cursor{j: j, from: from, at: int64(len(journalHead())), buf: bufio.NewReaderSize(nil, 64<<10)}
	c.r.id, c.r.r = j.id, c.buf
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := min(from/indexEvery, uint64(len(j.synced.index))-1); len(j.synced.index) > 0 {
		c.at, c.next = j.synced.index[n], n*indexEvery
	}
	c.end, c.r.n = c.at, c.next
	return c
}

// Items returns up to most items in order, beginning with number from; fewer if the journal has fewer.
func (j *Journal) Items(from uint64, most int) (items []transfer.Item, err error) {
	c := j.Cursor(from)
	for len(items) < most {
		_, it, more, _, err := c.Next()
		if err != nil || !more {
			return items, err
		}
		items = append(items, it)
	}
	return items, nil
}

// Next returns the next item and its number. If more is false, a nil wait means the end of the list; otherwise wait is
// closed when there are more items.
func (c *Cursor) Next() (n uint64, it transfer.Item, more bool, wait <-chan struct{}, err error) {
	for {
		n, it, more, wait, err = c.read()
		if err != nil || !more || n >= c.from {
			return n, it, more, wait, err
		}
	}
}

// read returns the next item, also before the start of the reading.
func (c *Cursor) read() (n uint64, it transfer.Item, more bool, wait <-chan struct{}, err error) {
	c.j.mu.Lock()
	synced, wake := c.j.synced.tail, c.j.wake
	c.j.mu.Unlock()
	if c.at >= synced {
		return 0, it, false, wake, nil
	}

	if c.at == c.end {
		c.end = synced // no record crosses it
		c.buf.Reset(io.NewSectionReader(c.j.f, c.at, c.end-c.at))
	}

	body, err := c.r.next()
	if err != nil {
		return 0, it, false, nil, transfer.Errorf(transfer.KindInternal, "item journal %s cannot be read at byte %d: %w", c.j.name, c.at, err)
	}

	it, end, _, err := decodeItem(body, c.next < c.from)
	if err != nil {
		return 0, it, false, nil, transfer.Errorf(transfer.KindInternal, "item journal %s is damaged at byte %d: %w", c.j.name, c.at, err)
	}

	if end {
		return c.next, it, false, nil, nil
	}

	c.at += int64(8 + len(body))
	c.next++
	return c.next - 1, it, true, nil, nil
}

// Count returns the number of items up to the present position.
func (c *Cursor) Count() uint64 { return c.next }

// DropOrphans removes the journals of transfers that are over, or that the ledger does not know: a crash may leave such
// a journal.
func (l *Ledger) DropOrphans() error {
	names, err := l.files.List()
	if err != nil {
		return err
	}

	return l.View(func(t *Tx) error {
		for _, name := range names {
			id, err := transfer.ParseID(name)
			if err != nil {
				continue // not an item journal
			}
			rec, err := t.Source(id)
			if err != nil {
				return err
			}
			if rec == nil || rec.State.Final() {
				if err := l.DropJournal(id); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

var errTorn = errors.New("torn record")
