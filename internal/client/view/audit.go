package view

import (
	"encoding/hex"
	"encoding/json"
	"time"

	"ferry/internal/audit"
	"ferry/internal/client"
	"ferry/internal/transfer"
)

// A Found is an item in the audit log.
type Found struct {
	MessageType string             `json:"message_type"`
	Time        time.Time          `json:"time"`
	Transfer    transfer.ID        `json:"transfer"`
	Job         string             `json:"job,omitempty"`
	Source      transfer.AgentName `json:"source"`
	Destination transfer.AgentName `json:"destination"`
	Arrived     bool               `json:"arrived"`
	Item        *transfer.Outcome  `json:"item"`
}

// FoundOf returns the form of an item.
func FoundOf(it client.Item) Found {
	return Found{TypeItem, it.Time, it.Transfer, it.Job, it.Source, it.Destination, it.Outcome.OK(), it.Outcome}
}

// FoundAll returns the forms of items.
func FoundAll(items []client.Item) (all []Found) {
	for _, it := range items {
		all = append(all, FoundOf(it))
	}
	return all
}

// An Accepted is an agent that continues as a witness from the log that coordination has now.
type Accepted struct {
	MessageType string             `json:"message_type"`
	Agent       transfer.AgentName `json:"agent"`
}

// AcceptedOf returns the form of an agent that continues as a witness.
func AcceptedOf(agent transfer.AgentName) Accepted { return Accepted{TypeAccepted, agent} }

// A Checked is the result of the check of a proof.
type Checked struct {
	MessageType string             `json:"message_type"`
	Line        int                `json:"line"`
	Proved      bool               `json:"proved"`
	Problem     string             `json:"problem,omitempty"`
	Network     string             `json:"network,omitempty"`
	Agent       transfer.AgentName `json:"agent,omitempty"`
	Signed      bool               `json:"signed"` // by that agent
	Records     int64              `json:"records,omitempty"`
	Root        string             `json:"root,omitempty"`
	Witnesses   []audit.Seen       `json:"witnesses,omitempty"`
	Record      json.RawMessage    `json:"record,omitempty"`
}

// CheckedOf returns the form of the result for the proof in a line: the proved entry, or the error.
func CheckedOf(line int, p *audit.Proved, err error) Checked {
	if err != nil {
		return Checked{MessageType: TypeChecked, Line: line, Problem: err.Error()}
	}
	return Checked{MessageType: TypeChecked, Line: line, Proved: true, Network: p.Network, Agent: p.Record.Agent, Signed: p.Signed,
		Records: p.Size, Root: hex.EncodeToString(p.Root[:]), Witnesses: p.Witnesses, Record: p.Raw}
}
