package transfer

import "unicode/utf8"

// Limits of the words about content, in bytes.
const (
	MaxEncoding = 64
	MaxReplace  = 64
)

// A Content says how the content of files is converted, where it is. The zero
// value moves bytes as they are. What the names of code pages and the figures of
// records mean is not checked here.
type Content struct {
	FromEncoding string  `json:"from_encoding,omitempty"` // code page of the sources; text mode
	ToEncoding   string  `json:"to_encoding,omitempty"`   // of the destination; text mode
	EOL          string  `json:"eol,omitempty"`           // lf, crlf or nl at the destination; text mode
	Replace      string  `json:"replace,omitempty"`       // in place of what cannot be converted; text mode
	FromRecords  Records `json:"from_records,omitzero"`
	ToRecords    Records `json:"to_records,omitzero"`
	LongLines    string  `json:"long_lines,omitempty"` // wrap, truncate or fail; where ToRecords
	KeepBlanks   bool    `json:"keep_trailing_blanks,omitempty"`
}

// Records are the attributes of a record file, as z/OS names them. The zero value
// is a file without records.
type Records struct {
	RECFM   string `json:"recfm,omitempty"`
	LRECL   int    `json:"lrecl,omitempty"`
	BLKSIZE int    `json:"blksize,omitempty"`
}

// IsZero reports whether nothing is said.
func (r Records) IsZero() bool { return r == Records{} }

// A Form is what a source agent knows of a file's content beside its bytes.
type Form struct {
	Encoding string  `json:"encoding,omitempty"`
	EOL      string  `json:"eol,omitempty"` // the convention of the source's host; lf or crlf
	Records  Records `json:"records,omitzero"`
}

func (c *Content) check(text bool) error {
	for _, w := range []struct {
		flag, value string
		limit       int
	}{
		{"from-encoding", c.FromEncoding, MaxEncoding},
		{"to-encoding", c.ToEncoding, MaxEncoding},
		{"eol", c.EOL, MaxEncoding},
		{"replace", c.Replace, MaxReplace},
	} {
		switch {
		case w.value == "":
		case !text:
			return Errorf(KindUsage, "--%s belongs to text mode", w.flag).WithHint("add --mode text, or leave it out")
		case len(w.value) > w.limit:
			return Errorf(KindTooLarge, "--%s has %d bytes; the limit is %d", w.flag, len(w.value), w.limit)
		case !utf8.ValidString(w.value):
			return Errorf(KindUsage, "--%s %q is not UTF-8", w.flag, w.value)
		}
	}

	if c.KeepBlanks && !text {
		return Errorf(KindUsage, "--keep-trailing-blanks belongs to text mode").WithHint("add --mode text, or leave it out")
	}
	return checkWord("long-lines", c.LongLines, []string{"wrap", "truncate", "fail"}, nil)
}
