package draft

import "ferry/internal/transfer"

// Files say how a transfer treats its sources and existing files at the destination.
type Files struct {
	Recursive    bool
	DeleteSource string // WhenEach, WhenAll, or "": the sources are kept; true and false stand for WhenEach and ""
	IfExists     string
	Archive      string // a directory for the sources
	ArchiveWhen  string // WhenEach or WhenAll
}

// When sources are deleted or archived.
const (
	WhenEach = "each" // each once it has arrived
	WhenAll  = "all"  // all of them, once everything has
)

// Deletes returns when sources are deleted: WhenEach, WhenAll, or "" for never.
func (f *Files) Deletes() string {
	switch f.DeleteSource {
	case "true":
		return WhenEach
	case "false":
		return ""
	}
	return f.DeleteSource
}

// dispose sets in the request whether the sources are kept, deleted or archived.
func (f *Files) dispose(q *transfer.Request) error {
	flag, when := "--delete-source", f.Deletes()
	switch {
	case f.Archive != "" && when != "":
		return transfer.Errorf(transfer.KindUsage, "a source is deleted or archived, not both").WithHint("leave out --delete-source or --archive")
	case f.Archive != "":
		flag, when = "--archive-when", f.ArchiveWhen
		q.Disposition, q.Archive = transfer.DispositionArchive, transfer.Path(f.Archive)
	case f.ArchiveWhen != WhenEach && f.ArchiveWhen != "":
		return transfer.Errorf(transfer.KindUsage, "--archive-when goes with --archive").WithHint("give --archive DIR, or --delete-source=all")
	case when == "":
		return nil
	default:
		q.Disposition = transfer.DispositionDelete
	}
	if when != WhenEach && when != WhenAll {
		return transfer.Errorf(transfer.KindUsage, "%s=%s is unknown; it is each or all", flag, when)
	}
	q.AllSources = when == WhenAll
	return nil
}

// Choice selects files, and gives their order, the treatment of links, and the permissions of new directories.
type Choice struct {
	MinFileSize, MaxFileSize string // as transfer.ParseSize takes them
	MinAge, MaxAge           string // as transfer.ParseAge takes them
	Order                    string
	Permissions, Links       string
}

// choose sets the selection in the request.
func (c *Choice) choose(q *transfer.Request) (err error) {
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
	q.Filter = transfer.Filter{MinSize: int64(size(c.MinFileSize)), MaxSize: int64(size(c.MaxFileSize)), MinAge: age(c.MinAge), MaxAge: age(c.MaxAge)}
	q.Order, q.Permissions, q.Links = c.Order, c.Permissions, c.Links
	if err == nil && c.MaxFileSize != "" && q.Filter.MaxSize == 0 {
		err = transfer.Errorf(transfer.KindUsage, "--max-file-size %s leaves out every file that has anything in it", c.MaxFileSize).WithHint("it begins at 1; leave it out for no bound")
	}
	return err
}
