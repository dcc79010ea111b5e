package campaign

import (
	"os"
	"path/filepath"
	"testing"
)

// A result stays on record after its packages have moved, and counts for no code.
func TestResultOfAMovedPackage(t *testing.T) {
	root := t.TempDir()
	name := filepath.Join(root, resultsDir, "moved.jsonl")
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	line := `{"campaign":"moved","full":5,"packages":["internal/gone"],"code":"abc","seed":1,"count":5}` + "\n"
	if err := os.WriteFile(name, []byte(line), 0o644); err != nil {
		t.Fatal(err)
	}
	all, err := Standings(root)
	if err != nil || len(all) != 1 {
		t.Fatalf("Standings gives %v, %v; want one campaign", all, err)
	}
	if s := all[0]; s.Count != 0 || s.Ever != 5 || s.Reached() || s.Whole == nil {
		t.Errorf("the standing is %+v; want no case on this code, 5 ever, and the last whole run", s)
	}
}
