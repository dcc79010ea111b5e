package qm

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	cliidentity "ferry/internal/cli/identity"
	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/node/queuemanager"
	"ferry/internal/qmgr"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// NewReady makes the command `ferry ready`.
func NewReady() *cobra.Command {
	var network string
	var timeout time.Duration
	c := &cobra.Command{Use: "ready [URL]", Short: "Wait until a queue manager and its agents are ready",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return transfer.Errorf(transfer.KindUsage, "`ferry ready` takes at most one URL")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				network = args[0]
			}
			if network == "" {
				return transfer.Errorf(transfer.KindUsage, "no network is given").WithHint("give the URL of a queue manager or set FERRY_NETWORK")
			}
			return ready(cmd, network, timeout)
		}}
	session.AddNetwork(c.Flags(), &network)
	c.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "how long to wait")
	return c
}

// ownAgents is the time that a queue manager of `ferry up` may take to name its agents: it listens a moment before it
// can. On a slow disk that moment is long, because files are written in it.
const ownAgents = 15 * time.Second

const (
	ownChannels = 5 * time.Second // after which a channel that is not up is reported
	readyPause  = 50 * time.Millisecond
)

// ready waits until the queue manager answers and the agents that run in its
// process are up.
func ready(cmd *cobra.Command, network string, timeout time.Duration) error {
	ctx, stop := session.UntilSignal(cmd.Context())
	defer stop()
	log, err := session.ErrorLogger(cmd)
	if err != nil {
		return err
	}

	begun := time.Now()
	deadline := begun.Add(timeout)
	conn, err := session.ConnectUser(ctx, cmd, network, "ferry ready", timeout, log)
	if err != nil {
		return err
	}
	defer conn.Close()

	if err := quorum(ctx, cmd, conn, deadline); err != nil {
		return err
	}
	begun = time.Now()
	for {
		var ans queuemanager.UpAnswer
		data, err := conn.Request(ctx, wire.AskSubject(wire.Up, conn.Self()), nil, time.Second)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if transfer.KindOf(err) == transfer.KindUnreachable && (conn.Facts().Reduced != "" || time.Since(begun) > ownAgents) {
			fmt.Fprintf(cmd.OutOrStdout(), "queue manager %s ready%s\n", conn.Facts().ServerName, degraded(conn))
			missingAgents(ctx, cmd, conn, network, nil)
			return nil // a queue manager without agents of its own
		}
		missing := ""
		if err == nil && json.Unmarshal(data, &ans) == nil && !ans.Starting {
			for n, up := range ans.Agents {
				if !up {
					missing = n
				}
			}
			down := channelsDown(ans.Channels)
			if missing == "" && len(down) > 0 && time.Since(begun) < ownChannels && time.Now().Before(deadline) {
				time.Sleep(readyPause)
				continue
			}
			if missing == "" {
				for _, text := range down {
					fmt.Fprintf(cmd.ErrOrStderr(), "ferry: %s\n", output.Printable(text))
				}
				text := degraded(conn)
				if ans.Degraded != "" {
					text += "; " + output.Printable(ans.Degraded)
				}
				fmt.Fprintf(cmd.OutOrStdout(), "queue manager %s ready, %s in its process%s\n", conn.Facts().ServerName, output.Plural(int64(len(ans.Agents)), "agent"), text)
				missingAgents(ctx, cmd, conn, network, ans.Agents)
				return nil
			}
		}
		if ans.Starting && time.Now().After(deadline) {
			return transfer.Errorf(transfer.KindTimeout, "coordination in the process of the queue manager at %s has not started within %s", network, timeout).
				WithHint("see the log of `ferry up`")
		}
		if missing == "" && time.Now().After(deadline) {
			return transfer.Errorf(transfer.KindTimeout, "the queue manager at %s has not said within %s which agents run in its process", network, timeout).
				WithHint("see whether `ferry up` still runs, and its log")
		}
		if time.Now().After(deadline) {
			return transfer.Errorf(transfer.KindTimeout, "agent %s is not ready after %s", missing, timeout)
		}
		time.Sleep(readyPause)
	}
}

// knownWait is the time that coordination and the authority may each take to name the agents that they know. Without the
// answer of coordination the agents that the authority knows count as not ready.
const (
	knownWait = 5 * time.Second
	namedMost = 10
)

// missingAgents prints the number of agents that coordination or the authority knows and that are not ready now. Agents
// in the queue manager's process do not count. A user without the right to ask, or without an answer, sees none.
func missingAgents(ctx context.Context, cmd *cobra.Command, conn *qmgr.Conn, network string, own map[string]bool) {
	known := map[string]bool{} // whether it is ready
	maps.Copy(known, own)
	session.NewClient(conn, network, knownWait).Agents(ctx, func(a *wire.AgentStatus) error {
		name := string(a.Agent)
		known[name] = known[name] || a.Status != wire.AgentStopped && a.Status != wire.AgentUnreachable
		return nil
	})
	if conn.Identity() != nil {
		ctx, cancel := context.WithTimeout(ctx, knownWait)
		defer cancel()
		all, _ := enrol.Client{Conn: conn}.Identities(ctx)
		for _, i := range all {
			if n := i.Name; n.Role == identity.Agent && cliidentity.IdentityState(&i) == "good" {
				ready := known[n.Name] // false where coordination does not know the agent
				known[n.Name] = ready
			}
		}
	}
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(known)) {
		if !known[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		return
	}
	names := strings.Join(missing[:min(len(missing), namedMost)], ", ")
	if len(missing) > namedMost {
		names += " and others"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "ferry: away, in other processes: %d of %s that the network knows: %s\n", len(missing), output.Plural(int64(len(known)), "agent"), output.Printable(names))
}

// saysAfter is the time after which quorum reports the missing members of a cluster.
const saysAfter = 5 * time.Second

// quorum waits until the queue manager can store data, and then at most saysAfter in all for the rest of its cluster.
// Until it can store data, quorum prints the missing members after saysAfter. The deadline ends the wait with an error
// of KindTimeout.
func quorum(ctx context.Context, cmd *cobra.Command, conn *qmgr.Conn, deadline time.Time) error {
	t := time.NewTicker(250 * time.Millisecond)
	defer t.Stop()
	says, said := time.Now().Add(saysAfter), ""
	for {
		missing, stored := qmgr.ClusterState(ctx, conn)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if missing == "" {
			return nil
		}
		if time.Now().After(says) {
			if stored {
				return nil // degraded says it
			}
			if missing != said {
				said = missing
				fmt.Fprintf(cmd.ErrOrStderr(), "ferry: %s\n", output.Printable(missing))
			}
		}
		if time.Now().After(deadline) {
			return transfer.Errorf(transfer.KindTimeout, "queue manager %s is not ready: %s", conn.Facts().ServerName, missing).
				WithHint("start the others; `ferry qm ls` shows the absent ones")
		}
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
}

// degraded is a note about a queue manager with a loss in its store; empty for others.
func degraded(conn *qmgr.Conn) string {
	if why := conn.Facts().Degraded; why != "" {
		return "; degraded: " + why
	}
	return ""
}
