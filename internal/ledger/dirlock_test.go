package ledger

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ferry/internal/sys/filelock"
	"ferry/internal/transfer"
)

func takeDirLock(t *testing.T, dir, by string) *DirLock {
	t.Helper()
	c, err := TakeDirLock(dir, filelock.Holder{Instance: by, Host: by})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// stolen returns the lock of an instance that has the lock because the storage has taken it from another one.
func stolen(dir, by string) *DirLock {
	return &DirLock{dir: dir, by: filelock.Holder{Instance: by, Host: by}, lock: io.NopCloser(nil), store: io.NopCloser(nil)}
}

func openWith(t *testing.T, dir string, c *DirLock) *Ledger {
	t.Helper()
	l, err := Open(dir, Options{DirLock: c, Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func put(l *Ledger, key string) error {
	return l.Update(func(t *Tx) error { return t.tx.Bucket(bMeta).Put([]byte(key), []byte("x")) })
}

func has(t *testing.T, l *Ledger, key string) (is bool) {
	t.Helper()
	if err := l.View(func(t *Tx) error { is = t.tx.Bucket(bMeta).Get([]byte(key)) != nil; return nil }); err != nil {
		t.Fatal(err)
	}
	return is
}

// One instance has a shared ledger at a time; the others may share it or not.
func TestOneInstanceHasTheLedger(t *testing.T) {
	dir := t.TempDir()
	one := openWith(t, dir, takeDirLock(t, dir, "one"))
	if _, err := TakeDirLock(dir, filelock.Holder{}); !errors.Is(err, filelock.ErrHeld) {
		t.Fatalf("a second claim: %v", err)
	}
	if _, err := Open(dir, Options{Lock: 1, Reserve: -1}); transfer.KindOf(err) != transfer.KindAlive {
		t.Fatalf("an instance that does not share it: %v", err)
	}
	if h := DirLockHolder(dir); h.Instance != "one" || h.Host != "one" {
		t.Errorf("it is %+v's", h)
	}
	if err := errors.Join(put(one, "a"), one.Close()); err != nil {
		t.Fatal(err)
	}
	if h := DirLockHolder(dir); h.Instance != "" {
		t.Errorf("it was let go of, and is %+v's", h)
	}

	plain, err := Open(dir, Options{Reserve: -1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := TakeDirLock(dir, filelock.Holder{}); !errors.Is(err, filelock.ErrHeld) {
		t.Fatalf("a claim beside an instance that does not share it: %v", err)
	}
	if err := plain.Close(); err != nil {
		t.Fatal(err)
	}
}

// An instance without a standby follows the rules of a shared directory: it takes the lock, works on copies of the
// files of an instance that may be alive, and loses the ledger to the next instance.
func TestAnInstanceAloneWhereSomeHaveShared(t *testing.T) {
	dir := t.TempDir()
	one := openWith(t, dir, takeDirLock(t, dir, "one"))
	if err := put(one, "before"); err != nil {
		t.Fatal(err)
	}
	// The storage has dropped the locks of the stopped instance.
	if err := errors.Join(one.lock.lock.Close(), os.Rename(filepath.Join(dir, storeName), filepath.Join(dir, "x")), copyFile(filepath.Join(dir, "x"), filepath.Join(dir, storeName))); err != nil {
		t.Fatal(err)
	}

	alone := openWith(t, dir, nil)
	if !alone.TakenOver() || !alone.Shared() || !has(t, alone, "before") {
		t.Errorf("taken over %v, shared %v", alone.TakenOver(), alone.Shared())
	}
	if err := put(one, "late"); transfer.KindOf(err) != transfer.KindAlive {
		t.Errorf("one that lost it records: %v", err)
	}
	if _, err := Open(dir, Options{Lock: 1, Reserve: -1}); transfer.KindOf(err) != transfer.KindAlive {
		t.Errorf("one more: %v", err)
	}
	two := openWith(t, dir, stolen(dir, "two"))
	if err := put(alone, "late"); transfer.KindOf(err) != transfer.KindAlive || has(t, two, "late") {
		t.Errorf("the instance alone records: %v", err)
	}
	if err := two.Close(); alone.Close() == nil || err != nil {
		t.Fatal(err)
	}
	one.Close()
	if again := openWith(t, dir, nil); again.TakenOver() || again.Close() != nil || DirLockHolder(dir).Instance != "" {
		t.Error("a ledger that was handed over is not used in place")
	}
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

// A ledger that an instance hands over is used in place, without copies.
func TestALedgerThatIsHandedOver(t *testing.T) {
	dir := t.TempDir()
	one := openWith(t, dir, takeDirLock(t, dir, "one"))
	generation := one.Generation()
	if err := errors.Join(put(one, "a"), one.Close()); err != nil {
		t.Fatal(err)
	}
	two := openWith(t, dir, takeDirLock(t, dir, "two"))
	defer two.Close()
	if two.TakenOver() || two.Unclean() || two.Generation() != generation+1 || !has(t, two, "a") {
		t.Errorf("taken over %v, unclean %v, generation %d", two.TakenOver(), two.Unclean(), two.Generation())
	}
}

// An instance that has lost the lock without notice can record no more. None of its later writes is in the ledger or in
// a journal.
func TestALedgerThatIsTakenOver(t *testing.T) {
	dir := t.TempDir()
	one := openWith(t, dir, takeDirLock(t, dir, "one"))
	id := transfer.NewID(time.Now())
	j, err := one.Journal(id)
	if err != nil {
		t.Fatal(err)
	}
	item := transfer.Item{Source: "a", Name: "a", Type: transfer.ItemFile}
	if err := errors.Join(put(one, "before"), j.Append(item), j.Sync()); err != nil {
		t.Fatal(err)
	}

	two := openWith(t, dir, stolen(dir, "two"))
	defer two.Close()
	if !two.TakenOver() || !two.Unclean() || !has(t, two, "before") {
		t.Errorf("taken over %v, unclean %v", two.TakenOver(), two.Unclean())
	}
	// Past every check: a write that was delayed between a check and its execution.
	if err := one.store.Update(func(tx StoreTx) error { return tx.Bucket(bMeta).Put([]byte("late"), []byte("x")) }); err != nil {
		t.Fatal(err)
	}
	if _, err := j.f.WriteAt(bytes.Repeat([]byte("z"), 100), j.tail); err != nil {
		t.Fatal(err)
	}
	// It has yet to write again, and reads no entry that the ledger does not have.
	if err := one.View(func(*Tx) error { return nil }); transfer.KindOf(err) != transfer.KindAlive {
		t.Errorf("the instance that lost the ledger reads it: %v", err)
	}
	if has(t, two, "late") {
		t.Error("a late write is in the ledger")
	}
	if data, err := os.ReadFile(filepath.Join(dir, "items", id.String())); err != nil || bytes.Contains(data, []byte("zzz")) {
		t.Errorf("a late write is in the journal: %v", err)
	}

	if err := put(one, "after"); transfer.KindOf(err) != transfer.KindAlive {
		t.Errorf("a record of the one that lost it: %v", err)
	}
	select {
	case <-one.Gone():
	default:
		t.Error("it does not say that the ledger is lost")
	}
	if err := errors.Join(j.Append(item), j.Sync()); transfer.KindOf(err) != transfer.KindAlive {
		t.Errorf("an item of the one that lost it: %v", err)
	}
	one.Close()
	if h := DirLockHolder(dir); h.Instance != "two" {
		t.Errorf("after its end it is %+v's", h)
	}
	if err := put(two, "more"); err != nil || has(t, two, "after") {
		t.Errorf("the one that has it: %v", err)
	}
}

// An instance that was stopped during a takeover cannot put its copy in place of a later instance's files: the later
// instance has removed the copy, or is noticed before the copy has a name.
func TestTwoTakersOneOfThemStopped(t *testing.T) {
	dir := t.TempDir()
	one := openWith(t, dir, takeDirLock(t, dir, "one"))
	if err := put(one, "before"); err != nil {
		t.Fatal(err)
	}

	slow := stolen(dir, "slow")
	var err error
	if slow.mark, err = filelock.SetMark(slow.path(markName), slow.by); err != nil {
		t.Fatal(err)
	}
	left := slow.path(storeName) + copyInfix + "slow"
	if err := os.WriteFile(left, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}

	two := openWith(t, dir, stolen(dir, "two"))
	defer two.Close()
	if err := put(two, "after"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(left, slow.path(storeName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy of the one that was stopped is still there: %v", err)
	}
	if err := slow.replaceByCopy(slow.path(storeName)); !errors.Is(err, filelock.ErrTaken) {
		t.Errorf("it goes on, with %v", err)
	}
	if !has(t, two, "after") || put(two, "more") != nil {
		t.Error("the one that has the ledger has lost it")
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*"+copyInfix+"*")); err != nil || len(names) > 0 {
		t.Errorf("copies are left: %v %v", names, err)
	}
}

// A takeover that crashed between the mark and its end is taken over like any other.
func TestATakeoverThatWasCutShort(t *testing.T) {
	dir := t.TempDir()
	one := openWith(t, dir, takeDirLock(t, dir, "one"))
	if err := errors.Join(put(one, "a"), one.Close()); err != nil {
		t.Fatal(err)
	}
	c := takeDirLock(t, dir, "two")
	if err := c.markDir(); err != nil || c.takenOver {
		t.Fatalf("%v, taken %v", err, c.takenOver)
	}
	c.Close()
	three := openWith(t, dir, takeDirLock(t, dir, "three"))
	defer three.Close()
	if !three.TakenOver() || !has(t, three, "a") {
		t.Error("it was not taken over, or nothing is left")
	}
}
