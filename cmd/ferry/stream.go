package main

import (
	"context"
	"fmt"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/agent"
	"ferry/internal/client"
	"ferry/internal/clock"
	"ferry/internal/pipe"
	"ferry/internal/qmgr"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// stdStream is standard input as a source; a file of that name is ./-.
const stdStream transfer.Path = "-"

// streamAgents begins the names of agents that live as long as one command, for its
// standard input or output.
const streamAgents = "PIPE-"

// streamRecovery is how long a transfer of standard input or output keeps trying while
// nothing moves: somebody waits for it.
const streamRecovery = "10m"

func streamAgent(id transfer.ID) transfer.AgentName {
	text := strings.ReplaceAll(id.String(), "-", "")
	return transfer.AgentName(streamAgents + strings.ToUpper(text[len(text)-12:]))
}

func isStreamAgent(name transfer.AgentName) bool {
	return strings.HasPrefix(string(name), streamAgents)
}

func isStream(q *transfer.Request) bool {
	return len(q.Items) == 1 && q.Items[0].Source == stdStream && (q.Source == "" || isStreamAgent(q.Source))
}

// fromStdin fills in where standard input is sent to.
func (f *sendFlags) fromStdin(q *transfer.Request) (local bool, err error) {
	switch {
	case len(q.Items) > 1:
		return false, transfer.Errorf(transfer.KindUsage, "standard input is sent alone; it stands beside %s", plural(int64(len(q.Items)-1), "other source"))
	case f.filesFrom != "" || f.detach || f.dryRun || f.deleteSource:
		return false, transfer.Errorf(transfer.KindUsage, "standard input is not sent with --files-from, --detach, --dry-run or --delete-source").
			WithHint("a file with the name - is ./-")
	}
	if q.Destination != "" {
		q.Source = streamAgent(q.ID)
		return false, nil
	}
	q.Dest, err = hostPath(q.Dest)
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
		return sendOneBox(cmd, f, q, map[transfer.AgentName]*agent.Streams{boxSource: in})
	}
	return throughStream(cmd, f, q, in)
}

func newCat() *cobra.Command {
	f := &sendFlags{mode: transfer.ModeBinary, ifExists: transfer.IfExistsError, durability: transfer.DurabilityProcess,
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
	fl.StringVar(&f.compress, "compress", f.compress, "what the data travels as: none, fast, high or auto")
	fl.StringVar(&f.limit, "limit", "", "bytes a second at most, as 10M")
	fl.StringVar(&f.job, "job", "", "a name for people, kept on record")
	fl.StringVar(&f.recovery, "recovery-timeout", streamRecovery, "how long to keep trying while nothing moves; -1 for ever")
	fl.StringVar(&f.network, "network", "", "URL of a queue manager")
	fl.StringVar(&f.connectTimeout, "connect-timeout", "30s", "how long to try to reach a queue manager, -1 for ever; then 75")
	f.log.add(c, "error")
	return c
}

func cat(cmd *cobra.Command, f *sendFlags, arg string) error {
	l, err := transfer.ParseLocation(arg)
	if err != nil {
		return err
	}
	if l.Agent == "" && l.Path == stdStream {
		return transfer.Errorf(transfer.KindUsage, "`ferry cat` writes a file, and not standard input").WithHint("a file with the name - is ./-")
	}
	dest := "./-" // until it is known that the request is sound
	if l.Agent != "" {
		dest = streamAgents + "0:-"
	}
	q, local, err := f.request([]string{arg, dest}, cmd.InOrStdin())
	if err != nil {
		return err
	}
	q.Dest = stdStream
	signal.Ignore(syscall.SIGPIPE) // a reader that has seen enough ends the transfer in order
	out := &agent.Streams{Source: pipe.Nothing{}, Target: pipe.NewTarget(cmd.OutOrStdout(), q.ID), Limits: pipe.Limits(), Transfer: q.ID}
	if local {
		return sendOneBox(cmd, f, q, map[transfer.AgentName]*agent.Streams{boxDest: out})
	}
	q.Destination = streamAgent(q.ID)
	return throughStream(cmd, f, q, out)
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
	return inBox(cmd, log, func(ctx context.Context, b *box, home string) error {
		defer abandon(ctx, s)()
		name := streamAgent(q.ID)
		configs := []agent.Config{{Name: name, Dir: filepath.Join(b.dir, string(name)), Carve: home, Version: version, Log: log, Streams: s,
			MaxSource: 1, MaxDestination: 1, Direct: agent.Direct{Mode: wire.DirectTLS, Listen: "none"}}}
		if _, err := shareFiles(configs, false); err != nil {
			return err
		}
		quiet := slowNotice(cmd, f.network)
		a, err := b.start(ctx, configs[0], qmgr.ConnConfig{URL: f.network, Name: string(name), Timeout: max(time.Duration(patience), 1), Log: log})
		quiet()
		if err != nil {
			return unsent(ctx, err)
		}
		submitter := &client.Client{Conn: b.conns[0], Clock: clock.System, Who: q.Originator}
		if err = submitter.Check(ctx, q); err == nil {
			err = b.follow(ctx, submitter, q, newView(cmd, f.json, f.quiet))
		}
		if left := b.leave(a); left > 0 {
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: coordination has not answered: %s of this transfer go to the audit log of this user with the next run\n", plural(left, "audit record"))
		}
		return err
	})
}

// abandon makes writes to standard output fail once ctx has ended, also one that is blocked
// because nobody reads; stop undoes that.
func abandon(ctx context.Context, s *agent.Streams) (stop func() bool) {
	if out, ok := s.Target.(*pipe.Target); ok {
		return context.AfterFunc(ctx, out.Abandon)
	}
	return func() bool { return true }
}

// leaveWait is how long a stream agent waits for coordination to receipt its audit records.
const leaveWait = 5 * time.Second

// leave ends the agent and takes it out of the registry, once coordination has its audit
// records; it gives how many of them coordination does not have.
func (b *box) leave(a *agent.Agent) (left int64) {
	ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
	defer cancel()
	a.WaitIdle(ctx)
	for a.OutboxLeft() > 0 && ctx.Err() == nil {
		time.Sleep(10 * time.Millisecond)
	}
	a.Stop()
	b.stopped = true
	left = a.OutboxLeft()
	b.kept = left == 0
	for !b.removed(ctx, a.Name()) && ctx.Err() == nil {
		time.Sleep(50 * time.Millisecond)
	}
	return left
}

// removed takes an agent that has stopped out of the registry. It reports false where
// coordination has yet to hear that it has stopped.
func (b *box) removed(ctx context.Context, name transfer.AgentName) bool {
	return transfer.KindOf(newClient(b.conns[0], "", time.Second).RemoveAgent(ctx, name)) != transfer.KindAlive
}
