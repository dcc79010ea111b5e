package localfs

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/transfer"
)

// errCrash ends a commit where a crash would.
var errCrash = syscall.EPIPE

// committing makes an item that is COMMITTING: the journal has it, its
// temporary is whole and not yet renamed.
func committing(t *testing.T, dir, name string, change func(*LandConfig)) transfer.Intent {
	t.Helper()
	f := openFS(t, nil, dir)
	fault := newFault(1, errCrash)
	fault.only = "committing"
	j := newJournal(fault)
	l := lander(f, j, change)
	p, err := write(l, 1, name, body(5000, 3))
	must(t, err)
	if _, err = l.Commit(t.Context(), []Pending{p}); err == nil {
		t.Fatal("the commit went on")
	}
	return j.committing[1]
}

func TestRecoverDirectoryAndFailure(t *testing.T) {
	f, dir := newFS(t, nil)
	l := lander(f, newJournal(nil), nil)
	in := transfer.Intent{V: 1, Name: "d/e", Mode: 0o700, Mtime: 1e18, Durable: true, Outcome: transfer.Outcome{Item: 1, Type: transfer.ItemDir}}
	v, _, err := l.Recover(in, "")
	must(t, err)
	if fi, err := os.Stat(filepath.Join(dir, "d/e")); v != Done || err != nil || fi.ModTime().UnixNano() != 1e18 {
		t.Fatal(v, err)
	}
	in.Outcome.Err = transfer.Errorf(transfer.KindExists, "taken")
	if v, o, err := l.Recover(in, ""); v != Refused || o.OK() || err != nil {
		t.Fatal(v, o, err)
	}
	in = transfer.Intent{V: 1, Name: "../x", Outcome: transfer.Outcome{Item: 1, Type: transfer.ItemFile}}
	if v, _, err := l.Recover(in, ""); v != Refused || err != nil {
		t.Fatal(v, err)
	}
	in.V = 2
	if _, _, err := l.Recover(in, ""); transfer.KindOf(err) != transfer.KindVersion {
		t.Fatal(err)
	}
}

// A directory sync that fails keeps the item COMMITTING.
func TestRecoverWaitsForTheSync(t *testing.T) {
	dir := realTemp(t)
	in := committing(t, dir, "x", nil)
	fault := newFault(1, syscall.EIO)
	fault.only = "dirsync"
	l := lander(openFS(t, fault, dir), newJournal(nil), nil)
	if v, _, err := l.Recover(in, in.Boot); err == nil {
		t.Fatal(v)
	}
	v, _, err := l.Recover(in, in.Boot)
	if must(t, err); v != Done || !strings.Contains(strings.Join(fault.log, " "), "dirsync") {
		t.Fatal(v)
	}
}
