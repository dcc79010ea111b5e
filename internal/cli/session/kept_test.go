package session

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A keeper answers as coordination does, with the definitions of agents.
type keeper struct {
	agents []wire.KeptAgent
	fails  int // the question that is not answered, from 1; 0: none
	after  int // the number of agents in the answer before it fails
	asked  int
	kind   transfer.Kind
}

func (k *keeper) ask(q wire.KeptAsked, fn func(of *wire.KeptAgent) error) error {
	k.asked++
	for n := range k.agents {
		of := k.agents[n]
		if k.asked == k.fails && n == k.after {
			return transfer.Errorf(k.kind, "it fails")
		}
		if q.Agent != "" && q.Agent != of.Agent {
			continue
		}
		var all []wire.Definition
		for _, d := range of.Definitions {
			if (q.Key == "" || d.Key == q.Key) && strings.HasSuffix(d.Key, q.Suffix) {
				all = append(all, d)
			}
		}
		of.Definitions = all
		if err := fn(&of); err != nil {
			return err
		}
	}
	return nil
}

func keptOf(agent transfer.AgentName, keys ...string) wire.KeptAgent {
	of := wire.KeptAgent{Agent: agent, Status: wire.AgentStopped, Told: time.Unix(1, 0)}
	for _, key := range keys {
		of.Definitions = append(of.Definitions, wire.Definition{DefinitionName: wire.DefinitionName{Noun: "monitor", Key: key}, Shown: json.RawMessage(fmt.Sprintf("%q", key))})
	}
	return of
}

// decoded decodes a text; BAD cannot be read.
func decoded(shown json.RawMessage) (*string, error) {
	v, err := Decode[string](shown)
	if err == nil && *v == "BAD" {
		err = transfer.Errorf(transfer.KindVersion, "it cannot be read")
	}
	return v, err
}

// The definitions of agents that do not answer are those that coordination has. The user sees which may be missing.
func TestFallback(t *testing.T) {
	away := transfer.Errorf(transfer.KindUnreachable, "it is away")
	beta, gamma := keptOf("BETA", "B1", "B2"), keptOf("GAMMA", "G1")
	missing, sandbox, never := keptOf("GAMMA", "G1"), keptOf("GAMMA", "G1"), wire.KeptAgent{Agent: "GAMMA"}
	missing.Missing, sandbox.Sandbox = 3, true
	busy := transfer.Errorf(transfer.KindBusy, "it has too much to do")
	for name, c := range map[string]struct {
		keeper
		one    transfer.AgentName
		left   []transfer.AgentName
		why    error
		listed string
		said   string
		lacks  transfer.Kind
		text   string // of the error
		err    transfer.Kind
	}{
		"all":                          {keeper: keeper{agents: []wire.KeptAgent{keptOf("ALPHA", "A1"), beta, gamma}}, listed: "BETA B1, BETA B2, GAMMA G1"},
		"one that cannot be read":      {keeper: keeper{agents: []wire.KeptAgent{keptOf("BETA", "B1", "BAD", "B2"), gamma}}, listed: "BETA B1, BETA B2, GAMMA G1", said: "monitor BAD of agent BETA is left out: it cannot be read"},
		"one that has told none":       {keeper: keeper{agents: []wire.KeptAgent{beta, never}}, listed: "BETA B1, BETA B2", said: "agent GAMMA is left out: it is away"},
		"some are missing":             {keeper: keeper{agents: []wire.KeptAgent{beta, missing}}, listed: "BETA B1, BETA B2, GAMMA G1", said: "coordination does not have 3 monitors of agent GAMMA as they are now"},
		"a sandbox":                    {keeper: keeper{agents: []wire.KeptAgent{beta, sandbox}}, listed: "BETA B1, BETA B2, GAMMA G1", said: "agent GAMMA has a sandbox: only your own monitors there are listed until it answers"},
		"one that is unknown":          {keeper: keeper{agents: []wire.KeptAgent{beta}}, listed: "BETA B1, BETA B2", said: "agent GAMMA is left out: it is away"},
		"no answer":                    {keeper: keeper{agents: []wire.KeptAgent{beta, gamma}, fails: 1, kind: transfer.KindBusy}, lacks: transfer.KindBusy, text: "coordination did not answer for BETA, GAMMA: definitions may be missing here: it fails"},
		"no answer in time":            {keeper: keeper{agents: []wire.KeptAgent{beta, gamma}, fails: 1, after: 1, kind: transfer.KindTimeout}, listed: "BETA B1, BETA B2", lacks: transfer.KindTimeout, text: "did not answer for BETA, GAMMA: "},
		"no answer after many":         {keeper: keeper{agents: []wire.KeptAgent{beta, gamma}, fails: 1, kind: transfer.KindMalformed}, left: []transfer.AgentName{"BETA", "C", "D", "E", "F"}, lacks: transfer.KindMalformed, text: "did not answer for BETA, C, D and 2 more: "},
		"one agent":                    {keeper: keeper{agents: []wire.KeptAgent{beta, gamma}}, one: "GAMMA", left: []transfer.AgentName{"GAMMA"}, listed: "GAMMA G1"},
		"one agent that has told none": {keeper: keeper{agents: []wire.KeptAgent{never}}, one: "GAMMA", left: []transfer.AgentName{"GAMMA"}, err: transfer.KindUnreachable, text: "it is away"},
		"one agent, and no answer":     {keeper: keeper{agents: []wire.KeptAgent{gamma}, fails: 1, kind: transfer.KindTimeout}, one: "GAMMA", left: []transfer.AgentName{"GAMMA"}, err: transfer.KindUnreachable, text: "it is away; coordination did not answer for GAMMA: "},
		"all answer":                   {keeper: keeper{fails: 1}, left: []transfer.AgentName{}},
		"a busy agent":                 {keeper: keeper{agents: []wire.KeptAgent{beta, gamma}}, why: busy, listed: "BETA B1 busy, BETA B2 busy, GAMMA G1 busy"},
	} {
		t.Run(name, func(t *testing.T) {
			var listed, said []string
			f := &fallback{noun: "monitor", ask: c.ask, why: map[transfer.AgentName]error{}, say: func(line string) { said = append(said, line) },
				show: func(of *wire.KeptAgent, busy bool, d *wire.Definition) error {
					v, err := decoded(d.Shown)
					if err == nil {
						text := fmt.Sprint(of.Agent, " ", *v)
						if busy {
							text += " busy"
						}
						listed = append(listed, text)
					}
					return err
				}}
			if c.left == nil {
				c.left = []transfer.AgentName{"BETA", "GAMMA"}
			}
			if c.why == nil {
				c.why = away
			}
			for _, name := range c.left {
				f.leave(name, c.why)
			}
			lacks, err := f.list(c.one)
			if got := strings.Join(listed, ", "); got != c.listed {
				t.Errorf("it lists %s, not %s", got, c.listed)
			}
			if got := strings.Join(said, "; "); got != c.said {
				t.Errorf("it says %s, not %s", got, c.said)
			}
			if transfer.KindOf(lacks) != c.lacks || transfer.KindOf(err) != c.err || !strings.Contains(fmt.Sprint(lacks, err), c.text) {
				t.Errorf("its errors are %v and %v", lacks, err)
			}
		})
	}
}

// An object is found by its name, beside others that cannot be read.
func TestFindKept(t *testing.T) {
	for name, c := range map[string]struct {
		keeper
		one  KeptOne[string]
		want string
		said string
		kind transfer.Kind
	}{
		"by its name":             {keeper: keeper{agents: []wire.KeptAgent{keptOf("BETA", "A", "XA"), keptOf("GAMMA", "B")}}, one: KeptOne[string]{Key: "A"}, want: "BETA A"},
		"by its end":              {keeper: keeper{agents: []wire.KeptAgent{keptOf("BETA", "XA"), keptOf("GAMMA", "B")}}, one: KeptOne[string]{Key: "A", Ending: true}, want: "BETA XA"},
		"at two agents":           {keeper: keeper{agents: []wire.KeptAgent{keptOf("BETA", "A"), keptOf("GAMMA", "A")}}, one: KeptOne[string]{Key: "A"}, kind: transfer.KindUsage},
		"none":                    {keeper: keeper{agents: []wire.KeptAgent{keptOf("BETA", "A")}}, one: KeptOne[string]{Key: "C"}},
		"one that cannot be read": {keeper: keeper{agents: []wire.KeptAgent{keptOf("BETA", "BAD"), keptOf("GAMMA", "B")}}, one: KeptOne[string]{Key: "BAD"}, said: "monitor BAD of agent BETA is left out: it cannot be read"},
		"no answer":               {keeper: keeper{agents: []wire.KeptAgent{keptOf("BETA", "A")}, fails: 1, kind: transfer.KindBusy}, one: KeptOne[string]{Key: "A"}, kind: transfer.KindBusy},
	} {
		t.Run(name, func(t *testing.T) {
			c.one.Noun, c.one.Decode = "monitor", decoded
			said := ""
			at, found, err := findKept(c.ask, "", c.one, func(line string) { said += line })
			got := ""
			if err == nil && found != nil {
				got = fmt.Sprint(at.Agent, " ", *found)
			}
			if got != c.want || said != c.said || transfer.KindOf(err) != c.kind {
				t.Errorf("it finds %q and says %q, %v", got, said, err)
			}
		})
	}
}

// A search that coordination did not answer does not say that there is no such object.
func TestKeptError(t *testing.T) {
	none, away := transfer.Errorf(transfer.KindNotFound, "no agent has it").WithHint("list them"), transfer.Errorf(transfer.KindUnreachable, "it is away")
	busy, several := transfer.Errorf(transfer.KindBusy, "it is busy"), transfer.Errorf(transfer.KindUsage, "two have it")
	for _, c := range []struct {
		agents, coordination error
		found                bool
		agent                transfer.AgentName
		kind                 transfer.Kind
		text                 string
	}{
		{none, nil, true, "", transfer.KindNone, "<nil>"},
		{none, nil, false, "", transfer.KindNotFound, "no agent has it; list them"},
		{none, several, false, "", transfer.KindUsage, "two have it"},
		{none, busy, false, "", transfer.KindBusy, "coordination did not answer for agents that are away: definitions may be missing here: it is busy; try again in a few seconds; no agent has it"},
		{away, busy, false, "BETA", transfer.KindUnreachable, "it is away; coordination did not answer for BETA: definitions may be missing here: it is busy; try again in a few seconds"},
		{away, nil, false, "BETA", transfer.KindUnreachable, "it is away"},
	} {
		if err := keptError(c.agents, c.coordination, c.found, c.agent); transfer.KindOf(err) != c.kind || fmt.Sprint(err) != c.text {
			t.Errorf("%v and %v become %v", c.agents, c.coordination, err)
		}
	}
}
