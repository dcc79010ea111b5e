package land

import (
	"path"

	"ferry/internal/content/codepage"
	"ferry/internal/content/record"
	"ferry/internal/place/local/intent"
	"ferry/internal/transfer"
)

// Describe sets the description of a file's content. f is nil if the request names none, and has no records if the
// bytes say all. text means that the code page matters. If the members of a library have another form, the error is of
// KindExists.
func (p *Partial) Describe(f *transfer.Form, text bool) (err error) {
	if f == nil {
		return nil
	}

	b := &intent.Sidecar{}
	if !f.Records.IsZero() {
		if b.Data, err = sidecarOf(f); err != nil {
			return err
		}
	}

	p.Sidecar = b
	if !p.l.library() || b.Data == nil {
		return nil
	}

	library := transfer.Path(path.Dir(string(p.path())))
	known, err := p.l.fs.roots.ReadForm(library, false)
	switch {
	case err != nil:
		return err
	case known == nil:
		b.Above = true
		return nil
	}

	p.Sidecar = &intent.Sidecar{} // the library's sidecar applies to the new member as well
	if theirs, its := differingAttributes(known, f, text); theirs != its {
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

// differingAttributes returns the attributes of a library's members that differ from a file's, and the file's attributes in their
// place. Both are empty if they agree. A file of bytes has no code page.
func differingAttributes(library, f *transfer.Form, text bool) (theirs, its string) {
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
	known, err = l.fs.roots.ReadForm(at, false)
	return known, true, err
}
