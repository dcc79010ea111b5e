package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

// A root gets an absolute path and keeps its options. A directory with a name that ends as an option is refused, because
// its absolute path would be another root.
func TestAbsoluteRoots(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data,ro")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	got, err := absoluteRoots([]string{"in,wo", "/"})
	if err != nil || len(got) != 2 || got[0] != filepath.Join(dir, "in,wo") {
		t.Errorf("the roots are %q, %v", got, err)
	}
	if got, err := absoluteRoots([]string{"."}); transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), dir) {
		t.Errorf("the directory is the root %q, %v", got, err)
	}
}
