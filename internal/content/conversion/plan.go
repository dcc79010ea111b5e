package conversion

import (
	"fmt"
	"strings"

	"ferry/internal/content/codepage"
	"ferry/internal/content/record"
	"ferry/internal/transfer"
)

// A Target is the knowledge of the destination's agent about the place where a file will land.
type Target struct {
	Dest    transfer.Location // as in the request
	Dataset bool              // Dest names a data set
	Known   *transfer.Form    // of the existing data set; nil: none
}

// A Plan is the conversion of one file.
type Plan struct {
	text     bool
	pages    codepage.Options // text mode
	from, to record.Attributes
	opt      record.Options
	fromPage record.Page // text mode, where from
	toPage   record.Page // text mode, where to
	kept     string      // binary mode: the known code page of a record file's text
}

// Plan combines the request, the Form of the file, and the Target. The request overrides the known properties, and
// those override the agents' defaults. Its errors fail the item.
func (d *Defaults) Plan(q *transfer.Options, form transfer.Form, t Target) (*Plan, error) {
	p := &Plan{text: q.Mode == transfer.ModeText}
	p.opt.KeepTrailingBlanks = q.KeepBlanks
	var err error
	if p.opt.Long, err = record.ParseLongLines(q.LongLines); err != nil {
		return nil, err
	}
	if err := p.records(q, form, t); err != nil {
		return nil, err
	}

	if !p.text {
		return p, nil
	}
	return p, d.setPages(p, q, form, t)
}

// records sets the attributes of both sides.
func (p *Plan) records(q *transfer.Options, form transfer.Form, t Target) (err error) {
	from := q.FromRecords
	if from.IsZero() {
		from = form.Records
	}

	if p.from, err = resolved("from-recfm", from); err != nil {
		return err
	}

	if !p.text && !form.Records.IsZero() {
		p.kept = form.Encoding
	}

	if p.to, err = resolved("recfm", q.ToRecords); err != nil || !p.to.IsZero() || !t.Dataset {
		return err
	}

	switch {
	case t.Known != nil:
		p.to, err = resolved("recfm", t.Known.Records)
	case !p.from.IsZero():
		p.to = p.from
	default:
		err = transfer.Errorf(transfer.KindMalformed, "the record attributes of the data set %s are unknown", t.Dest).
			WithHint("give --recfm and --lrecl, or RECFM(FB),LRECL(80) after its name")
	}
	return err
}

func resolved(flag string, r transfer.Records) (record.Attributes, error) {
	a, err := attributes(flag, r)
	if err != nil || a.IsZero() {
		return a, err
	}
	return a.Resolve()
}

// setPages sets code pages and line ends.
func (d *Defaults) setPages(p *Plan, q *transfer.Options, form transfer.Form, t Target) error {
	to := d.encoding()
	switch {
	case q.ToEncoding != "":
		to = q.ToEncoding
	case t.Known != nil && t.Known.Encoding != "":
		to = t.Known.Encoding
	case t.Dataset:
		to = record.DatasetEncoding
	}

	from := q.FromEncoding
	if from == "" {
		from = form.Encoding
	}

	o := codepage.Options{Replace: q.Replace}
	if o.Replace == "" {
		o.Replace = d.Replace
	}

	var err error
	if o.From, err = codepage.Lookup(from); err != nil {
		return err
	}

	if o.To, err = codepage.Lookup(to); err != nil {
		return err
	}

	if !p.from.IsZero() {
		if p.fromPage, err = recordPage(o.From); err != nil {
			return err
		}
	}

	switch {
	case !p.to.IsZero():
		if p.toPage, err = recordPageTo(o.To); err != nil {
			return err
		}
		if !o.To.EBCDIC() {
			o.ToEOL = codepage.LF // the line end between the two steps
		}
	case q.EOL != "":
		if o.ToEOL, err = codepage.ParseEOL(q.EOL); err != nil {
			return err
		}
	case !o.To.EBCDIC():
		o.ToEOL = d.eol()
	}

	p.pages = o
	_, err = codepage.New(o)
	return err
}

// Nothing reports whether the bytes do not change, so that no pipeline is needed.
func (p *Plan) Nothing() bool {
	if p.text {
		return false
	}
	// Bytes in fixed records are the same as plain bytes.
	plain := func(a record.Attributes) bool {
		return a.IsZero() || !a.ASA && (a.Format == record.F || a.Format == record.FB)
	}
	return p.from == p.to || plain(p.from) && plain(p.to) && (p.from.IsZero() || p.to.IsZero())
}

// Records returns the attributes that the destination will have; zero: none.
func (p *Plan) Records() record.Attributes { return p.to }

// Form returns the properties of the content to be recorded at the destination. Without records there are none.
func (p *Plan) Form() *transfer.Form {
	f := &transfer.Form{Records: p.to.Records()}
	switch {
	case f.Records.IsZero():
	case p.text:
		f.Encoding = p.pages.To.Name()
	default:
		f.Encoding = p.kept
	}
	return f
}

// Text reports whether the bytes are text, so that the code page matters.
func (p *Plan) Text() bool { return p.text }

// Estimate returns the approximate length of the destination for a source of n bytes.
func (p *Plan) Estimate(n int64) int64 {
	if p.text {
		if least, _ := p.pages.From.Width(); least > 1 {
			return n / int64(least)
		}
	}
	return n
}

// String identifies a plan: a state belongs to only one plan.
func (p *Plan) String() string {
	var s strings.Builder
	if p.text {
		fmt.Fprintf(&s, "text %s %s %s %q", p.pages.From.Name(), p.pages.To.Name(), p.pages.ToEOL, p.pages.Replace)
	} else {
		s.WriteString("binary")
	}
	fmt.Fprintf(&s, " [%s] [%s] %s", noted(p.from), noted(p.to), p.opt.Long)
	if p.opt.KeepTrailingBlanks {
		s.WriteString(" kept")
	}
	return s.String()
}

func noted(a record.Attributes) string {
	if a.IsZero() {
		return ""
	}
	return a.String()
}
