//go:build linux

package flow_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer/transfertest"
	"ferry/test/flow/network"
)

// TestHostileNames sends files with names that look like locations, patterns, queues, data sets, variables and options.
// They arrive under exactly these names: by a walk, by a list, by a wildcard, by a monitor, by a monitor that names
// each destination with a variable, and in a retry of a transfer. A preview has the same names.
func TestHostileNames(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	all := transfertest.Hostile()
	for _, dir := range []string{"src", "in", "each", "trg"} {
		must(t, os.MkdirAll(n.Path("ALPHA", dir), 0o755))
	}
	for _, name := range all {
		must(t, os.WriteFile(n.Path("ALPHA", "src")+"/"+name, transfertest.Content(name), 0o644))
	}
	// arrived compares names and bytes.
	arrived := func(dir string, names []string) {
		t.Helper()
		found, err := os.ReadDir(n.Path("BETA", dir))
		must(t, err)
		if len(found) != len(names) {
			t.Errorf("%s has %d files, not %d", dir, len(found), len(names))
		}
		for _, name := range names {
			if got, err := os.ReadFile(n.Path("BETA", dir) + "/" + name); err != nil || !bytes.Equal(got, transfertest.Content(name)) {
				t.Errorf("%s/%q has %q, %v", dir, name, got, err)
			}
		}
	}

	n.Send("-r", "ALPHA:src/.", "BETA:walk/").OK()
	arrived("walk", all)

	list := filepath.Join(t.TempDir(), "list")
	must(t, os.WriteFile(list, []byte(strings.Join(all, "\x00")+"\x00"), 0o644))
	listed := n.Send("--files-from", list, "ALPHA:src", "BETA:list/").OK().Summary.ID
	arrived("list", all)

	previewed(t, n.Ferry("send", "--dry-run", "--json", "-r", "ALPHA:src/.", "BETA:walk/"), n.Path("BETA", "walk"), all)
	retried(t, n, listed, func(dir string) { arrived(dir, all) })

	var visible []string
	for _, name := range all {
		if name[0] != '.' {
			visible = append(visible, name)
		}
	}
	n.Send("ALPHA:src/*", "BETA:match/").OK()
	arrived("match", visible)

	var plain []string // names without a part, between separators of any host, that leads to another directory
	for _, name := range visible {
		if !strings.HasPrefix(name, `\`) || name != `\.` {
			plain = append(plain, name)
		}
	}
	n.Ferry("monitor", "create", "all", "--agent", "ALPHA", "--dir", "in", "--match", "*", "--to", "BETA:watched/", "--poll", "500ms", "--batch", "100").OK()
	n.Ferry("monitor", "create", "each", "--agent", "ALPHA", "--dir", "each", "--match", "*", "--to", "BETA:${SubPath}", "--poll", "500ms", "--batch", "1000").OK()
	for _, name := range plain {
		for _, dir := range []string{"in", "each"} {
			must(t, os.WriteFile(n.Path("ALPHA", dir)+"/.new", transfertest.Content(name), 0o644))
			must(t, os.Rename(n.Path("ALPHA", dir)+"/.new", n.Path("ALPHA", dir)+"/"+name))
		}
	}
	must(t, os.MkdirAll(n.Path("BETA", "watched"), 0o755))
	n.UntilEvery("the watched files arrive", 500*time.Millisecond, func() bool { return n.Count("BETA", "watched") == len(plain) })
	arrived("watched", plain)
	n.UntilEvery("each file arrives under its name", 500*time.Millisecond, func() bool {
		m := n.MonitorOf("ALPHA", "each")
		if m.Triggers == 0 || m.Waiting > 0 {
			return false
		}
		for _, name := range plain {
			if got, err := os.ReadFile(n.Path("BETA", ".") + "/" + name); err != nil || !bytes.Equal(got, transfertest.Content(name)) {
				return false
			}
		}
		return true
	})
}

// previewed expects a preview to name each file, at its source and in the directory of the destination, where it exists
// already.
func previewed(t *testing.T, r network.Result, dir string, names []string) {
	t.Helper()
	var p struct{ List []map[string]any }
	must(t, json.Unmarshal([]byte(r.Stdout), &p))
	exact := func(it map[string]any, key string) string {
		text, _ := it[key].(string)
		if b, ok := it[key+"_bytes"].(string); ok {
			raw, err := base64.StdEncoding.DecodeString(b)
			must(t, err)
			text = string(raw)
		}
		return text
	}
	seen := map[string]bool{}
	for _, it := range p.List {
		name := exact(it, "name")
		if target := exact(it, "target"); target != dir+"/"+name || it["error"] == nil {
			t.Errorf("%q would go to %q, with %v", name, target, it["error"])
		}
		seen[name] = true
	}
	for _, name := range names {
		if !seen[name] {
			t.Errorf("the preview does not name %q", name)
		}
	}
	if r.Code != 40 || len(p.List) != len(names) {
		t.Errorf("the preview has %d files, and ends with %d", len(p.List), r.Code)
	}
}

// retried expects the retry of a transfer to send exactly the files that failed, and the retry of one with a list all
// files of it.
func retried(t *testing.T, n *network.Network, list string, again func(dir string)) {
	t.Helper()
	failed := n.Send("-r", "ALPHA:src/.", "BETA:walk/").Ends("failed", 40).Summary.ID
	for dir, retry := range map[string][]string{"walk": {failed, "--failed"}, "list": {list, "--if-exists", "overwrite"}} {
		must(t, os.RemoveAll(n.Path("BETA", dir)))
		n.Ferry(append([]string{"transfer", "retry"}, retry...)...).OK()
		again(dir)
	}
}
