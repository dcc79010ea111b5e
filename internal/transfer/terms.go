package transfer

import "time"

// Terms are the conditions of a request for its files as a whole: the selection of found files, their limits, their
// order and rate, and whether all must land together. A retry has those of the transfer that it repeats.
type Terms struct {
	Rate     int64  `json:"rate,omitempty"`      // bytes a second, MinRate or more; 0: no limit
	MaxFiles int64  `json:"max_files,omitempty"` // if there are more files, nothing is sent; 0: no limit
	MaxBytes int64  `json:"max_bytes,omitempty"` // the same for the bytes of all files
	Together bool   `json:"together,omitempty"`  // all items get their final names, or none; see MaxSet
	Filter   Filter `json:"filter,omitzero"`
	Order    string `json:"order,omitempty"` // the order of files: one of the Order… words; empty: as found
	// AllSources says that sources are deleted only if every item has arrived, and otherwise none is.
	AllSources bool `json:"sources_together,omitempty"`
	// Permissions selects the origin of the permissions of new directories, with one of the Permissions… words. Empty
	// means PermissionsDestination.
	Permissions string `json:"permissions,omitempty"`
	// Links selects the treatment of symbolic links, with one of the Links… words. Empty means LinksSkip.
	Links string `json:"links,omitempty"`
}

// The treatments of symbolic links.
const (
	LinksSkip   = "skip"   // they are counted
	LinksFollow = "follow" // the linked file is sent under the link's name
	LinksError  = "error"  // each is a failed item
)

// The origins of the permissions of directories that a transfer makes.
const (
	PermissionsDestination = "destination" // umask, setgid bit and default access control list there
	PermissionsPreserve    = "preserve"    // permission bits of the source, as far as the destination's rules allow
)

// The orders of files, ascending; with a leading - descending.
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

// A Filter selects files of those that a walk finds. A bound of 0 means none.
type Filter struct {
	MinSize int64     `json:"min_size,omitempty"` // bytes
	MaxSize int64     `json:"max_size,omitempty"`
	MinAge  Duration  `json:"min_age,omitempty"` // time since the file was modified
	MaxAge  Duration  `json:"max_age,omitempty"`
	AsOf    time.Time `json:"as_of,omitzero"` // the time for which ages are computed; zero: the time of submission
}

// Bounds reports whether the filter has any bound.
func (f *Filter) Bounds() bool {
	return f.MinSize != 0 || f.MaxSize != 0 || f.MinAge != 0 || f.MaxAge != 0
}

// Takes reports whether the filter selects a file of a size, modified at mtime (nanoseconds since 1970). submitted is
// the time of the request's submission.
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
	age := max(0, Duration(submitted.Sub(time.Unix(0, mtime)))) // it may have been modified later
	return age >= f.MinAge && (f.MaxAge == 0 || age <= f.MaxAge)
}

// Takes reports whether the request selects an item that a walk has found. With a Filter it selects no directories: the
// directories of selected files are made with them. An item that cannot be sent is selected, and so fails, for any
// Filter. The exception is a file that only the name of another file keeps from being sent.
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
