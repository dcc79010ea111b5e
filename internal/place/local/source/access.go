package source

import (
	"log/slog"
	"sync"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/walk"
	"ferry/internal/transfer"
)

// An Access reads the sources beneath an agent's roots, and deletes or archives them. It is safe for concurrent use.
type Access struct {
	roots       *disk.Roots
	disk        disk.Disk
	log         *slog.Logger
	find        *walk.Finder
	incarnation uint64   // of the agent's ledger; part of the names of files that are put aside
	synthetic   sync.Map // from device to whether its file system invents contents
}

// NewAccess returns an Access to the files beneath roots.
func NewAccess(roots *disk.Roots, find *walk.Finder, incarnation uint64, log *slog.Logger) *Access {
	return &Access{roots: roots, disk: roots.Disk(), log: log, find: find, incarnation: incarnation}
}

// Files returns the opener of the files of one transfer, with the rights of a permit. With follow it follows a link at
// the end of a path.
func (f *Access) Files(first transfer.Location, may place.Permit, follow bool) place.Files {
	s := f.Sources(first)
	s.may, s.follow = may, follow
	return files{s}
}

// AsideName is disk.AsideName for this agent.
func (f *Access) AsideName(id transfer.ID, item uint64) string {
	return disk.AsideName(f.incarnation, id, item)
}

// Delete is DeleteSource with the rights of a permit, or FinishDelete after a crash.
func (f *Access) Delete(may place.Permit, p transfer.Path, v transfer.Version, aside string, again bool) error {
	if again {
		return f.FinishDelete(p, v, aside)
	}
	if at, err := f.roots.Locate(p); err == nil && may != nil {
		if err := f.roots.PermittedAt(may, transfer.AuthDeleteSource, at); err != nil {
			return err
		}
	}
	return f.DeleteSource(p, v, aside, nil)
}
