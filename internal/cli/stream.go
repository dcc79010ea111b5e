package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/agent"
	"ferry/internal/node/onebox"
	"ferry/internal/place/location"
	"ferry/internal/place/pipe"
	"ferry/internal/transfer"
)

// streamRecovery limits the retries of a transfer of standard input or output without progress. It is short because a
// user waits for the transfer.
const streamRecovery = "10m"

func isStream(q *transfer.Request) bool {
	return len(q.Items) == 1 && q.Items[0].Source == pipe.Stdio && (q.Source == "" || q.Source.Stream())
}

// fromStdin fills in where standard input is sent to.
func (f *sendFlags) fromStdin(q *transfer.Request) (local bool, err error) {
	switch {
	case len(q.Items) > 1:
		return false, transfer.Errorf(transfer.KindUsage, "standard input is sent alone; it stands beside %s", plural(int64(len(q.Items)-1), "other source"))
	case f.filesFrom != "" || f.detach || f.dryRun || f.deleting() != "" || f.archive != "" || f.together:
		return false, transfer.Errorf(transfer.KindUsage, "standard input is not sent with --files-from, --detach, --dry-run, --delete-source, --archive or --together").
			WithHint("a file with the name - is ./-")
	case f.choiceFlags != choiceFlags{}:
		return false, transfer.Errorf(transfer.KindUsage, "standard input is one file; its size and age are unknown before it ends").
			WithHint("leave out --min-file-size, --max-file-size, --min-age, --max-age, --order, --links and --permissions")
	}

	if f.delivery == transfer.DeliveryStored {
		return false, transfer.Errorf(transfer.KindUsage, "standard input is read once, and --delivery stored may have to send something again").
			WithHint("send it without, or put it into a file first")
	}

	if q.Destination != "" {
		q.Source = transfer.StreamAgent(q.ID)
		return false, nil
	}

	q.Dest, err = hostLocation(q.Dest)
	return true, err
}

// sendStdin sends standard input to a file.
func sendStdin(cmd *cobra.Command, f *sendFlags, q *transfer.Request, local bool) error {
	if !cmd.Flags().Changed("recovery-timeout") {
		f.recovery = streamRecovery
	}
	var err error
	if q.Recovery, err = transfer.ParseDuration(f.recovery); err != nil {
		return err
	}
	in := &agent.Streams{Source: pipe.NewSource(cmd.InOrStdin()), Target: pipe.Nowhere{}, Transfer: q.ID}
	if local {
		return sendOneBox(cmd, f, q, map[transfer.AgentName]*agent.Streams{onebox.Source: in})
	}
	return throughStream(cmd, f, q, in)
}

func newCat() *cobra.Command {
	f := &sendFlags{mode: transfer.ModeBinary, durability: transfer.DurabilityProcess, fileFlags: fileFlags{ifExists: transfer.IfExistsError},
		delivery: transfer.DeliveryFast, compress: transfer.CompressNone, quiet: true}
	c := &cobra.Command{
		Use:   "cat [flags] [AGENT:]FILE",
		Short: "Write a file to standard output",
		Long: `Writes a file of an agent, or of this host, to standard output, converted if that is
asked for. Bytes are written as they arrive; the result code says whether the file
came whole: 0 means that both sides have computed the same digest.`,
		Example: `  ferry cat ALPHA:out.log | grep ERROR
  ferry cat --mode text --from-encoding IBM-1047 ALPHA:LIST`,
		Args: oneArg("the file"),
		RunE: func(cmd *cobra.Command, args []string) error { return cat(cmd, f, args[0]) },
	}
	fl := c.Flags()
	fl.StringVar(&f.mode, "mode", f.mode, "binary or text")
	fl.StringVar(&f.checksum, "checksum", "xxh3", "digest of the file: xxh3, md5, sha256 or none")
	f.content.add(fl)
	fl.StringVar(&f.lane, "lane", "auto", "how the data travels: auto, direct or queue")
	fl.StringVar(&f.compress, "compress", f.compress, "compression of the data on the way: none, fast, high or auto")
	fl.StringVar(&f.limit, "limit", "", "bytes a second at most, as 10M")
	fl.StringVar(&f.job, "job", "", "a name for people, kept on record")
	fl.StringVar(&f.recovery, "recovery-timeout", streamRecovery, "how long to keep trying while nothing moves; -1 for ever")
	addNetwork(fl, &f.network)
	fl.StringVar(&f.connectTimeout, "connect-timeout", "30s", "how long to try to reach a queue manager, -1 for ever; then 75")
	f.log.add(c, "error")
	return c
}

func cat(cmd *cobra.Command, f *sendFlags, arg string) error {
	from, source, err := typed(arg, location.Source)
	if err != nil {
		return err
	}

	if source == pipe.Stdio {
		return transfer.Errorf(transfer.KindUsage, "`ferry cat` writes a file, and not standard input").WithHint("a file with the name - is ./-")
	}

	dest := "./-" // until it is known that the request is sound
	if from != "" {
		dest = "PIPE-0:-"
	}

	q, local, err := f.request([]string{arg, dest}, cmd.InOrStdin())
	if err != nil {
		return err
	}

	q.Dest = pipe.Stdio
	takePipes() // a reader that closes the pipe ends the transfer in order
	output := &output{Writer: cmd.OutOrStdout()}
	cmd.SetErr(notices{cmd.ErrOrStderr(), output})
	out := &agent.Streams{Source: pipe.Nothing{}, Target: pipe.NewTarget(output, q.ID), Limits: pipe.Limits(), Transfer: q.ID}
	if local {
		err = sendOneBox(cmd, f, q, map[transfer.AgentName]*agent.Streams{onebox.Dest: out})
	} else {
		q.Destination = transfer.StreamAgent(q.ID)
		err = throughStream(cmd, f, q, out)
	}
	if output.closed.Load() {
		return exit(codeClosed)
	}
	return err
}

// An output is standard output. Its reader may close it.
type output struct {
	io.Writer
	closed atomic.Bool // by its reader
}

func (o *output) Write(b []byte) (int, error) {
	n, err := o.Writer.Write(b)
	if errors.Is(err, syscall.EPIPE) {
		o.closed.Store(true)
	}
	return n, err
}

// notices writes to standard error until the reader of the output closes it. Such a reader needs no more output, and
// the command then ends without a message.
type notices struct {
	io.Writer
	output *output
}

func (n notices) Write(b []byte) (int, error) {
	if n.output.closed.Load() {
		return len(b), nil
	}
	return n.Writer.Write(b)
}

// throughStream runs a transfer between an agent of the network and an agent in this
// process, which lives as long as the transfer.
func throughStream(cmd *cobra.Command, f *sendFlags, q *transfer.Request, s *agent.Streams) error {
	if err := needNetwork(f.network); err != nil {
		return err
	}

	log, err := f.log.logger(cmd)
	if err != nil {
		return err
	}

	patience, err := transfer.ParseDuration(f.connectTimeout)
	if err != nil {
		return err
	}

	return inBox(cmd, log, func(ctx context.Context, b *onebox.Box) error {
		defer abandon(ctx, s)()
		as, release, err := pipeAs(ctx, cmd, f.network, q, max(time.Duration(patience), 1), log)
		if err != nil {
			return unsent(ctx, err)
		}
		defer release()
		a, err := b.Join(ctx, s, as)
		if err != nil {
			return unsent(ctx, err)
		}
		c := b.Client(q.Originator)
		if err = c.Check(ctx, q); err == nil {
			err = follow(ctx, c, q, newView(cmd, f.json, f.quiet))
		}
		if left := b.Leave(a); left > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: coordination has not answered: %s of this transfer go to the audit log of this user with the next run\n", plural(left, "audit record"))
		}
		return err
	})
}

// abandon makes writes to standard output fail once ctx has ended. That includes a write that is blocked because its
// reader has stopped reading. stop undoes that.
func abandon(ctx context.Context, s *agent.Streams) (stop func() bool) {
	if out, ok := s.Target.(*pipe.Target); ok {
		return context.AfterFunc(ctx, out.Abandon)
	}
	return func() bool { return true }
}
