package transfer

import "unicode/utf8"

// Limits of the texts about content, in bytes.
const (
	MaxEncoding = 64
	MaxReplace  = 64
)

// A Content gives the conversion of the content of files, if any. The zero value leaves the bytes unchanged. This
// package does not check that code pages exist or that the figures of records are possible.
type Content struct {
	FromEncoding string  `json:"from_encoding,omitempty"` // code page of the sources; text mode
	ToEncoding   string  `json:"to_encoding,omitempty"`   // of the destination; text mode
	EOL          string  `json:"eol,omitempty"`           // lf, crlf or nl at the destination; text mode
	Replace      string  `json:"replace,omitempty"`       // replacement of characters that cannot be converted; text mode
	FromRecords  Records `json:"from_records,omitzero"`
	ToRecords    Records `json:"to_records,omitzero"`
	LongLines    string  `json:"long_lines,omitempty"` // wrap, truncate or fail; with ToRecords
	KeepBlanks   bool    `json:"keep_trailing_blanks,omitempty"`
}

// Records are the attributes of a record file, as z/OS names them. The zero value means a file without records.
type Records struct {
	RECFM   string `json:"recfm,omitempty"`
	LRECL   int    `json:"lrecl,omitempty"`
	BLKSIZE int    `json:"blksize,omitempty"`
}

// IsZero reports whether no attribute is set.
func (r Records) IsZero() bool { return r == Records{} }

// A Form describes a file's content as the source agent knows it.
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
