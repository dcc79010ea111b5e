package land

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/transfer"
)

func TestCommitRoundTrip(t *testing.T) {
	fault := disktest.NewFault(0, nil)
	f, dir := newFS(t, fault)
	j := disktest.NewJournal(fault)
	l := lander(f, j, nil)
	names := []string{"plain", "a/b/c/deep", "with blank", "new\nline", strings.Repeat("n", 255), "not\xffutf8\xfe", "-r", "ü", "*", "a/%41"}
	var group []place.Pending
	for i, n := range names {
		p, err := write(l, uint64(i), n, body(i*70_000, byte(i)))
		must(t, err)
		group = append(group, p)
	}
	group = append(group, place.Pending{Outcome: transfer.Outcome{Item: 90, Type: transfer.ItemDir}, Name: "a/b", Mode: 0o750, Mtime: 1e18},
		place.Pending{Outcome: transfer.Outcome{Item: 91, Type: transfer.ItemDir}, Name: "empty/dir", Mode: 0o700, Mtime: 2e18},
		place.Pending{Outcome: transfer.Outcome{Item: 92, Type: transfer.ItemBad, Path: "/gone", Err: transfer.Errorf(transfer.KindMissing, "gone")}})
	done, err := l.Commit(t.Context(), group)
	must(t, err)
	if len(done) != len(group) || len(j.Intents) != 0 {
		t.Fatalf("%d of %d done, %d committing", len(done), len(group), len(j.Intents))
	}
	for i, n := range names {
		o := j.Outcomes[uint64(i)]
		if !o.OK() || string(o.Path) != filepath.Join(dir, n) || o.Digest != sum(body(i*70_000, byte(i))) {
			t.Errorf("%q: %+v", n, o)
		}
		if read(t, filepath.Join(dir, n)) != string(body(i*70_000, byte(i))) {
			t.Errorf("%q has other content", n)
		}
		fi, err := os.Stat(filepath.Join(dir, n))
		must(t, err)
		if runtime.GOOS != "windows" && fi.Mode().Perm() != 0o640 || fi.ModTime().UnixNano() != 1_700_000_000_123_456_789 {
			t.Errorf("%q: %v %v", n, fi.Mode(), fi.ModTime())
		}
	}
	for n, mtime := range map[string]int64{"a/b": 1e18, "empty/dir": 2e18} {
		fi, err := os.Stat(filepath.Join(dir, n))
		must(t, err)
		if fi.ModTime().UnixNano() != mtime {
			t.Errorf("%s has time %v", n, fi.ModTime())
		}
	}
	if left := temporaries(t, dir); left != nil {
		t.Errorf("left: %v", left)
	}
	checkOrder(t, fault.Log)
}

// checkOrder checks the order of a commit's steps (R20).
func checkOrder(t *testing.T, log []string) {
	t.Helper()
	stage := map[string]int{"sync": 1, "close": 1, "dirsync": 2, "committing": 3, "rename": 4, "committed": 6}
	at := 0
	for _, op := range log {
		word, _, _ := strings.Cut(op, " ")
		s, ok := stage[word]
		if !ok || word == "close" && at > 1 {
			continue
		}
		if word == "dirsync" && at >= 3 {
			s = 5
		}
		if s < at {
			t.Fatalf("%s came after stage %d: %v", op, at, log)
		}
		at = s
	}
	if at != 6 {
		t.Fatalf("the commit stopped at stage %d: %v", at, log)
	}
}

func TestCommitSyncsWhatItMade(t *testing.T) {
	fault := disktest.NewFault(0, nil)
	f, _ := newFS(t, fault)
	l := lander(f, disktest.NewJournal(fault), nil)
	p, err := write(l, 1, "x/y/z", nil)
	must(t, err)
	_, err = l.Commit(t.Context(), []place.Pending{p})
	must(t, err)
	var before, after []string
	seen := &before
	for _, op := range fault.Log {
		if op == "committing" {
			seen = &after
		}
		if d, ok := strings.CutPrefix(op, "dirsync "); ok {
			*seen = append(*seen, d)
		}
	}
	for _, d := range []string{"x", "y", filepath.Base(f.root)} {
		if !strings.Contains(strings.Join(before, " "), d) {
			t.Errorf("%s was not synced before COMMITTING: %v", d, before)
		}
	}
	if strings.Join(after, " ") != "y" {
		t.Errorf("synced after the rename: %v", after)
	}
}

// Another program takes the name between the check and the rename.
func TestCommitNameTakenAtTheLastMoment(t *testing.T) {
	for _, fallback := range []bool{false, true} {
		fault := disktest.NewFault(0, nil)
		f, dir := newFS(t, fault)
		fault.Before = func(op string) {
			if op == "rename" {
				must(t, os.WriteFile(filepath.Join(dir, "x"), []byte("stranger"), 0o600))
			}
		}
		if fallback {
			fault.Only, fault.FailAt, fault.Err = "rename", 1, syscall.EINVAL
		}
		j := disktest.NewJournal(fault)
		l := lander(f, j, nil)
		p, err := write(l, 1, "x", body(100, 1))
		must(t, err)
		_, err = l.Commit(t.Context(), []place.Pending{p})
		must(t, err)
		wantKind(t, j.Outcomes[1].Err, transfer.KindExists)
		if read(t, filepath.Join(dir, "x")) != "stranger" || temporaries(t, dir) != nil {
			t.Fatal("the stranger's file is not as it was")
		}
	}
}

func TestCommitOverwriteAndFallback(t *testing.T) {
	f, dir := newFS(t, nil)
	tree(t, dir, "x")
	j := disktest.NewJournal(nil)
	l := lander(f, j, func(c *place.LandConfig) { c.IfExists = transfer.IfExistsOverwrite })
	p, err := write(l, 1, "x", []byte("new"))
	must(t, err)
	_, err = l.Commit(t.Context(), []place.Pending{p})
	must(t, err)
	if read(t, filepath.Join(dir, "x")) != "new" {
		t.Fatal("not overwritten")
	}
	fault := disktest.NewFault(1, syscall.EINVAL)
	fault.Only, fault.Sticky = "rename", true
	f = openFS(t, fault, dir)
	l = lander(f, disktest.NewJournal(fault), nil)
	p, err = write(l, 2, "y", []byte("linked"))
	must(t, err)
	done, err := l.Commit(t.Context(), []place.Pending{p})
	must(t, err)
	if !done[0].OK() || read(t, filepath.Join(dir, "y")) != "linked" || temporaries(t, dir) != nil {
		t.Fatalf("%+v", done)
	}
}

// Every call on the disk and the journal fails in its turn, once and from then on, until a run ends without the fault.
func TestCommitEveryCallFails(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EACCES} {
		for _, sticky := range []bool{false, true} {
			for _, overwrite := range []bool{false, true} {
				n := 1
				for ; failNth(t, n, errno, sticky, overwrite); n++ {
				}
				if n < 25 {
					t.Fatalf("only %d calls were met", n)
				}
			}
		}
	}
}

// failNth lands a group with the nth call failing, repairs the disk, reacts as the agent does, and checks the
// invariants. It reports whether the fault occurred.
func failNth(t *testing.T, n int, errno syscall.Errno, sticky, overwrite bool) bool {
	t.Helper()
	fault := disktest.NewFault(n, errno)
	fault.Sticky = sticky
	f, dir := newFS(t, fault)
	must(t, os.WriteFile(filepath.Join(dir, "taken"), []byte("old"), 0o600))
	j := disktest.NewJournal(fault)
	l := lander(f, j, func(c *place.LandConfig) {
		if overwrite {
			c.IfExists = transfer.IfExistsOverwrite
		}
	})
	contents := map[string][]byte{"a": body(100_000, 1), "sub/b": body(10, 2), "sub/deep/c": nil}
	if overwrite {
		contents["taken"] = body(20, 4)
	}
	items := map[string]uint64{"a": 1, "sub/b": 2, "sub/deep/c": 3, "taken": 4}
	var group []place.Pending
	for name, content := range contents {
		p, err := write(l, items[name], name, content)
		if err == nil {
			if err = p.Part.Sync(); err != nil {
				p.Part.Discard()
			}
		}
		if err == nil {
			group = append(group, p)
		}
	}
	group = append(group, place.Pending{Outcome: transfer.Outcome{Item: 9, Type: transfer.ItemDir}, Name: "sub", Mode: 0o755, Mtime: 1e18})
	done, err := l.Commit(t.Context(), group)
	met := fault.Hit()
	fault.Heal()
	var pending *place.PendingError
	if err != nil && done != nil && !errors.As(err, &pending) {
		t.Fatalf("call %d: outcomes %v beside %v", n, done, err)
	}
	for item, in := range j.Intents { // as after a crash
		v, o, err := l.Recover(in, f.cfg.Boot)
		if err != nil || v == place.Taken {
			t.Fatalf("call %d, %v, item %d: %v %v", n, errno, item, v, err)
		}
		if v != place.Redo {
			j.Outcomes[item] = o
		}
	}
	for name, content := range contents {
		o, decided := j.Outcomes[items[name]]
		p := filepath.Join(dir, name)
		switch b, err := os.ReadFile(p); {
		case decided && o.OK() && (err != nil || string(b) != string(content)):
			t.Fatalf("call %d, %v: %s is successful but not there: %v", n, errno, name, err)
		case name == "taken" && err == nil && string(b) == "old" && !(decided && o.OK()):
		case err == nil && string(b) != string(content):
			t.Fatalf("call %d, %v: %s has other content under its final name", n, errno, name)
		case err == nil && !(decided && o.OK()):
			t.Fatalf("call %d, %v: %s is there but not successful: %+v", n, errno, name, o)
		}
	}
	if !met && len(j.Outcomes) != len(contents)+1 {
		t.Fatalf("nothing failed, but outcomes are %+v", j.Outcomes)
	}
	must(t, l.Sweep([]transfer.Path{transfer.Path(dir), transfer.Path(dir + "/sub"), transfer.Path(dir + "/sub/deep")}))
	if left := temporaries(t, dir); left != nil {
		t.Fatalf("call %d, %v: left %v", n, errno, left)
	}
	if fault.Broken != nil {
		t.Fatalf("call %d, %v: %v", n, errno, fault.Broken)
	}
	return met
}

func TestSyncErrorStartsTheGroupAgain(t *testing.T) {
	for _, op := range []string{"sync", "close", "dirsync", "meta"} {
		t.Run(op, func(t *testing.T) { startsAgain(t, op) })
	}
}

func startsAgain(t *testing.T, op string) {
	fault := disktest.NewFault(1, syscall.EIO)
	fault.Only = op
	f, dir := newFS(t, fault)
	j := disktest.NewJournal(fault)
	l := lander(f, j, nil)
	var group []place.Pending
	for i := range uint64(3) {
		p, err := write(l, i, string('a'+rune(i)), body(10, 1))
		must(t, err)
		group = append(group, p)
	}
	_, err := l.Commit(t.Context(), group)
	var failed *place.SyncError
	if !errors.As(err, &failed) || len(failed.Items) != 3 {
		t.Fatal(err)
	}
	wantKind(t, err, transfer.KindUnwritable)
	if len(j.Intents)+len(j.Outcomes) != 0 || temporaries(t, dir) != nil || exists(dir+"/a") {
		t.Fatal("something is left of the group")
	}
}

// R22: a directory sync that fails after the rename.
func TestDirSyncFailsAfterRename(t *testing.T) {
	fault := disktest.NewFault(0, syscall.EIO)
	fault.Only = "dirsync"
	f, dir := newFS(t, fault)
	j := disktest.NewJournal(fault)
	l := lander(f, j, nil)
	p, err := write(l, 1, "x", body(10, 1))
	must(t, err)
	fault.Before = func(op string) {
		if op == "rename" {
			fault.FailAt = fault.N + 1
		}
	}
	done, err := l.Commit(t.Context(), []place.Pending{p})
	var pending *place.PendingError
	if !errors.As(err, &pending) || len(done) != 0 || len(j.Outcomes) != 0 || len(j.Intents) != 1 {
		t.Fatalf("%v %v", done, err)
	}
	if !exists(filepath.Join(dir, "x")) {
		t.Fatal("not renamed")
	}
	v, o, err := l.Recover(pending.Intents[0], f.cfg.Boot)
	if err != nil || v != place.Done || !o.OK() || o.Taken != transfer.NotTaken {
		t.Fatalf("%v, %+v: %v", v, o, err)
	}
}

func TestNoSpace(t *testing.T) {
	fault := disktest.NewFault(1, syscall.ENOSPC)
	fault.Only = "allocate"
	f, dir := newFS(t, fault)
	l := lander(f, disktest.NewJournal(nil), nil)
	_, err := l.Create(1, "big", 1<<20, 1<<20)
	wantKind(t, err, transfer.KindNoSpace)
	if !strings.Contains(err.Error(), "big needs 1.0 MiB, and ") || !strings.Contains(err.Error(), "big") || temporaries(t, dir) != nil {
		t.Fatal(err, temporaries(t, dir))
	}
	p, err := l.Create(1, "big", 1<<20, 1<<20)
	must(t, err)
	fault.Only, fault.N, fault.FailAt = "write", 0, 2
	must(t, p.Write(body(1000, 1)))
	wantKind(t, p.Write(body(1000, 2)), transfer.KindNoSpace)
	must(t, p.Write(body(1000, 3))) // there is space again
	b := make([]byte, 2000)
	if _, err := p.ReadAt(b, 0); err != nil || string(b) != string(body(1000, 1))+string(body(1000, 3)) {
		t.Fatal("the write after the full disk is not where it belongs", err)
	}
	must(t, p.Discard())
}

func TestPartialFailsPermanently(t *testing.T) {
	fault := disktest.NewFault(1, syscall.EIO)
	fault.Only = "syncdata"
	f, dir := newFS(t, fault)
	l := lander(f, disktest.NewJournal(nil), nil)
	p, err := l.Create(1, "x", 10, 512)
	must(t, err)
	must(t, p.Write(body(10, 1)))
	wantKind(t, p.Sync(), transfer.KindUnwritable)
	for name, err := range map[string]error{"Sync": p.Sync(), "Write": p.Write([]byte("y")), "Skip": p.Skip(1)} {
		if err == nil {
			t.Errorf("%s works on a poisoned file", name)
		}
	}
	if n := strings.Count(strings.Join(fault.Log, " "), "syncdata"); n != 1 {
		t.Errorf("%d syncs", n)
	}
	must(t, p.Discard())
	if temporaries(t, dir) != nil {
		t.Error("the temporary is left")
	}
}

func TestTargetAndDir(t *testing.T) {
	f, _ := newFS(t, nil)
	for _, c := range []struct {
		into              bool
		name, target, dir transfer.Path
	}{
		{true, "d/x", "/b/d/x", "/b/d"}, {true, "x", "/b/x", "/b"}, {true, ".", "/b", "/b"},
		{false, "d/x", "/b/x", "/b"}, {false, "d", "/b", "/"}, {false, ".", "/b", "/"},
	} {
		l := f.Land(place.LandConfig{Destination: place.Destination{Resolution: transfer.Resolution{Base: "/b", Into: c.into}}})
		if got := l.Target(c.name); got != c.target {
			t.Errorf("%+v: target %s", c, got)
		}
		if got := l.Dirs(c.name); len(got) != 1 || got[0] != c.dir {
			t.Errorf("%+v: dir %s", c, got)
		}
	}
}

func TestTempName(t *testing.T) {
	a := disk.TempName(1, 2, testID, 35)
	if len(a) > 50 || !strings.HasPrefix(a, ".ferry-") || !strings.HasSuffix(a, "-z.part") || len(disk.TempPrefix(1, 2, testID)) != len(".ferry-")+17 {
		t.Error(a)
	}
	if a == disk.TempName(1, 3, testID, 35) || a == disk.TempName(2, 2, testID, 35) || disk.AsideName(1, testID, 1) == disk.TempName(1, 0, testID, 1) {
		t.Error("names coincide")
	}
}

// A walledDisk does not open one directory beneath a root.
type walledDisk struct {
	disk.Disk
	rel string
	err error
}

func (d *walledDisk) OpenBeneath(r disk.Root, rel string) (disk.Handle, error) {
	if d.err != nil && rel == d.rel {
		return nil, d.err
	}
	return d.Disk.OpenBeneath(r, rel)
}

// A directory above the destination that cannot be opened for a sync may be new: no name in it is safe. A directory
// that may only be searched existed before, and a missing one has no names.
func TestADirectoryThatCannotBeOpenedIsNotSynced(t *testing.T) {
	for _, c := range []struct {
		err    error
		passes bool
	}{{syscall.EMFILE, false}, {syscall.EIO, false}, {syscall.EACCES, true}, {syscall.ENOENT, true}, {syscall.ENOTDIR, true}} {
		wall := &walledDisk{Disk: disk.RealDisk(), rel: "x"}
		f, dir := newFS(t, wall)
		tree(t, dir, "x/y/w/")
		journal := disktest.NewJournal(nil)
		l := lander(f, journal, func(c *place.LandConfig) { c.Resolution.Base = transfer.Path(dir + "/x/y/w") })
		p, err := write(l, 1, "z", []byte("z"))
		must(t, err)
		wall.err = c.err
		outs, err := l.Commit(t.Context(), []place.Pending{p})
		if arrived := err == nil && len(outs) == 1 && outs[0].Err == nil; arrived != c.passes {
			t.Errorf("%v: %+v, %v", c.err, outs, err)
		}
		if sync := (*place.SyncError)(nil); !c.passes && (!errors.As(err, &sync) || len(journal.Intents) != 0 || exists(dir+"/x/y/w/z")) {
			t.Errorf("%v: %v, %d commits begun", c.err, err, len(journal.Intents))
		}
	}
}

// SyncDirs syncs every directory, also one without a commit, for names that become durable only at the end of a
// transfer. A missing directory is no error.
func TestSyncDirs(t *testing.T) {
	fault := disktest.NewFault(0, nil)
	f, dir := newFS(t, fault)
	tree(t, dir, "a/")
	l := f.Land(place.LandConfig{Transfer: testID})
	fault.Log = nil
	must(t, l.SyncDirs([]transfer.Path{transfer.Path(dir), transfer.Path(dir + "/gone"), transfer.Path(dir + "/a")}))
	if n := counted(fault.Log)["dirsync"]; n != 2 {
		t.Fatal(fault.Log)
	}
}

// Two destinations of one transfer lead to one name. The second file of a group fails, also with overwrite: otherwise
// the first would be reported at a place where it no longer is.
func TestOneNameTwiceInAGroup(t *testing.T) {
	f, dir := newFS(t, nil)
	l := lander(f, disktest.NewJournal(nil), func(c *place.LandConfig) { c.IfExists = transfer.IfExistsOverwrite })
	var group []place.Pending
	other := landing{l}.At(place.Destination{Resolution: transfer.Resolution{Base: transfer.Path(filepath.Join(dir, "same"))}, IfExists: transfer.IfExistsOverwrite})
	for item, at := range []*Landing{l, other.(landing).Landing} {
		p, err := write(at, uint64(item)+1, "same", []byte{'1' + byte(item)})
		must(t, err)
		group = append(group, p)
	}
	done, err := l.Commit(t.Context(), group)
	must(t, err)
	if len(done) != 2 || !done[0].OK() || done[1].OK() || transfer.KindOf(done[1].Err) != transfer.KindExists {
		t.Fatalf("%+v", done)
	}
	if read(t, filepath.Join(dir, "same")) != "1" || temporaries(t, dir) != nil {
		t.Fatalf("%s is there, and the temporaries %v", read(t, filepath.Join(dir, "same")), temporaries(t, dir))
	}
}
