package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ferry/internal/client"
	"ferry/internal/content/conversion"
	"ferry/internal/content/digest"
	"ferry/internal/flow"
	"ferry/internal/node/onebox"
	"ferry/internal/place/local"
	"ferry/internal/place/location"
	"ferry/internal/place/pipe"
	"ferry/internal/qmgr"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// sendFlags are the flags of ferry send as they were given.
type sendFlags struct {
	dryRun, detach, json, quiet                bool
	mode, checksum, durability, lane, delivery string
	compress, job, network, filesFrom          string
	connectTimeout, recovery                   string
	content                                    contentFlags
	log                                        logFlags
	priority                                   int
	meta                                       []string
	fileFlags
	choiceFlags
	boundFlags
	flowFlags
	callFlags
	queueFlags
}

// fileFlags select files, and say how a transfer treats its sources and existing files at the destination.
type fileFlags struct {
	recursive              bool
	deleteSource, ifExists string
	archive, archiveWhen   string
}

// boundFlags bound a transfer.
type boundFlags struct {
	limit, maxSize string
	maxFiles       int64
	together       bool
}

// flowFlags are the flow-control settings of a transfer.
type flowFlags struct {
	chunkSize                 string
	window, frame, checkpoint int
}

func newSend() *cobra.Command {
	f, p, j := &sendFlags{}, &planFlags{}, &jobFlags{}
	var toXML bool
	c := &cobra.Command{
		Use:   "send [flags] SOURCE... DEST",
		Short: "Move files",
		Long: `Moves files. A location is [AGENT:]PATH. With no agent on either side, files move
on this host. DEST ending in '/' or an existing directory takes sources under
their own names; with -r a directory goes into DEST as cp -r does. A SOURCE of - is
standard input, until its end; DEST names the file then. In text mode
(--mode text) code pages and line ends are converted; with --recfm, or a data set
'HLQ.NAME' as a location, lines or bytes become records, and back.

Result codes: 0 success, 20 partial success, 40 failed, 41 cancelled, 42 not started
(--trigger), 49 unknown agent, 64 usage, 69 recovery timed out, 70 parked or refused,
75 no queue manager, or none that is sure to have stored the request; with --detach 3,
queued: the queue manager has stored it, and the agent has not taken it yet.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && f.filesFrom != "" {
				return transfer.Errorf(transfer.KindUsage, "`ferry send --files-from %s` takes SOURCE and DEST; it got 1 location; SOURCE is the directory that the names are beneath, as .", f.filesFrom)
			}
			if len(args) < 2 {
				return transfer.Errorf(transfer.KindUsage, "`ferry send` takes SOURCE... DEST; it got %s", plural(int64(len(args)), "location"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if several, err := j.given(cmd.Flags()); err != nil {
				return err
			} else if several {
				return sendJob(cmd, f, j, args)
			}
			later, err := p.given(cmd.Flags())
			switch {
			case err != nil:
				return err
			case later && toXML:
				return transfer.Errorf(transfer.KindUsage, "--to-xml writes no schedule").WithHint("leave out --at, or --to-xml")
			case later:
				return sendLater(cmd, f, p, args)
			case toXML:
				return printXML(cmd, f, args)
			}
			return send(cmd, f, args)
		},
	}
	fl := c.Flags()
	f.addRequest(fl)
	fl.StringVar(&f.filesFrom, "files-from", "", "a file, or - for stdin, with the names of the files to send: one name on each line, or ended by NUL, beneath the one SOURCE, a directory; names are taken as they are, and keep their directories")
	fl.BoolVar(&f.dryRun, "dry-run", false, "list the files, and send nothing")
	fl.BoolVar(&toXML, "to-xml", false, "print the request as the XML of IBM MQ MFT, which `ferry submit` takes, and send nothing")
	addNetwork(fl, &f.network)
	fl.StringVar(&f.connectTimeout, "connect-timeout", "30s", "how long to try to reach a queue manager before the transfer is handed over, -1 for ever; then 75")
	fl.BoolVar(&f.detach, "detach", false, "print the ID and do not wait")
	fl.BoolVar(&f.json, "json", false, "JSON Lines on stdout, ending with a summary")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress, no notices and no summary; errors are shown")
	f.log.add(c, "error")
	j.add(fl)
	p.add(fl)
	c.Example = `  ferry send -r /data/out /mnt/backup/
  ferry send --network nats://hub:4222 ALPHA:pay.csv BETA:inbox/
  ferry send --delete-source --job nightly 'ALPHA:out/*.xml' BETA:in/
  ferry send ALPHA:prices.csv BETA:in/ --also-to GAMMA:in/ --also-to DELTA:in/
  ferry send --at 02:30 --every 1d --schedule nightly ALPHA:'out/*' BETA:in/
  ferry send --split-delimiter 0x0a ALPHA:orders.txt BETA:queue:ORDERS
  pg_dump sales | ferry send - BETA:backup/sales.sql
  ferry send --mode text --to-encoding IBM-1047 ALPHA:list.txt BETA:LIST`
	inGroups(c, []flagGroup{
		{"Sent files", []string{"recursive", "files-from", "min-file-size", "max-file-size", "min-age", "max-age", "order", "links", "max-files", "max-size", "delete-source", "archive", "archive-when", "dry-run", "to-xml"}},
		{"Where it goes", []string{"also-to", "network", "if-exists", "permissions", "together"}},
		{"Before and after", []string{"trigger", "pre-source", "pre-source-arg", "post-source", "post-source-arg", "pre-destination", "pre-destination-arg", "post-destination", "post-destination-arg"}},
		{"Text and records", []string{"mode", "from-encoding", "to-encoding", "eol", "replace", "recfm", "lrecl", "blksize", "from-recfm", "from-lrecl", "from-blksize", "long-lines", "keep-trailing-blanks"}},
		{"Messages of queues", queueWords},
		{"Integrity", []string{"checksum", "durability"}},
		{"Speed", []string{"limit", "lane", "compress", "priority", "chunk-size", "window", "frame", "checkpoint-interval", "delivery"}},
		{"Waiting", []string{"detach", "connect-timeout", "recovery-timeout"}},
		{"At appointed times", planWords},
		{"Output and record", []string{"json", "quiet", "job", "meta", "log-level", "log-format"}},
	})
	return c
}

// addRequest adds the flags that describe a request; commands for monitors, schedules and templates take them, too.
func (f *sendFlags) addRequest(fl *pflag.FlagSet) {
	fl.BoolVarP(&f.recursive, "recursive", "r", false, "take directories with everything in them")
	fl.StringVar(&f.mode, "mode", "binary", "binary or text")
	fl.StringVar(&f.checksum, "checksum", "xxh3", "digest of each file: xxh3, md5, sha256 or none")
	fl.StringVar(&f.ifExists, "if-exists", "error", "action if the destination exists: error; overwrite; skip; update, which replaces older files and skips others; rename, which takes a free name as pay-1.csv; append, which adds the data to the end of the file")
	fl.StringVar(&f.deleteSource, "delete-source", "", "each: delete each source once its arrival is on record; all: only if everything has arrived")
	fl.Lookup("delete-source").NoOptDefVal = whenEach
	fl.Var((*nonEmpty)(&f.archive), "archive", "a directory of the source agent, on the same file system, into which each source is moved once its arrival is on record")
	fl.StringVar(&f.archiveWhen, "archive-when", whenEach, "each: move each source once its arrival is on record; all: only if everything has arrived")
	fl.StringVar(&f.durability, "durability", "full", "full: an outcome survives a power cut; process: a crash of the process")
	f.content.add(fl)
	fl.StringVar(&f.lane, "lane", "auto", "how the data travels: auto, direct or queue")
	fl.StringVar(&f.delivery, "delivery", "fast", "fast or stored")
	fl.StringVar(&f.compress, "compress", "none", "compression of the data on the way: none; fast or high, with less or more work; auto, fast where it saves time")
	fl.StringVar(&f.limit, "limit", "", "bytes a second at most, as 10M (default: as fast as can be, and as the agent's own limit lets)")
	fl.Int64Var(&f.maxFiles, "max-files", 0, "send nothing if there are more files than that; 0: any number")
	fl.StringVar(&f.maxSize, "max-size", "", "send nothing if the files have more bytes than that, as 10G; 0: any number")
	f.choiceFlags.add(fl)
	fl.BoolVar(&f.together, "together", false, "all files get their names at the destination, or none does: they are kept under temporary names until the last one is there")
	fl.IntVar(&f.priority, "priority", 0, "0 to 9; 9 goes first")
	fl.StringVar(&f.job, "job", "", "a name for people, kept on record")
	fl.StringArrayVar(&f.meta, "meta", nil, "K=V, kept on record; may be repeated")
	fl.StringVar(&f.chunkSize, "chunk-size", "", "bytes of one data message, 4K to 1M (default: the agent's, 256K)")
	fl.IntVar(&f.window, "window", 0, "chunks to one acknowledgement (default: the agent's, 10)")
	fl.IntVar(&f.frame, "frame", 0, "windows that the sender may run ahead (default: the agent's, 5)")
	fl.IntVar(&f.checkpoint, "checkpoint-interval", 0, "frames to one checkpoint (default: the agent's, 1)")
	fl.StringVar(&f.recovery, "recovery-timeout", "24h", "how long to keep trying while nothing moves; -1 for ever")
	f.callFlags.add(fl)
	f.queueFlags.add(fl)
}

func send(cmd *cobra.Command, f *sendFlags, args []string) error {
	q, local, err := f.request(args, cmd.InOrStdin())
	if err != nil {
		return err
	}

	if isStream(q) {
		return sendStdin(cmd, f, q, local)
	}

	if local {
		return sendOneBox(cmd, f, q, nil)
	}
	return f.hand(cmd, q)
}

// hand submits a request to a network, and waits for its end unless the flags say otherwise.
func (f *sendFlags) hand(cmd *cobra.Command, q *transfer.Request) error {
	if err := needNetwork(f.network); err != nil {
		return err
	}
	net, ctx, done, err := f.connected(cmd)
	if err != nil {
		return err
	}
	defer done()
	return submitAndWatch(ctx, cmd, net, q, f, newView(cmd, f.json, f.quiet))
}

// connected connects as --connect-timeout says; the caller closes.
func (f *sendFlags) connected(cmd *cobra.Command) (*client.Client, context.Context, func(), error) {
	log, err := f.log.logger(cmd)
	if err != nil {
		return nil, nil, nil, err
	}
	patience, err := transfer.ParseDuration(f.connectTimeout)
	if err != nil {
		return nil, nil, nil, err
	}
	ctx, stop := untilSignal(cmd.Context())
	// One attempt is made in any case: 0 would be the default of a connection.
	conn, err := connect(ctx, cmd, f.network, "ferry send", cmp.Or(time.Duration(patience), 1), log)
	if err != nil {
		defer stop()
		return nil, nil, nil, unsent(ctx, err)
	}
	return &client.Client{Conn: conn, Clock: clock.System, Who: client.Me()}, ctx, func() { conn.Close(); stop() }, nil
}

func needNetwork(url string) error {
	if url != "" {
		return nil
	}
	return transfer.Errorf(transfer.KindUsage, "a location names an agent, but no network is given").
		WithHint("give --network URL or set FERRY_NETWORK")
}

// unsent adds to an error from before the submission of a request that no request was sent, where a signal ended the
// command.
func unsent(ctx context.Context, err error) error {
	if sig, ok := signalled(ctx); ok && err != nil {
		return fmt.Errorf("%w: nothing was sent", sig)
	}
	return err
}

// slowNotice prints a notice when a queue manager does not answer within 2 s; stop cancels it.
func slowNotice(cmd *cobra.Command, url string) (stop func()) {
	t := time.AfterFunc(2*time.Second, func() {
		fmt.Fprintf(cmd.ErrOrStderr(), "ferry: no queue manager answers at %s yet; trying on\n", printable(url))
	})
	return func() { t.Stop() }
}

// connect tries for limit, and prints a notice when it takes a while.
func connect(ctx context.Context, cmd *cobra.Command, url, name string, limit time.Duration, log logT) (*qmgr.Conn, error) {
	defer slowNotice(cmd, url)()
	return connectUser(ctx, cmd, url, name, limit, log)
}

// submitAndWatch submits the request and follows it to its end.
func submitAndWatch(ctx context.Context, cmd *cobra.Command, s *client.Client, q *transfer.Request, f *sendFlags, v *view) error {
	if err := s.Check(ctx, q); err != nil {
		return unsent(ctx, err)
	}

	if f.dryRun {
		return unsent(ctx, dryRun(ctx, cmd, s, q, f.json))
	}

	notice := func(err error) { v.notice("%v", err) }
	h := &handing{cmd: cmd, noun: "transfer", agent: q.Source, id: q.ID, json: f.json}
	if f.detach {
		return h.detach(ctx, func(ctx context.Context) (transfer.State, error) {
			p, err := s.Submit(ctx, q, nil)
			if p == nil {
				return transfer.Accepted, err
			}
			return p.State, err
		})
	}

	p, err := s.Run(ctx, q, v.show, notice)
	if err != nil {
		v.clear()
	}
	switch {
	case signalEnded(ctx, err):
		return h.interrupted(ctx, err, func() error { return cancelled(cmd, s, q, v) })
	case err != nil:
		return h.unfinished(err)
	}
	return v.finish(p)
}

// cancelled cancels a transfer and waits for its end.
func cancelled(cmd *cobra.Command, s *client.Client, q *transfer.Request, v *view) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	p, err := s.Cancel(ctx, client.Of(q))
	if err != nil {
		return err
	}
	if !p.State.Final() {
		fmt.Fprintf(cmd.ErrOrStderr(), "ferry: transfer %s is being cancelled\n", q.ID)
		return exit(transfer.CodeCancelled)
	}
	return v.finish(p)
}

// request makes the request of the flags; local says that no agent is named.
func (f *sendFlags) request(args []string, stdin io.Reader) (q *transfer.Request, local bool, err error) {
	q = &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Submitted: time.Now().UTC(),
		Originator: client.Me(), Job: f.job, Priority: f.priority, Durability: f.durability, Lane: f.lane, Delivery: f.delivery, Compress: f.compress,
		Options: transfer.Options{Recursive: f.recursive, Mode: f.mode, IfExists: f.ifExists, Content: f.content.content()}}
	if err := f.sources(q); err != nil {
		return nil, false, err
	}

	m, err := digest.ParseMethod(f.checksum)
	if err != nil {
		return nil, false, err
	}

	q.Checksum = string(m)
	if q.Meta, err = parseMeta(f.meta); err != nil {
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

	if q.Recovery, err = transfer.ParseDuration(f.recovery); err != nil {
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
func (f *sendFlags) bounds(q *transfer.Request) (err error) {
	q.MaxFiles, q.Together = f.maxFiles, f.together
	if f.maxSize != "" {
		n, err := transfer.ParseSize(f.maxSize)
		if err != nil {
			return err
		}
		q.MaxBytes = int64(n)
	}

	if f.limit == "" {
		return nil
	}

	q.Rate, err = flow.ParseRate(f.limit)
	return err
}

// list makes the names of --files-from the sources, relative to the single SOURCE of the command line.
func (f *sendFlags) list(q *transfer.Request, stdin io.Reader) (err error) {
	if f.filesFrom == "" {
		return nil
	}
	if len(q.Items) != 1 || q.Items[0].Source.Place != transfer.Files || q.Dest.Place == transfer.Datasets {
		return transfer.Errorf(transfer.KindUsage, "--files-from takes one SOURCE, the directory that its names are beneath, and a DEST that is no data set")
	}
	q.Base = q.Items[0].Source.Literal()
	names, err := sourcesFrom(f.filesFrom, stdin)
	q.Items = transfer.ItemsOf(names...)
	return err
}

func parseMeta(entries []string) (map[string]string, error) {
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
func (f *sendFlags) locations(q *transfer.Request, args []string) (local bool, err error) {
	if q.Destination, q.Dest, err = typed(args[len(args)-1], location.Dest); err != nil {
		return false, err
	}
	for i, s := range args[:len(args)-1] {
		from, l, err := typed(s, location.Source)
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
		if it.Source, err = hostLocation(it.Source); err != nil {
			return true, err
		}
	}

	for n := range q.Triggers {
		for k, p := range q.Triggers[n].Files {
			if q.Triggers[n].Files[k], err = hostPath(p); err != nil {
				return true, err
			}
		}
	}

	if q.Archive != "" {
		if q.Archive, err = hostPath(q.Archive); err != nil {
			return true, err
		}
	}
	q.Dest, err = hostLocation(q.Dest)
	return true, err
}

// typed reads [AGENT:]LOCATION. Without an agent, "-" is standard input or output.
func typed(arg string, read func(string) (transfer.Location, error)) (at transfer.AgentName, l transfer.Location, err error) {
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

// hostLocation is a location of this host that means the same in each working directory. A pattern that is spelled as the
// name of a file is this file.
func hostLocation(l transfer.Location) (transfer.Location, error) {
	if l.Place != transfer.Files {
		return l, nil
	}
	p, err := hostPath(l.Literal())
	if err != nil || !l.Pattern {
		return transfer.File(p), err
	}
	if _, err := os.Lstat(string(p)); err == nil {
		return transfer.File(p), nil // a shell has put the name of a file in the place of a pattern
	}
	wd := string(p[:max(0, len(p)-len(l.Literal()))]) // nothing before an absolute path
	return transfer.Match(transfer.Path(transfer.Literally(wd)) + l.Path), nil
}

// hostPath makes a path of this host absolute. It keeps the last component and a final slash, because both have a
// meaning.
func hostPath(p transfer.Path) (transfer.Path, error) {
	if p == "" {
		return p, nil
	}
	wd, err := os.Getwd()
	if err != nil {
		return "", transfer.Errorf(transfer.KindUsage, "the working directory is gone: %w", err)
	}
	return local.HostRules.Absolute(p, wd)
}
