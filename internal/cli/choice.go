package cli

import (
	"strings"

	"github.com/spf13/pflag"

	"ferry/internal/audit"
	"ferry/internal/transfer"
)

// choiceFlags select files, give their order, say how links are treated, and where new directories get their
// permissions.
type choiceFlags struct {
	smallest, largest, youngest, oldest string
	order                               string
	permissions, links                  string
}

func (f *choiceFlags) add(fl *pflag.FlagSet) {
	fl.StringVar(&f.smallest, "min-file-size", "", "leave out files with fewer bytes, as 1 or 10K")
	fl.StringVar(&f.largest, "max-file-size", "", "leave out files with more bytes, as 2G")
	fl.StringVar(&f.youngest, "min-age", "", "leave out files that were modified less than that before the request, as 10m or 30d")
	fl.StringVar(&f.oldest, "max-age", "", "leave out files that were modified longer ago than that, as 24h or 7d")
	fl.StringVar(&f.order, "order", "", "order of the files: name, time (the oldest first) or size (the smallest first); -name, -time or -size, the other way round (default: as they are found)")
	fl.StringVar(&f.links, "links", "", "how symbolic links that are found are treated: skip, follow (to files), or error (default: skip)")
	fl.StringVar(&f.permissions, "permissions", "", "permissions of new directories: destination, as its umask, setgid bits and default access control lists have it; or preserve, those of the source (default: destination)")
}

// choose writes the values of the flags to the request.
func (f *choiceFlags) choose(q *transfer.Request) (err error) {
	size := func(s string) (n int) {
		if err == nil && s != "" {
			n, err = transfer.ParseSize(s)
		}
		return n
	}
	age := func(s string) (d transfer.Duration) {
		if err == nil && s != "" {
			d, err = transfer.ParseAge(s)
		}
		return d
	}
	q.Filter = transfer.Filter{MinSize: int64(size(f.smallest)), MaxSize: int64(size(f.largest)), MinAge: age(f.youngest), MaxAge: age(f.oldest)}
	q.Order, q.Permissions, q.Links = f.order, f.permissions, f.links
	if err == nil && f.largest != "" && q.Filter.MaxSize == 0 {
		err = transfer.Errorf(transfer.KindUsage, "--max-file-size %s leaves out every file that has anything in it", f.largest).WithHint("it begins at 1; leave it out for no bound")
	}
	return err
}

// A nonEmpty is the value of a flag that may be left out, but not be empty. An empty variable of a script would
// otherwise have the same effect as leaving the flag out.
type nonEmpty string

func (v *nonEmpty) String() string { return string(*v) }
func (v *nonEmpty) Type() string   { return "string" }

func (v *nonEmpty) Set(s string) error {
	if s == "" {
		return transfer.Errorf(transfer.KindUsage, "it is empty")
	}
	*v = nonEmpty(s)
	return nil
}

// whichFiles describes the choice of files of a request, and their order; empty: all, in the order of the walk.
func whichFiles(q *audit.RequestFacts) string {
	f, all := q.Filter, []string{}
	add := func(given bool, what string) {
		if given {
			all = append(all, what)
		}
	}
	add(f.MinSize > 0, "at least "+transfer.FormatBytes(f.MinSize))
	add(f.MaxSize > 0, "at most "+transfer.FormatBytes(f.MaxSize))
	add(f.MinAge > 0, "at least "+f.MinAge.String()+" old")
	add(f.MaxAge > 0, "at most "+f.MaxAge.String()+" old")
	add(!f.AsOf.IsZero(), "at "+stamp(f.AsOf))
	add(q.Order != "", "by "+q.Order)
	add(q.Archive != "", "moved to "+q.Archive.String()+" then")
	add(q.Disposition == transfer.DispositionDelete, "deleted then")
	add(q.AllSources, "all of them or none")
	return strings.Join(all, ", ")
}

// When sources are deleted or archived.
const (
	whenEach = "each" // each once it has arrived
	whenAll  = "all"  // all of them, once everything has
)

// deleting returns the time at which sources are deleted; "" is never. true and false are words for each and never, as
// of a flag that takes no value otherwise.
func (f *fileFlags) deleting() string {
	switch f.deleteSource {
	case "true":
		return whenEach
	case "false":
		return ""
	}
	return f.deleteSource
}

// sources sets in the request whether the sources are kept, deleted or archived.
func (f *fileFlags) sources(q *transfer.Request) error {
	flag, when := "--delete-source", f.deleting()
	switch {
	case f.archive != "" && when != "":
		return transfer.Errorf(transfer.KindUsage, "a source is deleted or archived, not both").WithHint("leave out --delete-source or --archive")
	case f.archive != "":
		flag, when = "--archive-when", f.archiveWhen
		q.Disposition, q.Archive = transfer.DispositionArchive, transfer.Path(f.archive)
	case f.archiveWhen != whenEach && f.archiveWhen != "":
		return transfer.Errorf(transfer.KindUsage, "--archive-when goes with --archive").WithHint("give --archive DIR, or --delete-source=all")
	case when == "":
		return nil
	default:
		q.Disposition = transfer.DispositionDelete
	}
	if when != whenEach && when != whenAll {
		return transfer.Errorf(transfer.KindUsage, "%s=%s is unknown; it is each or all", flag, when)
	}
	q.AllSources = when == whenAll
	return nil
}
