package local

import (
	"context"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/land"
	"ferry/internal/place/local/walk"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Local is a place.Source that is a place.Target as well, and has all capabilities.
type Local struct {
	*FS
	may   place.Permit // of the user
	links string       // how symbolic links are treated: a transfer.Links… word
}

var (
	_ place.Source         = Local{}
	_ place.Target         = Local{}
	_ place.Appender       = Local{}
	_ place.Limiter        = Local{}
	_ place.Deleter        = Local{}
	_ place.Archiver       = Local{}
	_ place.OverlapChecker = Local{}
	_ place.Examiner       = Local{}
	_ place.FileBudget     = Local{}
	_ place.Linker         = Local{}
	_ place.Scanner        = Local{}
)

// Links returns the place for a request with an option about symbolic links.
func (l Local) Links(word string) place.Source {
	l.links = word
	return l
}

// Files returns the opener of the files of one transfer.
func (l Local) Files(first transfer.Location) place.Files {
	return l.source.Files(first, l.may, l.links == transfer.LinksFollow)
}

// Walk is Finder.Walk restricted to files that the user may read.
func (l Local) Walk(ctx context.Context, req place.WalkRequest, emit func(transfer.Item) error) (linksSkipped int64, err error) {
	return l.find.Walk(ctx, l.may, l.links, req, emit)
}

// Expands reports that a pattern may give several items, and by HasOwnName whether a source has no name.
func (l Local) Expands(src transfer.Location) (several, unnamed bool) {
	return src.Pattern, !walk.HasOwnName(src.Path)
}

// CheckOverlap is FS.CheckOverlap for the sources that the user may read. It checks no other source.
func (l Local) CheckOverlap(w *place.WalkRequest, dest transfer.Location, several bool) error {
	seen := l.find.Readable(l.may, w)
	if seen == nil {
		return nil
	}
	return l.FS.CheckOverlap(seen, dest, several)
}

// Examine is Access.Examine for files that the user may read.
func (l Local) Examine(p transfer.Path) (size int64, there bool, err error) {
	return l.source.Examine(l.may, p)
}

// Scan is Finder.Scan restricted to files that the user may read.
func (l Local) Scan(ctx context.Context, req place.ScanRequest, fn func(*place.Found) error) error {
	return l.find.Scan(ctx, l.may, req, fn)
}

// VersionOf returns the version of a file that Scan has found.
func (l Local) VersionOf(f *place.Found) transfer.Version { return walk.VersionOf(f) }

// MayScan is Finder.MayScan with the rights of the user.
func (l Local) MayScan(dir transfer.Path) error { return l.find.MayScan(l.may, dir) }

// Names is Finder.Names restricted to files that the user may read.
func (l Local) Names(begin string, most int) ([]wire.PreviewItem, error) {
	return l.find.Names(l.may, begin, most)
}

// Directory is Finder.Directory with the rights of the user.
func (l Local) Directory(ctx context.Context, dir, after transfer.Path, most, room int) (*wire.Listing, error) {
	return l.find.Directory(ctx, l.may, dir, after, most, room)
}

// AsideName returns the name that a source has while it is being deleted.
func (l Local) AsideName(id transfer.ID, item uint64) string { return l.source.AsideName(id, item) }

// Delete is Access.Delete with the rights of the user.
func (l Local) Delete(p transfer.Path, v transfer.Version, aside string, again bool) error {
	return l.source.Delete(l.may, p, v, aside, again)
}

// DropForm is source.Access.DropSidecar.
func (l Local) DropForm(p transfer.Path) error { return l.source.DropSidecar(p) }

// MayArchive is Access.MayArchive with the rights of the user.
func (l Local) MayArchive(w *place.WalkRequest, dir transfer.Path) error {
	return l.source.MayArchive(l.may, w, dir)
}

// Archive is Access.Archive with the rights of the user.
func (l Local) Archive(p transfer.Path, v transfer.Version, aside string, to transfer.Path, again bool) (transfer.Path, error) {
	return l.source.Archive(l.may, p, v, aside, to, again)
}

// Resolve is Target.Resolve.
func (l Local) Resolve(to transfer.Location, several bool, may place.Permit) (transfer.Resolution, error) {
	return l.land.Resolve(to, several, may)
}

// Resolved is Target.Resolved.
func (l Local) Resolved(res transfer.Resolution, may place.Permit) (transfer.Resolution, error) {
	return l.land.Resolved(res, may)
}

// Appends marks that this place can append.
func (l Local) Appends() {}

// Limits returns the primitives that this platform lacks.
func (Local) Limits() []string { return disk.Limits() }

// Land is FS.Land.
func (l Local) Land(cfg place.LandConfig) place.Landing { return land.AsPlace(l.FS.Land(cfg)) }

// For returns the place with the rights of a permit.
func (l Local) For(_ transfer.Place, may place.Permit) place.Source {
	l.may = may
	return l
}
