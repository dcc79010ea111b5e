package request

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/automation/job"
	"ferry/internal/automation/monitor"
	"ferry/internal/cli/session"
	"ferry/internal/client"
	"ferry/internal/client/draft"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// Flags are the flags of ferry send as they were given.
type Flags struct {
	draft.Draft
	DryRun, Detach, JSON, Quiet        bool
	Network, FilesFrom, ConnectTimeout string
	Log                                session.LogFlags
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
	f.Originator = client.Me()
	if q, err = f.Draft.Request(args, host{f, stdin}); err != nil {
		return nil, false, err
	}
	return q, q.Destination == "", nil
}

// Definition makes the definition of a monitor with the transfers of the flags. settle says that --settle is given.
// Otherwise its default holds for conditions that can wait.
func (f *Flags) Definition(name string, settle bool, m *draft.Monitor) (*monitor.Definition, error) {
	f.Originator = client.Me()
	return m.Definition(name, settle, &f.Draft, host{f, nil})
}

// Put makes the job of a request of the flags, and of further destinations.
func (f *Flags) Put(q *transfer.Request, alsoTo []string) (*job.Put, error) {
	return draft.Job(q, alsoTo, host{f, nil})
}
