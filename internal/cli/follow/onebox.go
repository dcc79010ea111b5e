package follow

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"ferry/internal/agent"
	"ferry/internal/cli/output"
	"ferry/internal/cli/request"
	"ferry/internal/cli/session"
	"ferry/internal/client"
	"ferry/internal/node/member"
	"ferry/internal/node/onebox"
	"ferry/internal/node/process"
	"ferry/internal/place/pipe"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// OneBox moves files on this host, by the same protocol as any other
// transfer.
func OneBox(cmd *cobra.Command, f *request.Flags, q *transfer.Request, streams map[transfer.AgentName]*agent.Streams) error {
	q.Source, q.Destination = onebox.Source, onebox.Dest
	if f.Detach {
		return transfer.Errorf(transfer.KindUsage, "--detach needs agents that go on running; on this host alone the transfer runs in this process")
	}

	log, err := f.Log.Logger(cmd)
	if err != nil {
		return err
	}

	return InBox(cmd, log, func(ctx context.Context, b *onebox.Box) error {
		for _, s := range streams {
			defer Abandon(ctx, s)()
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

// InBox runs a command that needs agents in this process, with a directory for them. The context ends with a signal, or
// when an agent has lost its directory.
func InBox(cmd *cobra.Command, log *slog.Logger, run func(ctx context.Context, b *onebox.Box) error) error {
	home, err := member.StateDir()
	if err == nil {
		err = keyfile.CheckNotForeign(home)
	}
	if err != nil {
		return err
	}

	here, err := request.HostPath(".")
	if err != nil {
		return err
	}

	told, stop := session.UntilSignal(cmd.Context())
	defer stop()
	ctx, end := context.WithCancelCause(told)
	defer end(nil)
	b, err := onebox.New(onebox.Config{StateHome: home, Root: rootOfHost(), Records: string(here), Version: output.Version, Log: log,
		Started: func(a *agent.Agent) { process.Watch(ctx, end, a) },
		Share: func(agents []agent.Config, manager bool) error {
			_, err := process.ShareFiles(agents, manager)
			return err
		}})
	if err != nil {
		return err
	}
	defer b.Close()

	process.SetSlack(process.SlackOfOthers)
	return run(ctx, b)
}

func rootOfHost() string {
	wd, err := os.Getwd()
	if err != nil {
		return "/"
	}
	return filepath.VolumeName(wd) + string(filepath.Separator)
}

func sendInBox(ctx context.Context, cmd *cobra.Command, c *client.Client, q *transfer.Request, f *request.Flags) error {
	if f.DryRun {
		return Preview(ctx, cmd, c, q, f.JSON)
	}
	if err := c.CheckSize(q); err != nil {
		return err
	}
	return InProcess(ctx, c, q, NewView(cmd, f.JSON, f.Quiet))
}

// Abandon makes writes to standard output fail once ctx has ended. That includes a write that is blocked because its
// reader has stopped reading. stop undoes that.
func Abandon(ctx context.Context, s *agent.Streams) (stop func() bool) {
	if out, ok := s.Target.(*pipe.Target); ok {
		return context.AfterFunc(ctx, out.Abandon)
	}
	return func() bool { return true }
}
