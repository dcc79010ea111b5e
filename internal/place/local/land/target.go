package land

import (
	"hash"
	"log/slog"
	"sync"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// A Config has the settings of a Target.
type Config struct {
	RecordRoot  string // the directory of data sets
	Incarnation uint64 // of the agent's ledger; part of every temporary's name
	Boot        string // name of this boot of the host; empty: BootID()
	// GroupSync is the least number of small files that a group makes durable by one sync of their file system, where
	// that is offered. 0 is 16, 1 is 2, and below 0 is never.
	GroupSync int
	// Digest returns a hash for a digest method, the part of a Sum before ':'. Recovery reads files again with it.
	Digest func(method string) (hash.Hash, error)
	Clock  clock.Clock // nil: the host's clock
	Log    *slog.Logger
}

// A Target lands files beneath an agent's roots. It is safe for concurrent use.
type Target struct {
	roots     *disk.Roots
	disk      disk.Disk
	cfg       Config
	log       *slog.Logger
	optional  *disk.OptionalFiles
	umask     uint32    // of the process at its start: permission bits that new files do not get
	noSyncDir sync.Once // logged once
	promises  promises
	claims    disk.Claims
	obstacles obstacles
	renaming  sync.RWMutex // locked exclusively between the comparison of a file and the rename that replaces it with a joined one
}

// NewTarget returns a Target.
func NewTarget(roots *disk.Roots, spare *disk.OptionalFiles, cfg Config) *Target {
	f := &Target{roots: roots, disk: roots.Disk(), cfg: cfg, log: cfg.Log, optional: spare, umask: disk.Umask()}
	if f.cfg.Clock == nil {
		f.cfg.Clock = clock.System
	}

	switch f.cfg.GroupSync {
	case 0:
		f.cfg.GroupSync = groupSyncFrom
	case 1: // the writeback of a single file does not begin before its sync
		f.cfg.GroupSync = 2
	}

	if f.cfg.Boot == "" {
		f.cfg.Boot = disk.BootID()
	}
	return f
}

// Land returns a Landing for the items of a transfer.
func (f *Target) Land(cfg place.LandConfig) *Landing {
	return newLanding(newShared(f, cfg), cfg)
}

// Free returns the number of free bytes for the agent's user at a DEST, which may not exist yet. It subtracts the space
// that is promised to open files.
func (f *Target) Free(at transfer.Resolution) (int64, error) {
	p := at.Base
	l, err := f.roots.Locate(p)
	if err != nil {
		return 0, err
	}

	d, err := f.roots.OpenNearest(l)
	if err != nil {
		return 0, disk.TargetError(p, err)
	}
	defer d.Close()

	free, err := d.Free()
	if err != nil {
		return 0, err
	}

	st, err := d.Stat()
	if err != nil {
		return 0, disk.TargetError(p, err)
	}
	return free - f.promises.owedOn(st.Dev), nil
}
