package local

import (
	"context"
	"hash"
	"log/slog"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/land"
	"ferry/internal/place/local/source"
	"ferry/internal/place/local/walk"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/extsort"
	"ferry/internal/transfer"
)

// A Config holds the directories where an agent may read and write, and its limits.
type Config struct {
	Roots       []string // host directories in the format of ParseRoot; relative paths are beneath the first
	RecordRoot  string   // the directory of data sets; empty: the first root
	StateDirs   []string // excluded from the roots: FS neither reads nor writes in them
	Incarnation uint64   // of the agent's ledger; part of every temporary's name
	Log         *slog.Logger
	Disk        disk.Disk // nil: the host's disk
	// Scratch is a directory for the names of directories that are too large for memory. Only this agent may use it:
	// Open removes its contents. Empty: names stay in memory.
	Scratch string
	// NamesMemory is the memory of a walk for names, in bytes; 0 is 2 MiB.
	NamesMemory int64
	// OptionalFiles is the number of directories and files that may be open beyond those that are indispensable; 0 sets no
	// bound.
	OptionalFiles int
	Boot          string // name of this boot of the host; empty: BootID()
	// GroupSync is the least number of small files that a group makes durable by one sync of their file system, where
	// that is offered. 0 is 16, 1 is 2, and below 0 is never.
	GroupSync int
	// Digest returns a hash for a digest method, the part of a Sum before ':'. Recovery reads files again with it.
	Digest func(method string) (hash.Hash, error)
	// Fence is called before a name is created, removed or changed. An error prevents the change. nil: no other
	// instance can take over the agent's ledger.
	Fence func() error
	Clock clock.Clock // nil: the host's clock
}

// An FS gives access to the host's files beneath an agent's roots. It is safe for concurrent use.
type FS struct {
	roots    *disk.Roots
	optional disk.OptionalFiles
	find     *walk.Finder
	source   *source.Access
	land     *land.Target
}

// Open opens the roots. It refuses a configuration without roots, a root that is no directory, and a root that is the
// state directory or lies in it. A root that is marked as a mount point may be missing.
func Open(cfg Config) (*FS, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	roots, err := disk.OpenRoots(disk.Config{Roots: cfg.Roots, StateDirs: cfg.StateDirs, Disk: cfg.Disk, Fence: cfg.Fence, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	if cfg.Scratch != "" {
		if err := extsort.Clear(cfg.Scratch); err != nil {
			roots.Close()
			return nil, transfer.Errorf(transfer.KindUnwritable, "the state directory cannot be used: %w", err)
		}
	}

	f := &FS{roots: roots}
	f.optional.SetLimit(cfg.OptionalFiles)
	f.find = walk.NewFinder(roots, &f.optional, cfg.RecordRoot, cfg.Scratch, cfg.NamesMemory)
	f.source = source.NewAccess(roots, f.find, cfg.Incarnation, cfg.Log)
	f.land = land.NewTarget(roots, &f.optional, land.Config{RecordRoot: cfg.RecordRoot, Incarnation: cfg.Incarnation, Boot: cfg.Boot, GroupSync: cfg.GroupSync,
		Digest: cfg.Digest, Clock: cfg.Clock, Log: cfg.Log})
	return f, nil
}

// Close closes the roots.
func (f *FS) Close() error { return f.roots.Close() }

// Borrow takes an optional descriptor, and reports whether one was left. Return gives it back.
func (f *FS) Borrow() bool { return f.optional.Take() }

// Return ends a Borrow that succeeded.
func (f *FS) Return() { f.optional.Give() }

// Scarce reports whether the descriptors are counted, so that waiting transfers should keep no file open.
func (f *FS) Scarce() bool { return f.optional.Scarce() }

// Place returns the local files of one agent, for sender and receiver.
func (f *FS) Place() Local { return Local{FS: f} }

// Walk is Finder.Walk without a permit. It does not follow links.
func (f *FS) Walk(ctx context.Context, req place.WalkRequest, emit func(transfer.Item) error) (linksSkipped int64, err error) {
	return f.find.Walk(ctx, nil, "", req, emit)
}

// CheckOverlap returns the reason why sources cannot be sent to a DEST of this same host, as far as it is known before
// anything is sent.
func (f *FS) CheckOverlap(w *place.WalkRequest, dest transfer.Location, several bool) error {
	if dest.Place == transfer.Datasets {
		return nil
	}
	res, err := f.Resolve(dest, several)
	if err != nil {
		return nil // the destination reports the error
	}
	return f.find.CheckOverlap(w, res)
}

// OpenSource opens a regular file. It does not follow a link and does not wait for a FIFO. Its errors are of the kinds
// Missing, Unreadable, WrongType and OutsideRoot.
func (f *FS) OpenSource(p transfer.Path) (*source.Source, error) { return f.source.OpenSource(p) }

// StatDir reads the permission bits and modification time of a directory.
func (f *FS) StatDir(p transfer.Path) (mode uint32, mtime int64, err error) {
	return f.source.StatDir(p)
}

// DeleteSource is Access.DeleteSource.
func (f *FS) DeleteSource(p transfer.Path, v transfer.Version, aside string, mark func(aside string) error) error {
	return f.source.DeleteSource(p, v, aside, mark)
}

// FinishDelete continues a deletion after a crash. It may be repeated.
func (f *FS) FinishDelete(p transfer.Path, v transfer.Version, aside string) error {
	return f.source.FinishDelete(p, v, aside)
}

// MayDelete returns the reason, of KindUsage, why sources cannot be deleted, or nil if none is known.
func (f *FS) MayDelete(w *place.WalkRequest) error { return f.source.MayDelete(w) }

// Resolve decides whether a DEST is a directory for items or the name of one item, without a permit.
func (f *FS) Resolve(to transfer.Location, several bool) (transfer.Resolution, error) {
	return f.land.Resolve(to, several, nil)
}

// Ready returns nil if the root of a DEST is available, or the reason why transfers wait.
func (f *FS) Ready(at transfer.Resolution) error { return f.roots.Ready(at) }

// Free returns the number of free bytes for the agent's user at a DEST. It subtracts the space that is promised to open
// files.
func (f *FS) Free(at transfer.Resolution) (int64, error) { return f.land.Free(at) }

// Land returns a Landing for the items of a transfer.
func (f *FS) Land(cfg place.LandConfig) *land.Landing { return f.land.Land(cfg) }
