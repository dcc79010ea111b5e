package record

import (
	"path"
	"strings"

	"ferry/internal/transfer"
)

// Limits on data set names, in characters. They are those of z/OS (MVS JCL
// Reference, SA23-1385, on DSNAME).
const (
	MaxDataset   = 44
	MaxQualifier = 8
	MaxMember    = 8
)

// maxLocation is the greatest length of a data set's location with its attributes, in bytes.
const maxLocation = 512

// A Dataset is a data set in a location: 'HLQ.NAME', or a member of a partitioned one, 'HLQ.LIB(MEMBER)'. Names are in
// capitals.
type Dataset struct {
	Name       string
	Member     string     // empty: the data set itself
	Attributes Attributes // zero where the location gives none
}

// IsDataset reports whether a user has typed the name of a data set: the text begins with a single quote, perhaps after
// two slashes. Package location calls it, and so does the command that works on one file; a transfer.Location has its
// own mark for data sets.
func IsDataset(p string) bool {
	return strings.HasPrefix(strings.TrimPrefix(p, "//"), "'")
}

// ParseDataset parses the path of a location as MQ MFT's users write it. Two slashes may precede the name in single
// quotes. Attributes may follow after a comma, after a semicolon or in brackets:
//
//	'HLQ.NAME'
//	//'HLQ.LIB(MEMBER)',RECFM(FB),LRECL(80),BLKSIZE(0)
//	//'HLQ.NAME';RECFM(F,B);LRECL(80)
//
// A name has 1 to 44 characters, in qualifiers of 1 to 8 with dots between them; a qualifier begins with a letter or
// one of # @ $, followed by those, digits and hyphens. A member's name has 1 to 8 of the same, without hyphens. Small
// letters become capitals.
func ParseDataset(s string) (Dataset, error) { return parseDataset(s, false) }

// ParsePattern is ParseDataset for a source. Its name and its member may have the wildcards * (any number of characters
// except dots) and ? (one character).
func ParsePattern(s string) (Dataset, error) { return parseDataset(s, true) }

func parseDataset(s string, wild bool) (d Dataset, err error) {
	if d, err = SplitDataset(s); err != nil {
		return Dataset{}, err
	}
	d.Name, d.Member = strings.ToUpper(d.Name), strings.ToUpper(d.Member)
	if d.Member != "" {
		if err := checkMember(d.Member, wild); err != nil {
			return Dataset{}, err
		}
	}
	if err := checkDatasetName(d.Name, wild); err != nil {
		return Dataset{}, err
	}
	return d, nil
}

// SplitDataset is ParseDataset for names with variables, which have no values yet. It parses the text, and checks only
// the attributes.
func SplitDataset(s string) (d Dataset, err error) {
	if len(s) > maxLocation {
		return Dataset{}, transfer.Errorf(transfer.KindUsage, "the location of a data set has %d bytes; the limit is %d", len(s), maxLocation)
	}

	rest, ok := strings.CutPrefix(strings.TrimPrefix(s, "//"), "'")
	name, attributes, closed := strings.Cut(rest, "'")
	if !ok || !closed {
		return Dataset{}, transfer.Errorf(transfer.KindUsage, "data set %q has no quotes around its name", s).WithHint("write 'HLQ.NAME' or 'HLQ.LIB(MEMBER)', quoted from the shell as well")
	}

	d.Name = name
	if library, member, ok := strings.Cut(name, "("); ok {
		if !strings.HasSuffix(member, ")") {
			return Dataset{}, transfer.Errorf(transfer.KindUsage, "data set '%s' has no bracket after its member's name", name)
		}
		if d.Name, d.Member = library, strings.TrimSuffix(member, ")"); d.Member == "" {
			return Dataset{}, transfer.Errorf(transfer.KindUsage, "a member has no name")
		}
	}

	if attributes == "" {
		return d, nil
	}

	if !strings.ContainsAny(attributes[:1], ",;( \t") {
		return Dataset{}, transfer.Errorf(transfer.KindUsage, "%q stands after the name of data set '%s'", attributes, d.Name).WithHint("put a comma between the name and its attributes")
	}
	d.Attributes, err = ParseAttributes(attributes)
	return d, err
}

// national are the letters of a name besides A to Z.
const national = "#@$"

func isLetter(c byte) bool {
	return 'A' <= c && c <= 'Z' || strings.IndexByte(national, c) >= 0
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWildcard(c byte) bool { return c == '*' || c == '?' }

func checkDatasetName(name string, wild bool) error {
	bad := func(format string, args ...any) error {
		return transfer.Errorf(transfer.KindUsage, "data set name %.100q "+format, append([]any{name}, args...)...)
	}
	if name == "" {
		return transfer.Errorf(transfer.KindUsage, "a data set has no name")
	}

	if len(name) > MaxDataset {
		return bad("has %d characters; the limit is %d", len(name), MaxDataset)
	}

	for q := range strings.SplitSeq(name, ".") {
		if q == "" {
			return bad("has an empty qualifier")
		}
		if len(q) > MaxQualifier {
			return bad("has the qualifier %s of %d characters; the limit is %d", q, len(q), MaxQualifier)
		}
		for i := range len(q) {
			switch c := q[i]; {
			case isLetter(c), wild && isWildcard(c), i > 0 && (isDigit(c) || c == '-'):
			case isWildcard(c):
				return bad("has the wildcard %c, which only a source may have", c)
			case i == 0:
				return bad("has the qualifier %q, which does not begin with a letter or one of # @ $", q)
			default:
				return bad("has a character that no data set name may have: %q", c)
			}
		}
	}
	return nil
}

func checkMember(name string, wild bool) error {
	bad := func(format string, args ...any) error {
		return transfer.Errorf(transfer.KindUsage, "member name %.100q "+format, append([]any{name}, args...)...)
	}
	switch {
	case name == "":
		return transfer.Errorf(transfer.KindUsage, "a member has no name")
	case strings.Trim(name, "+-0123456789") == "":
		return transfer.Errorf(transfer.KindUsage, "(%.100s) is a generation of a generation data group, which a directory of files does not have", name).
			WithHint("name the generation by its data set name, such as 'HLQ.NAME.G0001V00'")
	case len(name) > MaxMember:
		return bad("has %d characters; the limit is %d", len(name), MaxMember)
	}

	for i := range len(name) {
		switch c := name[i]; {
		case isLetter(c), wild && isWildcard(c), i > 0 && isDigit(c):
		case isWildcard(c):
			return bad("has the wildcard %c, which only a source may have", c)
		case i == 0:
			return bad("does not begin with a letter or one of # @ $")
		default:
			return bad("has a character that no member name may have: %q", c)
		}
	}
	return nil
}

// Path returns the path of the data set beneath a record root: a file of its name, or the member's file in a directory
// of the library's name.
func (d Dataset) Path() string {
	if d.Member == "" {
		return d.Name
	}
	return d.Name + "/" + d.Member
}

// SidecarPath returns the path of the data set's attributes beneath a record root. A library has one set of attributes
// for all its members, beside its directory.
func (d Dataset) SidecarPath() string { return SidecarName(d.Name) }

// String returns the data set as in a location.
func (d Dataset) String() string {
	s := "'" + d.Name + "'"
	if d.Member != "" {
		s = "'" + d.Name + "(" + d.Member + ")'"
	}
	if !d.Attributes.IsZero() {
		s += "," + d.Attributes.String()
	}
	return s
}

// AtPath returns the data set at a path beneath a record root, without attributes. ok is false if the path is no data
// set's.
func AtPath(p string) (d Dataset, ok bool) {
	library, member, in := strings.Cut(p, "/")
	d = Dataset{Name: library, Member: member}
	if checkDatasetName(d.Name, false) != nil || in && checkMember(d.Member, false) != nil || path.Clean(p) != p {
		return Dataset{}, false
	}
	return d, true
}

// Location returns the data set as in a request.
func (d Dataset) Location() transfer.Location {
	p := d.Path()
	return transfer.Location{Place: transfer.Datasets, Path: transfer.Path(p), Pattern: strings.ContainsAny(p, "*?"), Records: d.Attributes.Records()}
}

// At returns the data set, or the pattern of data sets, of a location of transfer.Datasets.
func At(l transfer.Location) (d Dataset, err error) {
	if l.Place != transfer.Datasets {
		return d, transfer.Errorf(transfer.KindUsage, "%s is no data set", l)
	}
	name, member, in := strings.Cut(strings.ToUpper(string(l.Path)), "/")
	if err := checkDatasetName(name, l.Pattern); err != nil {
		return d, err
	}
	if d.Name = name; in {
		if d, err = d.With(member, l.Pattern); err != nil {
			return d, err
		}
	}
	d.Attributes, err = FromRecords(l.Records)
	return d, err
}

// With returns a member of the library d. wild means that the name may have wildcards.
func (d Dataset) With(member string, wild bool) (Dataset, error) {
	d.Member = strings.ToUpper(member)
	return d, checkMember(d.Member, wild)
}

// OnHost returns the location of a data set on this host: beneath the record root or, if root is empty, relative to the
// directory where relative paths begin. It returns other locations unchanged.
func OnHost(root string, l transfer.Location) (transfer.Location, error) {
	if l.Place != transfer.Datasets {
		return l, nil
	}
	d, err := At(l)
	if err != nil {
		return l, err
	}
	if l.Pattern {
		return transfer.Match(transfer.Path(path.Join(transfer.Literally(root), d.Path()))), nil
	}
	return transfer.File(transfer.Path(path.Join(root, d.Path()))), nil
}
