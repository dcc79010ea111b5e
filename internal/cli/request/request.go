package request

import (
	"cmp"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ferry/internal/cli/session"
	"ferry/internal/client"
	"ferry/internal/content/conversion"
	"ferry/internal/content/digest"
	"ferry/internal/flow"
	"ferry/internal/node/onebox"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/location"
	"ferry/internal/place/pipe"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// Flags are the flags of ferry send as they were given.
type Flags struct {
	DryRun, Detach, JSON, Quiet                bool
	Mode, Checksum, Durability, Lane, Delivery string
	Compress, Job, Network, FilesFrom          string
	ConnectTimeout, Recovery                   string
	Content                                    contentFlags
	Log                                        session.LogFlags
	priority                                   int
	meta                                       []string
	FileFlags
	choiceFlags
	boundFlags
	flowFlags
	callFlags
	queueFlags
}

// FileFlags select files, and say how a transfer treats its sources and existing files at the destination.
type FileFlags struct {
	recursive              bool
	deleteSource, IfExists string
	archive, archiveWhen   string
}

// boundFlags bound a transfer.
type boundFlags struct {
	Limit, maxSize string
	maxFiles       int64
	together       bool
}

// flowFlags are the flow-control settings of a transfer.
type flowFlags struct {
	chunkSize                 string
	window, frame, checkpoint int
}

// Add adds the flags that describe a request; commands for monitors, schedules and templates take them, too.
func (f *Flags) Add(fl *pflag.FlagSet) {
	fl.BoolVarP(&f.recursive, "recursive", "r", false, "take directories with everything in them")
	fl.StringVar(&f.Mode, "mode", "binary", "binary or text")
	fl.StringVar(&f.Checksum, "checksum", "xxh3", "digest of each file: xxh3, md5, sha256 or none")
	fl.StringVar(&f.IfExists, "if-exists", "error", "action if the destination exists: error; overwrite; skip; update, which replaces older files and skips others; rename, which takes a free name as pay-1.csv; append, which adds the data to the end of the file")
	fl.StringVar(&f.deleteSource, "delete-source", "", "each: delete each source once its arrival is on record; all: only if everything has arrived")
	fl.Lookup("delete-source").NoOptDefVal = whenEach
	fl.Var((*nonEmpty)(&f.archive), "archive", "a directory of the source agent, on the same file system, into which each source is moved once its arrival is on record")
	fl.StringVar(&f.archiveWhen, "archive-when", whenEach, "each: move each source once its arrival is on record; all: only if everything has arrived")
	fl.StringVar(&f.Durability, "durability", "full", "full: an outcome survives a power cut; process: a crash of the process")
	f.Content.Add(fl)
	fl.StringVar(&f.Lane, "lane", "auto", "how the data travels: auto, direct or queue")
	fl.StringVar(&f.Delivery, "delivery", "fast", "fast or stored")
	fl.StringVar(&f.Compress, "compress", "none", "compression of the data on the way: none; fast or high, with less or more work; auto, fast where it saves time")
	fl.StringVar(&f.Limit, "limit", "", "bytes a second at most, as 10M (default: as fast as can be, and as the agent's own limit lets)")
	fl.Int64Var(&f.maxFiles, "max-files", 0, "send nothing if there are more files than that; 0: any number")
	fl.StringVar(&f.maxSize, "max-size", "", "send nothing if the files have more bytes than that, as 10G; 0: any number")
	f.choiceFlags.add(fl)
	fl.BoolVar(&f.together, "together", false, "all files get their names at the destination, or none does: they are kept under temporary names until the last one is there")
	fl.IntVar(&f.priority, "priority", 0, "0 to 9; 9 goes first")
	fl.StringVar(&f.Job, "job", "", "a name for people, kept on record")
	fl.StringArrayVar(&f.meta, "meta", nil, "K=V, kept on record; may be repeated")
	fl.StringVar(&f.chunkSize, "chunk-size", "", "bytes of one data message, 4K to 1M (default: the agent's, 256K)")
	fl.IntVar(&f.window, "window", 0, "chunks to one acknowledgement (default: the agent's, 10)")
	fl.IntVar(&f.frame, "frame", 0, "windows that the sender may run ahead (default: the agent's, 5)")
	fl.IntVar(&f.checkpoint, "checkpoint-interval", 0, "frames to one checkpoint (default: the agent's, 1)")
	fl.StringVar(&f.Recovery, "recovery-timeout", "24h", "how long to keep trying while nothing moves; -1 for ever")
	f.callFlags.add(fl)
	f.queueFlags.add(fl)
}

// Connected connects as --connect-timeout says; the caller closes.
func (f *Flags) Connected(cmd *cobra.Command) (*client.Client, context.Context, func(), error) {
	log, err := f.Log.Logger(cmd)
	if err != nil {
		return nil, nil, nil, err
	}
	patience, err := transfer.ParseDuration(f.ConnectTimeout)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, stop := session.UntilSignal(cmd.Context())
	// One attempt is made in any case: 0 would be the default of a connection.
	conn, err := session.Connect(ctx, cmd, f.Network, "ferry send", cmp.Or(time.Duration(patience), 1), log)
	if err != nil {
		defer stop()
		return nil, nil, nil, session.Unsent(ctx, err)
	}
	return &client.Client{Conn: conn, Clock: clock.System, Who: client.Me()}, ctx, func() { conn.Close(); stop() }, nil
}

// Request makes the request of the flags; local says that no agent is named.
func (f *Flags) Request(args []string, stdin io.Reader) (q *transfer.Request, local bool, err error) {
	q = &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Submitted: time.Now().UTC(),
		Originator: client.Me(), Job: f.Job, Priority: f.priority, Durability: f.Durability, Lane: f.Lane, Delivery: f.Delivery, Compress: f.Compress,
		Options: transfer.Options{Recursive: f.recursive, Mode: f.Mode, IfExists: f.IfExists, Content: f.Content.content()}}
	if err := f.sources(q); err != nil {
		return nil, false, err
	}

	m, err := digest.ParseMethod(f.Checksum)
	if err != nil {
		return nil, false, err
	}

	q.Checksum = string(m)
	if q.Meta, err = ParseMeta(f.meta); err != nil {
		return nil, false, err
	}
	if err := f.take(q); err != nil {
		return nil, false, err
	}

	if f.chunkSize != "" {
		if q.Settings.ChunkSize, err = transfer.ParseSize(f.chunkSize); err != nil {
			return nil, false, err
		}
	}

	q.Settings.WindowSize, q.Settings.FrameSize, q.Settings.CheckpointInterval = f.window, f.frame, f.checkpoint
	if err = cmp.Or(f.bounds(q), f.choose(q)); err != nil {
		return nil, false, err
	}

	if q.Recovery, err = transfer.ParseDuration(f.Recovery); err != nil {
		return nil, false, err
	}

	if q.Recovery == 0 {
		q.Recovery = 1 // 0 is "at once" here, and "the default" in a request
	}

	if local, err = f.locations(q, args); err != nil {
		return nil, false, err
	}
	if err := f.into(q); err != nil {
		return nil, false, err
	}
	if local && q.Programs != nil {
		return nil, false, transfer.Errorf(transfer.KindUsage, "programs are run by agents, and no agent is named").
			WithHint("name one on both sides, or run the programs yourself")
	}
	if err := conversion.TakeAttributes(q); err != nil {
		return nil, false, err
	}
	if err := f.list(q, stdin); err != nil {
		return nil, false, err
	}

	check := *q
	if local {
		check.Source, check.Destination = onebox.Source, onebox.Dest
	}
	if err := check.Check(); err != nil {
		return nil, false, err
	}
	return q, local, conversion.Check(&check)
}

// bounds reads the flags that bound the transfer.
func (f *Flags) bounds(q *transfer.Request) (err error) {
	q.MaxFiles, q.Together = f.maxFiles, f.together
	if f.maxSize != "" {
		n, err := transfer.ParseSize(f.maxSize)
		if err != nil {
			return err
		}
		q.MaxBytes = int64(n)
	}

	if f.Limit == "" {
		return nil
	}

	q.Rate, err = flow.ParseRate(f.Limit)
	return err
}

// list makes the names of --files-from the sources, relative to the single SOURCE of the command line.
func (f *Flags) list(q *transfer.Request, stdin io.Reader) (err error) {
	if f.FilesFrom == "" {
		return nil
	}
	if len(q.Items) != 1 || q.Items[0].Source.Place != transfer.Files || q.Dest.Place == transfer.Datasets {
		return transfer.Errorf(transfer.KindUsage, "--files-from takes one SOURCE, the directory that its names are beneath, and a DEST that is no data set")
	}
	q.Base = q.Items[0].Source.Literal()
	names, err := sourcesFrom(f.FilesFrom, stdin)
	q.Items = transfer.ItemsOf(names...)
	return err
}

// ParseMeta reads K=V.
func ParseMeta(entries []string) (map[string]string, error) {
	if len(entries) == 0 {
		return nil, nil
	}
	m := map[string]string{}
	for _, e := range entries {
		k, v, ok := strings.Cut(e, "=")
		if !ok || k == "" {
			return nil, transfer.Errorf(transfer.KindUsage, "--meta %q is malformed; write it as K=V", e)
		}
		m[k] = v
	}
	return m, nil
}

// locations reads where from and where to. This text is read nowhere else.
func (f *Flags) locations(q *transfer.Request, args []string) (local bool, err error) {
	if q.Destination, q.Dest, err = Typed(args[len(args)-1], location.Dest); err != nil {
		return false, err
	}
	for i, s := range args[:len(args)-1] {
		from, l, err := Typed(s, location.Source)
		if err != nil {
			return false, err
		}
		if i > 0 && from != q.Source {
			return false, transfer.Errorf(transfer.KindUsage, "the sources %q and %q are on different agents; one transfer has one source agent", args[0], s)
		}
		q.Source = from
		q.Items = append(q.Items, transfer.RequestItem{Source: l})
	}

	if q.Dest == pipe.Stdio {
		return false, transfer.Errorf(transfer.KindUsage, "standard output is no destination of `ferry send`").
			WithHint("`ferry cat` writes a file to it; a file with the name - is ./-")
	}

	if slices.ContainsFunc(q.Items, func(it transfer.RequestItem) bool { return it.Source == pipe.Stdio }) {
		return f.fromStdin(q)
	}

	if (q.Source == "") != (q.Destination == "") {
		return false, transfer.Errorf(transfer.KindUsage, "an agent is named on one side only: %q to %q", args[0], args[len(args)-1]).
			WithHint("name one on both sides, or on none to move files on this host")
	}

	if q.Source != "" {
		return false, nil
	}

	for n := range q.Items {
		it := &q.Items[n]
		if it.Source, err = HostLocation(it.Source); err != nil {
			return true, err
		}
	}

	for n := range q.Triggers {
		for k, p := range q.Triggers[n].Files {
			if q.Triggers[n].Files[k], err = HostPath(p); err != nil {
				return true, err
			}
		}
	}

	if q.Archive != "" {
		if q.Archive, err = HostPath(q.Archive); err != nil {
			return true, err
		}
	}
	q.Dest, err = HostLocation(q.Dest)
	return true, err
}

// Typed reads [AGENT:]LOCATION. Without an agent, "-" is standard input or output.
func Typed(arg string, read func(string) (transfer.Location, error)) (at transfer.AgentName, l transfer.Location, err error) {
	at, text, err := transfer.SplitAgent(arg)
	if err != nil {
		return "", l, err
	}
	if at == "" && text == string(pipe.Name) {
		return "", pipe.Stdio, nil
	}
	l, err = read(text)
	return at, l, err
}

// HostLocation is a location of this host that means the same in each working directory. A pattern that is spelled as the
// name of a file is this file.
func HostLocation(l transfer.Location) (transfer.Location, error) {
	if l.Place != transfer.Files {
		return l, nil
	}
	p, err := HostPath(l.Literal())
	if err != nil || !l.Pattern {
		return transfer.File(p), err
	}
	if _, err := os.Lstat(string(p)); err == nil {
		return transfer.File(p), nil // a shell has put the name of a file in the place of a pattern
	}
	wd := string(p[:max(0, len(p)-len(l.Literal()))]) // nothing before an absolute path
	return transfer.Match(transfer.Path(transfer.Literally(wd)) + l.Path), nil
}

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
