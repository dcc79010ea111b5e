package local

import (
	"path"

	"ferry/internal/content/codepage"
	"ferry/internal/content/record"
	"ferry/internal/transfer"
)

// A sidecar keeps the records and the code page of a file's content, which the bytes do not show. It is a small file
// beside the file, or beside the directory that is a library.

// form returns the content of a sidecar as a transfer.Form.
func form(s *record.Sidecar) *transfer.Form {
	return &transfer.Form{Encoding: s.Encoding, Records: s.Attributes.Records()}
}

// readForm reads the sidecar of a file; nil where there is none.
func (f *FS) readForm(p transfer.Path, above bool) (*transfer.Form, error) {
	data, err := f.ReadBeside(p, above, record.MaxSidecar)
	if err != nil || data == nil {
		return nil, err
	}
	s, err := record.DecodeSidecar(data)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the sidecar of %s cannot be read: %w", p, err).WithHint("correct or remove it")
	}
	return form(&s), nil
}

// Form returns the known description of a file's content, or nil. dataset reports that the file is a data set, or a
// member of one, so that its library's sidecar may describe it. A sidecar that cannot be read is an error of
// KindMalformed.
func (s *Source) Form() (known *transfer.Form, dataset bool, err error) {
	known, err = s.fs.readForm(s.path, s.dataset)
	return known, s.dataset, err
}

// datasetAt returns the path of a DEST that names a data set.
func (f *FS) datasetAt(dest transfer.Location, several bool) (transfer.Path, error) {
	d, err := record.At(dest)
	if err != nil {
		return "", err
	}
	p := path.Join(f.cfg.RecordRoot, d.Path())
	if several && d.Member == "" {
		p += "/"
	}
	return transfer.Path(p), nil
}

// library reports whether items land in a library, or are members of one.
func (l *Landing) library() bool {
	if l.cfg.Dest.Place != transfer.Datasets {
		return false
	}
	d, err := record.At(l.cfg.Dest)
	return err == nil && (d.Member != "" || l.cfg.Resolution.Into)
}

// Named returns the name under which an item lands: its own, or in a library the member name in capitals. source
// appears in the error, which is of KindUsage.
func (l *Landing) Named(name, source transfer.Path) (transfer.Path, error) {
	if l.cfg.Dest.Place != transfer.Datasets || !l.cfg.Resolution.Into {
		return name, nil
	}
	lib := path.Base(string(l.cfg.Resolution.Base))
	d, err := record.Dataset{Name: lib}.With(string(name), false)
	if err != nil {
		return "", transfer.Errorf(transfer.KindUsage, "%s cannot be a member of %s: %s is no member's name", source, lib, name).
			WithHint("a member's name has 1 to 8 letters, digits and # @ $; name the member, as in '" + lib + "(MEMBER)'")
	}
	return transfer.Path(d.Member), nil
}

// Known returns the description that applies to content that lands under a name, from the existing data set or its
// library, or nil. dataset reports that the file will be a data set.
func (l *Landing) Known(name transfer.Path) (known *transfer.Form, dataset bool, err error) {
	if l.cfg.Dest.Place != transfer.Datasets {
		return nil, false, nil
	}
	at := l.Target(name)
	if l.library() {
		at = transfer.Path(path.Dir(string(at)))
	}
	known, err = l.fs.readForm(at, false)
	return known, true, err
}

// A Beside is the sidecar that an item is to have. Without Data the item is to have none.
type Beside struct {
	Data  []byte
	Above bool   // it belongs to the directory that has the item, and applies to all its files
	Was   []byte // the sidecar before, put back if the item does not get its name; nil: none
}

// Describe sets the description of a file's content. f is nil if the request names none, and has no records if the
// bytes say all. text means that the code page matters. If the members of a library have another form, the error is of
// KindExists.
func (p *Partial) Describe(f *transfer.Form, text bool) (err error) {
	if f == nil {
		return nil
	}

	b := &Beside{}
	if !f.Records.IsZero() {
		if b.Data, err = sidecarOf(f); err != nil {
			return err
		}
	}

	p.Beside = b
	if !p.l.library() || b.Data == nil {
		return nil
	}

	library := transfer.Path(path.Dir(string(p.path())))
	known, err := p.l.fs.readForm(library, false)
	switch {
	case err != nil:
		return err
	case known == nil:
		b.Above = true
		return nil
	}

	p.Beside = &Beside{} // the library's sidecar applies to the new member as well
	if theirs, its := differ(known, f, text); theirs != its {
		d, _ := record.At(p.l.cfg.Dest) // it was parsed before
		d.Member, d.Attributes = "", record.Attributes{}
		return transfer.Errorf(transfer.KindExists, "the members of the library %s have %s, and %s would have %s", d, theirs, p.path(), its).
			WithHint("give the same attributes and code page, or none")
	}
	return nil
}

func sidecarOf(f *transfer.Form) ([]byte, error) {
	a, err := record.FromRecords(f.Records)
	if err != nil {
		return nil, err
	}
	return record.Sidecar{Attributes: a, Encoding: f.Encoding}.Encode()
}

// differ returns the attributes of a library's members that differ from a file's, and the file's attributes in their
// place. Both are empty if they agree. A file of bytes has no code page.
func differ(library, f *transfer.Form, text bool) (theirs, its string) {
	if f.Records != library.Records {
		return recordsText(library.Records), recordsText(f.Records)
	}

	page := library.Encoding
	if page == "" {
		page = record.DatasetEncoding
	}

	if !text {
		return "", ""
	}

	was, err := codepage.Lookup(page)
	if is, ierr := codepage.Lookup(f.Encoding); err != nil || ierr != nil || was != is {
		return "code page " + page, "code page " + f.Encoding
	}
	return "", ""
}

func recordsText(r transfer.Records) string {
	a, err := record.FromRecords(r)
	if err != nil {
		return r.RECFM
	}
	return a.String()
}
