package transfer

import (
	"bytes"
	"encoding/json"
	"strings"
)

// A Place is a kind of place that an agent reads or writes.
type Place string

// The places of this version.
const (
	Files    Place = ""        // directories of the agent's host
	Datasets Place = "dataset" // files with records beneath the agent's record root; the path is NAME or NAME/MEMBER
	Queues   Place = "queue"   // application queues of the agent's queue manager; package place/queue reads the path
	Streams  Place = "stream"  // standard input or output of a command
)

// places are the places of this version. A further place is one more row.
var places = map[Place]struct {
	name     string // for users
	patterns bool   // a source can be a pattern
}{
	Files:    {"files", true},
	Datasets: {"data sets", true},
	Queues:   {"queues", false},
	Streams:  {"standard input and output", false},
}

// String returns the name of the place for users.
func (p Place) String() string {
	if known, ok := places[p]; ok {
		return known.name
	}
	return string(p)
}

// Known reports whether this version knows the place.
func (p Place) Known() bool {
	_, ok := places[p]
	return ok
}

// A Location names files, or their destination, at one agent. Package location makes it from the words of a user, and
// File from the bytes of a name. No other code derives a Place or a kind of path from the bytes of Path.
type Location struct {
	Place Place
	// Path is a literal path unless Pattern is set. In a pattern '*', '?' and the name "**" are wildcards, and %XX
	// stands for a literal byte; see Literally.
	Path    Path
	Pattern bool
	Records Records // of Datasets: the attributes given with the name
}

// File returns the location of the file or directory with exactly this path.
func File(p Path) Location { return Location{Path: p} }

// Match returns the location of all files that match a pattern.
func Match(pattern Path) Location { return Location{Path: pattern, Pattern: true} }

// Literally returns a pattern that matches only the bytes of s.
func Literally(s string) string {
	return strings.NewReplacer("%", "%25", "*", "%2A", "?", "%3F").Replace(s)
}

// IsZero reports whether the location is empty.
func (l Location) IsZero() bool { return l == Location{} }

// Literal returns the path as a file system has it. For a pattern it is the name with the pattern's spelling.
func (l Location) Literal() Path {
	if !l.Pattern {
		return l.Path
	}
	p, err := ParsePath(string(l.Path))
	if err != nil {
		return l.Path // Check refuses such a pattern
	}
	return p
}

// Directory reports whether the path itself marks a directory.
func (l Location) Directory() bool { return strings.HasSuffix(string(l.Path), "/") }

// AsDirectory returns the location as that of a directory. Only Files has directories.
func (l Location) AsDirectory() Location {
	if l.Place == Files && !l.Directory() {
		l.Path += "/"
	}
	return l
}

// String returns the location for display. No code parses this text; package location writes text that can be parsed.
func (l Location) String() string {
	if l.Place == Datasets {
		name, member, in := strings.Cut(l.Path.String(), "/")
		if in {
			name += "(" + member + ")"
		}
		return "'" + name + "'"
	}
	if l.Pattern {
		return l.Literal().String()
	}
	return l.Path.String()
}

// On returns the location for display, with its agent. Without an agent it is on this host.
func (l Location) On(a AgentName) string {
	if a == "" {
		return l.String()
	}
	return string(a) + ":" + l.String()
}

// Check returns an error if the location cannot be a source.
func (l Location) Check() error {
	if err := l.Literal().Check(); err != nil {
		return err
	}
	switch known, ok := places[l.Place]; {
	case !ok:
		return Errorf(KindVersion, "the place %.40q is not known to this version of Ferry", string(l.Place))
	case l.Pattern && !known.patterns:
		return Errorf(KindUsage, "%s is in %s, where no pattern matches", l, l.Place)
	}
	if !l.Records.IsZero() && l.Place != Datasets {
		return Errorf(KindUsage, "%s has the records of a data set and is none", l)
	}
	if !l.Pattern {
		return nil
	}
	plain, err := ParsePath(string(l.Path))
	if err == nil && (strings.Count(string(plain), "/") != strings.Count(string(l.Path), "/") || strings.ContainsRune(string(plain), 0)) {
		err = Errorf(KindUsage, "the pattern %s has an escape for a byte that no name has", l.Path)
	}
	return err
}

// CheckDest returns an error if the location cannot be a destination.
func (l Location) CheckDest() error {
	if l.Pattern {
		return Errorf(KindUsage, "the destination %s is a pattern; a destination is one place", l)
	}
	return l.Check()
}

// A locationJSON is a location other than a literal path of Files.
type locationJSON struct {
	Place   Place   `json:"place,omitempty"`
	Path    Path    `json:"path"`
	Pattern bool    `json:"pattern,omitempty"`
	Records Records `json:"records,omitzero"`
}

// MarshalJSON writes a string for a literal path of Files, and otherwise an object with all fields.
func (l Location) MarshalJSON() ([]byte, error) {
	if l == File(l.Path) {
		return json.Marshal(l.Path)
	}
	return json.Marshal(locationJSON(l))
}

// UnmarshalJSON reads the text of MarshalJSON.
func (l *Location) UnmarshalJSON(b []byte) error {
	if b = bytes.TrimSpace(b); len(b) == 0 || b[0] != '{' {
		*l = Location{}
		return json.Unmarshal(b, &l.Path)
	}
	var v locationJSON
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	err := d.Decode(&v)
	*l = Location(v)
	return err
}
