//go:build linux

package flow_test

import (
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"testing"

	"ferry/test/flow/network"
)

// TestSlowDigestsAreThoseOfTheFiles uses a digest that is slower than the transfer, and is computed beside it for
// several files at once. It must be the digest of the file at both ends. This holds for empty files, files that fit
// into a message, files that are read ahead, and larger ones.
func TestSlowDigestsAreThoseOfTheFiles(t *testing.T) {
	t.Parallel()
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}, Direct: "plain"})
	n.File("ALPHA", "in/empty", 1, 0)
	for k := range 40 {
		n.File("ALPHA", fmt.Sprintf("in/small/%d", k), uint64(k), int64(k)*977)
		n.File("ALPHA", fmt.Sprintf("in/%d", k), 100+uint64(k), int64(k)*99_991+1)
	}
	n.File("ALPHA", "in/checkpoints", 2, 30*mib+1)
	n.File("ALPHA", "in/large", 3, 128*mib+5)
	for _, c := range []struct {
		name, lane string
		method     func() hash.Hash
	}{{"md5", "direct", md5.New}, {"md5", "queue", md5.New}, {"sha256", "direct", sha256.New}} {
		dir := c.name + c.lane
		sum := n.Send("-r", "--checksum", c.name, "--lane", c.lane, "ALPHA:in", "BETA:"+dir).Ends("successful", 0).Summary
		n.Same("ALPHA", "in", "BETA", dir)
		records := n.Audit(sum.ID)
		for _, role := range []string{"source", "destination"} {
			files := 0
			for _, o := range n.Outcomes(records, role) {
				if o.Digest == "" {
					continue // a directory
				}
				files++
				data, err := os.ReadFile(o.Path)
				must(t, err)
				h := c.method()
				h.Write(data)
				if want := c.name + ":" + hex.EncodeToString(h.Sum(nil)); o.Digest != want || o.SrcSum != want {
					t.Errorf("%s, %s: the %s has %s, and %s of the source; it is %s", o.Path, c.lane, role, o.Digest, o.SrcSum, want)
				}
			}
			if files != 83 {
				t.Errorf("the %s has %d files with a digest on record, not 83", role, files)
			}
		}
	}
}
