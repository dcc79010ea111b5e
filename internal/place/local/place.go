package local

import (
	"context"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

// Place returns the local files of one agent, for sender and receiver.
func (f *FS) Place() Local { return Local{FS: f} }

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
	_ place.Deleter        = Local{}
	_ place.Archiver       = Local{}
	_ place.OverlapChecker = Local{}
	_ place.Examiner       = Local{}
	_ place.FileBudget     = Local{}
	_ place.Linker         = Local{}
	_ place.Seeker         = file{}
)

// Links returns the place for a request with an option about symbolic links.
func (l Local) Links(word string) place.Source {
	l.links = word
	return l
}

// Files is FS.Sources.
func (l Local) Files(first transfer.Location) place.Files {
	s := l.FS.Sources(first)
	s.may, s.follow = l.may, l.links == transfer.LinksFollow
	return files{s}
}

// Walk is FS.Walk restricted to files that the user may read.
func (l Local) Walk(ctx context.Context, req place.WalkRequest, emit func(transfer.Item) error) (linksSkipped int64, err error) {
	return l.FS.walk(ctx, req, l, emit)
}

type files struct{ *Sources }

func (f files) Open(p transfer.Path, unsized bool) (place.File, error) {
	s, err := f.Sources.Open(p, unsized)
	if err != nil {
		return nil, err
	}
	return file{s}, nil
}

type file struct{ *Source }

func (f file) Facts() place.Facts {
	return place.Facts{Version: f.Version(), Size: f.Size(), Mode: f.Mode(), Mtime: f.Mtime(), Allocated: f.Allocated(), Lies: f.lies}
}

// Expands reports that a pattern may give several items, and by HasOwnName whether a source has no name.
func (l Local) Expands(src transfer.Location) (several, unnamed bool) {
	return src.Pattern, !HasOwnName(src.Path)
}

// CheckOverlap is FS.CheckOverlap for the sources that the user may read. It checks no other source.
func (l Local) CheckOverlap(w *place.WalkRequest, dest transfer.Location, several bool) error {
	if l.may == nil {
		return l.FS.CheckOverlap(w, dest, several)
	}
	seen := *w
	seen.Args = nil
	for _, a := range w.Args {
		at, err := l.locate(a.Source.Literal())
		if err == nil && transfer.KindOf(l.permittedAt(l.may, transfer.AuthSource, at)) != transfer.KindDenied {
			seen.Args = append(seen.Args, a)
		}
	}
	if len(seen.Args) == 0 {
		return nil
	}
	return l.FS.CheckOverlap(&seen, dest, several)
}

// Aside is AsideName.
func (l Local) Aside(id transfer.ID, item uint64) string {
	return AsideName(l.cfg.Incarnation, id, item)
}

// Delete is DeleteSource, or FinishDelete after a crash.
func (l Local) Delete(p transfer.Path, v transfer.Version, aside string, again bool) error {
	if again {
		return l.FinishDelete(p, v, aside)
	}
	if at, err := l.locate(p); err == nil && l.may != nil {
		if err := l.permittedAt(l.may, transfer.AuthDeleteSource, at); err != nil {
			return err
		}
	}
	return l.DeleteSource(p, v, aside, nil)
}

// DropForm is DropBeside.
func (l Local) DropForm(p transfer.Path) error { return l.DropBeside(p) }

// Appends marks that this place can append.
func (l Local) Appends() {}

// Land is FS.Land.
func (l Local) Land(cfg place.LandConfig) place.Landing { return landing{l.FS.Land(cfg)} }

type landing struct{ *Landing }

func (l landing) At(to place.Destination) place.Landing {
	other := *l.Landing
	other.cfg.Destination = to
	return landing{&other}
}

func (l landing) Path(name transfer.Path) transfer.Path { return l.Target(name) }

func (l landing) Locate(name, source transfer.Path) (s place.Location, err error) {
	s.Dataset = l.cfg.Dest.Place == transfer.Datasets
	if s.Name = name; name != "." {
		s.Name, err = l.Named(name, source)
	}
	if err == nil && name != "." && l.may != nil {
		err = l.mayLocate(s.Name)
	}
	if err != nil {
		return s, err
	}
	s.TempDirs = l.Dirs(s.Name)
	s.NewDirs = missingDirs(l.shared, s.TempDirs[len(s.TempDirs)-1])
	if name != "." {
		s.Known, _, err = l.Known(s.Name)
	}
	return s, err
}

func (l landing) Create(item uint64, s place.Staging) (place.Part, error) {
	if l.may != nil && (l.cfg.IfExists == transfer.IfExistsSkip || l.cfg.IfExists == transfer.IfExistsUpdate) {
		if err := l.mayLocate(s.Name); err != nil { // the check comes before an answer about existing files
			return nil, err
		}
	}
	if err := l.Wanted(s.Name, s.Mtime, s.Size); err != nil {
		return nil, err
	}
	p, err := l.Landing.Create(item, s.Name, s.Size, s.Allocated)
	if err != nil {
		return nil, err
	}
	err = p.Describe(s.Form, s.Text)
	if err == nil {
		err = fits(l.Landing, p.dir.Dir, p.place, p.Beside)
	}
	if err != nil {
		p.Discard()
		return nil, err
	}
	return p, nil
}

func (l landing) Reopen(item uint64, s place.Staging, point []byte) (place.Part, error) {
	p, err := l.Landing.Reopen(item, s.Name, point, s.Size, s.Allocated)
	if err != nil {
		return nil, err
	}
	if err := p.Describe(s.Form, s.Text); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (l landing) Tidy(dirs []transfer.Path, some bool) error {
	switch {
	case some || l.Left():
		return l.Sweep(dirs)
	case !l.cfg.Durable: // no commit has made its renames durable
		return l.SyncDirs(dirs)
	}
	return nil
}
