package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"strings"

	"ferry/internal/transfer"
)

// A sidecar is the small file beside a record file, or beside the directory of a partitioned data set, that keeps its
// attributes for the next reader. It is one line of JSON:
//
//	{"v":1,"recfm":"FB","lrecl":80,"blksize":27920,"encoding":"IBM-1047"}
//
// Unknown fields are ignored; another version is refused.
const sidecarVersion = 1

// MaxSidecar is the greatest length of a sidecar, in bytes.
const MaxSidecar = 1024

const maxEncoding = 64

const (
	sidecarShort  = ".ferry-a-" // the file's own name follows
	sidecarHashed = ".ferry-h-" // SHA-256 of a name too long for the short form
	sidecarSuffix = ".attributes"
)

// SidecarName returns the name of the sidecar of a file or directory, in the same directory. It begins with .ferry-, as
// all names for Ferry's own use: wildcards and walks ignore it, and no file lands on it. No two files share a sidecar.
func SidecarName(name string) string {
	short := sidecarShort + name + sidecarSuffix
	if len(short) <= transfer.MaxName {
		return short
	}
	sum := sha256.Sum256([]byte(name))
	return sidecarHashed + hex.EncodeToString(sum[:]) + sidecarSuffix
}

// SidecarPath is SidecarName for a path with slashes.
func SidecarPath(p string) string {
	return path.Join(path.Dir(p), SidecarName(path.Base(p)))
}

// IsSidecar reports whether a name is that of a sidecar.
func IsSidecar(name string) bool {
	return strings.HasSuffix(name, sidecarSuffix) && (strings.HasPrefix(name, sidecarShort) || strings.HasPrefix(name, sidecarHashed))
}

// A Sidecar holds the attributes of a record file.
type Sidecar struct {
	Attributes
	Encoding string // the code page of its text, if known
}

type sidecarLine struct {
	Version  int    `json:"v"`
	RECFM    string `json:"recfm"`
	LRECL    int    `json:"lrecl,omitempty"`
	BLKSIZE  int    `json:"blksize"`
	Encoding string `json:"encoding,omitempty"`
}

// Encode returns the sidecar's line, its end included. The attributes must pass Check; Encode chooses a BLKSIZE for 0.
func (s Sidecar) Encode() ([]byte, error) {
	a, err := s.Resolve()
	if err == nil {
		err = checkEncoding(s.Encoding)
	}
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(sidecarLine{sidecarVersion, a.RECFM(), a.LRECL, a.BLKSIZE, s.Encoding})
	return append(b, '\n'), err
}

// DecodeSidecar parses a sidecar's line. The attributes are resolved.
func DecodeSidecar(b []byte) (Sidecar, error) {
	bad := func(format string, args ...any) error {
		return transfer.Errorf(transfer.KindMalformed, format, args...).WithHint("remove it and give the attributes with the transfer")
	}
	if len(b) > MaxSidecar {
		return Sidecar{}, bad("the attributes beside the file have %d bytes; the limit is %d", len(b), MaxSidecar)
	}

	var version struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(b, &version); err != nil {
		return Sidecar{}, bad("the attributes beside the file cannot be read: %w", err)
	}

	if version.Version != sidecarVersion {
		return Sidecar{}, transfer.Errorf(transfer.KindVersion, "the attributes beside the file are of version %d; this is version %d", version.Version, sidecarVersion)
	}

	var line sidecarLine
	if err := json.Unmarshal(b, &line); err != nil {
		return Sidecar{}, bad("the attributes beside the file cannot be read: %w", err)
	}

	if end := bytes.IndexByte(b, '\n'); end >= 0 && end != len(b)-1 {
		return Sidecar{}, bad("the attributes beside the file have more than one line")
	}

	a, err := FromFlags(line.RECFM, line.LRECL, line.BLKSIZE)
	if err == nil {
		a, err = a.Resolve()
	}
	if err == nil {
		err = checkEncoding(line.Encoding)
	}
	if err != nil {
		return Sidecar{}, bad("the attributes beside the file are wrong: %w", err)
	}
	return Sidecar{a, line.Encoding}, nil
}

func checkEncoding(name string) error {
	if len(name) > maxEncoding {
		return transfer.Errorf(transfer.KindUsage, "the name of a code page has %d bytes; the limit is %d", len(name), maxEncoding)
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c > '~' || strings.IndexByte("\"\\<>&'", c) >= 0 {
			return transfer.Errorf(transfer.KindUsage, "%q is no name of a code page", name)
		}
	}
	return nil
}

// DatasetEncoding is the code page of a data set without a known one.
const DatasetEncoding = "IBM-1047"

// FromRecords returns the attributes of a request or of another agent, or none if r is zero. The error is of KindUsage.
func FromRecords(r transfer.Records) (Attributes, error) {
	if r.IsZero() {
		return Attributes{}, nil
	}
	if r.RECFM == "" {
		return Attributes{}, transfer.Errorf(transfer.KindUsage, "the records have a length and no format")
	}
	return FromFlags(r.RECFM, r.LRECL, r.BLKSIZE)
}

// Records returns the attributes in the form of a request.
func (a Attributes) Records() transfer.Records {
	if a.IsZero() {
		return transfer.Records{}
	}
	return transfer.Records{RECFM: a.RECFM(), LRECL: a.LRECL, BLKSIZE: a.BLKSIZE}
}

// Described returns the attributes of an encoded sidecar as text for messages; nil is no sidecar.
func Described(sidecar []byte) string {
	if sidecar == nil {
		return "no records"
	}
	s, err := DecodeSidecar(sidecar)
	if err != nil {
		return "attributes that cannot be read"
	}
	text := s.Attributes.String()
	if s.Encoding != "" {
		text += " in code page " + s.Encoding
	}
	return text
}
