//go:build unix

package local

import (
	"errors"
	"os"
	"strings"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/transfer"
)

// public allows paths beneath a directory called public.
func public(_ transfer.Authority, path string) error {
	if strings.Contains(path+"/", "/public/") {
		return nil
	}
	return transfer.Errorf(transfer.KindDenied, "%s is not public", path)
}

// A directory with a forbidden name is refused before any file is examined. A link with a permitted name to a forbidden
// directory is refused too. The error reveals neither the target of the link nor whether a file exists.
func TestRightsBeforeLooks(t *testing.T) {
	fault := disktest.NewFault(0, nil)
	f, dir := newFS(t, fault)
	tree(t, dir, "closed/dir/f", "closed/file", "closed/f", "public/f", "other/")
	must(t, os.Symlink(dir+"/closed", dir+"/public/link"))
	calls := 0
	fault.Before = func(string) { calls++ }
	local := f.Place().For(transfer.Files, public).(Local)
	ways := map[string]func(transfer.Path) error{
		"a destination": func(p transfer.Path) error { _, err := local.Resolve(transfer.File(p), false, public); return err },
		"a destination of before": func(p transfer.Path) error {
			_, err := local.Resolved(transfer.Resolution{Base: p, Into: true}, public)
			return err
		},
		"a directory": func(p transfer.Path) error {
			return local.Scan(t.Context(), place.ScanRequest{Dir: p, Want: func(string) bool { return true }}, func(*place.Found) error { return errors.New("found") })
		},
		"an archive": func(p transfer.Path) error {
			return local.MayArchive(&place.WalkRequest{Args: place.Args(false, transfer.File("public/f"))}, p)
		},
	}
	for way, do := range ways {
		said := map[string]string{}
		for _, name := range []string{"closed/dir", "closed/file", "closed/none", "closed/none/none", "public/link", "public/link/dir", "public/link/f", "public/link/none"} {
			calls = 0
			err := do(transfer.Path(name))
			if transfer.KindOf(err) != transfer.KindDenied {
				t.Errorf("%s %s: %v", way, name, err)
				continue
			}
			group, _, _ := strings.Cut(name, "/")
			if text := strings.ReplaceAll(err.Error(), name, "NAME"); said[group] == "" {
				said[group] = text
			} else if text != said[group] {
				t.Errorf("%s %s is refused with %q, not %q", way, name, text, said[group])
			}
			if strings.Contains(err.Error(), "closed") && group == "public" {
				t.Errorf("%s %s is refused with where it leads: %v", way, name, err)
			}
			if calls > 0 && group == "closed" && way != "an archive" {
				t.Errorf("%s %s is refused after %d calls of the disk", way, name, calls)
			}
		}
		if err := do("public/"); transfer.KindOf(err) == transfer.KindDenied {
			t.Errorf("%s public/: %v", way, err)
		}
	}
	if err := local.MayScan("closed/dir"); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("a directory may be watched: %v", err)
	}
	if err := local.MayScan("public/none"); err != nil {
		t.Errorf("a directory may not be watched: %v", err)
	}
}

// A refusal of a file that links lead to names the path that was given, for sources and destinations, in a walk as well.
func TestRefusalsNameTheGivenPath(t *testing.T) {
	f, dir := newFS(t, nil)
	tree(t, dir, "closed/f", "public/f")
	must(t, os.Symlink(dir+"/closed", dir+"/public/link"))
	l := f.Place().For(transfer.Files, public).(Local)
	refused := func(way string, err error) {
		t.Helper()
		if transfer.KindOf(err) != transfer.KindDenied || strings.Contains(err.Error(), "closed") || !strings.Contains(err.Error(), "public/link/f") {
			t.Errorf("%s: %v", way, err)
		}
	}
	_, err := l.Files(transfer.File("public/link/f")).Open("public/link/f", false)
	refused("opened", err)
	_, err = l.Walk(t.Context(), place.WalkRequest{Args: place.Args(false, transfer.File("public/link/f"))}, func(it transfer.Item) error {
		if it.Err != nil {
			return it.Err
		}
		return nil
	})
	refused("walked", err)
	_, err = l.Resolve(transfer.File("public/link/f"), false, public)
	refused("a destination", err)
	if _, err := l.Files(transfer.File("closed/f")).Open("closed/f", false); transfer.KindOf(err) != transfer.KindDenied || !strings.Contains(err.Error(), "closed/f") {
		t.Errorf("without a link: %v", err)
	}
}
