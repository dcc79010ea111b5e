package land

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/transfer"
)

// linked makes a destination with a directory a and a symbolic link b to it.
func linked(t *testing.T, d disk.Disk, ifExists string) (l *Landing, j *disktest.Journal, dir string) {
	t.Helper()
	f, dir := newFS(t, d)
	tree(t, dir, "a/")
	must(t, os.Symlink("a", filepath.Join(dir, "b")))
	j = disktest.NewJournal(nil)
	return lander(f, j, func(c *place.LandConfig) { c.IfExists, c.Marked = ifExists, j.Marked }), j, dir
}

// wantOneFile checks that the first item has the file, and that the second one fails with both names.
func wantOneFile(t *testing.T, j *disktest.Journal, dir string, first []byte) {
	t.Helper()
	one, two := j.Outcomes[1], j.Outcomes[2]
	if two.Err == nil {
		t.Fatal("the second item has arrived")
	}
	if !one.OK() || transfer.KindOf(two.Err) != transfer.KindExists {
		t.Errorf("the first: %v, the second: %v", one.Err, two.Err)
	}
	if text := two.Err.Text; !strings.Contains(text, filepath.Join(dir, "a/f")) || !strings.Contains(text, filepath.Join(dir, "b/f")) {
		t.Errorf("the sentence does not name both: %s", text)
	}
	if got := read(t, filepath.Join(dir, "a/f")); got != string(first) {
		t.Errorf("the file has %q, not that of the first item", got)
	}
	if left := temporaries(t, dir); left != nil {
		t.Errorf("left: %v", left)
	}
}

// Two items have one destination file, because their directories are one. The second fails: in the group of the first
// and in a later one, in the same process and in another one.
func TestTwoPathsOfOneFile(t *testing.T) {
	for _, ifExists := range []string{transfer.IfExistsOverwrite, transfer.IfExistsUpdate, transfer.IfExistsAppend} {
		for _, groups := range []string{"one", "two", "two processes"} {
			t.Run(ifExists+" in "+groups, func(t *testing.T) {
				l, j, dir := linked(t, disk.RealDisk(), ifExists)
				first, err := write(l, 1, "a/f", []byte("A"))
				must(t, err)
				group := []place.Pending{first}
				if groups != "one" {
					_, err = l.Commit(t.Context(), group)
					must(t, err)
					group = nil
				}
				if groups == "two processes" {
					l = lander(openFS(t, disk.RealDisk(), dir), j, func(c *place.LandConfig) { c.IfExists, c.Marked = ifExists, j.Marked })
				}
				second, err := write(l, 2, "b/f", []byte("BB"))
				must(t, err)
				second.Mtime += 1e9 // or the file that is there would be as new
				_, err = l.Commit(t.Context(), append(group, second))
				must(t, err)
				wantOneFile(t, j, dir, []byte("A"))
			})
		}
	}
}

// A crash comes between the two: the second item is COMMITTING, and its name has become that of the first.
func TestRecoverRefusesASecondPathOfOneFile(t *testing.T) {
	fault := disktest.NewFault(0, nil)
	l, j, dir := linked(t, fault, transfer.IfExistsOverwrite)
	must(t, os.Remove(filepath.Join(dir, "b")))
	tree(t, dir, "b/")
	second, err := write(l, 2, "b/f", []byte("BB"))
	must(t, err)
	fault.Only, fault.N, fault.FailAt, fault.Err = "rename", 0, 1, errors.New("the host goes down")
	if _, err := l.Commit(t.Context(), []place.Pending{second}); !errors.As(err, new(*place.PendingError)) {
		t.Fatalf("the commit: %v", err)
	}
	fault.Heal()
	first, err := write(l, 1, "a/f", []byte("A"))
	must(t, err)
	_, err = l.Commit(t.Context(), []place.Pending{first})
	must(t, err)
	must(t, os.Link(filepath.Join(dir, "a/f"), filepath.Join(dir, "b/f")))
	v, out, err := l.Recover(j.Intents[2], "")
	must(t, err)
	if v != place.Refused || transfer.KindOf(out.Err) != transfer.KindExists || read(t, filepath.Join(dir, "b/f")) != "A" {
		t.Errorf("the verdict is %v, %v", v, out.Err)
	}
}

// Where existing files stay, the rename decides. With free names each item gets one.
func TestTwoPathsOfOneFileThatIsNotReplaced(t *testing.T) {
	for ifExists, kind := range map[string]transfer.Kind{transfer.IfExistsError: transfer.KindExists, transfer.IfExistsSkip: transfer.KindSkipped, transfer.IfExistsRename: 0} {
		l, j, dir := linked(t, disk.RealDisk(), ifExists)
		first, err := write(l, 1, "a/f", []byte("A"))
		must(t, err)
		second, err := write(l, 2, "b/f", []byte("BB"))
		must(t, err)
		_, err = l.Commit(t.Context(), []place.Pending{first, second})
		must(t, err)
		if out := j.Outcomes[2]; (out.Err == nil) != (kind == 0) || out.Err != nil && out.Err.Kind != kind || read(t, filepath.Join(dir, "a/f")) != "A" {
			t.Errorf("%s: %+v", ifExists, out)
		}
		if got := filepath.Join(dir, "a/f-1"); ifExists == transfer.IfExistsRename && read(t, got) != "BB" {
			t.Errorf("%s has other content", got)
		}
	}
}

// Of items that arrive together none gets its name if two of them have one destination file.
func TestTwoPathsOfOneFileTogether(t *testing.T) {
	l, j, dir := linked(t, disk.RealDisk(), transfer.IfExistsOverwrite)
	tree(t, dir, "a/f")
	var set []place.Pending
	for n, name := range []string{"a/f", "b/f", "other"} {
		p, err := write(l, uint64(n), name, []byte(name))
		must(t, err)
		p.Together = true
		set = append(set, p)
	}
	_, err := l.Commit(t.Context(), set)
	must(t, err)
	for n, out := range j.Outcomes {
		if out.OK() {
			t.Errorf("item %d has arrived", n)
		}
	}
	if read(t, filepath.Join(dir, "a/f")) != "content of a/f" || exists(filepath.Join(dir, "other")) {
		t.Error("something of the set has its name")
	}
}

// Names of one file are as many destinations: each item gets its name, in the group of the first and in later ones, and
// one more name keeps the file that was there. A rename changes the ctime of the file that it replaces, under all its
// names: an item of the same group is not taken for one that another program has changed, and is joined once.
func TestNamesOfOneFile(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	for ifExists, kept := range map[string]string{transfer.IfExistsOverwrite: "", transfer.IfExistsUpdate: "", transfer.IfExistsAppend: "old"} {
		for _, together := range []bool{true, false} {
			f, dir := newFS(t, disk.RealDisk())
			must(t, os.WriteFile(filepath.Join(dir, "kept"), []byte("old"), 0o600))
			for _, name := range names {
				must(t, os.Link(filepath.Join(dir, "kept"), filepath.Join(dir, name)))
			}
			j := disktest.NewJournal(nil)
			l := lander(f, j, func(c *place.LandConfig) { c.IfExists, c.Marked = ifExists, j.Marked })
			var group []place.Pending
			for n, name := range names {
				p, err := write(l, uint64(n+1), name, []byte(name+name))
				must(t, err)
				p.Mtime = time.Now().Add(time.Hour).UnixNano()
				if group = append(group, p); !together || n == len(names)-1 {
					_, err = l.Commit(t.Context(), group)
					must(t, err)
					group = nil
				}
			}
			for n, name := range names {
				if out := j.Outcomes[uint64(n+1)]; !out.OK() || read(t, filepath.Join(dir, name)) != kept+name+name {
					t.Errorf("%s, in one group: %v: %s has %q: %v", ifExists, together, name, read(t, filepath.Join(dir, name)), out.Err)
				}
			}
			if got := read(t, filepath.Join(dir, "kept")); got != "old" {
				t.Errorf("%s: the name of no item has %q", ifExists, got)
			}
		}
	}
}

// TestAppendToANameThatChanges: another program writes to the file, by another name, after the first item of the group
// has got its name. The second item begins again.
func TestAppendToANameThatChanges(t *testing.T) {
	d := disktest.NewFault(0, nil)
	f, dir := newFS(t, d)
	must(t, os.WriteFile(filepath.Join(dir, "a"), []byte("old"), 0o600))
	must(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, "b")))
	renames := 0
	d.Before = func(op string) {
		if op != "rename" {
			return
		}
		if renames++; renames == 1 {
			must(t, os.WriteFile(filepath.Join(dir, "b"), []byte("older"), 0o600))
		}
	}
	j := disktest.NewJournal(nil)
	l := lander(f, j, func(c *place.LandConfig) { c.IfExists, c.Marked = transfer.IfExistsAppend, j.Marked })
	var group []place.Pending
	for n, name := range []string{"a", "b"} {
		p, err := write(l, uint64(n+1), name, []byte("new"))
		must(t, err)
		group = append(group, p)
	}
	_, err := l.Commit(t.Context(), group)
	var again *place.AgainError
	if !errors.As(err, &again) || len(again.Items) != 1 || again.Items[0].Item != 2 || transfer.KindOf(again.Items[0].Err) != transfer.KindChanging {
		t.Errorf("the group ends with %v", err)
	}
	if got := read(t, filepath.Join(dir, "b")); got != "older" {
		t.Errorf("b has %q", got)
	}
}

// A file of another program that this transfer has not brought is replaced, in a linked directory, too, and so is one
// that another transfer has brought.
func TestFilesOfOthersAreReplaced(t *testing.T) {
	l, j, dir := linked(t, disk.RealDisk(), transfer.IfExistsOverwrite)
	first, err := write(l, 1, "a/f", []byte("A"))
	must(t, err)
	_, err = l.Commit(t.Context(), []place.Pending{first})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "new"), []byte("of another program"), 0o600))
	must(t, os.Rename(filepath.Join(dir, "new"), filepath.Join(dir, "a/f")))
	second, err := write(l, 2, "b/f", []byte("BB"))
	must(t, err)
	_, err = l.Commit(t.Context(), []place.Pending{second})
	must(t, err)
	if out := j.Outcomes[2]; !out.OK() || read(t, filepath.Join(dir, "a/f")) != "BB" {
		t.Errorf("%+v", out)
	}
}

// A ledger that cannot be read now is no verdict on an item.
func TestMarksThatCannotBeRead(t *testing.T) {
	l, j, dir := linked(t, disk.RealDisk(), transfer.IfExistsOverwrite)
	tree(t, dir, "a/f")
	l.cfg.Marked = func(uint64, transfer.FileID) (transfer.Path, error) {
		return "", transfer.Errorf(transfer.KindBusy, "the ledger cannot be read")
	}
	p, err := write(l, 1, "b/f", []byte("BB"))
	must(t, err)
	if done, err := l.Commit(t.Context(), []place.Pending{p}); transfer.KindOf(err) != transfer.KindBusy || len(done)+len(j.Outcomes) > 0 {
		t.Errorf("%v, %v", done, err)
	}
}

// Each name is looked at once more when it is durable. A file that was taken since is proved to have arrived. One that
// was replaced keeps its source.
func TestNamesAreLookedAtAgain(t *testing.T) {
	for want, do := range map[transfer.Taken]func(p string) error{
		transfer.NotTaken:    func(p string) error { return os.Chmod(p, 0o600) },
		transfer.TakenProved: os.Remove,
		transfer.TakenReplaced: func(p string) error {
			return errors.Join(os.WriteFile(p+".new", []byte("B"), 0o600), os.Rename(p+".new", p))
		},
	} {
		fault := disktest.NewFault(0, nil)
		f, dir := newFS(t, fault)
		at, named := filepath.Join(dir, "f"), false
		fault.Before = func(op string) {
			if op == "rename" {
				named = true
			} else if named && strings.HasPrefix(op, "dirsync") {
				must(t, do(at))
			}
		}
		j := disktest.NewJournal(nil)
		l := lander(f, j, func(c *place.LandConfig) { c.IfExists = transfer.IfExistsOverwrite })
		p, err := write(l, 1, "f", []byte("A"))
		must(t, err)
		_, err = l.Commit(t.Context(), []place.Pending{p})
		must(t, err)
		if out := j.Outcomes[1]; !out.OK() || out.Taken != want || (out.Note == "") != (want == transfer.NotTaken) {
			t.Errorf("%q: %+v", want, out)
		}
	}
}
