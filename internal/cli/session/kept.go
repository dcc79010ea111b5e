package session

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/client"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A KeptQuery asks for the objects that agents keep by name: monitors, schedules, templates.
type KeptQuery struct {
	Query
	Agent string
}

// Add adds the flags.
func (k *KeptQuery) Add(c *cobra.Command) {
	k.Query.Add(c)
	c.Flags().StringVar(&k.Agent, "agent", "", "the agent that keeps it (default: all that are up are asked)")
}

// OpenKept connects; the caller closes.
func (k *KeptQuery) OpenKept(cmd *cobra.Command) (*Kept, func(), error) {
	agent := transfer.AgentName("")
	if k.Agent != "" {
		name, err := transfer.ParseAgentName(k.Agent)
		if err != nil {
			return nil, nil, err
		}
		agent = name
	}
	net, ctx, done, err := k.Open(cmd)
	return &Kept{net, ctx, cmd, agent}, done, err
}

// ListKept prints the objects that agents keep, as output.List does. It asks each agent for one page after another,
// beginning with the question first. list calls row for each object of a page, and returns the question for the next
// page, or nil after the last one.
func ListKept[Page any](k *KeptQuery, cmd *cobra.Command, headings []string, kind wire.Kind, first any, list func(at client.AtAgent, page *Page, row output.Row) (next any)) error {
	open, done, err := k.OpenKept(cmd)
	if err != nil {
		return err
	}
	defer done()
	return output.List(cmd, k.JSON, headings, func(row output.Row) error {
		return open.Each(func(at client.AtAgent) error {
			for ask := first; ask != nil; {
				page, err := client.Ask[Page](open.Ctx, at, kind, ask)
				if err != nil {
					return err
				}
				ask = list(at, page, row)
			}
			return nil
		})
	})
}

// A Kept is a connection for questions to agents.
type Kept struct {
	Net   *client.Client
	Ctx   context.Context
	Cmd   *cobra.Command
	Agent transfer.AgentName // the single agent; "": all that are up
}

// Each calls fn for each agent that is asked. Where all are asked, it leaves out agents that do not answer or that refuse
// the question.
func (k *Kept) Each(fn func(at client.AtAgent) error) error {
	return client.Definitions{Client: k.Net}.EachAgent(k.Ctx, k.Agent, fn, func(name transfer.AgentName, err error) {
		fmt.Fprintf(k.Cmd.ErrOrStderr(), "ferry: agent %s is left out: %s\n", name, output.Printable(err.Error()))
	})
}

// WithKept connects, finds the object of a name, and calls fn with it. noun is the command of such objects.
func WithKept[T any](k *KeptQuery, cmd *cobra.Command, kind wire.Kind, noun, name string, body any, fn func(k *Kept, at client.AtAgent, found *T) error) error {
	open, done, err := k.OpenKept(cmd)
	if err != nil {
		return err
	}
	defer done()
	at, found, err := Find[T](open, kind, noun, name, body)
	if err != nil {
		return err
	}
	return fn(open, at, found)
}

// Find returns the object of a name, and the agent that keeps it.
func Find[T any](k *Kept, kind wire.Kind, noun, name string, body any) (at client.AtAgent, found *T, err error) {
	err = k.Each(func(one client.AtAgent) error {
		v, err := client.Ask[T](k.Ctx, one, kind, body)
		switch {
		case transfer.KindOf(err) == transfer.KindNotFound && k.Agent == "":
			return nil
		case err != nil:
			return err
		case found != nil:
			return transfer.Errorf(transfer.KindUsage, "%s and %s each have a %s %s", at.Agent, one.Agent, noun, name).WithHint("give --agent")
		}
		at, found = one, v
		return nil
	})
	if err == nil && found == nil {
		err = transfer.Errorf(transfer.KindNotFound, "no agent has a %s %s, or none that is up and answers you", noun, name).
			WithHint(fmt.Sprintf("`ferry %s ls` lists them", noun))
	}
	return at, found, err
}

// KeepWait is the time for which a command waits until an agent has an object that it is to keep.
const KeepWait = 30 * time.Second
