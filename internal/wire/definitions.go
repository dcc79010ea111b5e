package wire

import (
	"encoding/json"
	"time"

	"ferry/internal/transfer"
)

// Limits of the definitions that coordination keeps of an agent.
const (
	MaxDefinitions = 4 << 20   // bytes of all of them
	MaxDefinition  = 192 << 10 // bytes of one
	MaxKeep        = 32 << 10  // bytes of an AskKeep, unless one definition alone is larger
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
	return n.Noun != "" && n.Key != "" && short(n.Noun, n.Key)
}

// Size is the size of a definition for MaxDefinitions.
func (d *Definition) Size() int { return len(d.Noun) + len(d.Key) + len(d.Owner) + len(d.Shown) + 64 }

// Keep is the body of AskKeep. It changes the definitions that coordination keeps of the asker. Coordination has those
// with the mark Base, and those with the mark Mark from then on; an error of KindConflict says that it has others.
// Without Base it forgets all earlier ones.
type Keep struct {
	Base string           `json:"base,omitempty"`
	Mark string           `json:"mark"`
	Put  []Definition     `json:"put,omitempty"`
	Gone []DefinitionName `json:"gone,omitempty"`
	Left int              `json:"left,omitempty"` // the number of definitions that do not fit into the limits
}

func (b *Keep) check() string {
	fit := true
	for n := range b.Put {
		d := &b.Put[n]
		fit = fit && d.fits() && principal(d.Owner) && len(d.Readers) <= len(transfer.Authorities()) && d.Size() <= MaxDefinition
		for _, r := range d.Readers {
			fit = fit && short(string(r))
		}
	}
	for n := range b.Gone {
		fit = fit && b.Gone[n].fits()
	}
	return broken(
		rule{"a mark that is none", b.Mark != "" && mark(b.Mark) && mark(b.Base)},
		rule{"a definition out of its range", fit},
		rule{"a number out of its range", within(b.Left, 0, maxCount)})
}

// KeptAsked is the body of AskKept. It asks for the definitions with a noun, of one agent or of all that are away.
type KeptAsked struct {
	Noun   string             `json:"noun"`
	Agent  transfer.AgentName `json:"agent,omitempty"`  // this one, even if it is up
	Suffix string             `json:"suffix,omitempty"` // of the key

	AfterAgent transfer.AgentName `json:"after_agent,omitempty"` // for the next page: the last agent of this one,
	AfterKey   string             `json:"after_key,omitempty"`   // and the key of its last definition; "": it had none
}

func (b *KeptAsked) check() string {
	return broken(rule{"a word that is too long", short(b.Noun, b.Suffix, b.AfterKey, string(b.Agent), string(b.AfterAgent))})
}

// Kept is the body of the answer to AskKept.
type Kept struct {
	Agents []KeptAgent `json:"agents,omitempty"`
	More   bool        `json:"more,omitempty"`
}

// A KeptAgent has the definitions of an agent that the asker may see.
type KeptAgent struct {
	Agent       transfer.AgentName `json:"agent"`
	Status      string             `json:"state"`         // as of AgentStatus
	Age         time.Duration      `json:"age_ns"`        // since it was heard; 0: it was not heard since coordination started
	Told        time.Time          `json:"told,omitzero"` // when it told its definitions last; zero: never
	Left        int                `json:"left,omitempty"`
	Definitions []Definition       `json:"definitions,omitempty"`
}

func (b *Kept) check() string {
	fit := true
	for n := range b.Agents {
		fit = fit && short(string(b.Agents[n].Agent), b.Agents[n].Status)
	}
	return broken(rule{"a word that is too long", fit})
}
