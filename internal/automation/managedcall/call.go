// Package managedcall has an agent run a program that belongs to no transfer: MQ MFT's managed call. It is a duty of
// that agent.
//
// A command brings the program. The call is written down in the transaction of the answer. A mark that the program is
// about to run is written before the run, so that the program is started once. Where the agent ends while the program
// runs, the program's result is unknown. The next run of the agent says so, and does not start it again unless the call
// asks for retries. The end of each run is one audit record, in the transaction that writes it down.
package managedcall

import (
	"encoding/json"
	"strings"
	"time"

	"ferry/internal/automation/duty"
	"ferry/internal/ledger"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Kinds of commands and questions.
const (
	CommandRun    wire.Kind = "call-run"    // Put
	CommandCancel wire.Kind = "call-cancel" // Named
	AskList       wire.Kind = "call-list"   // Page; Listed
	AskShow       wire.Kind = "call-show"   // Named; Call
)

// Limits.
const (
	AtOnce   = 25   // programs that run at the same time
	maxCalls = 1000 // that an agent keeps
	listPage = 200
)

// A Put asks for a call.
type Put struct {
	ID      transfer.ID        `json:"id"`
	Agent   transfer.AgentName `json:"agent"`
	Program transfer.Program   `json:"program"`
	Job     string             `json:"job,omitempty"`
	Meta    map[string]string  `json:"meta,omitempty"`
}

// ParsePut reads a Put and checks all of it.
func ParsePut(data []byte) (*Put, error) {
	p := &Put{}
	if err := json.Unmarshal(data, p); err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the call cannot be read: %w", err)
	}
	return p, p.Check()
}

// Check refuses a Put that makes no call.
func (p *Put) Check() error {
	if p.ID.IsZero() {
		return transfer.Errorf(transfer.KindMalformed, "the call has no ID")
	}
	if _, err := transfer.ParseAgentName(string(p.Agent)); err != nil {
		return err
	}
	if err := transfer.CheckLabels(p.Job, p.Meta); err != nil {
		return err
	}
	return p.Program.Check(transfer.ManagedCall)
}

// Named names a call by its ID or by the end of its ID.
type Named struct {
	ID string `json:"id"`
}

// A Page asks for the calls with IDs after one.
type Page struct {
	After transfer.ID `json:"after,omitzero"`
}

// Listed are some calls, the oldest first, without the arguments and the output of their programs.
type Listed struct {
	Calls []Call `json:"calls"`
	More  bool   `json:"more,omitempty"`
}

// A Call is a call as the ledger has it, and as it is shown.
type Call struct {
	V           int                 `json:"v"`
	ID          transfer.ID         `json:"id"`
	word.Origin                     // of the command that has made it
	Originator  transfer.Originator `json:"originator"`
	Made        time.Time           `json:"made"`
	Agent       transfer.AgentName  `json:"agent"`
	Program     transfer.Program    `json:"program"`
	Job         string              `json:"job,omitempty"`
	Meta        map[string]string   `json:"meta,omitempty"`
	State       transfer.State      `json:"state"` // queued, running, or the final one
	Code        int                 `json:"result_code"`
	Attempt     int                 `json:"attempt"`          // the one that runs, or ran last; 0: none
	Next        time.Time           `json:"next,omitzero"`    // of one that is queued: not before
	Ran         *transfer.Ran       `json:"ran,omitempty"`    // how the last run ended
	Reason      *transfer.Error     `json:"reason,omitempty"` // why it waits, or has failed
	Cancelled   string              `json:"cancelled_by,omitempty"`
	Ended       time.Time           `json:"ended,omitzero"`
}

const version = 1

// settle takes the end of a run, and reports whether there is another one.
func (c *Call) settle(now time.Time, ran *transfer.Ran, failure *transfer.Error) (again bool) {
	c.Ran, c.Reason = ran, failure
	switch {
	case failure == nil:
		c.State = transfer.Successful
	case failure.Kind == transfer.KindCancelled, c.Cancelled != "":
		c.State = transfer.Cancelled
	case (failure.Kind == transfer.KindProgram || failure.Kind == transfer.KindLost) && c.Attempt > 0 && c.Attempt <= c.Program.Retries:
		c.State, c.Next = transfer.Queued, now.Add(time.Duration(c.Program.Pause)).UTC()
		return true
	default:
		c.State, c.Code = transfer.Failed, failure.Kind.Code()
	}
	if c.State != transfer.Failed {
		c.Code = c.State.Code()
	}
	c.Ended, c.Next = now.UTC(), time.Time{}
	return false
}

// A drawer is the calls' part of the ledger, by the call's ID. c/ID has the call. a/ID is there until the call has
// ended.
type drawer struct{ duty.Store[*Call] }

func drawerOf(t *ledger.Tx) drawer {
	return drawer{duty.Store[*Call]{Namespace: ledger.NamespaceOf(t, "call"), Prefix: "c/", Decode: duty.Decoder("call", version, func(c *Call) int { return c.V })}}
}

// put writes a call. A call that has not ended has the key "a/" and its ID beside it, with its principal.
func (d drawer) put(c *Call) (err error) {
	active := "a/" + c.ID.String()
	if c.State.Final() {
		err = d.Delete(active)
	} else {
		err = d.Put(active, append([]byte{version}, c.Principal...))
	}
	if err != nil {
		return err
	}
	return d.Save(c)
}

// Owner is the principal of the call.
func (c *Call) Owner() string { return c.Principal }

// Key is the ID of the call.
func (c *Call) Key() string { return c.ID.String() }

// unfinished are the calls that have not ended, the oldest ID first.
func (d drawer) unfinished() (all []*Call, err error) {
	ids, err := d.Unfinished()
	for _, id := range ids {
		c, err := d.Load(id.String())
		if err != nil {
			return nil, err
		}
		if c != nil {
			all = append(all, c)
		}
	}
	return all, err
}

// makeRoom makes room for one more call of a principal: it removes the oldest of those that have ended.
func (k *callDuty) makeRoom(d drawer, principal string) error {
	own, others := 1, 0
	for _, of := range d.All("a/", "") {
		if len(of) > 0 && string(of[1:]) == principal {
			own++
		} else {
			others++
		}
	}
	if err := duty.CheckShare(&k.Services, "call", principal, own, others, maxCalls); err != nil {
		return err
	}
	var all []string // the oldest IDs first
	for key := range d.All("c/", "") {
		all = append(all, key)
	}
	over := len(all) + 1 - maxCalls
	for _, key := range all {
		if over <= 0 {
			return nil
		}
		if len(d.Get("a/"+strings.TrimPrefix(key, "c/"))) > 0 {
			continue
		}
		if err := d.Delete(key); err != nil {
			return err
		}
		over--
	}
	return nil
}
