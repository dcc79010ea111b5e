package localfs

import (
	"encoding/json"
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
func committing(t *testing.T, dir, name string, change func(*LandConfig)) (transfer.Intent, string) {
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
	b, err := json.Marshal(j.committing[1])
	must(t, err)
	var in transfer.Intent
	must(t, json.Unmarshal(b, &in)) // as the ledger gives it back
	return in, filepath.Join(dir, filepath.Dir(name), in.Temp)
}

func TestRecover(t *testing.T) {
	whole := string(body(5000, 3))
	process := func(c *LandConfig) { c.Durable = false }
	overwrite := func(c *LandConfig) { c.Overwrite = true }
	const otherBoot = "another boot"
	for _, c := range []struct {
		name    string
		change  func(*LandConfig)
		boot    string // empty: the same
		old     bool   // a file has the name before
		crash   func(t *testing.T, final, temp string)
		verdict Verdict
		kind    transfer.Kind
		final   string // content afterwards; empty: none
		temp    bool   // the temporary is still there
	}{
		{name: "before the rename", crash: func(*testing.T, string, string) {}, verdict: Done, final: whole},
		{name: "before the rename, another boot", boot: otherBoot, crash: func(*testing.T, string, string) {}, verdict: Done, final: whole},
		{name: "after the rename", crash: func(t *testing.T, final, temp string) { must(t, os.Rename(temp, final)) }, verdict: Done, final: whole},
		{name: "after the rename, another boot", boot: otherBoot, crash: func(t *testing.T, final, temp string) { must(t, os.Rename(temp, final)) }, verdict: Done, final: whole},
		{name: "between link and unlink (scenario 33)", crash: func(t *testing.T, final, temp string) { must(t, os.Link(temp, final)) }, verdict: Done, final: whole},
		{name: "between link and unlink, moved on", crash: func(t *testing.T, final, temp string) { must(t, os.Link(temp, final+"-moved")) }, verdict: Taken, temp: true},
		{name: "temporary damaged", crash: func(t *testing.T, final, temp string) { spoil(t, temp) }, verdict: Redo, temp: true},
		{name: "temporary cut", crash: func(t *testing.T, final, temp string) { must(t, os.Truncate(temp, 10)) }, verdict: Redo, temp: true},
		{name: "temporary another's", crash: func(t *testing.T, final, temp string) {
			must(t, os.WriteFile(temp+"2", []byte(whole), 0o600))
			must(t, os.Rename(temp+"2", temp))
		}, verdict: Redo, temp: true},
		{name: "name taken meanwhile", crash: func(t *testing.T, final, temp string) {
			must(t, os.WriteFile(final, []byte("stranger"), 0o600))
		}, verdict: Refused, kind: transfer.KindExists, final: "stranger", temp: true},
		{name: "a directory meanwhile", crash: func(t *testing.T, final, temp string) { must(t, os.Mkdir(final, 0o700)) },
			verdict: Refused, kind: transfer.KindWrongType, temp: true, final: "directory"},
		{name: "taken by a consumer", crash: func(t *testing.T, final, temp string) { must(t, os.Remove(temp)) }, verdict: Taken},
		{name: "taken, and a stranger's file in its place (scenario 32)", crash: func(t *testing.T, final, temp string) {
			must(t, os.Rename(temp, final)) // the stranger's file has the same inode
			must(t, os.WriteFile(final, []byte("stranger"), 0o600))
		}, verdict: Taken, final: "stranger"},
		{name: "directory taken", crash: func(t *testing.T, final, temp string) {
			must(t, os.Rename(filepath.Dir(final), filepath.Dir(final)+"-moved"))
		}, verdict: Taken},
		{name: "overwrite, before the rename", change: overwrite, old: true, crash: func(*testing.T, string, string) {}, verdict: Done, final: whole},
		{name: "overwrite, old file removed", change: overwrite, old: true, crash: func(t *testing.T, final, temp string) { must(t, os.Remove(final)) }, verdict: Done, final: whole},
		{name: "overwrite, temporary lost (scenario 30)", change: overwrite, old: true, crash: func(t *testing.T, final, temp string) { must(t, os.Remove(temp)) }, verdict: Redo, final: "old"},
		{name: "overwrite, temporary lost, another boot, chmod since", change: overwrite, old: true, boot: otherBoot, crash: func(t *testing.T, final, temp string) {
			must(t, os.Remove(temp))
			must(t, os.Chmod(final, 0o640))
		}, verdict: Redo, final: "old"},
		{name: "overwrite, done and replaced by a stranger", change: overwrite, old: true, crash: func(t *testing.T, final, temp string) {
			must(t, os.Rename(temp, final))
			must(t, os.WriteFile(temp+"2", []byte("stranger"), 0o600))
			must(t, os.Rename(temp+"2", final))
		}, verdict: Taken, final: "stranger"},
		{name: "process, same boot", change: process, crash: func(*testing.T, string, string) {}, verdict: Done, final: whole},
		{name: "process, another boot (scenario 31)", change: process, boot: otherBoot, crash: func(*testing.T, string, string) {}, verdict: Redo},
		{name: "process, another boot, renamed", change: process, boot: otherBoot, crash: func(t *testing.T, final, temp string) {
			must(t, os.Rename(temp, final))
		}, verdict: Redo},
		{name: "process, another boot, a stranger's file", change: process, boot: otherBoot, crash: func(t *testing.T, final, temp string) {
			must(t, os.WriteFile(final, []byte("stranger"), 0o600))
		}, verdict: Redo, final: "stranger"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := realTemp(t)
			final := filepath.Join(dir, "sub", "x")
			must(t, os.Mkdir(filepath.Dir(final), 0o777))
			if c.old {
				must(t, os.WriteFile(final, []byte("old"), 0o600))
			}
			in, temp := committing(t, dir, "sub/x", c.change)
			c.crash(t, final, temp)
			boot := c.boot
			if boot == "" {
				boot = in.Boot
			}
			// Twice: a crash may come before the verdict was recorded.
			for range 2 {
				l := lander(openFS(t, nil, dir), newJournal(nil), c.change)
				v, o, err := l.Recover(in, boot)
				must(t, err)
				if v != c.verdict || o.Taken != (v == Taken) || transfer.KindOf(errOf(o)) != c.kind {
					t.Fatalf("%v, %+v; want %v", v, o, c.verdict)
				}
			}
			got := ""
			if fi, err := os.Stat(final); err == nil && fi.IsDir() {
				got = "directory"
			} else if err == nil {
				got = read(t, final)
			}
			if got != c.final || exists(temp) != c.temp {
				t.Fatalf("final %.20q, temporary %v", got, exists(temp))
			}
		})
	}
}

func errOf(o transfer.Outcome) error {
	if o.Err == nil {
		return nil
	}
	return o.Err
}

// spoil changes one byte and nothing else.
func spoil(t *testing.T, p string) {
	t.Helper()
	f, err := os.OpenFile(p, os.O_RDWR, 0)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt([]byte{'#'}, 2500)
	must(t, err)
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
	in, _ := committing(t, dir, "x", nil)
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
