//go:build unix

package peers

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func cp(t *testing.T) Client {
	all := Clients()
	return all[slices.IndexFunc(all, func(c Client) bool { return c.Name == "cp" })]
}

func TestCopy(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"sets/one/0/a": "aaa", "sets/one/1/b": strings.Repeat("b", 100_000)} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := Place{Dir: t.TempDir(), Root: root}
	wall, cost, err := cp(t).Copy(t.Context(), p, nil, Work{Set: "sets/one", To: "copies/1", Files: []string{"0/a", "1/b"}})
	if err != nil || wall <= 0 || cost.Peak <= 0 {
		t.Fatalf("%v, %+v, %v", wall, cost, err)
	}
	for _, name := range []string{"0/a", "1/b"} {
		if read(t, filepath.Join(root, "copies/1/one", name)) != read(t, filepath.Join(root, "sets/one", name)) {
			t.Errorf("%s was not copied", name)
		}
	}
	if left, err := os.ReadDir(p.Dir); err != nil || len(left) > 0 {
		t.Errorf("the client left %v, %v", left, err)
	}
	_, _, err = cp(t).Copy(t.Context(), p, nil, Work{Set: "sets/none", To: "copies/2"})
	if err == nil || !strings.Contains(err.Error(), "sets/none") {
		t.Errorf("a copy of nothing: %v", err)
	}
}

// Servers fork, and their children are killed with them.
func TestChildrenAreKilled(t *testing.T) {
	c := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ownGroup(c)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	child, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || syscall.Kill(child, 0) != nil {
		t.Fatalf("the child %q is not there: %v", line, err)
	}
	killGroup(c)
	// The child holds the other end of the pipe, which closes when the child ends.
	if _, err := r.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the child lives: %v", err)
	}
	c.Wait()
}
