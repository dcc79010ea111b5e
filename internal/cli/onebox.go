package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"ferry/internal/agent"
	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/client"
	"ferry/internal/node/member"
	"ferry/internal/node/onebox"
	"ferry/internal/node/process"
	"ferry/internal/place/pipe"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// sendOneBox moves files on this host, by the same protocol as any other
// transfer.
func sendOneBox(cmd *cobra.Command, f *sendFlags, q *transfer.Request, streams map[transfer.AgentName]*agent.Streams) error {
	q.Source, q.Destination = onebox.Source, onebox.Dest
	if f.detach {
		return transfer.Errorf(transfer.KindUsage, "--detach needs agents that go on running; on this host alone the transfer runs in this process")
	}

	log, err := f.log.Logger(cmd)
	if err != nil {
		return err
	}

	return inBox(cmd, log, func(ctx context.Context, b *onebox.Box) error {
		for _, s := range streams {
			defer abandon(ctx, s)()
		}
		if err := b.Open(ctx, streams); err != nil {
			return err
		}
		err := sendInBox(ctx, cmd, b.Client(q.Originator), q, f)
		if kept := b.Keep(); kept != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: the audit records of this transfer could not be kept now; the next run tries again: %v\n", kept)
		}
		return err
	})
}

// inBox runs a command that needs agents in this process, with a directory for them. The context ends with a signal, or
// when an agent has lost its directory.
func inBox(cmd *cobra.Command, log *slog.Logger, run func(ctx context.Context, b *onebox.Box) error) error {
	home, err := member.StateDir()
	if err == nil {
		err = keyfile.Own(home)
	}
	if err != nil {
		return err
	}

	here, err := hostPath(".")
	if err != nil {
		return err
	}

	told, stop := session.UntilSignal(cmd.Context())
	defer stop()
	ctx, end := context.WithCancelCause(told)
	defer end(nil)
	b, err := onebox.New(onebox.Config{Home: home, Root: rootOfHost(), Records: string(here), Version: output.Version, Log: log,
		Started: func(a *agent.Agent) { process.Watch(ctx, end, a) },
		Share: func(agents []agent.Config, manager bool) error {
			_, err := process.ShareFiles(agents, manager)
			return err
		}})
	if err != nil {
		return err
	}
	defer b.Close()

	process.CollectLess(process.SlackOfOthers)
	return run(ctx, b)
}

func rootOfHost() string {
	wd, err := os.Getwd()
	if err != nil {
		return "/"
	}
	return filepath.VolumeName(wd) + string(filepath.Separator)
}

func sendInBox(ctx context.Context, cmd *cobra.Command, c *client.Client, q *transfer.Request, f *sendFlags) error {
	if f.dryRun {
		return dryRun(ctx, cmd, c, q, f.json)
	}
	if err := c.CheckSize(q); err != nil {
		return err
	}
	return follow(ctx, c, q, newView(cmd, f.json, f.quiet))
}

// abandon makes writes to standard output fail once ctx has ended. That includes a write that is blocked because its
// reader has stopped reading. stop undoes that.
func abandon(ctx context.Context, s *agent.Streams) (stop func() bool) {
	if out, ok := s.Target.(*pipe.Target); ok {
		return context.AfterFunc(ctx, out.Abandon)
	}
	return func() bool { return true }
}
