package send

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
	"ferry/internal/cli/follow"
	"ferry/internal/cli/output"
	"ferry/internal/cli/request"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client/draft"
	"ferry/internal/node/onebox"
	"ferry/internal/place/pipe"
	"ferry/internal/transfer"
)

// streamRecovery limits the retries of a transfer of standard input or output without progress. It is short because a
// user waits for the transfer.
const streamRecovery = "10m"

// sendStdin sends standard input to a file.
func sendStdin(cmd *cobra.Command, f *request.Flags, q *transfer.Request, local bool) error {
	if !cmd.Flags().Changed("recovery-timeout") {
		f.Recovery = streamRecovery
	}
	var err error
	if q.Recovery, err = transfer.ParseDuration(f.Recovery); err != nil {
		return err
	}
	in := &agent.Streams{Source: pipe.NewSource(cmd.InOrStdin()), Target: pipe.NoTarget{}, Transfer: q.ID}
	if local {
		return follow.OneBox(cmd, f, q, map[transfer.AgentName]*agent.Streams{onebox.Source: in})
	}
	return throughStream(cmd, f, q, in)
}

// NewCat makes the command `ferry cat`.
func NewCat() *cobra.Command {
	f := &request.Flags{Draft: draft.New(), Quiet: true}
	f.Durability = transfer.DurabilityProcess
	c := &cobra.Command{
		Use:   "cat [flags] [AGENT:]FILE",
		Short: "Write a file to standard output",
		Long: `Writes a file of an agent, or of this host, to standard output, converted if that is
asked for. Bytes are written as they arrive; the result code says whether the file
came whole: 0 means that both sides have computed the same digest.`,
		Example: `  ferry cat ALPHA:out.log | grep ERROR
  ferry cat --mode text --from-encoding IBM-1047 ALPHA:LIST`,
		Args: usage.OneArg("the file"),
		RunE: func(cmd *cobra.Command, args []string) error { return cat(cmd, f, args[0]) },
	}
	fl := c.Flags()
	fl.StringVar(&f.Mode, "mode", f.Mode, "binary or text")
	fl.StringVar(&f.Checksum, "checksum", f.Checksum, "digest of the file: xxh3, md5, sha256 or none")
	request.AddContent(fl, &f.Content)
	fl.StringVar(&f.Lane, "lane", f.Lane, "how the data travels: auto, direct or queue")
	fl.StringVar(&f.Compress, "compress", f.Compress, "compression of the data on the way: none, fast, high or auto")
	fl.StringVar(&f.Limit, "limit", "", "bytes a second at most, as 10M")
	fl.StringVar(&f.Job, "job", "", "a name for people, kept on record")
	fl.StringVar(&f.Recovery, "recovery-timeout", streamRecovery, "how long to keep trying while nothing moves; -1 for ever")
	session.AddNetwork(fl, &f.Network)
	fl.StringVar(&f.ConnectTimeout, "connect-timeout", "30s", "how long to try to reach a queue manager, -1 for ever; then 75")
	f.Log.Add(c, "error")
	return c
}

func cat(cmd *cobra.Command, f *request.Flags, arg string) error {
	from, source, err := draft.Source(arg)
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

	q, local, err := f.Request([]string{arg, dest}, cmd.InOrStdin())
	if err != nil {
		return err
	}

	q.Dest = pipe.Stdio
	session.TakePipes() // a reader that closes the pipe ends the transfer in order
	stdout := &closable{Writer: cmd.OutOrStdout()}
	cmd.SetErr(notices{cmd.ErrOrStderr(), stdout})
	out := &agent.Streams{Source: pipe.NoSource{}, Target: pipe.NewTarget(stdout, q.ID), Transfer: q.ID}
	if local {
		err = follow.OneBox(cmd, f, q, map[transfer.AgentName]*agent.Streams{onebox.Dest: out})
	} else {
		q.Destination = transfer.StreamAgent(q.ID)
		err = throughStream(cmd, f, q, out)
	}
	if stdout.closed.Load() {
		return output.Exit(session.CodeClosed)
	}
	return err
}

// A closable is standard output. Its reader may close it.
type closable struct {
	io.Writer
	closed atomic.Bool // by its reader
}

func (o *closable) Write(b []byte) (int, error) {
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
	stdout *closable
}

func (n notices) Write(b []byte) (int, error) {
	if n.stdout.closed.Load() {
		return len(b), nil
	}
	return n.Writer.Write(b)
}

// throughStream runs a transfer between an agent of the network and an agent in this
// process, which lives as long as the transfer.
func throughStream(cmd *cobra.Command, f *request.Flags, q *transfer.Request, s *agent.Streams) error {
	if err := session.NeedNetwork(f.Network); err != nil {
		return err
	}

	log, err := f.Log.Logger(cmd)
	if err != nil {
		return err
	}

	patience, err := transfer.ParseDuration(f.ConnectTimeout)
	if err != nil {
		return err
	}

	return follow.InBox(cmd, log, func(ctx context.Context, b *onebox.Box) error {
		defer follow.Abandon(ctx, s)()
		as, release, err := pipeAs(ctx, cmd, f.Network, q, max(time.Duration(patience), 1), log)
		if err != nil {
			return session.Unsent(ctx, err)
		}
		defer release()
		a, err := b.Join(ctx, s, as)
		if err != nil {
			return session.Unsent(ctx, err)
		}
		c := b.Client(q.Originator)
		if err = c.Check(ctx, q); err == nil {
			err = follow.InProcess(ctx, c, q, follow.NewView(cmd, f.JSON, f.Quiet))
		}
		if left := b.Leave(a); left > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: coordination has not answered: %s of this transfer go to the audit log of this user with the next run\n", output.Plural(left, "audit record"))
		}
		return err
	})
}
