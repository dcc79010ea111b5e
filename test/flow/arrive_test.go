//go:build linux

package flow_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOneFileIsMovedAndOnRecord sends one file from agent to agent. The audit has the originator, the last records of
// both sides, and equal digests of both.
func TestOneFileIsMovedAndOnRecord(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "in/a", 1, 5<<20)

	sum := n.Send("--job", "nightly", "ALPHA:in/a", "BETA:out/").Ends("successful", 0).Summary

	n.Same("ALPHA", "in/a", "BETA", "out/a")
	if sum.Files != 1 || sum.Bytes != 5<<20 || sum.Lane == "" || sum.Resumes != 0 || sum.BytesResent != 0 {
		t.Errorf("the summary says %+v", sum)
	}
	records := n.Audit(sum.ID)
	accepted := false
	for _, r := range records {
		if r.Source != "ALPHA" || r.Destination != "BETA" || r.Job != "nightly" || !strings.Contains(string(r.Originator), "user") {
			t.Errorf("an audit record lacks who, whence, whither or the job: %+v", r)
		}
		accepted = accepted || r.Event == "accepted"
	}
	if !accepted {
		t.Error("the acceptance is not on record")
	}
	for _, role := range []string{"source", "destination"} {
		items := n.Outcomes(records, role)
		if len(items) != 1 {
			t.Fatalf("the %s has %d items on record, not 1", role, len(items))
		}
		o := items[0]
		if !strings.HasPrefix(o.Digest, "xxh3:") || o.SrcSum != o.Digest || o.Size != 5<<20 || o.Error != nil {
			t.Errorf("the %s's record of the item says %+v", role, o)
		}
	}
	n.Sound()
	n.NoTemporaries("BETA")
}

// TestTreeArrivesAsItWas sends a tree with empty directories and files, holes, modes and times, and unusual names. It
// arrives unchanged.
func TestTreeArrivesAsItWas(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	names := []string{"with blank", "quote\"and'tick", "new\nline", strings.Repeat("x", 255), "not utf-8 \xff\xfe", "%41", "-r", "ümläut", "back\\slash"}
	for k, name := range names {
		n.File("ALPHA", "tree/names/"+name, uint64(k), int64(k)*1000)
	}
	n.File("ALPHA", "tree/zero", 0, 0)
	n.Files("ALPHA", "tree/deep/er/est", 9, 40, 3000)
	for _, dir := range []string{"tree/empty", "tree/deep/empty too"} {
		must(t, os.MkdirAll(n.Path("ALPHA", dir), 0o750))
	}
	must(t, os.Chmod(n.Path("ALPHA", "tree/names/with blank"), 0o600))
	must(t, os.Chmod(n.Path("ALPHA", "tree/names/%41"), 0o755))
	must(t, os.Chmod(n.Path("ALPHA", "tree/empty"), 0o700))
	sparse := n.File("ALPHA", "tree/sparse", 3, 1<<20)
	must(t, os.Truncate(sparse, 200<<20))
	must(t, os.Chtimes(sparse, time.Unix(1e9, 5), time.Unix(1e9, 7)))

	sum := n.Send("-r", "--permissions", "preserve", "ALPHA:tree", "BETA:out/").Ends("successful", 0).Summary

	n.Same("ALPHA", "tree", "BETA", "out/tree")
	if want := int64(len(names) + 1 + 40 + 1); sum.Files != want {
		t.Errorf("%d files on the summary, not %d", sum.Files, want)
	}
	info, err := os.Stat(n.Path("BETA", "out/tree/sparse"))
	must(t, err)
	if blocks := info.Sys().(*syscall.Stat_t).Blocks; blocks*512 > 4<<20 {
		t.Errorf("the sparse file takes %d bytes at the destination: its holes were filled", blocks*512)
	}
	n.Audit(sum.ID)
	n.Sound()
	n.NoTemporaries("BETA")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
