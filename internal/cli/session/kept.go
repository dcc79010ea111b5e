package session

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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
// of one of them. Without kept those agents are left out. An agent that does not answer for each of its pages counts as
// one that does not answer.
func ListKept[Page any](k *KeptQuery, cmd *cobra.Command, headings []string, kind wire.Kind, first any, list func(at client.AtAgent, page *Page, row output.Row) (next any), kept func(shown json.RawMessage) (*Page, error)) error {
	open, done, err := k.OpenKept(cmd)
	if err != nil {
		return err
	}
	defer done()
	listed, noun := 0, cmd.Parent().Name()
	var lacks error
	err = output.List(cmd, k.JSON, headings, func(row output.Row) error {
		counted := func(object any, cells ...string) {
			listed++
			row(object, cells...)
		}
		ask := func(at client.AtAgent) error {
			var rows []func()
			for ask := first; ask != nil; {
				page, err := client.Ask[Page](open.Ctx, at, kind, ask)
				if err != nil {
					return err
				}
				ask = list(at, page, func(object any, cells ...string) { rows = append(rows, func() { counted(object, cells...) }) })
			}
			for _, row := range rows {
				row()
			}
			return nil
		}
		if kept == nil {
			return open.Each(ask)
		}
		var err error
		lacks, err = open.eachOrKept(noun, ask, func(at client.AtAgent, d *wire.Definition) error {
			page, err := kept(d.Shown)
			if err == nil {
				list(at, page, counted)
			}
			return err
		})
		return err
	})
	if err == nil && lacks == nil && listed == 0 && !k.JSON {
		None(cmd, noun, open.Net.Conn.Identity() != nil)
	}
	return cmp.Or(err, lacks)
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
// refuse the question. It names those that are away or do not answer.
func (k *Kept) Each(fn func(at client.AtAgent) error) error {
	return k.each(fn, func(line string) { fmt.Fprintf(k.Cmd.ErrOrStderr(), "ferry: %s\n", line) })
}

func (k *Kept) each(fn func(at client.AtAgent) error, left func(line string)) error {
	return client.Definitions{Client: k.Net}.EachAgent(k.Ctx, k.Agent, fn, func(name transfer.AgentName, err error) {
		left(leftText(name, err))
	})
}

// eachOrKept is Each. Of agents that are away or do not answer it calls kept with each definition that coordination has.
// It names the agents that have never told coordination any. lacks says that coordination did not answer, so that
// definitions may be missing.
func (k *Kept) eachOrKept(noun string, fn func(at client.AtAgent) error, kept func(at client.AtAgent, d *wire.Definition) error) (lacks, err error) {
	f := &fallback{noun: noun, why: map[transfer.AgentName]error{}, say: func(line string) { fmt.Fprintf(k.Cmd.ErrOrStderr(), "ferry: %s\n", line) },
		ask: func(q wire.KeptAsked, fn func(of *wire.KeptAgent) error) error { return k.Net.Kept(k.Ctx, q, fn) },
		show: func(of *wire.KeptAgent, busy bool, d *wire.Definition) error {
			away := k.Net.AwayOf(of)
			away.Busy = busy
			return kept(client.AtAgent{Client: k.Net, Agent: of.Agent, Away: away}, d)
		}}
	err = client.Definitions{Client: k.Net}.EachAgent(k.Ctx, k.Agent, fn, f.leave)
	if k.Agent != "" && client.Silent(err) {
		f.leave(k.Agent, err)
	} else if err != nil {
		return nil, err
	}
	return f.list(k.Agent)
}

// A fallback lists the definitions that coordination has of agents that have not answered themselves.
type fallback struct {
	noun string
	ask  func(q wire.KeptAsked, fn func(of *wire.KeptAgent) error) error
	show func(of *wire.KeptAgent, busy bool, d *wire.Definition) error
	say  func(line string) // to the user

	left    []transfer.AgentName         // the agents that have not answered
	why     map[transfer.AgentName]error // the reason, of each
	known   map[transfer.AgentName]bool  // coordination has answered for it
	listed  map[transfer.AgentName]bool  // and has been told its definitions
	reached transfer.AgentName           // the agent that coordination has answered for last
}

func (f *fallback) leave(name transfer.AgentName, why error) {
	f.left, f.why[name] = append(f.left, name), why
}

// list lists the definitions of the agents that have not answered. one is the agent that the user has asked for; "":
// all. lacks says that coordination did not answer for all of them.
func (f *fallback) list(one transfer.AgentName) (lacks, err error) {
	f.known, f.listed = map[transfer.AgentName]bool{}, map[transfer.AgentName]bool{}
	if len(f.left) == 0 {
		return nil, nil
	}
	if one == "" {
		lacks = f.ask(wire.KeptAsked{Noun: f.noun}, f.take)
	}
	for _, name := range f.left {
		if lacks == nil && !f.known[name] { // it was up when coordination was asked for the others
			lacks = f.ask(wire.KeptAsked{Noun: f.noun, Agent: name}, f.take)
		}
	}
	switch {
	case lacks != nil && one != "":
		why := f.why[one]
		return nil, transfer.Errorf(transfer.KindOf(why), "%w; %w", why, noAnswer(lacks, one))
	case lacks != nil:
		return noAnswer(lacks, f.lacking()...), nil
	case one != "" && !f.listed[one]:
		return nil, f.why[one]
	}
	for _, name := range f.left {
		if !f.listed[name] {
			f.say(leftText(name, f.why[name]))
		}
	}
	return nil, nil
}

// lacking returns the agents with definitions that may be missing, after coordination has failed to answer.
func (f *fallback) lacking() (all []transfer.AgentName) {
	for _, name := range f.left {
		if !f.listed[name] || name == f.reached {
			all = append(all, name)
		}
	}
	return all
}

// take lists the definitions of an agent.
func (f *fallback) take(of *wire.KeptAgent) error {
	why := f.why[of.Agent]
	if why == nil {
		return nil // it has answered itself
	}
	f.known[of.Agent], f.reached = true, of.Agent
	if of.Told.IsZero() {
		return nil
	}
	if !f.listed[of.Agent] {
		f.listed[of.Agent] = true
		if of.Missing > 0 {
			f.say(fmt.Sprintf("coordination does not have %d %ss of agent %s as they are now", of.Missing, f.noun, of.Agent))
		}
		if of.Sandbox {
			f.say(fmt.Sprintf("agent %s has a sandbox: only your own %ss there are listed until it answers", of.Agent, f.noun))
		}
	}
	for n := range of.Definitions {
		d := &of.Definitions[n]
		if err := f.show(of, transfer.KindOf(why) == transfer.KindBusy, d); err != nil {
			f.say(unreadableText(of.Agent, d, err))
		}
	}
	return nil
}

// noAnswer says that coordination has not answered for agents. The kind is that of the reason.
func noAnswer(why error, agents ...transfer.AgentName) *transfer.Error {
	const most = 3
	text := "agents that are away"
	if few := agents[:min(len(agents), most)]; len(few) > 0 {
		text = ""
		for n, name := range few {
			if n > 0 {
				text += ", "
			}
			text += string(name)
		}
		if more := len(agents) - len(few); more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	return transfer.Errorf(transfer.KindOf(why), "coordination did not answer for %s: definitions may be missing here: %w", text, why).WithHint("try again in a few seconds")
}

func unreadableText(agent transfer.AgentName, d *wire.Definition, err error) string {
	return fmt.Sprintf("%s %s of agent %s is left out: %s", d.Noun, output.Printable(d.Key), agent, output.Printable(err.Error()))
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

func (o *KeptOne[T]) is(key string) bool {
	return key == o.Key || o.Ending && strings.HasSuffix(key, o.Key)
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
		say := func(line string) { fmt.Fprintf(cmd.ErrOrStderr(), "ferry: %s\n", line) }
		of, kept, kerr := findKept(func(q wire.KeptAsked, fn func(of *wire.KeptAgent) error) error { return open.Net.Kept(open.Ctx, q, fn) }, open.Agent, one, say)
		if kept != nil {
			away := open.Net.AwayOf(of)
			away.Busy = transfer.KindOf(err) == transfer.KindBusy
			at, found = client.AtAgent{Client: open.Net, Agent: of.Agent, Away: away}, kept
		}
		err = keptError(err, kerr, kept != nil, open.Agent)
	}
	if err != nil {
		return err
	}
	return fn(open, at, found)
}

// keptError returns the error of a search at the agents, and then at coordination; nil: coordination has it. agent is
// the one that the user has asked for; "": all.
func keptError(atAgents, atCoordination error, found bool, agent transfer.AgentName) error {
	switch {
	case transfer.KindOf(atCoordination) == transfer.KindUsage:
		return atCoordination // several have it
	case atCoordination != nil && agent == "":
		return transfer.Errorf(transfer.KindOf(atCoordination), "%w; %w", noAnswer(atCoordination), withoutHint(atAgents))
	case atCoordination != nil:
		return transfer.Errorf(transfer.KindOf(atAgents), "%w; %w", atAgents, noAnswer(atCoordination, agent))
	case found:
		return nil
	}
	return atAgents
}

func withoutHint(err error) error {
	var e *transfer.Error
	if errors.As(err, &e) {
		return e.WithHint("")
	}
	return err
}

// findKept returns the object that coordination has, and its agent; nil: it has none. It names an object that cannot be
// read to the user, by say.
func findKept[T any](ask func(wire.KeptAsked, func(*wire.KeptAgent) error) error, agent transfer.AgentName, one KeptOne[T], say func(line string)) (at *wire.KeptAgent, found *T, err error) {
	q := wire.KeptAsked{Noun: one.Noun, Agent: agent, Key: one.Key}
	if one.Ending {
		q.Key, q.Suffix = "", one.Key
	}
	err = ask(q, func(of *wire.KeptAgent) error {
		for n := range of.Definitions {
			d := &of.Definitions[n]
			if !one.is(d.Key) {
				continue
			}
			v, err := one.Decode(d.Shown)
			switch {
			case err != nil:
				say(unreadableText(of.Agent, d, err))
				continue
			case found != nil && one.Ending:
				return transfer.Errorf(transfer.KindUsage, "several %ss have an ID that ends in %s", one.Noun, one.Key).WithHint("give more of the ID")
			case found != nil:
				return transfer.Errorf(transfer.KindUsage, "%s and %s each have a %s %s", at.Agent, of.Agent, one.Noun, one.Key).WithHint("give --agent")
			}
			at, found = of, v
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
