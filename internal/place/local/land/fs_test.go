package land

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/source"
	"ferry/internal/place/local/walk"
	"ferry/internal/transfer"
)

// An FS is a Target with the sources beneath the same roots.
type FS struct {
	*Target
	*source.Access
	find *walk.Finder
	root string // the first one
}

// newFS returns an FS on a new directory.
func newFS(t testing.TB, d disk.Disk) (*FS, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	return openFS(t, d, dir), dir
}

func openFS(t testing.TB, d disk.Disk, roots ...string) *FS {
	t.Helper()
	return openWith(t, disk.Config{Roots: roots, StateDirs: []string{filepath.Join(roots[0], "state-of-ferry")}, Disk: d})
}

func openWith(t testing.TB, cfg disk.Config) *FS {
	t.Helper()
	r, err := disk.OpenRoots(cfg)
	must(t, err)
	t.Cleanup(func() { r.Close() })
	log, optional := slog.New(slog.DiscardHandler), &disk.OptionalFiles{}
	to := NewTarget(r, optional, Config{Incarnation: 7, Digest: testDigest, Log: log})
	find := walk.NewFinder(r, optional, "", "", 0)
	return &FS{to, source.NewAccess(r, find, 7, log), find, cfg.Roots[0]}
}

// Resolve is Target.Resolve without a permit.
func (f *FS) Resolve(to transfer.Location, several bool) (transfer.Resolution, error) {
	return f.Target.Resolve(to, several, nil)
}

// Ready returns nil if the root of a DEST is available.
func (f *FS) Ready(at transfer.Resolution) error { return f.roots.Ready(at) }

// Walk is Finder.Walk without a permit.
func (f *FS) Walk(ctx context.Context, req place.WalkRequest, emit func(transfer.Item) error) (linksSkipped int64, err error) {
	return f.find.Walk(ctx, nil, "", req, emit)
}
