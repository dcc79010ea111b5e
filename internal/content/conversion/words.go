package conversion

import (
	"cmp"
	"runtime"

	"ferry/internal/content/codepage"
	"ferry/internal/content/record"
	"ferry/internal/transfer"
)

// Defaults are an agent's assumptions about text files on its host. The zero value is UTF-8 with the host's line ends,
// and no replacement.
type Defaults struct {
	Encoding string // a code page; empty: UTF-8
	EOL      string // lf, crlf or nl; empty: the host's convention
	Replace  string // see codepage.Options
}

// Check refuses an unknown page or line end, and a replacement that is too long.
func (d *Defaults) Check() error {
	if _, err := codepage.Lookup(d.encoding()); err != nil {
		return err
	}
	if _, err := codepage.ParseEOL(d.EOL); err != nil {
		return err
	}
	if len(d.Replace) > transfer.MaxReplace {
		return transfer.Errorf(transfer.KindTooLarge, "the replacement has %d bytes; the limit is %d", len(d.Replace), transfer.MaxReplace)
	}
	return nil
}

func (d *Defaults) encoding() string {
	if d.Encoding == "" {
		return "UTF-8"
	}
	return d.Encoding
}

// eol returns the line end on this host in pages without a convention of their own.
func (d *Defaults) eol() codepage.EOL {
	switch e, _ := codepage.ParseEOL(d.EOL); {
	case e != codepage.Default:
		return e
	case runtime.GOOS == "windows":
		return codepage.CRLF
	}
	return codepage.LF
}

// Check refuses a request with impossible options for content: unknown pages, invalid records, or a replacement that
// the page lacks. Its errors are of KindUsage.
func Check(q *transfer.Request) error {
	if err := CheckOptions(&q.Options, q.Dest); err != nil {
		return err
	}
	return CheckItems(q, q.Items)
}

// CheckItems is Check for items of the request, or for the items of a part of it.
func CheckItems(q *transfer.Request, items []transfer.RequestItem) error {
	for n := range items {
		if p := items[n].Source; p.Place == transfer.Datasets {
			if _, err := record.At(p); err != nil {
				return err
			}
		}
		if !items[n].Own() {
			continue
		}
		o, dest, err := Effective(q, &items[n])
		if err == nil {
			err = CheckOptions(&o, dest)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CheckOptions is Check for options and their DEST.
func CheckOptions(q *transfer.Options, dest transfer.Location) error {
	if _, err := attributes("recfm", q.ToRecords); err != nil {
		return err
	}

	if _, err := attributes("from-recfm", q.FromRecords); err != nil {
		return err
	}

	if _, err := record.ParseLongLines(q.LongLines); err != nil {
		return err
	}

	dataset := dest.Place == transfer.Datasets
	if q.LongLines != "" && q.ToRecords.IsZero() && !dataset {
		return transfer.Errorf(transfer.KindUsage, "--long-lines is for lines that are too long for a record, and the destination has no records").
			WithHint("give --recfm and --lrecl, or leave it out")
	}

	if dataset {
		if _, err := record.At(dest); err != nil {
			return err
		}
		if q.IfExists == transfer.IfExistsRename {
			return transfer.Errorf(transfer.KindUsage, "--if-exists rename gives names that data sets and members cannot have").
				WithHint("choose error, overwrite, skip or update")
		}
	}
	return checkPages(q, !q.ToRecords.IsZero() || dataset)
}

// checkPages checks code pages and line ends. records means that the destination has records.
func checkPages(q *transfer.Options, records bool) error {
	from, err := page(q.FromEncoding)
	if err != nil {
		return err
	}

	to, err := page(q.ToEncoding)
	if err != nil {
		return err
	}

	eol, err := codepage.ParseEOL(q.EOL)
	if err != nil {
		return err
	}

	if records && q.EOL != "" {
		return transfer.Errorf(transfer.KindUsage, "--eol says how lines end, and records have no line ends").WithHint("leave it out")
	}

	for _, p := range []struct {
		page    *codepage.Page
		records bool
		of      func(*codepage.Page) (record.Page, error)
	}{{from, !q.FromRecords.IsZero(), recordPage}, {to, records, recordPageTo}} {
		if p.page != nil && p.records {
			if _, err := p.of(p.page); err != nil {
				return err
			}
		}
	}

	if to == nil {
		return nil // the destination's agent will know the page
	}

	if from == nil {
		from = to
	}

	_, err = codepage.New(codepage.Options{From: from, To: to, ToEOL: eol, Replace: q.Replace})
	return err
}

// page returns the code page of a name; nil for the empty name.
func page(name string) (*codepage.Page, error) {
	if name == "" {
		return nil, nil
	}
	return codepage.Lookup(name)
}

// Involved reports whether the transfer from a source to a DEST may need more than a file's bytes. Only then the
// source's agent determines the Form of each file.
func Involved(o *transfer.Options, source, dest transfer.Location) bool {
	return o.Mode == transfer.ModeText || !o.ToRecords.IsZero() || !o.FromRecords.IsZero() ||
		dest.Place == transfer.Datasets || source.Place == transfer.Datasets
}

// Effective returns the options and the DEST of a request item. An item with a DEST or options of its own takes the
// attributes in its locations; the others share the attributes that TakeAttributes has put into the request.
func Effective(q *transfer.Request, it *transfer.RequestItem) (o transfer.Options, dest transfer.Location, err error) {
	o, dest = q.Of(it), cmp.Or(it.Dest, q.Dest)
	if !it.Own() {
		return o, dest, nil
	}
	if err := takeDest(&o, dest); err != nil {
		return o, dest, err
	}
	return o, dest, takeSource(&o, it.Source)
}

// TargetOptions returns the options of a target, with the attributes in its DEST.
func TargetOptions(t *transfer.Target, d transfer.Options) (transfer.Options, error) {
	o := t.Options.Or(d)
	return o, takeDest(&o, t.Dest)
}

// TakeAttributes copies the attributes in the locations of data sets into the request, unless a flag contradicts.
func TakeAttributes(q *transfer.Request) error {
	if err := takeDest(&q.Options, q.Dest); err != nil {
		return err
	}
	return TakeFrom(q, q.Items)
}

// TakeFrom is TakeAttributes for items of the request, or for the items of a part of it.
func TakeFrom(q *transfer.Request, items []transfer.RequestItem) error {
	for n := range items {
		if items[n].Own() {
			continue
		}
		if err := takeSource(&q.Options, items[n].Source); err != nil {
			return err
		}
	}
	return nil
}

func takeDest(o *transfer.Options, dest transfer.Location) error {
	return takeFrom(&o.ToRecords, dest, "the flags")
}

func takeSource(o *transfer.Options, source transfer.Location) error {
	return takeFrom(&o.FromRecords, source, "the flags or another source")
}

func takeFrom(to *transfer.Records, l transfer.Location, others string) error {
	if l.Place != transfer.Datasets {
		return nil
	}
	d, err := record.At(l)
	if err != nil || l.Records.IsZero() {
		return err
	}
	if !to.IsZero() && *to != l.Records {
		return transfer.Errorf(transfer.KindUsage, "%s has %s, and %s say otherwise", d, d.Attributes, others).
			WithHint("say it once")
	}
	*to = l.Records
	return nil
}

// attributes returns the attributes of a request's flags, which begin with the given one.
func attributes(flag string, r transfer.Records) (record.Attributes, error) {
	a, err := record.FromRecords(r)
	if err != nil && r.RECFM == "" {
		return a, transfer.AsError(err).WithHint("give --" + flag + " F, FB, V, VB or U")
	}
	return a, err
}

// Form returns an agent's knowledge of one of its files: the Form that its place knows, if any, and the agent's
// defaults.
func (d *Defaults) Form(known *transfer.Form, dataset bool) transfer.Form {
	f := transfer.Form{Encoding: d.encoding(), EOL: d.eol().String()}
	if dataset {
		f.Encoding = record.DatasetEncoding
	}
	if known != nil {
		f.Records = known.Records
		if known.Encoding != "" {
			f.Encoding = known.Encoding
		}
	}
	return f
}

// recordPage returns the record.Page of a code page.
func recordPage(p *codepage.Page) (record.Page, error) {
	var r record.Page
	for _, c := range []struct {
		char rune
		at   *byte
	}{{' ', &r.Blank}, {'0', &r.Zero}, {'1', &r.One}, {'+', &r.Plus}, {'-', &r.Minus}, {'\f', &r.FormFeed}, {'\r', &r.Return}} {
		b, ok := p.Encode(c.char)
		if !ok || len(b) != 1 {
			return r, transfer.Errorf(transfer.KindUsage, "records cannot be kept in code page %s: its blank is not one byte", p.Name()).
				WithHint("choose another page, such as UTF-8 or IBM-1047")
		}
		*c.at = b[0]
	}

	r.Shift = p.Shifts() && p.EBCDIC()
	r.LineEnd = p.Newline()
	if len(r.LineEnd) != 1 {
		return r, transfer.Errorf(transfer.KindUsage, "records cannot be kept in code page %s: its line end is not one byte", p.Name())
	}
	return r, nil
}

// recordPageTo is recordPage for a destination.
func recordPageTo(p *codepage.Page) (record.Page, error) {
	if p.Shifts() && !p.EBCDIC() {
		return record.Page{}, transfer.Errorf(transfer.KindUsage, "records cannot be written in code page %s: its escape sequences reach from one record into the next", p.Name()).
			WithHint("choose another page, such as UTF-8 or IBM-939")
	}
	return recordPage(p)
}
