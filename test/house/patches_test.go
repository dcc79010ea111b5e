package house_test

import (
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ferry/test/mutants/overlay"
)

// TestPatchesApply applies each planted bug of test/mutants to the sources, and checks the types of the patched
// packages. It finds a patch that does not fit the sources any more, before make test-mutants needs the patch.
func TestPatchesApply(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	ours, check, err := packages(root)
	if err != nil {
		t.Fatal(err)
	}
	bugs, err := overlay.Bugs(root)
	if err != nil || len(bugs) == 0 {
		t.Fatalf("there are %d patches: %v", len(bugs), err)
	}
	for _, bug := range bugs {
		patched, err := overlay.Patched(root, bug)
		if err != nil {
			t.Error(err)
			continue
		}
		dirs := map[string]bool{}
		for file := range patched {
			dirs[path.Dir(file)] = true
		}
		for dir := range dirs {
			n := slices.IndexFunc(ours, func(p listed) bool { return p.ImportPath == "ferry/"+dir })
			if n < 0 {
				t.Errorf("%s.patch changes %s, and there is no such package", bug, dir)
				continue
			}
			sources, err := ours[n].read()
			if err != nil {
				t.Fatal(err)
			}
			for file, text := range patched {
				if name, in := strings.CutPrefix(file, dir+"/"); in && !strings.Contains(name, "/") {
					sources[name] = text
				}
			}
			if _, err := check(ours[n].ImportPath, sources); err != nil {
				t.Errorf("%s.patch does not build: %v", bug, err)
			}
		}
	}
}
