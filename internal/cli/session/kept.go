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
	listed := 0
	err = output.List(cmd, k.JSON, headings, func(row output.Row) error {
		counted := func(object any, cells ...string) {
			listed++
			row(object, cells...)
		}
		return open.Each(func(at client.AtAgent) error {
			for ask := first; ask != nil; {
				page, err := client.Ask[Page](open.Ctx, at, kind, ask)
				if err != nil {
					return err
				}
				ask = list(at, page, counted)
			}
			return nil
		})
	})
	if err == nil && listed == 0 && !k.JSON {
		None(cmd, cmd.Parent().Name(), open.Net.Conn.Identity() != nil)
	}
	return err
}

// None prints that a list has no line. A list that may hide objects of others says so.
func None(cmd *cobra.Command, noun string, hides bool) {
	text := "there is no " + noun
	if hides {
		text += " that you may see"
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "ferry: %s\n", text)
}

// A Kept is a connection for questions to agents.
type Kept struct {
	Net   *client.Client
	Ctx   context.Context
	Cmd   *cobra.Command
	Agent transfer.AgentName // the single agent; "": all that are up
}

// Each calls fn for each agent that is asked. Where all are asked, it leaves out agents that are away, do not answer or
// refuse the question. It names the first two.
func (k *Kept) Each(fn func(at client.AtAgent) error) error {
	return k.each(fn, func(line string) { fmt.Fprintf(k.Cmd.ErrOrStderr(), "ferry: %s\n", line) })
}

func (k *Kept) each(fn func(at client.AtAgent) error, left func(line string)) error {
	return client.Definitions{Client: k.Net}.EachAgent(k.Ctx, k.Agent, fn, func(name transfer.AgentName, err error) {
		left(fmt.Sprintf("agent %s is left out: %s", name, output.Printable(err.Error())))
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
	var left []string
	err = k.each(func(one client.AtAgent) error {
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
	}, func(line string) { left = append(left, line) })
	if err == nil && found == nil {
		err = transfer.Errorf(transfer.KindNotFound, "%s", noneHas(noun, name, left)).WithHint(fmt.Sprintf("`ferry %s ls` lists them", noun))
	}
	return at, found, err
}

// noneHas describes that no agent has an object of a name. left are the agents that could not be asked.
func noneHas(noun, name string, left []string) string {
	const most = 3
	text := fmt.Sprintf("no agent has a %s %s that you may see", noun, name)
	for n, line := range left {
		if n == most {
			return fmt.Sprintf("%s; %d more are left out", text, len(left)-most)
		}
		text += "; " + line
	}
	return text
}

// KeepWait is the time for which a command waits until an agent has an object that it is to keep.
const KeepWait = 30 * time.Second
