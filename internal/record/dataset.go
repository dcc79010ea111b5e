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

// maxLocation is how long a data set's location may be with its attributes.
const maxLocation = 512

// A Dataset is a data set as a location names it: 'HLQ.NAME', or one member of a
// partitioned one, 'HLQ.LIB(MEMBER)'. Names are in capitals.
type Dataset struct {
	Name       string
	Member     string     // empty: the data set itself
	Attributes Attributes // zero where the location gives none
}

// IsDataset reports whether the path of a location names a data set: it begins
// with a single quote, or with one after two slashes. A file whose name begins
// so is written './'NAME'.
func IsDataset(p string) bool {
	return strings.HasPrefix(strings.TrimPrefix(p, "//"), "'")
}

// ParseDataset reads the path of a location as MQ MFT's users write it: perhaps
// two slashes, the name in single quotes, and perhaps attributes after a comma,
// a semicolon or in brackets:
//
//	'HLQ.NAME'
//	//'HLQ.LIB(MEMBER)',RECFM(FB),LRECL(80),BLKSIZE(0)
//	//'HLQ.NAME';RECFM(F,B);LRECL(80)
//
// A name has 1 to 44 characters, in qualifiers of 1 to 8 with dots between
// them; a qualifier begins with a letter or one of # @ $ and goes on with those,
// digits and hyphens. A member's name has 1 to 8 of the same, without hyphens.
// Small letters become capitals.
func ParseDataset(s string) (Dataset, error) { return parseDataset(s, false) }

// ParsePattern is ParseDataset for a source: its name and its member may have
// the wildcards * (any characters, none, but no dot) and ? (one character).
func ParsePattern(s string) (Dataset, error) { return parseDataset(s, true) }

func parseDataset(s string, wild bool) (Dataset, error) {
	if len(s) > maxLocation {
		return Dataset{}, transfer.Errorf(transfer.KindUsage, "the location of a data set has %d bytes; the limit is %d", len(s), maxLocation)
	}

	rest, ok := strings.CutPrefix(strings.TrimPrefix(s, "//"), "'")
	name, attributes, closed := strings.Cut(rest, "'")
	if !ok || !closed {
		return Dataset{}, transfer.Errorf(transfer.KindUsage, "data set %q has no quotes around its name", s).WithHint("write 'HLQ.NAME' or 'HLQ.LIB(MEMBER)', quoted from the shell as well")
	}

	var d Dataset
	d.Name = strings.ToUpper(name)
	if library, member, ok := strings.Cut(d.Name, "("); ok {
		if !strings.HasSuffix(member, ")") {
			return Dataset{}, transfer.Errorf(transfer.KindUsage, "data set '%s' has no bracket after its member's name", d.Name)
		}
		d.Name, d.Member = library, strings.TrimSuffix(member, ")")
		if err := checkMember(d.Member, wild); err != nil {
			return Dataset{}, err
		}
	}
	if err := checkDatasetName(d.Name, wild); err != nil {
		return Dataset{}, err
	}

	if attributes == "" {
		return d, nil
	}

	if !strings.ContainsAny(attributes[:1], ",;( \t") {
		return Dataset{}, transfer.Errorf(transfer.KindUsage, "%q stands after the name of data set '%s'", attributes, d.Name).WithHint("put a comma between the name and its attributes")
	}

	var err error
	if d.Attributes, err = ParseAttributes(attributes); err != nil {
		return Dataset{}, err
	}
	return d, nil
}

// national are the letters of a name beside A to Z.
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

// Path is where the data set lies beneath a record root: a file of its name, or
// the member's file in a directory of the library's name.
func (d Dataset) Path() string {
	if d.Member == "" {
		return d.Name
	}
	return d.Name + "/" + d.Member
}

// SidecarPath is where the attributes of the data set are kept beneath a record
// root. A library has one set for all its members, beside its directory.
func (d Dataset) SidecarPath() string { return SidecarName(d.Name) }

// String is the data set as a location names it.
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

// AtPath is the data set that a path beneath a record root stands for, without
// attributes. ok is false where the path is no data set's.
func AtPath(p string) (d Dataset, ok bool) {
	library, member, in := strings.Cut(p, "/")
	d = Dataset{Name: library, Member: member}
	if checkDatasetName(d.Name, false) != nil || in && checkMember(d.Member, false) != nil || path.Clean(p) != p {
		return Dataset{}, false
	}
	return d, true
}

// HostPath is where a location's path lies, if it names a data set, or several by
// wildcards: beneath the record root, or, where that is empty, relative to
// wherever relative paths begin. Other paths are given back.
func HostPath(root, p string) (string, error) {
	if !IsDataset(p) {
		return p, nil
	}
	d, err := ParsePattern(p)
	if err != nil {
		return "", err
	}
	return path.Join(root, d.Path()), nil
}

// HostPaths is HostPath of several. A name that is malformed stays as it is, and
// is then no file's.
func HostPaths(root string, all []transfer.Path) []transfer.Path {
	out := make([]transfer.Path, len(all))
	for i, p := range all {
		out[i] = p
		if at, err := HostPath(root, string(p)); err == nil {
			out[i] = transfer.Path(at)
		}
	}
	return out
}
