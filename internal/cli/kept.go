package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/client"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A keptQuery asks for the objects that agents keep by name: monitors, schedules, templates.
type keptQuery struct {
	query
	agent string
}

func (k *keptQuery) add(c *cobra.Command) {
	k.query.add(c)
	c.Flags().StringVar(&k.agent, "agent", "", "the agent that keeps it (default: all that are up are asked)")
}

// openKept connects; the caller closes.
func (k *keptQuery) openKept(cmd *cobra.Command) (*kept, func(), error) {
	agent := transfer.AgentName("")
	if k.agent != "" {
		name, err := transfer.ParseAgentName(k.agent)
		if err != nil {
			return nil, nil, err
		}
		agent = name
	}
	net, ctx, done, err := k.open(cmd)
	return &kept{net, ctx, cmd, agent}, done, err
}

// list prints the objects that agents keep, as a table or with --json as lines. all asks one agent; it calls row for
// each object.
func (k *keptQuery) list(cmd *cobra.Command, head []string, all func(k *kept, at client.AtAgent, row func(line any, cells ...string)) error) error {
	open, done, err := k.openKept(cmd)
	if err != nil {
		return err
	}
	defer done()
	rows := [][]string{head}
	err = open.each(func(at client.AtAgent) error {
		return all(open, at, func(line any, cells ...string) {
			if k.json {
				printJSON(cmd, line)
			}
			rows = append(rows, cells)
		})
	})
	if err == nil && !k.json {
		table(cmd.OutOrStdout(), rows)
	}
	return err
}

// A kept is a connection for questions to agents.
type kept struct {
	net   *client.Client
	ctx   context.Context
	cmd   *cobra.Command
	agent transfer.AgentName // the single agent; "": all that are up
}

// each calls fn for each agent that is asked. Where all are asked, it skips agents that do not answer or that refuse
// the question.
func (k *kept) each(fn func(at client.AtAgent) error) error {
	if k.agent != "" {
		return fn(client.AtAgent{Client: k.net, Agent: k.agent})
	}
	var names []transfer.AgentName
	if err := k.net.Agents(k.ctx, func(a *wire.AgentStatus) error {
		if a.Status != wire.AgentStopped && a.Status != wire.AgentUnreachable {
			names = append(names, a.Agent)
		}
		return nil
	}); err != nil {
		return err
	}
	for _, name := range names {
		err := fn(client.AtAgent{Client: k.net, Agent: name})
		switch kind := transfer.KindOf(err); {
		case k.ctx.Err() != nil:
			return context.Cause(k.ctx)
		case kind == transfer.KindTimeout || kind == transfer.KindUnreachable || kind == transfer.KindBusy:
			fmt.Fprintf(k.cmd.ErrOrStderr(), "ferry: agent %s is left out: %s\n", name, printable(err.Error()))
		case kind == transfer.KindDenied || kind == transfer.KindVersion:
		case err != nil:
			return err
		}
	}
	return nil
}

// readKept asks one agent a question.
func readKept[T any](ctx context.Context, at client.AtAgent, kind wire.Kind, body any) (*T, error) {
	ans, err := at.Question(ctx, kind, body)
	if err != nil {
		return nil, err
	}
	return keptIn[T](ans)
}

// tellKept sends an agent a command, and waits limit for its answer.
func tellKept[T any](ctx context.Context, at client.AtAgent, limit time.Duration, kind wire.Kind, body any) (*T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, transfer.Errorf(transfer.KindTimeout, "no answer within %s", limit))
	defer cancel()
	ans, err := at.Command(ctx, kind, body)
	if err != nil {
		return nil, err
	}
	return keptIn[T](ans)
}

func keptIn[T any](ans *wire.Answer) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(ans.Body, v); err != nil {
		return nil, transfer.Errorf(transfer.KindVersion, "the agent's answer cannot be read: %w", err)
	}
	return v, nil
}

// find returns the object of a name, and the agent that keeps it.
func find[T any](k *kept, kind wire.Kind, what, name string, body any) (at client.AtAgent, found *T, err error) {
	err = k.each(func(one client.AtAgent) error {
		v, err := readKept[T](k.ctx, one, kind, body)
		switch {
		case transfer.KindOf(err) == transfer.KindNotFound && k.agent == "":
			return nil
		case err != nil:
			return err
		case found != nil:
			return transfer.Errorf(transfer.KindUsage, "%s and %s each have a %s %s", at.Agent, one.Agent, what, name).WithHint("give --agent")
		}
		at, found = one, v
		return nil
	})
	if err == nil && found == nil {
		err = transfer.Errorf(transfer.KindNotFound, "no agent has a %s %s, or none that is up and answers you", what, name).
			WithHint(fmt.Sprintf("`ferry %s ls` lists them", what))
	}
	return at, found, err
}
