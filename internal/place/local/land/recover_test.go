package land

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/place/local/intent"
	"ferry/internal/transfer"
)

// errCrash ends a commit where a crash would end it.
var errCrash = syscall.EPIPE

// committing makes an item that is COMMITTING: the journal has it, and its temporary is complete and not yet renamed.
func committing(t *testing.T, dir, name string, change func(*place.LandConfig)) transfer.Intent {
	t.Helper()
	f := openFS(t, nil, dir)
	fault := disktest.NewFault(1, errCrash)
	fault.Only = "committing"
	j := disktest.NewJournal(fault)
	l := lander(f, j, change)
	p, err := write(l, 1, name, body(5000, 3))
	must(t, err)
	if _, err = l.Commit(t.Context(), []place.Pending{p}); err == nil {
		t.Fatal("the commit went on")
	}
	return j.Intents[1]
}

// tempOf returns the name of an intent's temporary.
func tempOf(t *testing.T, rec transfer.Intent) string {
	t.Helper()
	in, err := intent.Parse(rec)
	must(t, err)
	return in.Temp
}

// bootOf returns the boot that recorded an intent.
func bootOf(t *testing.T, rec transfer.Intent) string {
	t.Helper()
	in, err := intent.Parse(rec)
	must(t, err)
	return in.Boot
}

func TestRecoverDirectoryAndFailure(t *testing.T) {
	f, dir := newFS(t, nil)
	l := lander(f, disktest.NewJournal(nil), nil)
	dirItem := intent.Intent{Name: "d/e", Mode: 0o700, Mtime: 1e18, Durable: true, Outcome: transfer.Outcome{Item: 1, Type: transfer.ItemDir}}
	in := dirItem.Record()
	v, _, err := l.Recover(in, "")
	must(t, err)
	if fi, err := os.Stat(filepath.Join(dir, "d/e")); v != place.Done || err != nil || fi.ModTime().UnixNano() != 1e18 {
		t.Fatal(v, err)
	}
	in.Outcome.Err = transfer.Errorf(transfer.KindExists, "taken")
	if v, o, err := l.Recover(in, ""); v != place.Refused || o.OK() || err != nil {
		t.Fatal(v, o, err)
	}
	in = (&intent.Intent{Name: "../x", Outcome: transfer.Outcome{Item: 1, Type: transfer.ItemFile}}).Record()
	if v, _, err := l.Recover(in, ""); v != place.Refused || err != nil {
		t.Fatal(v, err)
	}
	in.Place[0] = intent.Format + 1
	if _, _, err := l.Recover(in, ""); transfer.KindOf(err) != transfer.KindVersion {
		t.Fatal(err)
	}
}

// A directory sync that fails keeps the item COMMITTING.
func TestRecoverWaitsForTheSync(t *testing.T) {
	dir := realTemp(t)
	in := committing(t, dir, "x", nil)
	fault := disktest.NewFault(1, syscall.EIO)
	fault.Only = "dirsync"
	l := lander(openFS(t, fault, dir), disktest.NewJournal(nil), nil)
	if v, _, err := l.Recover(in, bootOf(t, in)); err == nil {
		t.Fatal(v)
	}
	v, _, err := l.Recover(in, bootOf(t, in))
	if must(t, err); v != place.Done || !strings.Contains(strings.Join(fault.Log, " "), "dirsync") {
		t.Fatal(v)
	}
}

// A takingDisk is a disk with another program, which takes each file as soon as it has its name.
type takingDisk struct {
	*disktest.Fault
	dir string
}

func (d takingDisk) Rename(at *disk.Dir, from, to string, replace bool) error {
	err := d.Fault.Rename(at, from, to, replace)
	if err == nil {
		err = os.Remove(filepath.Join(d.dir, to))
	}
	return err
}

// TestRecoveredFileTakenAtOnce: if a new run renames a file itself, the file is proved to have arrived once the
// directory is synced. If the file is missing before the run looks, it is presumed to have arrived.
func TestRecoveredFileTakenAtOnce(t *testing.T) {
	dir := realTemp(t)
	in := committing(t, dir, "x", nil)
	fault := disktest.NewFault(0, nil)
	l := lander(openFS(t, takingDisk{fault, dir}, dir), disktest.NewJournal(nil), nil)
	v, o, err := l.Recover(in, bootOf(t, in))
	if must(t, err); v != place.Done || o.Taken != transfer.TakenProved || !strings.HasPrefix(fault.Log[len(fault.Log)-1], "dirsync") {
		t.Errorf("%v, %+v, after %q", v, o, fault.Log)
	}
	v, o, err = l.Recover(in, bootOf(t, in))
	if must(t, err); v != place.Taken || o.Taken != transfer.TakenPresumed {
		t.Errorf("the second look: %v, %+v", v, o)
	}
}
