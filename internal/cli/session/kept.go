package session

import (
	"context"
	"encoding/json"
	"errors"
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
	c.Flags().StringVar(&k.Agent, "agent", "", "the agent that keeps it (default: all are asked)")
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
// page, or nil after the last one. Of agents that are away it lists the objects that coordination has; kept makes a page
// of one of them. Without kept those agents are left out.
func ListKept[Page any](k *KeptQuery, cmd *cobra.Command, headings []string, kind wire.Kind, first any, list func(at client.AtAgent, page *Page, row output.Row) (next any), kept func(shown json.RawMessage) (*Page, error)) error {
	open, done, err := k.OpenKept(cmd)
	if err != nil {
		return err
	}
	defer done()
	listed, noun := 0, cmd.Parent().Name()
	err = output.List(cmd, k.JSON, headings, func(row output.Row) error {
		counted := func(object any, cells ...string) {
			listed++
			row(object, cells...)
		}
		ask := func(at client.AtAgent) error {
			for ask := first; ask != nil; {
				page, err := client.Ask[Page](open.Ctx, at, kind, ask)
				if err != nil {
					return err
				}
				ask = list(at, page, counted)
			}
			return nil
		}
		if kept == nil {
			return open.Each(ask)
		}
		return open.eachOrKept(noun, ask, func(at client.AtAgent, d *wire.Definition) error {
			page, err := kept(d.Shown)
			if err == nil {
				list(at, page, counted)
			}
			return err
		})
	})
	if err == nil && listed == 0 && !k.JSON {
		None(cmd, noun, open.Net.Conn.Identity() != nil)
	}
	return err
}

// PageOf returns a function for ListKept that decodes an object and makes a page of it.
func PageOf[T, Page any](page func(one T) *Page) func(shown json.RawMessage) (*Page, error) {
	return func(shown json.RawMessage) (*Page, error) {
		one, err := Decode[T](shown)
		if err != nil {
			return nil, err
		}
		return page(*one), nil
	}
}

// Decode decodes an object that coordination has of an agent.
func Decode[T any](shown json.RawMessage) (*T, error) {
	v := new(T)
	if err := json.Unmarshal(shown, v); err != nil {
		return nil, transfer.Errorf(transfer.KindVersion, "an object that coordination has of an agent cannot be read: %w", err)
	}
	return v, nil
}

// AwayText is the cell of an object if its agent is away; otherwise it is empty.
func AwayText(at client.AtAgent) string {
	if at.Away == nil {
		return ""
	}
	return at.Away.String()
}

// Seen returns a noun for a list that may hide objects of others.
func Seen(noun string, hides bool) string {
	if hides {
		noun += " that you may see"
	}
	return noun
}

// None prints that a list has no line. A list that may hide objects of others says so.
func None(cmd *cobra.Command, noun string, hides bool) {
	output.None(cmd, Seen(noun, hides))
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
		left(leftText(name, err))
	})
}

// eachOrKept is Each. Of agents that are away or do not answer it calls kept with each definition that coordination has.
// It names the agents that have never told coordination any.
func (k *Kept) eachOrKept(noun string, fn func(at client.AtAgent) error, kept func(at client.AtAgent, d *wire.Definition) error) error {
	var left []transfer.AgentName
	why := map[transfer.AgentName]error{}
	note := func(name transfer.AgentName, err error) { left, why[name] = append(left, name), err }
	err := client.Definitions{Client: k.Net}.EachAgent(k.Ctx, k.Agent, fn, note)
	if k.Agent != "" && client.Silent(err) {
		note(k.Agent, err)
	} else if err != nil {
		return err
	}
	answered := map[transfer.AgentName]bool{}
	ask := func(q wire.KeptAsked) error {
		return k.Net.Kept(k.Ctx, q, func(of *wire.KeptAgent) error {
			if why[of.Agent] == nil {
				return nil // it has answered itself
			}
			if answered[of.Agent] = true; of.Told.IsZero() {
				return nil
			}
			if of.Left > 0 && why[of.Agent] != errKept {
				fmt.Fprintf(k.Cmd.ErrOrStderr(), "ferry: coordination does not have all definitions of agent %s: %d are left out\n", of.Agent, of.Left)
			}
			why[of.Agent] = errKept
			at := client.AtAgent{Client: k.Net, Agent: of.Agent, Away: k.Net.AwayOf(of)}
			for n := range of.Definitions {
				if err := kept(at, &of.Definitions[n]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	var failed error
	if k.Agent == "" && len(left) > 0 {
		failed = ask(wire.KeptAsked{Noun: noun})
	}
	for _, name := range left {
		if failed == nil && !answered[name] { // it was up when coordination was asked for the others
			failed = ask(wire.KeptAsked{Noun: noun, Agent: name})
		}
		switch {
		case why[name] == errKept:
		case k.Agent != "":
			return why[name]
		default:
			k.leftOut(name, why[name])
		}
	}
	if kind := transfer.KindOf(failed); failed != nil && (kind == transfer.KindInternal || k.Ctx.Err() != nil) {
		return failed
	}
	return nil
}

// errKept stands for the error of an agent where coordination has its definitions.
var errKept = errors.New("coordination has its definitions")

func (k *Kept) leftOut(name transfer.AgentName, err error) {
	fmt.Fprintf(k.Cmd.ErrOrStderr(), "ferry: %s\n", leftText(name, err))
}

func leftText(name transfer.AgentName, err error) string {
	return fmt.Sprintf("agent %s is left out: %s", name, output.Printable(err.Error()))
}

// A KeptOne selects an object that coordination has of an agent.
type KeptOne[T any] struct {
	Noun   string
	Key    string
	Ending bool // its key only ends in Key
	Decode func(shown json.RawMessage) (*T, error)
}

// WithShown is WithKept for commands that only show an object. If no agent that is up has it, it is the one that
// coordination has of an agent that is away.
func WithShown[T any](k *KeptQuery, cmd *cobra.Command, kind wire.Kind, one KeptOne[T], name string, body any, fn func(k *Kept, at client.AtAgent, found *T) error) error {
	open, done, err := k.OpenKept(cmd)
	if err != nil {
		return err
	}
	defer done()
	at, found, err := Find[T](open, kind, one.Noun, name, body)
	if transfer.KindOf(err) == transfer.KindNotFound && open.Agent == "" || client.Silent(err) {
		keptAt, kept, kerr := findKept(open, one)
		switch {
		case transfer.KindOf(kerr) == transfer.KindUsage:
			err = kerr
		case kerr == nil && kept != nil:
			at, found, err = keptAt, kept, nil
		}
	}
	if err != nil {
		return err
	}
	return fn(open, at, found)
}

// findKept returns the object that coordination has; nil: it has none.
func findKept[T any](k *Kept, one KeptOne[T]) (at client.AtAgent, found *T, err error) {
	err = k.Net.Kept(k.Ctx, wire.KeptAsked{Noun: one.Noun, Agent: k.Agent, Suffix: one.Key}, func(of *wire.KeptAgent) error {
		for n := range of.Definitions {
			switch d := &of.Definitions[n]; {
			case !one.Ending && d.Key != one.Key:
				continue
			case found != nil && one.Ending:
				return transfer.Errorf(transfer.KindUsage, "several %ss have an ID that ends in %s", one.Noun, one.Key).WithHint("give more of the ID")
			case found != nil:
				return transfer.Errorf(transfer.KindUsage, "%s and %s each have a %s %s", at.Agent, of.Agent, one.Noun, one.Key).WithHint("give --agent")
			}
			v, err := one.Decode(of.Definitions[n].Shown)
			if err != nil {
				return err
			}
			at, found = client.AtAgent{Client: k.Net, Agent: of.Agent, Away: k.Net.AwayOf(of)}, v
		}
		return nil
	})
	return at, found, err
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
