// Package duty lets an agent do more than the transfers that users submit one by one. Duties watch directories, submit
// at appointed times, keep templates, and run programs on their own. Each of these has a package of its own (monitor,
// schedule, template, managedcall); the agent knows only duties. The agent passes their commands and questions to them,
// each with the authority that it takes. It lends them its ledger and a way to submit, and runs them while the agent's
// name is its own.
//
// A command is done once: the ledger entries that a duty writes for it, and the answer that a repeat gets, are one
// transaction of the ledger. A duty submits under an ID that it has written down before: submitting again after a crash
// finds the transfer that is there.
package duty

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/call"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/security/word"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Duty is a duty of an agent. The agent calls its methods.
type Duty interface {
	// Commands are the kinds of command that change it; kinds are one duty's alone.
	Commands() map[wire.Kind]Command
	// Questions are the kinds of question that it answers.
	Questions() map[wire.Kind]Question
	// Run does the duty until ctx ends. The ledger is open and the agent's name is its own; the queue
	// manager may be away.
	Run(ctx context.Context)
}

// A Follower is a duty that follows the transfers that the agent sends.
type Follower interface {
	// Follow takes each audit record of a transfer, in the transaction that writes the record. An error undoes the
	// transaction.
	Follow(t *ledger.Tx, r *audit.Record) error
}

// A Keeper is a duty with definitions that coordination shows while the agent is away.
type Keeper interface {
	// Kept calls add for each definition, with those first that matter most.
	Kept(t *ledger.Tx, add func(wire.Definition)) error
}

// A Maker makes a duty that uses the services of an agent. It reads the state of an earlier run from the ledger; an error keeps
// the agent from starting.
type Maker func(Services) (Duty, error)

// A Caller is the sender of a command or a question.
type Caller struct {
	word.Origin                     // of a command; of a question the principal alone
	Originator  transfer.Originator // as the caller says, for people; zero of a question
	Asked       time.Time           // when the command was given, by the caller's clock; zero of a question
}

// A Command is a kind of command: the authority that it needs, and the functions that do it.
type Command struct {
	Needs transfer.Authority
	// Do changes the ledger and gives the body of the answer. An error of any kind but KindInternal is the answer, and
	// undoes all that Do has written.
	Do func(t *ledger.Tx, who Caller, body json.RawMessage) (answer any, err error)
	// Done, which may be nil, is called once the changes of Do are durable.
	Done func()
}

// A Question is a kind of question: the authority that it needs, and the function that answers it.
type Question struct {
	Needs  transfer.Authority
	Answer func(who Caller, body json.RawMessage) (answer any, err error)
}

// Exits runs the agent's monitor exit; see exit.Executor.
type Exits interface {
	// Trigger runs the exit for a trigger of a monitor, and changes the metadata of its request as the exit has answered.
	// It does so once: a repeat for the same request gets the same answer. An error passes.
	Trigger(ctx context.Context, monitor, principal string, q *transfer.Request) (failure *transfer.Error, err error)
	// ForgetTrigger removes the answer, in the transaction that records the result of the trigger.
	ForgetTrigger(t *ledger.Tx, q *transfer.Request) error
}

// Services are the part of an agent that a duty uses.
type Services struct {
	Agent  transfer.AgentName
	Ledger *ledger.Ledger
	// Place has the files beneath the agent's roots, and the application queues of its queue manager, which may be away.
	Place place.Source
	// Submit has this agent accept a transfer, by the command that has set the duty up. It is done when the agent's
	// ledger has the transfer. A repeat under the same ID is the same transfer. After an error of a kind that waits
	// (busy, no space), try again later; other errors are final.
	Submit func(by word.Origin, q *transfer.Request) (*transfer.Progress, error)
	// Offer is Submit for requests that may come without end, such as those for files in a directory. It leaves room in
	// the agent's queue to users and to schedules.
	Offer func(by word.Origin, q *transfer.Request) (*transfer.Progress, error)
	// Status returns the progress of a transfer of this agent; the error is of KindNotFound where the ledger has none.
	Status func(id transfer.ID) (*transfer.Progress, error)
	// Cancel cancels a transfer that the agent has, by a command that the principal may give; KindEnding where it is too late.
	Cancel func(by word.Origin, id transfer.ID) error
	// May checks whether a principal has an authority at this agent; the error is of KindDenied where not.
	May func(principal string, right transfer.Authority) error
	// CheckKeys returns nil while the members behind a command have the keys that they had then. The error is of KindDenied
	// where a member was enrolled again with other keys. The command must then have no further effect.
	CheckKeys func(by word.Origin) error
	// Permit gives the rights of a principal on files here.
	Permit func(principal string) place.Permit
	// Programs runs those that the agent may run; nil: none.
	Programs call.Runner
	// Exits runs the exit of triggers; nil: there is none.
	Exits Exits
	// Note puts an audit record into the outbox, in the transaction of the change that it records.
	Note  func(t *ledger.Tx, r audit.Record) error
	Clock clock.Clock
	Log   *slog.Logger
}
