package land

import (
	"bytes"
	"errors"
	"os"
	"sync"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/intent"
	"ferry/internal/transfer"
)

// reserveFrom is the smallest size, in bytes, that Create reserves space for. A smaller file is completely written
// before a reservation could report a lack of space.
const reserveFrom = 64 << 10

// tempMode holds the permission bits of a temporary until it is committed.
const tempMode = 0o600

var zeros [256 << 10]byte

// A Partial is an item's temporary file. One goroutine writes; Sync and ReadAt
// may run beside it.
type Partial struct {
	l       *Landing
	f       disk.File
	dir     *sharedDir
	place   disk.Location
	temp    string
	item    uint64
	sparse  bool
	ino     uint64
	dev     uint64
	Sidecar *intent.Sidecar // the sidecar that the item is to have; see Describe
	watch   *watch          // of its file system, begun before the file was made; nil: none

	mu        sync.Mutex
	offset    int64 // everything below it is written; the file is no shorter
	reserved  int64 // space is reserved up to here
	named     bool  // its name is durable
	permanent error
	closed    bool
}

func (l *Landing) newPartial(f disk.File, d *sharedDir, p disk.Location, temp string, item uint64, size, allocated int64) (*Partial, error) {
	st, err := l.disk.Stat(f)
	if err != nil {
		return nil, err
	}
	return &Partial{l: l, f: f, dir: d, place: p, temp: temp, item: item, ino: st.Ino, dev: st.Dev,
		sparse: allocated < (size+511)/512*512}, nil
}

// Item returns the number of the item.
func (p *Partial) Item() uint64 { return p.item }

// Ino returns the inode number of the temporary.
func (p *Partial) Ino() uint64 { return p.ino }

// Offset returns the number of bytes that have been written.
func (p *Partial) Offset() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.offset
}

// Point returns the present resume point, in the format of Reopen. The caller may use it once it is safe.
func (p *Partial) Point() []byte { return intent.PointAt(p.Offset()) }

func (p *Partial) path() transfer.Path { return transfer.Path(p.place.Path) }

// resumeAt truncates the file at a point. The file must be at least that long. It may have its final mode already, if
// its commit was not recorded.
func (p *Partial) resumeAt(at int64) error {
	st, err := p.l.disk.Stat(p.f)
	if err != nil {
		return err
	}

	if st.Type != disk.TypeFile || st.Nlink != 1 || !st.MayBeOwn() {
		return errors.New("it is not a file that this agent made")
	}

	if at < 0 || st.Size < at {
		return errors.New("it is shorter than its last safe point")
	}

	if st.Mode != tempMode {
		if err := p.l.fs.setMeta(p.dir.Dir, p.temp, p.f, tempMode, st.Mtime); err != nil {
			return err
		}
	}
	if err := p.l.disk.Truncate(p.f, at); err != nil {
		return err
	}

	p.offset = at
	return nil
}

// reserve reserves the space of the whole file, so that a full disk is
// reported early and as a full disk.
func (p *Partial) reserve(size int64) error {
	if p.sparse || size < reserveFrom || size <= p.offset {
		return nil
	}

	err := p.l.disk.Allocate(p.f, size)
	switch {
	case err == nil:
		p.reserved = size
	case disk.IsNoSpace(err):
		return p.noSpace(size-p.offset, err)
	default:
		p.l.fs.log.Debug("cannot reserve space", "path", p.path(), "error", err)
		return p.l.fs.promises.make(p, size)
	}
	return nil
}

func (p *Partial) noSpace(need int64, err error) error {
	free, ferr := p.dir.Free()
	if ferr != nil {
		return disk.Wrap(transfer.KindNoSpace, err, disk.SpaceHint, "%s needs %s, and there is no space for that", p.path(), transfer.FormatBytes(need))
	}
	return disk.Wrap(transfer.KindNoSpace, err, disk.SpaceHint, "%s needs %s, and %s are free", p.path(), transfer.FormatBytes(need), transfer.FormatBytes(free))
}

// usable returns nil unless the partial is closed or has failed permanently. The lock is held.
func (p *Partial) usable() error {
	if p.closed {
		return os.ErrClosed
	}
	return p.permanent
}

// failPermanently marks the file as untrustworthy. After a failed write or sync its contents are unknown, and a later
// successful sync proves nothing.
func (p *Partial) failPermanently(err error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.permanent == nil {
		p.permanent = err
	}
	return err
}

// Write appends all of b or fails. After an error of kind NoSpace the offset is
// as before and the write can be repeated; any other error is final for this
// file.
func (p *Partial) Write(b []byte) error {
	p.mu.Lock()
	off, err := p.offset, p.usable()
	p.mu.Unlock()
	if err == nil {
		err = p.checkLength(off)
	}
	if err != nil {
		return err
	}

	if p.sparse {
		err = p.writeRuns(b, off)
	} else {
		err = p.writeAt(b, off)
	}
	if err != nil {
		return err
	}

	p.advance(off + int64(len(b)))
	return nil
}

// checkLength checks that the file still has the length that has been written. After a truncation by another program, a write
// would extend the file and leave zeros in it.
func (p *Partial) checkLength(off int64) error {
	if off == 0 {
		return nil
	}
	st, err := p.l.disk.Stat(p.f)
	if err != nil {
		return p.failPermanently(disk.TargetError(p.path(), err))
	}
	if st.Size < off {
		return p.failPermanently(again(p.item, p.changed()))
	}
	return nil
}

// changed returns the reason why an item begins again: another program changed its temporary.
func (p *Partial) changed() *transfer.Error { return changedByOther(p.path()) }

func changedByOther(p transfer.Path) *transfer.Error {
	return disk.Wrap(transfer.KindUnwritable, nil, "find the program that changes it",
		"the temporary file of %s was cut, replaced or removed by another program", p)
}

// writeAt writes all of b at off. It does not use or change the offset of the partial.
func (p *Partial) writeAt(b []byte, off int64) error {
	for done := 0; done < len(b); {
		n, err := p.l.disk.Write(p.f, b[done:], off+int64(done))
		done += max(n, 0)
		switch {
		case err != nil && disk.IsNoSpace(err):
			return p.noSpace(int64(len(b)-done), err)
		case err != nil:
			return p.failPermanently(p.l.obstacleWaits.landError(p.path(), err))
		case n <= 0:
			return p.failPermanently(disk.Wrap(transfer.KindUnwritable, nil, "", "%s cannot be written: the file system took no bytes", p.path()))
		}
	}
	return nil
}

// Zeros of a file with holes are left out where there are this many of them, in
// whole blocks; fewer would cost more calls than they save space.
const (
	holeBlock = 4 << 10
	leastHole = 4 * holeBlock
)

// writeRuns writes b without long runs of zeros: data that arrives in one piece may have holes in the source.
func (p *Partial) writeRuns(b []byte, off int64) error {
	from, end := 0, 0 // not written yet; the end of the last block that is not all zeros
	for at := 0; at < len(b); {
		n := min(holeBlock-int((off+int64(at))%holeBlock), len(b)-at)
		if !bytes.Equal(b[at:at+n], zeros[:n]) {
			if at-end >= leastHole {
				if err := p.writeAt(b[from:end], off+int64(from)); err != nil {
					return err
				}
				from = at
			}
			end = at + n
		}
		at += n
	}

	if len(b)-end < leastHole {
		return p.writeAt(b[from:], off+int64(from))
	}
	if err := p.writeAt(b[from:end], off+int64(from)); err != nil {
		return err
	}
	return p.extend(off + int64(len(b)))
}

// extend extends the file to the length to, with a hole at its end.
func (p *Partial) extend(to int64) error {
	if err := p.l.disk.Truncate(p.f, to); err != nil {
		if disk.IsNoSpace(err) {
			return p.noSpace(to-p.Offset(), err)
		}
		return p.failPermanently(disk.TargetError(p.path(), err))
	}
	return nil
}

func (p *Partial) advance(to int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offset = to
}

// Skip appends n zeros: as a hole if the source has holes, and written out otherwise.
func (p *Partial) Skip(n int64) error {
	if !p.sparse {
		for n > 0 {
			k := min(n, int64(len(zeros)))
			if err := p.Write(zeros[:k]); err != nil {
				return err
			}
			n -= k
		}
		return nil
	}

	p.mu.Lock()
	to, err := p.offset+n, p.usable()
	p.mu.Unlock()
	if err == nil {
		err = p.checkLength(to - n)
	}
	if err != nil || n == 0 {
		return err
	}
	if err := p.extend(to); err != nil {
		return err
	}

	p.advance(to)
	return nil
}

// ReadAt reads bytes that have been written.
func (p *Partial) ReadAt(b []byte, off int64) (int, error) { return p.l.disk.ReadAt(p.f, b, off) }

// Sync makes the written bytes and the temporary's name durable. With durability process it only checks that the
// directory's path still leads to it. If the path leads elsewhere, the error is an *AgainError, or one that waits while
// that cannot be known. Any other failure is permanent: every later call but Discard and Close fails,
// and no sync of it is tried again.
func (p *Partial) Sync() error {
	p.mu.Lock()
	err := p.usable()
	p.mu.Unlock()
	if err == nil {
		err = p.checkPath()
	}
	if err != nil || !p.l.cfg.Durable {
		return err
	}
	if err := p.l.disk.SyncData(p.f); err != nil {
		return p.failPermanently(syncFailed(p.path(), err))
	}
	return p.syncName()
}

// checkPath checks that the directory's path leads to it.
func (p *Partial) checkPath() error {
	err := p.l.tree.checkPath(p.dir)
	var moved *disk.MovedError
	if errors.As(err, &moved) {
		return again(p.item, moved.NotYet())
	}
	if err != nil {
		err = disk.TargetError(p.path(), err)
	}
	return err
}

// syncName makes the temporary's own name durable, once. After a power cut, data without a durable name is lost.
func (p *Partial) syncName() error {
	p.mu.Lock()
	named := p.named
	p.mu.Unlock()
	if named {
		return nil
	}
	if err := p.l.tree.syncDirty(map[string]*sharedDir{p.dir.Path(): p.dir}); err != nil {
		return p.failPermanently(err)
	}

	p.mu.Lock()
	p.named = true
	p.mu.Unlock()
	return nil
}

// freeReserved frees the space that is reserved beyond the written bytes.
func (p *Partial) freeReserved() error {
	p.mu.Lock()
	off, end, bad := p.offset, p.reserved, p.permanent
	p.reserved = 0
	p.mu.Unlock()
	if end <= off || bad != nil {
		return nil
	}

	if st, err := p.l.disk.Stat(p.f); err != nil || st.Size < off {
		return err // another program truncated it: Truncate would fill it with zeros
	}

	// Some file systems free space beyond the end of a file by Punch, some only by Truncate at its size.
	perr := p.l.disk.Punch(p.f, off, end)
	if err := p.l.disk.Truncate(p.f, off); err != nil {
		return disk.TargetError(p.path(), errors.Join(err, perr))
	}
	return nil
}

// markClosed marks the Partial as closed, and reports whether it was closed already.
func (p *Partial) markClosed() (was bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was, p.closed = p.closed, true
	return was
}

// Close closes the file, frees reserved space that is not used, and leaves the temporary for Reopen. A second call does
// nothing.
func (p *Partial) Close() error {
	if p.markClosed() {
		return nil
	}

	p.l.fs.promises.end(p)
	kept := p.freeReserved()
	err := p.l.disk.Close(p.f)
	p.l.tree.open.release(p.dir)
	if err == nil && kept != nil {
		return kept
	}
	if err != nil {
		return syncFailed(p.path(), err)
	}
	return nil
}

// Discard closes the file and removes the temporary.
func (p *Partial) Discard() error {
	if p.markClosed() {
		return nil
	}

	p.l.fs.promises.end(p)
	p.l.disk.Close(p.f) // the error does not matter: the file is removed
	defer p.l.tree.open.release(p.dir)
	if err := p.l.temps.unlink(p.dir.Dir, p.temp); err != nil {
		return disk.TargetError(p.path(), err)
	}
	return nil
}

// again returns the error of one item that begins again.
func again(item uint64, why *transfer.Error) *place.AgainError {
	return &place.AgainError{Items: []place.Again{{Item: item, Err: why}}}
}
