package transfer

import (
	"strconv"
	"strings"
	"time"
)

// Terms are what a request says of its files as a whole: which of those that are found are
// taken, how many there may be, in which order they go and how fast, and whether one lands without the others. A retry has those of the transfer that
// it repeats.
type Terms struct {
	Rate     int64  `json:"rate,omitempty"`      // bytes a second, MinRate or more; 0: as fast as can be
	MaxFiles int64  `json:"max_files,omitempty"` // with more files nothing is sent; 0: any number
	MaxBytes int64  `json:"max_bytes,omitempty"` // the same of all of their bytes
	Together bool   `json:"together,omitempty"`  // all items get their names, or none: see MaxSet
	Filter   Filter `json:"filter,omitzero"`
	Order    string `json:"order,omitempty"` // in which files are sent: one of the Order… words; empty: as they are found
	// AllSources says that the sources that are to be deleted are so only if every item has arrived,
	// and otherwise none is.
	AllSources bool `json:"sources_together,omitempty"`
	// Permissions says where the permissions of new directories come from: one of the Permissions…
	// words; empty: PermissionsDestination.
	Permissions string `json:"permissions,omitempty"`
	// Links says how symbolic links that are found are treated: one of the Links… words; empty: LinksSkip.
	Links string `json:"links,omitempty"`
}

// How symbolic links are treated.
const (
	LinksSkip   = "skip"   // they are counted
	LinksFollow = "follow" // the linked file is sent under the link's name
	LinksError  = "error"  // each is a failed item
)

// Where the permissions of the directories come from that a transfer makes.
const (
	PermissionsDestination = "destination" // umask, setgid bit and default access control list there
	PermissionsPreserve    = "preserve"    // permission bits of the source, as far as the destination's rules allow
)

// Orders in which files are sent, from the least on; with a - before it from the greatest.
const (
	OrderName = "name" // of the path beneath the destination, by its bytes
	OrderTime = "time" // of modification
	OrderSize = "size"
)

func (t *Terms) check() error {
	if t.Rate < 0 || t.Rate > 0 && t.Rate < MinRate {
		return Errorf(KindUsage, "a limit of %d bytes a second is too low; it begins at %d", t.Rate, MinRate)
	}
	if t.MaxFiles < 0 || t.MaxBytes < 0 {
		return Errorf(KindUsage, "--max-files and --max-size cannot be below 0")
	}
	if err := checkWord("order", t.Order, []string{OrderName, OrderTime, OrderSize, "-" + OrderName, "-" + OrderTime, "-" + OrderSize}, nil); err != nil {
		return err
	}
	if err := checkWord("permissions", t.Permissions, []string{PermissionsDestination, PermissionsPreserve}, nil); err != nil {
		return err
	}
	if err := checkWord("links", t.Links, []string{LinksSkip, LinksFollow, LinksError}, nil); err != nil {
		return err
	}
	return t.Filter.check()
}

// A Filter says which of the files that a walk finds are taken. A bound of 0 is none.
type Filter struct {
	MinSize int64     `json:"min_size,omitempty"` // bytes
	MaxSize int64     `json:"max_size,omitempty"`
	MinAge  Duration  `json:"min_age,omitempty"` // since the file was modified
	MaxAge  Duration  `json:"max_age,omitempty"`
	AsOf    time.Time `json:"as_of,omitzero"` // when a file has its age; zero: when the request was submitted
}

// Bounds reports whether there is a bound.
func (f *Filter) Bounds() bool {
	return f.MinSize != 0 || f.MaxSize != 0 || f.MinAge != 0 || f.MaxAge != 0
}

// Takes reports whether a file of a size, modified at mtime (nanoseconds since 1970), is taken.
// submitted is when the request was.
func (f *Filter) Takes(size, mtime int64, submitted time.Time) bool {
	if size < f.MinSize || f.MaxSize > 0 && size > f.MaxSize {
		return false
	}
	if f.MinAge == 0 && f.MaxAge == 0 {
		return true
	}
	if !f.AsOf.IsZero() {
		submitted = f.AsOf
	}
	age := max(0, Duration(submitted.Sub(time.Unix(0, mtime)))) // it may be modified later
	return age >= f.MinAge && (f.MaxAge == 0 || age <= f.MaxAge)
}

// Takes reports whether the request takes an item that a walk has found. With a Filter no
// directory is one: those of the files that are taken are made with them. What cannot be sent fails
// whatever the Filter says, unless it is a file that is kept from being sent only by another one's name.
func (r *Request) Takes(it *Item) bool {
	switch {
	case !r.Filter.Bounds():
		return true
	case it.Type == ItemBad && (it.Err == nil || it.Err.Kind != KindExists || it.Mtime == 0):
		return true
	}
	return it.Type != ItemDir && r.Filter.Takes(it.Size, it.Mtime, r.Submitted)
}

func (f *Filter) check() error {
	switch {
	case f.MinSize < 0 || f.MaxSize < 0:
		return Errorf(KindUsage, "--min-file-size and --max-file-size cannot be below 0")
	case f.MinAge < 0 || f.MaxAge < 0:
		return Errorf(KindUsage, "--min-age and --max-age cannot be below 0, and are not for ever").WithHint("leave out a bound that is none")
	case f.MaxSize > 0 && f.MinSize > f.MaxSize:
		return Errorf(KindUsage, "no file has at least %s and at most %s", FormatBytes(f.MinSize), FormatBytes(f.MaxSize)).
			WithHint("--min-file-size is the smaller one of the two")
	case f.MaxAge > 0 && f.MinAge > f.MaxAge:
		return Errorf(KindUsage, "no file is at least %s old and at most %s", f.MinAge, f.MaxAge).
			WithHint("--min-age is the shorter one of the two")
	}
	return nil
}

// ParseAge reads a Duration that may begin with days ("30d", "1d12h").
func ParseAge(s string) (Duration, error) {
	days, rest, found := strings.Cut(s, "d")
	switch {
	case !found:
		days, rest = "0", s
	case rest == "":
		rest = "0s"
	}
	n, derr := strconv.ParseUint(days, 10, 16)
	d, err := time.ParseDuration(rest)
	if age := time.Duration(n)*24*time.Hour + d; derr == nil && err == nil && d >= 0 && age >= 0 {
		return Duration(age), nil
	}
	return 0, Errorf(KindUsage, "age %.40q is malformed; write it as 90s, 15m, 24h or 30d", s)
}
