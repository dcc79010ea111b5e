package view

import (
	"ferry/internal/audit"
	"ferry/internal/client"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A TransferLine is a transfer in a list.
type TransferLine struct {
	*transfer.Progress
	MessageType string  `json:"message_type"` // transfer
	Seconds     float64 `json:"seconds"`
}

// TransferOf returns the form of a transfer in a list.
func TransferOf(p *transfer.Progress) TransferLine {
	return TransferLine{p, TypeTransfer, p.Summary().Seconds}
}

// A ShownLine is one transfer, with its request and the outcomes of its items.
type ShownLine struct {
	TransferLine
	Request  *audit.RequestFacts `json:"request,omitempty"`
	Author   *word.Author        `json:"author,omitempty"` // of the request; absent: it was not signed
	Meta     map[string]string   `json:"meta,omitempty"`
	Recorded []Found             `json:"recorded,omitempty"`      // items
	More     bool                `json:"recorded_more,omitempty"` // beyond the limit of the question
}

// ShownOf returns the form of one transfer, with its records in the audit log.
func ShownOf(p *transfer.Progress, r *client.Recorded) ShownLine {
	return ShownLine{TransferOf(p), r.Request, r.Author, r.Meta, FoundAll(r.Items), r.More}
}

// A ProgressLine is a transfer on its way.
type ProgressLine struct {
	MessageType string `json:"message_type"` // progress
	*transfer.Progress
}

// ProgressOf returns the form of a transfer on its way.
func ProgressOf(p *transfer.Progress) ProgressLine { return ProgressLine{TypeProgress, p} }

// A PreviewLine is the files that a request would send.
type PreviewLine struct {
	MessageType string `json:"message_type"` // preview
	*wire.Preview
}

// PreviewOf returns the form of a preview.
func PreviewOf(p *wire.Preview) PreviewLine { return PreviewLine{TypePreview, p} }

// A ControlLine is a transfer that was handed over, cancelled, resumed or acknowledged.
type ControlLine struct {
	MessageType string         `json:"message_type"` // submitted, not_submitted, cancel, resume, acknowledged
	ID          transfer.ID    `json:"id"`
	State       transfer.State `json:"state,omitempty"` // empty: it is not known

	Handover client.Handover `json:"handover,omitempty"` // how far a submitted request has come
}

// ControlOf returns the form of a transfer after a command, which is cancel, resume or TypeAcknowledged.
func ControlOf(command string, id transfer.ID, state transfer.State) ControlLine {
	return ControlLine{MessageType: command, ID: id, State: state}
}

// HandoverOf returns the form of a transfer, a job or a call that was handed over, or was not.
func HandoverOf(id transfer.ID, state transfer.State, at client.Handover) ControlLine {
	line := ControlLine{MessageType: TypeSubmitted, ID: id, State: state, Handover: at}
	if at == client.NotSent || at == client.Refused {
		line.MessageType = TypeNotSubmitted
	}
	return line
}
