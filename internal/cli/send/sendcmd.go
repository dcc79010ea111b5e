package send

import (
	"github.com/spf13/cobra"

	"ferry/internal/cli/follow"
	clijob "ferry/internal/cli/job"
	"ferry/internal/cli/output"
	"ferry/internal/cli/request"
	clischedule "ferry/internal/cli/schedule"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
)

// New makes the command `ferry send`.
func New() *cobra.Command {
	f, p, j := &request.Flags{}, &clischedule.Flags{}, &clijob.Flags{}
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
			if len(args) == 1 && f.FilesFrom != "" {
				return transfer.Errorf(transfer.KindUsage, "`ferry send --files-from %s` takes SOURCE and DEST; it got 1 location; SOURCE is the directory that the names are beneath, as .", f.FilesFrom)
			}
			if len(args) < 2 {
				return transfer.Errorf(transfer.KindUsage, "`ferry send` takes SOURCE... DEST; it got %s", output.Plural(int64(len(args)), "location"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if several, err := j.Given(cmd.Flags()); err != nil {
				return err
			} else if several {
				return clijob.Send(cmd, f, j, args)
			}
			later, err := p.Given(cmd.Flags())
			switch {
			case err != nil:
				return err
			case later && toXML:
				return transfer.Errorf(transfer.KindUsage, "--to-xml writes no schedule").WithHint("leave out --at, or --to-xml")
			case later:
				return clischedule.Send(cmd, f, p, args)
			case toXML:
				return printXML(cmd, f, args)
			}
			return send(cmd, f, args)
		},
	}
	fl := c.Flags()
	f.Add(fl)
	fl.StringVar(&f.FilesFrom, "files-from", "", "a file, or - for stdin, with the names of the files to send: one name on each line, or ended by NUL, beneath the one SOURCE, a directory; names are taken as they are, and keep their directories")
	fl.BoolVar(&f.DryRun, "dry-run", false, "list the files, and send nothing")
	fl.BoolVar(&toXML, "to-xml", false, "print the request as the XML of IBM MQ MFT, which ferry submit takes, and send nothing")
	session.AddNetwork(fl, &f.Network)
	fl.StringVar(&f.ConnectTimeout, "connect-timeout", "30s", "how long to try to reach a queue manager before the transfer is handed over, -1 for ever; then 75")
	fl.BoolVar(&f.Detach, "detach", false, "print the ID and do not wait")
	fl.BoolVar(&f.JSON, "json", false, "JSON Lines on stdout, ending with a summary")
	fl.BoolVarP(&f.Quiet, "quiet", "q", false, "no progress, no notices and no summary; errors are shown")
	f.Log.Add(c, "error")
	j.Add(fl)
	p.Add(fl)
	c.Example = `  ferry send -r /data/out /mnt/backup/
  ferry send --network nats://hub:4222 ALPHA:pay.csv BETA:inbox/
  ferry send --delete-source --job nightly 'ALPHA:out/*.xml' BETA:in/
  ferry send ALPHA:prices.csv BETA:in/ --also-to GAMMA:in/ --also-to DELTA:in/
  ferry send --at 02:30 --every 1d --schedule nightly ALPHA:'out/*' BETA:in/
  ferry send --split-delimiter 0x0a ALPHA:orders.txt BETA:queue:ORDERS
  pg_dump sales | ferry send - BETA:backup/sales.sql
  ferry send --mode text --to-encoding IBM-1047 ALPHA:list.txt BETA:LIST`
	usage.Groups(c, []usage.Group{
		{Title: "Sent files", Flags: []string{"recursive", "files-from", "min-file-size", "max-file-size", "min-age", "max-age", "order", "links", "max-files", "max-size", "delete-source", "archive", "archive-when", "dry-run", "to-xml"}},
		{Title: "Where it goes", Flags: []string{"also-to", "network", "if-exists", "permissions", "together"}},
		{Title: "Before and after", Flags: []string{"trigger", "pre-source", "pre-source-arg", "post-source", "post-source-arg", "pre-destination", "pre-destination-arg", "post-destination", "post-destination-arg"}},
		{Title: "Text and records", Flags: []string{"mode", "from-encoding", "to-encoding", "eol", "replace", "recfm", "lrecl", "blksize", "from-recfm", "from-lrecl", "from-blksize", "long-lines", "keep-trailing-blanks"}},
		{Title: "Messages of queues", Flags: request.QueueWords},
		{Title: "Integrity", Flags: []string{"checksum", "durability"}},
		{Title: "Speed", Flags: []string{"limit", "lane", "compress", "priority", "chunk-size", "window", "frame", "checkpoint-interval", "delivery"}},
		{Title: "Waiting", Flags: []string{"detach", "connect-timeout", "recovery-timeout"}},
		{Title: "At appointed times", Flags: clischedule.PlanWords},
		{Title: "Output and record", Flags: []string{"json", "quiet", "job", "meta", "log-level", "log-format"}},
	})
	return c
}

func send(cmd *cobra.Command, f *request.Flags, args []string) error {
	q, local, err := f.Request(args, cmd.InOrStdin())
	if err != nil {
		return err
	}

	if request.IsStream(q) {
		return sendStdin(cmd, f, q, local)
	}

	if local {
		return follow.OneBox(cmd, f, q, nil)
	}
	return follow.Hand(f, cmd, q)
}

// printXML prints the document for a command line of ferry send.
func printXML(cmd *cobra.Command, f *request.Flags, args []string) error {
	q, _, err := f.Request(args, cmd.InOrStdin())
	if err != nil {
		return err
	}
	text, err := mftxml.Write(q)
	if err == nil {
		_, err = cmd.OutOrStdout().Write(text)
	}
	return err
}
