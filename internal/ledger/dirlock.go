package ledger

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ferry/internal/sys/dirsync"
	"ferry/internal/sys/failpoint"
	"ferry/internal/sys/filelock"
	"ferry/internal/transfer"
)

// Files of a ledger's directory that several instances of an agent may take over, one after the other.
const (
	lockName  = "standby.lock"
	markName  = "standby.mark"
	storeName = "ledger.db"
	copyInfix = ".taken-" // in the name of a copy before its rename; an instance follows
)

const dirLockRetry = 20 * time.Millisecond // between two attempts of an instance that does not stand by

// A DirLock is the lock of a ledger's directory that several instances of an agent share (R34). Only the instance that
// has it may open the ledger.
//
// The lock keeps others out for as long as the storage keeps it. A network file system may drop the lock of a host that
// was stopped, and the process there is not told when it goes on. Two measures cover that case. Open marks the
// directory, and a ledger checks the mark before each transaction and before it reports one as durable. If the last
// holder has not released the lock, Open works on copies of its files, and the copies get the names: the last holder
// then writes only to files without a name.
type DirLock struct {
	dir       string
	by        filelock.Holder
	lock      io.Closer
	store     io.Closer      // lock of the existing ledger.db; nil: there was none
	mark      *filelock.Mark // nil until the ledger is open
	takenOver bool           // from a holder that has not released it
}

// TakeDirLock takes the lock without waiting, and makes the directory. Its error is filelock.ErrHeld while another
// instance has the lock, or one that does not share its ledger.
func TakeDirLock(dir string, by filelock.Holder) (*DirLock, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, transfer.Errorf(transfer.KindUnwritable, "the state directory cannot be made: %w", err)
	}
	c := &DirLock{dir: dir, by: by}
	var err error
	if c.lock, err = filelock.Take(filepath.Join(dir, lockName)); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(c.path(storeName)); err == nil {
		if c.store, err = filelock.Take(c.path(storeName)); err != nil {
			c.Close()
			return nil, err
		}
	}
	return c, nil
}

// DirLockHolder returns the instance that has marked a ledger's directory last. Instance is empty if no instance has
// marked it, or the last one has released it.
func DirLockHolder(dir string) filelock.Holder {
	h, _, _ := filelock.HolderOf(filepath.Join(dir, markName))
	return h
}

// lockSharedDir takes the lock for an instance without a standby in a directory that instances have shared: one of them
// may be alive that has lost the lock and was not told. It waits for the lock as long as patience lasts. It returns
// nil if no instance has shared the directory.
func lockSharedDir(dir string, patience time.Duration) (*DirLock, error) {
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return nil, nil // the code that makes the directory reports its errors
	}
	_, marked, err := filelock.HolderOf(filepath.Join(dir, markName))
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUnreadable, "the owner of the state directory %s cannot be read: %w", dir, err)
	}
	if !marked {
		return nil, nil
	}
	host, _ := os.Hostname()
	by := filelock.Holder{Instance: "alone-" + strings.ToLower(rand.Text()), Host: host, Since: time.Now().UTC()}
	t := time.NewTicker(dirLockRetry)
	defer t.Stop()
	for deadline := time.Now().Add(patience); ; <-t.C {
		c, err := TakeDirLock(dir, by)
		switch {
		case errors.Is(err, filelock.ErrHeld) && time.Now().Before(deadline):
		case errors.Is(err, filelock.ErrHeld):
			return nil, inUse(filepath.Join(dir, storeName))
		case err != nil:
			return nil, transfer.Errorf(transfer.KindUnwritable, "the ledger in %s cannot be locked: %w", dir, err)
		default:
			return c, nil
		}
	}
}

// Instance returns the name of the instance that has the lock.
func (c *DirLock) Instance() string { return c.by.Instance }

// Close releases the lock. A ledger that was opened with the lock must be closed before.
func (c *DirLock) Close() error {
	var err error
	if c.store != nil {
		err = c.store.Close()
	}
	return errors.Join(err, c.lock.Close())
}

func (c *DirLock) path(name string) string { return filepath.Join(c.dir, name) }

// markDir marks the directory. If the last holder has not released the lock, it replaces the files that the holder may
// still write to by copies.
func (c *DirLock) markDir() error {
	before, marked, err := filelock.HolderOf(c.path(markName))
	if err == nil {
		c.mark, err = filelock.SetMark(c.path(markName), c.by)
	}
	if err == nil {
		err = dirsync.Sync(c.dir)
	}
	if err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the state directory %s cannot be marked as this instance's: %w", c.dir, err)
	}

	failpoint.Hit("claim.marked")
	if c.store != nil && (!marked || before.Instance != "") {
		c.takenOver = true
		if err := c.copyAll(); errors.Is(err, filelock.ErrTaken) {
			return transfer.Errorf(transfer.KindAlive, "another instance has taken the ledger in %s over", c.dir)
		} else if err != nil {
			return transfer.Errorf(transfer.KindUnwritable, "the ledger in %s cannot be taken over: %w", c.dir, err)
		}
		return nil // the lock of the old file stays: a process that waits for it must not get it
	}
	return c.unlockStore()
}

// unlockStore releases ledger.db, which the store locks itself.
func (c *DirLock) unlockStore() (err error) {
	if c.store != nil {
		err, c.store = c.store.Close(), nil
	}
	return err
}

// copyAll replaces the item journals and ledger.db by copies. A crash at any point leaves each of them as the original
// or as the copy.
//
// Another instance may have been stopped in the middle of this, and resume it. Either its copies are there by now: they
// are removed, and it cannot give them a name. Or it has yet to make them: after that it checks the mark, which is this
// instance's.
func (c *DirLock) copyAll() error {
	if err := errors.Join(dropCopies(c.dir), dropCopies(c.path("items"))); err != nil {
		return err
	}
	journals, err := os.ReadDir(c.path("items"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, j := range journals {
		if _, err := transfer.ParseID(j.Name()); err != nil {
			continue
		}
		if err := c.replaceByCopy(filepath.Join(c.path("items"), j.Name())); err != nil {
			return err
		}
	}
	if len(journals) > 0 {
		if err := dirsync.Sync(c.path("items")); err != nil {
			return err
		}
	}
	if err := c.replaceByCopy(c.path(storeName)); err != nil {
		return err
	}
	failpoint.Hit("claim.copied")
	return dirsync.Sync(c.dir)
}

// replaceByCopy gives a file's name to a copy of it. The copy begins at the file's head. If a database's last
// transaction is being written meanwhile, the copy has the state before that one, or all of it. Or it has a head that
// its checksum refuses, beside the one before.
func (c *DirLock) replaceByCopy(path string) (err error) {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	soon := path + copyInfix + c.by.Instance
	to, err := os.OpenFile(soon, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	failpoint.Hit("claim.before_rename")
	if err = errors.Join(err, to.Sync(), to.Close(), c.mark.Check()); err != nil {
		os.Remove(soon)
		return err
	}
	return os.Rename(soon, path)
}

// dropCopies removes copies of any instance that have not got their final names.
func dropCopies(dir string) error {
	all, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range all {
		if strings.Contains(f.Name(), copyInfix) {
			if rerr := os.Remove(filepath.Join(dir, f.Name())); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
				err = errors.Join(err, rerr)
			}
		}
	}
	return err
}

// unmark releases the lock. If clean is nil, it first removes the mark, which shows that the run has left nothing
// unfinished.
func (c *DirLock) unmark(clean error) error {
	var err error
	if clean == nil {
		if err = c.mark.Release(); errors.Is(err, filelock.ErrTaken) {
			err = nil
		}
	}
	return errors.Join(err, c.Close())
}

// TakenOver reports whether the ledger was taken from an instance that had not released it: one that crashed, lost its
// host, or was stopped and may resume.
func (t *ownership) TakenOver() bool { return t.lock != nil && t.lock.takenOver }

// Shared reports whether instances share the ledger's directory, or ever have.
func (t *ownership) Shared() bool { return t.lock != nil }

// Fence returns nil while the ledger is this process's. If another instance has taken it over, the ledger is lost from
// then on. Code that changes something outside the ledger that an entry describes, such as the name of a file, must
// call Fence first. Without a DirLock Fence checks nothing: the lock is released when the process ends, and not before.
func (t *ownership) Fence() error {
	if t.lock == nil {
		return nil
	}
	if err := t.Lost(); err != nil {
		return err
	}
	err := t.lock.mark.Check()
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, filelock.ErrTaken):
		return transfer.Errorf(transfer.KindBusy, "the owner of the state directory %s cannot be read: %w", t.lock.dir, err)
	}
	by := DirLockHolder(t.lock.dir)
	t.setLost(transfer.Errorf(transfer.KindAlive, "the ledger in %s was taken over by instance %s on %s", t.lock.dir, by.Instance, by.Host))
	return t.Lost()
}
