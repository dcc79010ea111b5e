//go:build linux

package source_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local"
	"ferry/internal/transfer"
	"ferry/test/campaign"
)

// TestCampaignDirectoryRuns walks directories with too many names for the walk's memory, breaks off and resumes. The
// items equal those of a walk in memory, in the same order, each once.
func TestCampaignDirectoryRuns(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "directory-runs", Unit: "walks", Full: 200, Short: 3,
		What: "directories of random names walked with little memory, broken off at random items and gone on with in a new process"},
		func(t *testing.T, c *campaign.C) {
			c.Loop(t, func(t *testing.T, _ uint64, r *rand.Rand) { littleMemory(t, r) })
		})
}

func littleMemory(t *testing.T, r *rand.Rand) {
	dir, err := os.MkdirTemp("", "ferry-runs-")
	must(t, err)
	defer os.RemoveAll(dir)
	names(t, r, dir+"/root", 3)
	sources := [][]transfer.Path{{"."}, {"*"}, {"**"}, {"?*", "."}, {"*a*"}}[r.IntN(5)]
	all, _ := walkFrom(t, local.Config{Roots: []string{dir + "/root"}, NamesMemory: 1 << 30}, sources, nil, 0, -1)
	little := local.Config{Roots: []string{dir + "/root"}, Scratch: dir + "/scratch", NamesMemory: 1}
	var got []found
	for {
		var last *found
		if len(got) > 0 {
			last = &got[len(got)-1]
		}
		some, ended := walkFrom(t, little, sources, last, len(got), r.IntN(len(all)+2))
		if got = append(got, some...); ended {
			break
		}
	}
	if !slices.EqualFunc(got, all, func(a, b found) bool {
		return a.arg == b.arg && a.it.Source == b.it.Source && a.it.Type == b.it.Type
	}) {
		t.Errorf("%v: %d items, or others, or in another order than the %d of a walk in memory", sources, len(got), len(all))
	}
	if left, err := os.ReadDir(dir + "/scratch"); err != nil || len(left) > 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// names fills a directory with files of random names, and some directories.
func names(t *testing.T, r *rand.Rand, dir string, depth int) {
	must(t, os.MkdirAll(dir, 0o777))
	for k := range 100 + r.IntN(800) {
		name := make([]byte, 1+r.IntN(200))
		for i := range name {
			name[i] = "abcXYZ09.~ \xff\xe4"[r.IntN(13)]
		}
		at := filepath.Join(dir, fmt.Sprintf("%s%x", name, k))
		if depth > 0 && r.IntN(400) == 0 {
			names(t, r, at, depth-1)
			continue
		}
		must(t, os.WriteFile(at, nil, 0o666))
	}
}

type found struct {
	arg int
	it  transfer.Item
}

// walkFrom resumes a walk after an item and breaks off after the given number of items, or never if that is negative.
func walkFrom(t *testing.T, cfg local.Config, sources []transfer.Path, last *found, had, most int) (got []found, ended bool) {
	t.Helper()
	f, err := local.Open(cfg)
	must(t, err)
	defer f.Close()
	var req place.WalkRequest
	for _, p := range sources {
		src := transfer.Match(p)
		if p == "." {
			src = transfer.File(p)
		}
		req.Args = append(req.Args, place.Argument{Source: src, Recursive: true})
	}
	if last != nil {
		req.After = &last.it
	}
	_, err = f.Walk(t.Context(), req, func(it transfer.Item) error {
		if got = append(got, found{it.Arg, it}); most >= 0 && len(got) > most {
			return errEnough
		}
		return nil
	})
	if err != nil && err != errEnough {
		t.Fatalf("behind item %d: %v", had, err)
	}
	return got, err == nil
}

var errEnough = fmt.Errorf("enough")
