package wire

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"ferry/internal/transfer"
)

// Limits of the definitions that coordination keeps of an agent.
const (
	MaxDefinitions = 4 << 20   // bytes of all of them
	MaxDefinition  = 192 << 10 // bytes of one
	MaxKeep        = 32 << 10  // bytes of an AskKeep, unless one definition alone is larger
	maxNouns       = 16        // of one agent
)

// A Definition is an object that a duty of an agent keeps for a principal, as coordination keeps it: a monitor, a
// schedule, a template or a job. Coordination shows it while the agent is away.
type Definition struct {
	DefinitionName
	Owner   string               `json:"owner,omitempty"`   // the principal that sees it without another authority
	Readers []transfer.Authority `json:"readers,omitempty"` // each of them at the agent lets a principal see it
	Shown   json.RawMessage      `json:"shown"`             // as the agent would answer
}

// A DefinitionName names a definition of an agent.
type DefinitionName struct {
	Noun string `json:"noun"` // of its commands: monitor, schedule, template, job
	Key  string `json:"key"`  // its name, or the ID of a job
}

func (n *DefinitionName) fits() bool {
	return n.Noun != "" && n.Key != "" && short(n.Noun, n.Key) && !strings.Contains(n.Noun+n.Key, "\x00")
}

// Size is the number of bytes of a definition in a message, for the limits.
func (d *Definition) Size() int { return len(Marshal(d)) }

// Keep is the body of AskKeep. It changes the definitions that coordination keeps of the asker. Coordination has those
// with the mark Base, and those with the mark Mark from then on; an error of KindConflict says that it has others.
// Without Base it forgets all earlier ones.
type Keep struct {
	Base    string           `json:"base,omitempty"`
	Mark    string           `json:"mark"`
	Put     []Definition     `json:"put,omitempty"`
	Gone    []DefinitionName `json:"gone,omitempty"`
	Missing map[string]int   `json:"missing,omitempty"` // by noun: definitions that coordination then does not have, or not as they are now
	Sandbox bool             `json:"sandbox,omitempty"` // the agent has rules of its own: only their owners may see its definitions
}

func (b *Keep) check() string {
	fit := true
	for n := range b.Put {
		d := &b.Put[n]
		fit = fit && d.fits() && len(d.Shown) > 0 && principal(d.Owner) && len(d.Readers) <= len(transfer.Authorities()) && d.Size() <= MaxDefinition
		for _, r := range d.Readers {
			fit = fit && slices.Contains(transfer.Authorities(), r)
		}
	}
	for n := range b.Gone {
		fit = fit && b.Gone[n].fits()
	}
	counts := len(b.Missing) <= maxNouns
	for noun, n := range b.Missing {
		counts = counts && short(noun) && within(n, 0, maxCount)
	}
	return broken(
		rule{"a mark that is none", b.Mark != "" && mark(b.Mark) && mark(b.Base)},
		rule{"a definition out of its range", fit},
		rule{"a number out of its range", counts})
}

// KeptAsked is the body of AskKept. It asks for the definitions with a noun, of one agent or of all that are away. The
// answer is in the order of the agents and keys. With Key or Suffix it is in the order of the keys and agents, and has
// no agent without such a definition.
type KeptAsked struct {
	Noun   string             `json:"noun"`
	Agent  transfer.AgentName `json:"agent,omitempty"`  // this one, even if it is up
	Key    string             `json:"key,omitempty"`    // the key
	Suffix string             `json:"suffix,omitempty"` // of the key

	After []byte `json:"after,omitempty"` // for the next page: Next of this one
}

const maxKeptPosition = 1024

func (b *KeptAsked) check() string {
	return broken(
		rule{"a word that is too long", short(b.Noun, b.Key, b.Suffix, string(b.Agent)) && len(b.After) <= maxKeptPosition},
		rule{"no noun, or a key that is none", b.Noun != "" && !strings.Contains(b.Noun+b.Key+string(b.Agent), "\x00")})
}

// Kept is the body of the answer to AskKept. A page may have no agent, although there are more.
type Kept struct {
	Agents []KeptAgent `json:"agents,omitempty"`
	Next   []byte      `json:"next,omitempty"` // the position of the next page, which coordination alone can read; none: this is the last one
}

// A KeptAgent has the definitions of an agent that the asker may see.
type KeptAgent struct {
	Agent       transfer.AgentName `json:"agent"`
	Status      string             `json:"state"`             // as of AgentStatus
	Age         time.Duration      `json:"age_ns"`            // since it was heard; 0: it was not heard since coordination started
	Told        time.Time          `json:"told,omitzero"`     // when it told its definitions last; zero: never
	Missing     int                `json:"missing,omitempty"` // of this noun, as in Keep
	Sandbox     bool               `json:"sandbox,omitempty"` // as in Keep
	Definitions []Definition       `json:"definitions,omitempty"`
}

func (b *Kept) check() string {
	fit := true
	for n := range b.Agents {
		fit = fit && short(string(b.Agents[n].Agent), b.Agents[n].Status)
	}
	return broken(rule{"a word that is too long", fit && len(b.Next) <= maxKeptPosition})
}
