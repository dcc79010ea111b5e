package wire

import (
	"time"

	"ferry/internal/transfer"
)

// The kinds of dead letters.
const (
	DeadRequest = "request" // a request to an agent
	DeadCommand = "command" // a cancel, or administration
	DeadStored  = "stored"  // messages of an epoch of stored delivery; the letter has no content
)

// A DeadLetter is a message to an agent that was not delivered and never can be. The queue manager keeps it.
type DeadLetter struct {
	ID       string      `json:"id"` // made of subject and content: one message has one ID
	Kind     string      `json:"kind"`
	Agent    string      `json:"agent"`              // the token of its addressee
	From     string      `json:"from"`               // the token of the member that sent it
	Via      string      `json:"via,omitempty"`      // the token of the queue manager that forwarded it
	Transfer transfer.ID `json:"transfer,omitzero"`  // that it is about; the own ID of a command about none
	Messages uint64      `json:"messages,omitempty"` // of an epoch of stored delivery
	Stored   time.Time   `json:"stored"`             // in its queue, by the queue manager's clock
	Kept     time.Time   `json:"kept"`               // as a dead letter
	Reason   string      `json:"reason"`             // why it can never be delivered
	Size     int         `json:"size"`               // bytes of its content
	Data     []byte      `json:"data,omitempty"`     // its content; a list has none
}
