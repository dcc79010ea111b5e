//go:build linux

package fuse_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"ferry/test/faults/fuse"
	"ferry/test/flow/network"
)

// ferry is the program, built once.
var ferry string

func TestMain(m *testing.M) {
	if name := os.Getenv("FERRY_FUSE_STORE"); name != "" {
		if err := useStore(name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if os.Geteuid() != 0 {
		fmt.Println("test/faults/fuse mounts file systems, which only root may do, and nothing of it ran here")
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if _, asked := os.LookupEnv("CAMPAIGN"); !asked || os.Getenv("COUNT") == "short" {
		fmt.Println("test/faults/fuse runs under make test-faults in its full form, and nothing of it ran here")
		return 0
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		fmt.Println("there is no FUSE here, and nothing of test/faults/fuse ran:", err)
		return 0
	}
	dir, err := os.MkdirTemp("", "ferry-fuse-")
	if err == nil {
		defer os.RemoveAll(dir)
		ferry, err = network.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want(t *testing.T, err, is error) {
	t.Helper()
	if !errors.Is(err, is) {
		t.Fatalf("the error is %v, not %v", err, is)
	}
}

func mounted(t *testing.T, o fuse.Options) (*fuse.FS, string) {
	t.Helper()
	f := fuse.Mount(t, t.TempDir(), o)
	return f, f.Dir + "/"
}

func write(t *testing.T, name, content string) {
	t.Helper()
	must(t, os.WriteFile(name, []byte(content), 0o640))
}

func holds(t *testing.T, name, content string) {
	t.Helper()
	got, err := os.ReadFile(name)
	must(t, err)
	if string(got) != content {
		t.Fatalf("%s holds %q, not %q", name, got, content)
	}
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	must(t, err)
	for _, d := range list {
		all = append(all, d.Name())
	}
	return all
}

// TestFuseLoopback expects changes through the mount to reach the backing directory.
func TestFuseLoopback(t *testing.T) {
	f, top := mounted(t, fuse.Options{})
	must(t, os.MkdirAll(top+"a/b", 0o750))
	write(t, top+"a/b/f", "content")
	when := time.Unix(1_700_000_000, 123_456_789)
	must(t, os.Chtimes(top+"a/b/f", when, when))
	must(t, os.Chmod(top+"a/b/f", 0o604))
	info, err := os.Stat(filepath.Join(f.Backing, "a/b/f"))
	must(t, err)
	if info.Mode() != 0o604 || !info.ModTime().Equal(when) || info.Size() != 7 {
		t.Fatalf("the backing file has mode %s, time %s, size %d", info.Mode(), info.ModTime(), info.Size())
	}
	must(t, os.Rename(top+"a/b/f", top+"a/g"))
	must(t, os.Symlink("a/g", top+"link"))
	must(t, os.Link(top+"a/g", top+"a/h"))
	must(t, syscall.Mkfifo(top+"fifo", 0o600))
	holds(t, top+"link", "content")
	holds(t, filepath.Join(f.Backing, "a/h"), "content")
	if a, err := os.Lstat(top + "a/h"); err != nil || a.Sys().(*syscall.Stat_t).Nlink != 2 {
		t.Fatalf("a/h has %v, %v", a, err)
	}
	if a, err := os.Lstat(top + "fifo"); err != nil || a.Mode().Type() != os.ModeNamedPipe {
		t.Fatalf("fifo is %v, %v", a, err)
	}
	must(t, os.Remove(top+"a/h"))
	must(t, os.Remove(top+"a/b"))
	if got := names(t, top); !slices.Equal(got, []string{"a", "fifo", "link"}) {
		t.Fatalf("there is %q", got)
	}
	want(t, unix.Renameat2(unix.AT_FDCWD, top+"link", unix.AT_FDCWD, top+"fifo", unix.RENAME_NOREPLACE), syscall.EEXIST)
	want(t, os.WriteFile(top+strings.Repeat("n", 256), nil, 0o600), syscall.ENAMETOOLONG)
}

// TestFuseManyNames lists a directory of 3,000 names completely.
func TestFuseManyNames(t *testing.T) {
	_, top := mounted(t, fuse.Options{})
	for k := range 3000 {
		write(t, fmt.Sprintf("%sf%04d", top, k), "")
	}
	got := names(t, top)
	if len(got) != 3000 || got[0] != "f0000" || got[2999] != "f2999" {
		t.Fatalf("%d names of 3000 were read", len(got))
	}
}

// TestFuseSpace makes files with holes and reserved space, and truncates and extends them.
func TestFuseSpace(t *testing.T) {
	_, top := mounted(t, fuse.Options{})
	f, err := os.Create(top + "f")
	must(t, err)
	defer f.Close()
	fd := int(f.Fd())
	blocks := func() int64 {
		var st unix.Stat_t
		must(t, unix.Fstat(fd, &st))
		return st.Blocks * 512
	}
	must(t, unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20))
	if info, _ := f.Stat(); info.Size() != 0 || blocks() < 1<<20 {
		t.Fatalf("size %d, %d bytes reserved", info.Size(), blocks())
	}
	must(t, unix.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE|unix.FALLOC_FL_PUNCH_HOLE, 0, 1<<20))
	must(t, f.Truncate(2<<20))
	_, err = f.WriteAt([]byte("x"), 1<<20)
	must(t, err)
	if at, err := unix.Seek(fd, 0, unix.SEEK_DATA); err != nil || at != 1<<20 {
		t.Fatalf("the data begin at %d, %v", at, err)
	}
	must(t, f.Sync())
	must(t, unix.Fdatasync(fd))
	must(t, f.Truncate(10))
	if info, _ := f.Stat(); info.Size() != 10 {
		t.Fatalf("size %d after it was cut", info.Size())
	}
	var st, back unix.Statfs_t
	must(t, unix.Statfs(top, &st))
	must(t, unix.Statfs(os.TempDir(), &back))
	if st.Blocks == 0 || st.Namelen != back.Namelen {
		t.Fatalf("statfs: %+v", st)
	}
}

// TestFuseFold expects names that differ in case to be one name, in its first spelling.
func TestFuseFold(t *testing.T) {
	f, top := mounted(t, fuse.Options{Fold: true})
	write(t, top+"ReadMe", "1")
	holds(t, top+"README", "1")
	write(t, top+"readme", "2") // opens the same file
	holds(t, filepath.Join(f.Backing, "ReadMe"), "2")
	if _, err := os.OpenFile(top+"README", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); !os.IsExist(err) {
		t.Fatalf("a second spelling was created: %v", err)
	}
	want(t, os.Mkdir(top+"readME", 0o700), syscall.EEXIST)
	write(t, top+"new", "3")
	want(t, unix.Renameat2(unix.AT_FDCWD, top+"new", unix.AT_FDCWD, top+"README", unix.RENAME_NOREPLACE), syscall.EEXIST)
	must(t, os.Rename(top+"new", top+"README"))
	holds(t, filepath.Join(f.Backing, "ReadMe"), "3")
	must(t, os.MkdirAll(top+"Dir/Sub", 0o700))
	write(t, top+"dIR/sUB/É", "4")
	holds(t, filepath.Join(f.Backing, "Dir/Sub/É"), "4")
	holds(t, top+"DIR/SUB/é", "4")
	if got := names(t, top); !slices.Equal(got, []string{"Dir", "ReadMe"}) {
		t.Fatalf("there is %q", got)
	}
	write(t, top+"\xffA", "5")
	write(t, top+"\xfeA", "6")
	holds(t, top+"\xffa", "5")
	must(t, os.Remove(top+"README"))
	if _, err := os.Lstat(top + "readme"); !os.IsNotExist(err) {
		t.Fatalf("it is still there: %v", err)
	}
}

// TestFuseLacks expects a file system to refuse operations that it lacks.
func TestFuseLacks(t *testing.T) {
	_, top := mounted(t, fuse.Options{NoReplace: true, NoLinks: true})
	write(t, top+"a", "1")
	want(t, unix.Renameat2(unix.AT_FDCWD, top+"a", unix.AT_FDCWD, top+"b", unix.RENAME_NOREPLACE), syscall.EINVAL)
	want(t, os.Link(top+"a", top+"b"), syscall.EPERM)
	must(t, os.Rename(top+"a", top+"b"))
	holds(t, top+"b", "1")
}

// TestFuseFaults makes each kind of call fail, once or until Heal. It works again after Heal.
func TestFuseFaults(t *testing.T) {
	f, top := mounted(t, fuse.Options{})
	write(t, top+"f", "0123456789")
	must(t, os.Mkdir(top+"d", 0o700))
	file, err := os.OpenFile(top+"f", os.O_RDWR, 0)
	must(t, err)
	defer file.Close()
	dir, err := os.Open(top + "d")
	must(t, err)
	defer dir.Close()
	round := 0
	fresh := func() string { round++; return fmt.Sprint(top, "new", round) }
	for op, do := range map[fuse.Op]func() error{
		fuse.OpLookup: func() error { // of a name that the kernel cannot know
			if _, err := os.Lstat(fresh()); !os.IsNotExist(err) {
				return err
			}
			return nil
		},
		fuse.OpOpen:     func() error { g, err := os.Open(top + "f"); g.Close(); return err },
		fuse.OpRead:     func() error { _, err := os.ReadFile(top + "f"); return err },
		fuse.OpCreate:   func() error { return os.WriteFile(fresh(), nil, 0o600) },
		fuse.OpMkdir:    func() error { return os.Mkdir(fresh(), 0o700) },
		fuse.OpWrite:    func() error { _, err := file.WriteAt([]byte("x"), 3); return err },
		fuse.OpTruncate: func() error { return file.Truncate(10) },
		fuse.OpAllocate: func() error { return unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_KEEP_SIZE, 0, 10) },
		fuse.OpMeta:     func() error { return os.Chmod(top+"f", 0o600) },
		fuse.OpSync:     func() error { return unix.Fdatasync(int(file.Fd())) },
		fuse.OpSyncDir:  dir.Sync,
		fuse.OpRename:   renames(t, top),
		fuse.OpLink:     func() error { return os.Link(top+"f", fresh()) },
		fuse.OpUnlink:   removes(t, top),
		fuse.OpReadDir:  func() error { _, err := os.ReadDir(top); return err },
	} {
		t.Run(string(op), func(t *testing.T) {
			for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES} {
				before := f.Calls(op)
				must(t, do())
				each := f.Calls(op) - before
				if each == 0 {
					t.Fatal("the call was not counted")
				}
				if op != fuse.OpRead {
					f.Fail(fuse.Fault{Op: op, Nth: each + 1, Errno: errno})
					must(t, do())
					want(t, do(), errno)
					must(t, do())
					f.Heal()
				}
				f.Fail(fuse.Fault{Op: op, Errno: errno, Forever: true})
				want(t, do(), errno)
				want(t, do(), errno)
				f.Heal()
				must(t, do())
			}
		})
	}
	f.Fail(fuse.Fault{Op: fuse.OpSync, Name: "other", Errno: syscall.EIO, Forever: true})
	must(t, file.Sync())
	if f.Failed() < 5*(15*3-1) {
		t.Fatalf("%d failures were counted", f.Failed())
	}
}

// renames returns a function that gives a file one of two names, in turn.
func renames(t *testing.T, top string) func() error {
	from, to := top+"from", top+"to"
	write(t, from, "")
	return func() error {
		err := os.Rename(from, to)
		if err == nil {
			from, to = to, from
		}
		return err
	}
}

// removes returns a function that removes one of many files.
func removes(t *testing.T, top string) func() error {
	left := 100
	for k := range left {
		write(t, fmt.Sprint(top, "old", k), "")
	}
	return func() error { left--; return unix.Unlink(fmt.Sprint(top, "old", left)) }
}

// TestFuseThrottle expects writes never to exceed the permitted rate.
func TestFuseThrottle(t *testing.T) {
	f, top := mounted(t, fuse.Options{WritesPerS: 4 << 20})
	start := time.Now()
	must(t, os.WriteFile(top+"f", make([]byte, 2<<20), 0o600))
	if took := time.Since(start); took < 350*time.Millisecond {
		t.Fatalf("2 MiB at 4 MiB/s took %s", took)
	}
	f.Throttle(0)
	must(t, os.WriteFile(top+"f", make([]byte, 64<<20), 0o600))
}

// useStore opens a bbolt store, which maps and locks its file. It writes, closes the store and reads it again.
func useStore(name string) error {
	bucket := []byte("b")
	for round := range 3 {
		db, err := bbolt.Open(name, 0o600, &bbolt.Options{Timeout: 10 * time.Second})
		if err != nil {
			return err
		}
		if _, err := bbolt.Open(name, 0o600, &bbolt.Options{Timeout: 50 * time.Millisecond}); err == nil {
			return errors.New("it can be opened twice: locks do not work")
		}
		for k := range 50 {
			err := db.Update(func(tx *bbolt.Tx) error {
				b, err := tx.CreateBucketIfNotExists(bucket)
				if err != nil {
					return err
				}
				return b.Put(fmt.Appendf(nil, "%d-%d", round, k), bytes.Repeat([]byte{byte(k)}, 20<<10))
			})
			if err != nil {
				return err
			}
		}
		err = db.View(func(tx *bbolt.Tx) error {
			for r := range round + 1 {
				for k := range 50 {
					if got := tx.Bucket(bucket).Get(fmt.Appendf(nil, "%d-%d", r, k)); !bytes.Equal(got, bytes.Repeat([]byte{byte(k)}, 20<<10)) {
						return fmt.Errorf("round %d: record %d-%d is not what was written", round, r, k)
					}
				}
			}
			return nil
		})
		if err := errors.Join(err, db.Close()); err != nil {
			return err
		}
	}
	return nil
}

// TestFuseStore uses a store that maps, locks and syncs its file, in a process of its own.
func TestFuseStore(t *testing.T) {
	f, top := mounted(t, fuse.Options{})
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "FERRY_FUSE_STORE="+top+"store.db")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if f.Calls(fuse.OpSync) < 150 {
		t.Fatalf("150 transactions made %d syncs", f.Calls(fuse.OpSync))
	}
}

// TestFuseFerry runs a whole network with its roots and state directories on the mount.
func TestFuseFerry(t *testing.T) {
	f := fuse.Mount(t, t.TempDir(), fuse.Options{Fold: true})
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}, Dir: f.Dir})
	n.Files("ALPHA", "in", 1, 300, 10_000)
	n.File("ALPHA", "in/Large", 2, 32<<20)
	f.Throttle(8 << 20) // so that the agent can be killed during the transfer
	s := n.SendAsync("-r", "ALPHA:in", "BETA:out/")
	n.Growing("BETA", 1<<20)
	n.Kill("BETA")
	f.Throttle(0)
	n.Start("BETA")
	s.Wait().Ends("successful", 0)
	n.Same("ALPHA", "in", "BETA", "out/in")
	n.NoTemporaries("ALPHA", "BETA")
	n.Sound()
}
