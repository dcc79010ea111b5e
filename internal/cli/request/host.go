package request

import (
	"io"
	"os"

	"ferry/internal/cli/output"
	"ferry/internal/client/draft"
	"ferry/internal/node/onebox"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/pipe"
	"ferry/internal/transfer"
)

// A host completes the requests of a command that are for files of its host, or for its standard input.
type host struct {
	flags *Flags
	stdin io.Reader
}

var _ draft.Host = host{}

// Agents returns the agents of this process.
func (host) Agents() (source, destination transfer.AgentName) { return onebox.Source, onebox.Dest }

// Location returns a location of this host that means the same in each working directory. A pattern that is spelled as
// the name of a file is this file.
func (h host) Location(l transfer.Location) (transfer.Location, error) {
	if l.Place != transfer.Files {
		return l, nil
	}
	p, err := h.Path(l.Literal())
	if err != nil || !l.Pattern {
		return transfer.File(p), err
	}
	if _, err := os.Lstat(string(p)); err == nil {
		return transfer.File(p), nil // a shell has put the name of a file in the place of a pattern
	}
	wd := string(p[:max(0, len(p)-len(l.Literal()))]) // nothing before an absolute path
	return transfer.Match(transfer.Path(transfer.Literally(wd)) + l.Path), nil
}

// Path makes a path of this host absolute.
func (host) Path(p transfer.Path) (transfer.Path, error) { return HostPath(p) }

// HostPath makes a path of this host absolute. It keeps the last component and a final slash, because both have a
// meaning.
func HostPath(p transfer.Path) (transfer.Path, error) {
	if p == "" {
		return p, nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", transfer.Errorf(transfer.KindUsage, "the working directory is gone: %w", err)
	}
	return disk.HostRules.Absolute(p, wd)
}

// IsStream reports whether a request sends standard input.
func IsStream(q *transfer.Request) bool {
	return len(q.Items) == 1 && q.Items[0].Source == pipe.Stdio && (q.Source == "" || q.Source.Stream())
}

// Streams refuses standard output, and completes a request for standard input.
func (h host) Streams(q *transfer.Request) (is bool, err error) {
	if q.Dest == pipe.Stdio {
		return false, transfer.Errorf(transfer.KindUsage, "standard output is no destination of `ferry send`").
			WithHint("`ferry cat` writes a file to it; a file with the name - is ./-")
	}
	for _, it := range q.Items {
		if it.Source == pipe.Stdio {
			return true, h.fromStdin(q)
		}
	}
	return false, nil
}

// fromStdin sets the source agent of a request for standard input, or its DEST on this host.
func (h host) fromStdin(q *transfer.Request) (err error) {
	f := h.flags
	switch {
	case len(q.Items) > 1:
		return transfer.Errorf(transfer.KindUsage, "standard input is sent alone; it stands beside %s", output.Plural(int64(len(q.Items)-1), "other source"))
	case f.FilesFrom != "" || f.Detach || f.DryRun || f.Deletes() != "" || f.Archive != "" || f.Together:
		return transfer.Errorf(transfer.KindUsage, "standard input is not sent with --files-from, --detach, --dry-run, --delete-source, --archive or --together").
			WithHint("a file with the name - is ./-")
	case f.Choice != draft.Choice{}:
		return transfer.Errorf(transfer.KindUsage, "standard input is one file; its size and age are unknown before it ends").
			WithHint("leave out --min-file-size, --max-file-size, --min-age, --max-age, --order, --links and --permissions")
	}

	if f.Delivery == transfer.DeliveryStored {
		return transfer.Errorf(transfer.KindUsage, "standard input is read once, and --delivery stored may have to send something again").
			WithHint("send it without, or put it into a file first")
	}

	if q.Destination != "" {
		q.Source = transfer.StreamAgent(q.ID)
		return nil
	}

	q.Dest, err = h.Location(q.Dest)
	return err
}

// Names makes the names of --files-from the sources, relative to the single SOURCE of the command line.
func (h host) Names(q *transfer.Request) (err error) {
	list := h.flags.FilesFrom
	if list == "" {
		return nil
	}
	if len(q.Items) != 1 || q.Items[0].Source.Place != transfer.Files || q.Dest.Place == transfer.Datasets {
		return transfer.Errorf(transfer.KindUsage, "--files-from takes one SOURCE, the directory that its names are beneath, and a DEST that is no data set")
	}
	q.Base = q.Items[0].Source.Literal()
	names, err := sourcesFrom(list, h.stdin)
	q.Items = transfer.ItemsOf(names...)
	return err
}
