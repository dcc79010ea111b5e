package land

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/transfer"
)

// movings are changes by other programs to the destination directory.
var movings = map[string]func(t *testing.T, root string){
	"renamed and made anew": func(t *testing.T, root string) {
		must(t, os.Rename(root+"/in", root+"/in.batch1"))
		must(t, os.Mkdir(root+"/in", 0o755))
	},
	"renamed": func(t *testing.T, root string) { must(t, os.Rename(root+"/in", root+"/in.batch1")) },
	"a link elsewhere in its place": func(t *testing.T, root string) {
		must(t, os.Rename(root+"/in", root+"/in.batch1"))
		must(t, os.Mkdir(root+"/elsewhere", 0o755))
		must(t, os.Symlink("elsewhere", root+"/in"))
	},
	"a link to where it is in its place": func(t *testing.T, root string) {
		must(t, os.Rename(root+"/in", root+"/in.batch1"))
		must(t, os.Symlink("in.batch1", root+"/in"))
	},
	"a file in its place": func(t *testing.T, root string) {
		must(t, os.Rename(root+"/in", root+"/in.batch1"))
		must(t, os.WriteFile(root+"/in", nil, 0o644))
	},
	"the root renamed and made anew": func(t *testing.T, root string) {
		must(t, os.Rename(root, root+".batch1"))
		must(t, os.MkdirAll(root+"/in", 0o755))
	},
}

// A file in a moved directory is not reported at its old path: a file that is not renamed yet begins again, and a
// renamed one is reported as moved away.
func TestDirectoryMovedUnderACommit(t *testing.T) {
	for name, move := range movings {
		for _, when := range []string{"before", "rename", "dirsync in"} {
			t.Run(name+" "+when, func(t *testing.T) { movedUnder(t, move, when) })
		}
	}
}

func movedUnder(t *testing.T, move func(t *testing.T, root string), when string) {
	dir := realTemp(t)
	root := dir + "/root"
	tree(t, root, "in/")
	d := disktest.NewFault(0, nil)
	f := openFS(t, d, root)
	l := lander(f, disktest.NewJournal(nil), nil)
	defer l.Close()
	a, err := write(l, 1, "in/a", body(100, 1))
	must(t, err)
	b, err := write(l, 2, "in/b", body(200, 2))
	must(t, err)
	moved := when == "before"
	if moved {
		move(t, root)
	}
	renames := 0
	d.Before = func(op string) {
		if renames += strings.Count(op, "rename"); !moved && op == when && renames > 0 {
			moved = true
			move(t, root)
		}
	}
	outs, err := l.Commit(t.Context(), []place.Pending{a, b})
	for _, o := range outs {
		content, rerr := os.ReadFile(string(o.Path))
		if o.OK() && (rerr != nil || int64(len(content)) != o.Size) {
			t.Errorf("%s is said to have arrived: %v", o.Path, rerr)
		}
		if !o.OK() && o.Err.Kind != transfer.KindMoved {
			t.Errorf("%s: %v", o.Path, o.Err)
		}
	}
	var again *place.AgainError
	errors.As(err, &again)
	switch {
	case when == "before" && (again == nil || len(again.Items) != 2 || outs != nil):
		t.Errorf("%v, %+v: both begin again", err, outs)
	case when != "before" && (err != nil || len(outs) != 2):
		t.Errorf("%v, %+v: both were renamed", err, outs)
	}
	must(t, filepath.WalkDir(dir, func(p string, e os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(e.Name(), disk.Reserved) {
			t.Errorf("%s is left", p)
		}
		return err
	}))
}

// swaps are changes by other programs to a temporary.
var swaps = map[string]func(t *testing.T, temp string){
	"a file": func(t *testing.T, temp string) {
		must(t, os.WriteFile(temp+".new", body(1000, 9), 0o600))
		must(t, os.Rename(temp+".new", temp))
	},
	"a link": func(t *testing.T, temp string) {
		must(t, os.Remove(temp))
		must(t, os.Symlink("/etc/passwd", temp))
	},
	"a directory": func(t *testing.T, temp string) {
		must(t, os.Remove(temp))
		must(t, os.Mkdir(temp, 0o755))
	},
	"nothing":  func(t *testing.T, temp string) { must(t, os.Remove(temp)) },
	"cut":      func(t *testing.T, temp string) { must(t, os.Truncate(temp, 10)) },
	"longer":   func(t *testing.T, temp string) { must(t, os.Truncate(temp, 5000)) },
	"cut to 0": func(t *testing.T, temp string) { must(t, os.Truncate(temp, 0)) },
}

// A temporary that other programs have swapped or truncated is never committed (scenario 46).
func TestTemporarySwapped(t *testing.T) {
	for name, swap := range swaps {
		for _, when := range []string{"write", "before", "dirsync in", "committing"} {
			t.Run(name+" "+when, func(t *testing.T) { swapped(t, swap, when) })
		}
	}
}

// A striking journal calls a function when a commit is recorded.
type striking struct {
	*disktest.Journal
	strike func()
}

func (j *striking) Committing(ins []transfer.Intent) error {
	if j.strike != nil {
		j.strike()
	}
	return j.Journal.Committing(ins)
}

func swapped(t *testing.T, swap func(t *testing.T, temp string), when string) {
	d := disktest.NewFault(0, nil)
	f, root := newFS(t, d)
	tree(t, root, "in/")
	j := &striking{Journal: disktest.NewJournal(nil)}
	l := lander(f, j, nil)
	defer l.Close()
	content := body(1000, 1)
	p, err := l.Create(1, "in/a", 1000, 1<<40)
	must(t, err)
	must(t, p.Write(content[:500]))
	strike := func() { swap(t, root+"/in/"+p.temp) }
	if when == "write" {
		strike()
	}
	var again *place.AgainError
	if err = p.Write(content[500:]); err == nil {
		switch when {
		case "before":
			strike()
		case "committing":
			j.strike = strike
		case "dirsync in":
			d.Before = func(op string) {
				if op == when {
					d.Before = nil
					strike()
				}
			}
		}
		w := place.Pending{Part: p, Sum: sum(content), Mode: 0o640, Mtime: 1_700_000_000_123_456_789, Name: "in/a",
			Outcome: transfer.Outcome{Item: 1, Type: transfer.ItemFile, Size: 1000}}
		_, err = l.Commit(t.Context(), []place.Pending{w})
	} else {
		p.Discard()
	}
	if !errors.As(err, &again) || exists(root+"/in/a") || len(j.Outcomes) != 0 || len(j.Intents) != 0 {
		t.Errorf("%v; there: %v; %+v %+v: it is to begin again", err, exists(root+"/in/a"), j.Outcomes, j.Intents)
	}
}

// mountable is a disk with a Mounted that the test sets.
type mountable struct {
	disk.Disk
	mounted bool
}

func (d *mountable) Mounted(string) (bool, error) { return d.mounted, nil }

// A root that is a mount point is used while a file system is mounted there (scenario 45); the agent starts without
// one.
func TestMountedRoot(t *testing.T) {
	base := realTemp(t)
	root := base + "/data"
	d := &mountable{Disk: disk.RealDisk()}
	f := openFS(t, d, root+",mounted") // it is not even there
	away := func() {
		t.Helper()
		_, err := f.Resolve(transfer.File(transfer.Path(root+"/in/")), true)
		wantKind(t, err, transfer.KindBusy)
		if !strings.Contains(err.Error(), "root "+root+" is away") {
			t.Errorf("the root is not named: %v", err)
		}
		if _, err := f.Walk(t.Context(), place.WalkRequest{Args: place.Args(false, transfer.Match("*.x"))}, nil); transfer.KindOf(err) != transfer.KindBusy {
			t.Errorf("the walk went on: %v", err)
		}
		if _, err := f.OpenSource("a.x"); transfer.KindOf(err) != transfer.KindBusy {
			t.Errorf("a source: %v", err)
		}
		wantKind(t, f.DeleteSource("a.x", disk.Identity{}.Version(), disk.Reserved+"a.del", nil), transfer.KindBusy)
		wantKind(t, f.Ready(transfer.Resolution{Base: transfer.Path(root)}), transfer.KindBusy)
	}
	away()
	tree(t, base, "data/a.x")
	away()
	d.mounted = true
	must(t, f.Ready(transfer.Resolution{Base: transfer.Path(root)}))
	src, err := f.OpenSource("a.x")
	must(t, err)
	must(t, src.Close())
	d.mounted = false
	must(t, os.Rename(root, base+"/unmounted"))
	must(t, os.Mkdir(root, 0o755))
	away()
	d.mounted = true // another one
	must(t, os.WriteFile(root+"/a.x", nil, 0o644))
	src, err = f.OpenSource("a.x")
	must(t, err)
	must(t, src.Close())
}

// hanging is a disk with a Mounted that blocks.
type hanging struct {
	disk.Disk
	asked, answer chan struct{}
}

func (d *hanging) Mounted(string) (bool, error) {
	d.asked <- struct{}{}
	<-d.answer
	return false, nil
}

// A root with a file system that hangs does not block the other roots, for any path.
func TestRootThatHangs(t *testing.T) {
	base := realTemp(t)
	tree(t, base, "hangs/", "works/in/")
	d := &hanging{Disk: disk.RealDisk(), asked: make(chan struct{}, 8), answer: make(chan struct{}, 1)}
	d.answer <- struct{}{} // as the agent starts
	f := openFS(t, d, base+"/hangs,mounted", base+"/works")
	<-d.asked
	ended := make(chan error, 1)
	go func() { ended <- f.Ready(transfer.Resolution{Base: transfer.Path(base + "/hangs")}) }()
	<-d.asked
	_, err := f.Resolve(transfer.File(transfer.Path(base+"/works/in/")), true)
	must(t, err)
	close(d.answer)
	wantKind(t, <-ended, transfer.KindBusy)
}

// Items that were being committed when their root went away are decided when it is back.
func TestRootAwayUnderACommit(t *testing.T) {
	base := realTemp(t)
	root := base + "/data"
	tree(t, root, "in/")
	d := disktest.NewFault(0, nil)
	f := openFS(t, d, root)
	j := disktest.NewJournal(nil)
	l := lander(f, j, nil)
	defer l.Close()
	a, err := write(l, 1, "in/a", body(100, 1))
	must(t, err)
	must(t, os.Rename(root, base+"/away"))
	outs, err := l.Commit(t.Context(), []place.Pending{a})
	var pending *place.PendingError
	if !errors.As(err, &pending) || len(pending.Intents) != 1 || outs != nil || transfer.KindOf(err) != transfer.KindBusy {
		t.Fatalf("%+v %v: it waits", outs, err)
	}
	_, _, err = l.Recover(pending.Intents[0], f.cfg.Boot)
	wantKind(t, err, transfer.KindBusy)
	must(t, os.Rename(base+"/away", root))
	v, o, err := l.Recover(pending.Intents[0], f.cfg.Boot)
	must(t, err)
	if v != place.Done || !o.OK() || read(t, root+"/in/a") != string(body(100, 1)) {
		t.Errorf("%v %+v", v, o)
	}
}

// Another program removes a temporary while its commit waits for the root. No consumer could have taken that file. A
// file with a started rename may have been taken.
func TestTemporaryRemovedUnderACommitThatWaits(t *testing.T) {
	base := realTemp(t)
	root := base + "/data"
	tree(t, root, "in/")
	f := openFS(t, disktest.NewFault(0, nil), root)
	l := lander(f, disktest.NewJournal(nil), nil)
	defer l.Close()
	a, err := write(l, 1, "in/a", body(100, 1))
	must(t, err)
	must(t, os.Rename(root, base+"/away"))
	_, err = l.Commit(t.Context(), []place.Pending{a})
	var pending *place.PendingError
	if !errors.As(err, &pending) {
		t.Fatalf("%v: it waits", err)
	}
	must(t, os.Rename(base+"/away", root))
	in := pending.Intents[0]
	temp := tempOf(t, in)
	must(t, os.Rename(root+"/in/"+temp, base+"/part"))
	if v, o, err := l.Recover(in, f.cfg.Boot); v != place.Redo || err != nil {
		t.Fatalf("%v %+v %v: it begins again", v, o, err)
	}
	must(t, os.Rename(base+"/part", root+"/in/"+temp))
	if v, _, err := l.Recover(in, f.cfg.Boot); v != place.Done || err != nil {
		t.Fatalf("%v %v", v, err)
	}
	must(t, os.Remove(root+"/in/a"))
	if v, _, err := l.Recover(in, f.cfg.Boot); v != place.Taken || err != nil {
		t.Fatalf("%v %v: its consumer has it", v, err)
	}
}

// The same after a failure of the ledger: at COMMITTING no file was renamed, and at COMMITTED all possible ones were.
func TestTemporaryRemovedAfterTheLedgerFailed(t *testing.T) {
	for op, want := range map[string]place.Verdict{"committing": place.Redo, "committed": place.Taken} {
		fault := disktest.NewFault(1, syscall.EIO)
		fault.Only = op
		f, root := newFS(t, nil)
		j := disktest.NewJournal(fault)
		l := lander(f, j, nil)
		p, err := write(l, 1, "a", body(100, 1))
		must(t, err)
		if _, err = l.Commit(t.Context(), []place.Pending{p}); err == nil {
			t.Fatalf("%s: the commit succeeded", op)
		}
		in := j.Intents[1]
		os.Remove(root + "/" + tempOf(t, in))
		os.Remove(root + "/a")
		if v, o, err := l.Recover(in, f.cfg.Boot); v != want || err != nil {
			t.Errorf("%s: %v %+v %v; want %v", op, v, o, err, want)
		}
		must(t, l.Close())
	}
}

// A source is deleted only at the path that it was sent from.
func TestSourceDirectoryMovedUnderADeletion(t *testing.T) {
	f, root := newFS(t, nil)
	tree(t, root, "out/a")
	src, err := f.OpenSource("out/a")
	must(t, err)
	v := src.Version()
	must(t, src.Close())
	err = f.DeleteSource("out/a", v, disk.Reserved+"a.del", func(string) error {
		return os.Rename(root+"/out", root+"/moved")
	})
	wantKind(t, err, transfer.KindChanging)
	if !exists(root+"/moved/a") || exists(root+"/moved/"+disk.Reserved+"a.del") {
		t.Error("the source has gone from where it was moved")
	}
}
