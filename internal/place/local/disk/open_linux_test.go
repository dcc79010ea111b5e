package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"ferry/internal/sys/filetest"

	"golang.org/x/sys/unix"
)

// TestOpenBeneathWithoutOpenat2: components are opened one by one as openat2 would open them.
func TestOpenBeneathWithoutOpenat2(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	tree(t, dir, "top/in/deep/x", "outside/y")
	for name, to := range map[string]string{"good": "in", "rel": "../outside", "abs": filepath.Join(dir, "outside"), "absgood": filepath.Join(dir, "top/in")} {
		must(t, os.Symlink(to, filepath.Join(dir, "top", name)))
	}
	root, err := os.Open(filepath.Join(dir, "top"))
	must(t, err)
	defer root.Close()
	both := map[string]func(*os.File, string, int) (int, error){"openat2": openBeneath, "parts": openParts}
	for rel, want := range map[string]error{".": nil, "in/deep": nil, "good/deep": nil, "in/../in": nil, "rel": unix.EXDEV, "abs": unix.EXDEV,
		"absgood/deep": unix.EXDEV, "..": unix.EXDEV, "../top": unix.EXDEV, "none": unix.ENOENT, "in/none": unix.ENOENT, "in/deep/x": unix.ENOTDIR} {
		for name, open := range both {
			fd, err := open(root, rel, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
			if !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("%s of %s: %v, want %v", name, rel, err, want)
			}
			if err == nil {
				f := os.NewFile(uintptr(fd), rel)
				if _, err := f.Readdirnames(0); err != nil && err != io.EOF {
					t.Errorf("%s of %s: %v", name, rel, err)
				}
				f.Close()
			}
		}
	}

	filetest.AsUser(t, dir)
	filetest.SearchOnly(t, filepath.Join(dir, "top/in"), 0o111)
	fd, err := openParts(root, "in/deep", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	must(t, err)
	unix.Close(fd)
}

func TestInterruptedCallsAreRepeated(t *testing.T) {
	for _, want := range []error{nil, syscall.EIO} {
		n := 0
		err := retry(func() error {
			if n++; n < 4 {
				return syscall.EINTR
			}
			return want
		})
		if err != want || n != 4 {
			t.Errorf("%d calls: %v, want %v", n, err, want)
		}
	}
}
