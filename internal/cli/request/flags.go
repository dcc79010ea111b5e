package request

import (
	"github.com/spf13/pflag"

	"ferry/internal/client/draft"
	"ferry/internal/transfer"
)

// Add adds the flags that describe a request; commands for monitors, schedules and templates take them, too.
func (f *Flags) Add(fl *pflag.FlagSet) {
	f.Draft = draft.New()
	fl.BoolVarP(&f.Recursive, "recursive", "r", false, "take directories with everything in them")
	fl.StringVar(&f.Mode, "mode", f.Mode, "binary or text")
	fl.StringVar(&f.Checksum, "checksum", f.Checksum, "digest of each file: xxh3, md5, sha256 or none")
	fl.StringVar(&f.IfExists, "if-exists", f.IfExists, "action if the destination exists: error; overwrite; skip; update, which replaces older files and skips others; rename, which takes a free name as pay-1.csv; append, which adds the data to the end of the file")
	fl.StringVar(&f.DeleteSource, "delete-source", "", "each: delete each source once its arrival is on record; all: only if everything has arrived")
	fl.Lookup("delete-source").NoOptDefVal = draft.WhenEach
	fl.Var((*nonEmpty)(&f.Archive), "archive", "a directory of the source agent, on the same file system, into which each source is moved once its arrival is on record")
	fl.StringVar(&f.ArchiveWhen, "archive-when", f.ArchiveWhen, "each: move each source once its arrival is on record; all: only if everything has arrived")
	fl.StringVar(&f.Durability, "durability", f.Durability, "full: an outcome survives a power cut; process: a crash of the process")
	AddContent(fl, &f.Content)
	fl.StringVar(&f.Lane, "lane", f.Lane, "how the data travels: auto, direct or queue")
	fl.StringVar(&f.Delivery, "delivery", f.Delivery, "fast or stored")
	fl.StringVar(&f.Compress, "compress", f.Compress, "compression of the data on the way: none; fast or high, with less or more work; auto, fast where it saves time")
	fl.StringVar(&f.Limit, "limit", "", "bytes a second at most, as 10M (default: as fast as can be, and as the agent's own limit lets)")
	fl.Int64Var(&f.MaxFiles, "max-files", 0, "send nothing if there are more files than that; 0: any number")
	fl.StringVar(&f.MaxSize, "max-size", "", "send nothing if the files have more bytes than that, as 10G; 0: any number")
	addChoice(fl, &f.Choice)
	fl.BoolVar(&f.Together, "together", false, "all files get their names at the destination, or none does: they are kept under temporary names until the last one is there")
	fl.IntVar(&f.Priority, "priority", 0, "0 to 9; 9 goes first")
	fl.StringVar(&f.Job, "job", "", "a name for people, kept on record")
	fl.StringArrayVar(&f.Meta, "meta", nil, "K=V, kept on record; may be repeated")
	fl.StringVar(&f.ChunkSize, "chunk-size", "", "bytes of one data message, 4K to 1M (default: the agent's, 256K)")
	fl.IntVar(&f.Window, "window", 0, "chunks to one acknowledgement (default: the agent's, 10)")
	fl.IntVar(&f.Frame, "frame", 0, "windows that the sender may run ahead (default: the agent's, 5)")
	fl.IntVar(&f.CheckpointEach, "checkpoint-interval", 0, "frames to one checkpoint (default: the agent's, 1)")
	fl.StringVar(&f.Recovery, "recovery-timeout", f.Recovery, "how long to keep trying while nothing moves; -1 for ever")
	addCalls(fl, &f.Calls)
	addQueues(fl, &f.Queues)
}

// addChoice adds the flags that select files.
func addChoice(fl *pflag.FlagSet, c *draft.Choice) {
	fl.StringVar(&c.MinFileSize, "min-file-size", "", "leave out files with fewer bytes, as 1 or 10K")
	fl.StringVar(&c.MaxFileSize, "max-file-size", "", "leave out files with more bytes, as 2G")
	fl.StringVar(&c.MinAge, "min-age", "", "leave out files that were modified less than that before the request, as 10m or 30d")
	fl.StringVar(&c.MaxAge, "max-age", "", "leave out files that were modified longer ago than that, as 24h or 7d")
	fl.StringVar(&c.Order, "order", "", "order of the files: name, time (the oldest first) or size (the smallest first); -name, -time or -size, the other way round (default: as they are found)")
	fl.StringVar(&c.Links, "links", "", "how symbolic links that are found are treated: skip, follow (to files), or error (default: skip)")
	fl.StringVar(&c.Permissions, "permissions", "", "permissions of new directories: destination, as its umask, setgid bits and default access control lists have it; or preserve, those of the source (default: destination)")
}

// AddContent adds the flags that convert the content of files.
func AddContent(fl *pflag.FlagSet, c *transfer.Content) {
	fl.StringVar(&c.FromEncoding, "from-encoding", "", "code page of the source, in text mode (default: the source agent's)")
	fl.StringVar(&c.ToEncoding, "to-encoding", "", "code page of the destination, in text mode (default: the destination agent's)")
	fl.StringVar(&c.EOL, "eol", "", "line ends at the destination, in text mode: lf, crlf or nl (default: the destination's)")
	fl.StringVar(&c.Replace, "replace", "", "replacement for text that cannot be converted (default: the file fails)")
	fl.StringVar(&c.ToRecords.RECFM, "recfm", "", "records at the destination: F, FB, V, VB or U, with an A at the end for ASA")
	fl.IntVar(&c.ToRecords.LRECL, "lrecl", 0, "their length, 1 to 32760 bytes")
	fl.IntVar(&c.ToRecords.BLKSIZE, "blksize", 0, "length of their blocks; 0 chooses it")
	fl.StringVar(&c.FromRecords.RECFM, "from-recfm", "", "records of the source (default: the attributes kept beside it, in text mode and for data sets)")
	fl.IntVar(&c.FromRecords.LRECL, "from-lrecl", 0, "their length")
	fl.IntVar(&c.FromRecords.BLKSIZE, "from-blksize", 0, "length of their blocks")
	fl.StringVar(&c.LongLines, "long-lines", "", "lines that are longer than a record: wrap, truncate or fail (default wrap)")
	fl.BoolVar(&c.KeepBlanks, "keep-trailing-blanks", false, "keep the blanks at the end of fixed records that become text")
}

// callUsage is the usage text of each call point: when its program runs.
var callUsage = map[transfer.CallPoint]string{
	transfer.PreSource:  "a program that the source's agent runs before it asks the destination",
	transfer.PostSource: "a program that the source's agent runs when every outcome is on record",
	transfer.PreDest:    "a program that the destination's agent runs before it accepts the transfer",
	transfer.PostDest:   "a program that the destination's agent runs when every file has come or failed",
}

// addCalls adds the flags for triggers, and for programs before and after a transfer.
func addCalls(fl *pflag.FlagSet, c *draft.Calls) {
	fl.StringArrayVar(&c.Triggers, "trigger", nil, "start only if it is so at the source when the transfer is about to begin: exist:PATH, noexist:PATH or size>=10M:PATH; may be repeated, then each must be so")
	c.Programs = map[transfer.CallPoint]*draft.Program{}
	for _, at := range transfer.CallPoints() {
		p := &draft.Program{}
		c.Programs[at] = p
		fl.StringVar(&p.Text, string(at), "", callUsage[at]+": its name, or JSON as {\"name\":\"load.sh\",\"args\":[\"a b\"], \"timeout\":\"30s\", \"retries\":2, \"pause\":\"5s\", \"success\":\"0,4-8\"}")
		fl.StringArrayVar(&p.Args, string(at)+"-arg", nil, "an argument of --"+string(at)+", taken as it is; may be repeated")
	}
}

// QueueWords are the flags for messages of queues.
var QueueWords = []string{"split-size", "split-delimiter", "split-regex", "keep-delimiter", "group", "message-delimiter", "message-delimiter-at"}

// addQueues adds the flags for messages of queues.
func addQueues(fl *pflag.FlagSet, q *draft.Queues) {
	fl.StringVar(&q.SplitSize, "split-size", "", "split each file for the queue of DEST into messages of so many bytes, as 64K")
	fl.StringVar(&q.SplitDelimiter, "split-delimiter", "", "split at each TEXT, or 0xHEX")
	fl.StringVar(&q.SplitRegex, "split-regex", "", "split at each match of a regular expression (RE2)")
	fl.StringVar(&q.Keep, "keep-delimiter", "", "place of the delimiter in the messages: none, it is left out; before, it ends a message; after, it begins one (default none)")
	fl.StringVar(&q.Group, "group", "", "of the queue of SOURCE, that complete group of messages; *: the one that was complete first (default: all that are there)")
	fl.StringVar(&q.Between, "message-delimiter", "", "delimiter of the messages in the file: TEXT, or 0xHEX")
	fl.StringVar(&q.At, "message-delimiter-at", "", "where that lies: between messages, before each, or after each (default between)")
}

// A nonEmpty is the value of a flag that may be left out, but not be empty. An empty variable of a script would
// otherwise have the same effect as leaving the flag out.
type nonEmpty string

func (v *nonEmpty) String() string { return string(*v) }

func (v *nonEmpty) Type() string { return "string" }

func (v *nonEmpty) Set(s string) error {
	if s == "" {
		return transfer.Errorf(transfer.KindUsage, "it is empty")
	}
	*v = nonEmpty(s)
	return nil
}
