package overlay

import (
	"strings"
	"testing"
)

func TestReadPatch(t *testing.T) {
	const text = "--- a/x/y.go\n+++ b/x/y.go\n@@ -3,3 +3,3 @@\n a\n-b\n+c\n \n@@ -9 +9,2 @@\n d\n+e\n"
	files := map[string]string{"x/y.go": "1\na\nb\n\n2\nd\n3\n"}
	read := func(file string) (string, error) { return files[file], nil }
	changes, err := readPatch("p", text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := apply("p", changes, read)
	if want := "1\na\nc\n\n2\nd\ne\n3\n"; err != nil || got["x/y.go"] != want {
		t.Errorf("patched: %q, %v; want %q", got["x/y.go"], err, want)
	}
	files["x/y.go"] += "a\nb\n\n"
	if _, err := apply("p", changes, read); err == nil || !strings.Contains(err.Error(), "2 times") {
		t.Errorf("a hunk for two places: %v", err)
	}
	for _, bad := range []string{"", "a\n", "+++ b/x\n a\n", "--- a/x\n+++ b/x\n"} {
		if _, err := readPatch("p", bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}
