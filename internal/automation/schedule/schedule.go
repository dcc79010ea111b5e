// Package schedule keeps schedules: transfers that an agent submits at appointed times, once or repeatedly, for the
// owner of the schedule. It is a duty of the source agent.
//
// Each occurrence has a number, and is submitted once. When its time comes, its number is passed and an ID is written
// down for its transfer (a Claim), in one transaction of the ledger. Only then is it submitted, under that ID, until
// the agent's ledger has it or refuses it for good. A crash at any point leaves the number to be passed or the claim to
// be submitted. The claim's transfer is then found in the ledger, or submitted. Clocks decide when an occurrence is
// claimed, and its number decides that it is claimed once: a clock that is put back repeats no occurrence.
package schedule

import (
	"cmp"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"ferry/internal/automation/duty"
	"ferry/internal/automation/variable"
	"ferry/internal/ledger"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Kinds of commands and questions.
const (
	CommandPut    wire.Kind = "schedule-put"    // Put
	CommandRemove wire.Kind = "schedule-remove" // Named
	AskList       wire.Kind = "schedule-list"   // Page; Listed
	AskShow       wire.Kind = "schedule-show"   // Named; Schedule with its request
)

// Noun names schedules in a wire.Definition.
const Noun = "schedule"

// Limits.
const (
	MaxSchedules = 1000 // of an agent
	MaxPut       = 120 << 10
	maxWaiting   = 100 // occurrences of a schedule that are claimed and not submitted
	maxResults   = 10  // occurrences that a schedule remembers
	maxReason    = 512 // bytes of the reason of a refusal
	listPage     = 200
)

// The treatment of occurrences that have passed while the agent was down, and of several that have become due while the
// transfer before was running.
const (
	MissedOnce = "once" // the last of them is submitted, late
	MissedSkip = "skip" // none is
)

// A Put makes a schedule.
type Put struct {
	Name     string           `json:"name"`
	Plan     Plan             `json:"plan,omitzero"`
	PlanText *PlanText        `json:"words,omitempty"` // in place of Plan: the agent makes it of them, in its own zone where they name none
	Missed   string           `json:"missed"`
	Overlap  bool             `json:"overlap,omitempty"` // an occurrence does not wait for the end of the transfer before
	Request  transfer.Request `json:"request"`           // its ID has no meaning
	Redefine bool             `json:"redefine,omitempty"`
}

// Named names a schedule.
type Named = duty.ByName

// A Page asks for the schedules with names after one.
type Page struct {
	After string `json:"after,omitempty"`
}

// Listed are some schedules, by their names.
type Listed struct {
	Schedules []Schedule `json:"schedules"`
	More      bool       `json:"more,omitempty"`
}

// A Schedule is a schedule as the ledger has it, and as it is shown.
type Schedule struct {
	V           int                 `json:"v"`
	Name        string              `json:"name"`
	ID          transfer.ID         `json:"id"` // distinguishes it from another one of its name
	word.Origin                     // of the command that has made it
	Originator  transfer.Originator `json:"originator"`
	Made        time.Time           `json:"made"`
	Plan        Plan                `json:"plan"`
	Missed      string              `json:"missed"`
	Overlap     bool                `json:"overlap,omitempty"`
	Source      transfer.AgentName  `json:"source"`
	Destination transfer.AgentName  `json:"destination"`
	Job         string              `json:"job,omitempty"`
	Done        int64               `json:"done"`                   // occurrences that are claimed or missed: the number of the next one
	Ended       time.Time           `json:"ended,omitzero"`         // there is no next one
	Results     []Past              `json:"past,omitempty"`         // the last ones, newest last
	Next        time.Time           `json:"next,omitzero"`          // when it is shown: the time of the next one
	Waiting     int                 `json:"waiting"`                // claimed, and not submitted yet
	Last        transfer.ID         `json:"last_transfer,omitzero"` // the transfer that was submitted last
	Held        time.Time           `json:"held,omitzero"`          // since when an occurrence is due and waits for the end of that transfer
	Request     *transfer.Request   `json:"request,omitempty"`      // when it alone is shown
}

// A Past is the result of an occurrence, or of several that were missed.
type Past struct {
	N        int64           `json:"n"` // the number of the first
	At       time.Time       `json:"at"`
	Missed   int64           `json:"missed,omitempty"` // so many, from number N on
	Transfer transfer.ID     `json:"transfer,omitzero"`
	Done     time.Time       `json:"done"` // when it was submitted, refused or found missed
	Error    *transfer.Error `json:"error,omitempty"`
}

// A Claim is an occurrence that is to be submitted.
type Claim struct {
	V        int         `json:"v"`
	Name     string      `json:"name"`
	Schedule transfer.ID `json:"schedule"`
	N        int64       `json:"n"`
	At       time.Time   `json:"at"`
	Transfer transfer.ID `json:"transfer"`
}

const version = 1

// NameOf is the name of a schedule that was given none.
func NameOf(id transfer.ID) string { return id.String()[24:] }

// ParsePut reads a Put and checks all of it.
func ParsePut(data []byte) (*Put, error) {
	if len(data) > MaxPut {
		return nil, transfer.Errorf(transfer.KindTooLarge, "the schedule has %d bytes; the limit is %d", len(data), MaxPut).WithHint("use patterns or directories")
	}
	p := &Put{}
	if err := json.Unmarshal(data, p); err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the schedule cannot be read: %w", err)
	}
	if err := duty.CheckName("schedule", p.Name); err != nil {
		return nil, err
	}
	if p.Missed != MissedOnce && p.Missed != MissedSkip {
		return nil, transfer.Errorf(transfer.KindUsage, "--missed %.40q is unknown; it is one of %s, %s", p.Missed, MissedOnce, MissedSkip)
	}
	if p.PlanText == nil {
		if _, err := p.Plan.Times(); err != nil {
			return nil, err
		}
	} else if p.Plan != (Plan{}) {
		return nil, transfer.Errorf(transfer.KindMalformed, "the schedule says in two ways when it begins")
	}
	if p.Request.Rest != nil || p.Request.Retry != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the request of a schedule is in parts, or a retry")
	}
	return p, cmp.Or(p.Request.Check(), variable.CheckPrograms(&p.Request))
}

// makePlan is the plan of the words of a Put, for an agent that is asked at a time.
func (p *Put) makePlan(asked time.Time) (err error) {
	if p.PlanText != nil {
		p.Plan, err = p.PlanText.Plan(asked, ZoneOfHost)
	}
	return err
}

// A drawer is the schedules' part of the ledger. s/NAME has a schedule and its status, and r/NAME its request. w/ID has
// a claim that waits to be submitted, by the transfer's ID, the oldest first.
type drawer struct{ duty.Store[*Schedule] }

func drawerOf(t *ledger.Tx) drawer {
	return drawer{duty.Store[*Schedule]{Namespace: ledger.NamespaceOf(t, "schedule"), Prefix: "s/", Decode: duty.Decoder("schedule", version, func(s *Schedule) int { return s.V })}}
}

// claims are the claims with keys after one; "": all.
func (d drawer) claims(after string) iter.Seq2[*Claim, error] {
	return duty.Decoded(d.All("w/", after), duty.Decoder("schedule", version, func(c *Claim) int { return c.V }))
}

// Owner is the principal of the schedule.
func (s *Schedule) Owner() string { return s.Principal }

// Key is the name of the schedule.
func (s *Schedule) Key() string { return s.Name }

// remove forgets a schedule, with its claims that wait.
func (d drawer) remove(name string) error {
	for _, key := range []string{"s/" + name, "r/" + name} {
		if err := d.Delete(key); err != nil {
			return err
		}
	}
	var gone []*Claim
	var err error
	for c, bad := range d.claims("") {
		if bad == nil && c.Name == name {
			gone = append(gone, c)
		}
		err = errors.Join(err, bad)
	}
	for _, c := range gone {
		err = errors.Join(err, d.unclaim(c))
	}
	return err
}

// claim and unclaim keep and forget a claim.
func (d drawer) claim(c *Claim) error   { return d.Put("w/"+c.Transfer.String(), wire.Marshal(c)) }
func (d drawer) unclaim(c *Claim) error { return d.Delete("w/" + c.Transfer.String()) }

// of is the schedule of a claim; nil where it was removed, or is another one by now.
func (d drawer) of(c *Claim) (*Schedule, error) {
	s, err := d.Load(c.Name)
	if s != nil && s.ID != c.Schedule {
		s = nil
	}
	return s, err
}

// remember adds the result of an occurrence.
func (s *Schedule) remember(p Past) {
	if p.Error != nil {
		p.Error = &transfer.Error{Kind: p.Error.Kind, Text: cut(p.Error.Text), Hint: cut(p.Error.Hint)}
	}
	s.Results = append(s.Results, p)
	s.Results = s.Results[max(0, len(s.Results)-maxResults):]
}

func cut(s string) string { return s[:min(len(s), maxReason)] }
