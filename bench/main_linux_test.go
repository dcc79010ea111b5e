package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// ferry is the path of the binary that the tests run, built from the present tree.
var ferry string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "bench-test-")
	if err == nil {
		ferry = filepath.Join(dir, "ferry")
		c := exec.Command("go", "build", "-ldflags=-w", "-o", ferry, "./cmd/ferry")
		c.Dir = ".." // Ferry is a module of its own
		c.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, e := c.CombinedOutput(); e != nil {
			err = fmt.Errorf("ferry cannot be built: %w\n%s", e, text)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// newEnv returns an Env of the smallest size, in the test's own directory. Its 1 MB is 1 KiB, and a measurement moves
// one file of 100 of them.
func newEnv(t *testing.T) *Env {
	return &Env{Ferry: ferry, Version: "test", Dir: t.TempDir(), Rounds: 1, Short: true, Total: 128 << 10, Notices: t.Output()}
}
