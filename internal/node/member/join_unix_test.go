//go:build unix

package member

import (
	"os"
	"strings"
	"testing"

	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// Where a path has no absolute one, the error names the path as it was given.
func TestJoinWithoutAnAbsolutePath(t *testing.T) {
	dir := t.TempDir() + "/gone"
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := JoinIn(t.Context(), enrol.Token{}, "mine", identity.Name{}); transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), "the directory mine has no absolute path") {
		t.Errorf("the error is %v", err)
	}
}
