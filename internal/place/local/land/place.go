package land

import (
	"ferry/internal/place"
	"ferry/internal/transfer"
)

// AsPlace returns a Landing as a place.Landing.
func AsPlace(l *Landing) place.Landing { return landing{l} }

type landing struct{ *Landing }

func (l landing) At(to place.Destination) place.Landing {
	cfg := l.cfg
	cfg.Destination = to
	return landing{newLanding(l.shared, cfg)}
}

func (l landing) Path(name transfer.Path) transfer.Path { return l.Target(name) }

func (l landing) Locate(name, source transfer.Path) (s place.Location, err error) {
	s.Dataset = l.cfg.Dest.Place == transfer.Datasets
	if s.Name = name; name != "." {
		s.Name, err = l.Named(name, source)
	}
	if err == nil && name != "." && l.cfg.May != nil {
		err = l.mayLocate(s.Name)
	}
	if err != nil {
		return s, err
	}
	s.TempDirs = l.Dirs(s.Name)
	s.NewDirs = l.tree.missing(s.TempDirs[len(s.TempDirs)-1])
	if name != "." {
		s.Known, _, err = l.Known(s.Name)
	}
	return s, err
}

// mayLocate checks whether an item may land under a name, before any answer reveals existing files.
func (l landing) mayLocate(name transfer.Path) error {
	p, err := l.locate(name)
	if err != nil || p.IsRoot() {
		return err
	}
	if err := l.rights.landAt(p); transfer.KindOf(err) == transfer.KindDenied || transfer.KindOf(err).Waits() {
		return err
	}
	return nil // other errors are found when it lands
}

func (l landing) Create(item uint64, s place.Staging) (place.Part, error) {
	if l.cfg.May != nil && (l.cfg.IfExists == transfer.IfExistsSkip || l.cfg.IfExists == transfer.IfExistsUpdate) {
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
		err = l.rule.fits(p.dir.Dir, p.place, p.Sidecar)
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

func (l landing) RemoveLeftovers(dirs []transfer.Path, some bool) error {
	switch {
	case some || l.Left():
		return l.Sweep(dirs)
	case !l.cfg.Durable: // no commit has made its renames durable
		return l.SyncDirs(dirs)
	}
	return nil
}
