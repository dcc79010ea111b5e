// Package duty is how an agent does more than people ask of it one by one: it watches
// directories, submits at appointed times, keeps templates, runs programs on their own. What each of these is, its
// own package knows (monitor, schedule, template, managedcall); the agent knows only duties. It hands
// their commands and questions over, each with the authority that it takes, lends them
// its ledger and a way to submit, and runs them while the agent's name is its own.
//
// A command is done once: what a duty writes for it and the answer that a repeat gets
// are one transaction of the ledger. A duty submits under an ID that it has written down
// before: submitting again after a crash finds the transfer that is there.
package duty

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/call"
	"ferry/internal/ledger"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/place"
	"ferry/internal/place/local"
	placequeue "ferry/internal/place/queue"
	"ferry/internal/security/word"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Duty is one of an agent's. Its methods are called by the agent.
type Duty interface {
	// Commands are the kinds of command that change it; kinds are one duty's alone.
	Commands() map[wire.Kind]Command
	// Questions are the kinds of question that it answers.
	Questions() map[wire.Kind]Question
	// Run does the duty until ctx ends. The ledger is open and the agent's name is its own; the queue
	// manager may be away.
	Run(ctx context.Context)
}

// A Reader is a duty to which documents of MQ MFT may be addressed: those on the agent's COMMAND queue
// that ask for no transfer that begins at once.
type Reader interface {
	// Read is the command that a document asks for, of a kind of the duty's own; no kind: it asks for nothing of
	// this duty. id is that of the command: a document gives the same command each time that it is read.
	Read(d *mftxml.Document, id transfer.ID) (kind wire.Kind, body any, err error)
}

// A Follower is a duty that follows the transfers that the agent sends.
type Follower interface {
	// Follow is told of each audit record of a transfer, in the transaction that writes the record. An error undoes the
	// transaction.
	Follow(t *ledger.Tx, r *audit.Record) error
}

// A Maker makes a duty of what an agent lends. It reads from the ledger what an earlier
// run has left; an error keeps the agent from starting.
type Maker func(Desk) (Duty, error)

// A Caller is who has given a command or asked a question.
type Caller struct {
	word.Origin                     // of a command; of a question the principal alone
	Originator  transfer.Originator // as the caller says, for people; zero of a question
	Asked       time.Time           // when the command was given, by the caller's clock; zero of a question
}

// A Command is what a kind of command takes and does.
type Command struct {
	Needs transfer.Authority
	// Do changes the ledger and gives the body of the answer. An error of any kind but KindInternal is
	// the answer, and nothing of what Do has written stays.
	Do func(t *ledger.Tx, who Caller, body json.RawMessage) (answer any, err error)
	// Done, which may be nil, is called once what Do has written is durable.
	Done func()
}

// A Question is what a kind of question takes, and how it is answered.
type Question struct {
	Needs  transfer.Authority
	Answer func(who Caller, body json.RawMessage) (answer any, err error)
}

// A Desk is what an agent lends to a duty.
type Desk struct {
	Agent  transfer.AgentName
	Ledger *ledger.Ledger
	FS     *local.FS // the files beneath the agent's roots
	// Queues are the application queues of the agent's queue manager, which may be away.
	Queues *placequeue.Source
	// Submit has a transfer of this agent accepted by the command that has set the duty up. It is done when the
	// agent's ledger has it. A repeat under the same ID is the same transfer. An error of a kind that
	// waits (busy, no space) says to try again later; others are final.
	Submit func(by word.Origin, q *transfer.Request) (*transfer.Progress, error)
	// Offer is Submit for what may go on without end, such as files that come into a directory: it leaves
	// room in the agent's queue to people, and to what is submitted at its time.
	Offer func(by word.Origin, q *transfer.Request) (*transfer.Progress, error)
	// Status is how a transfer of this agent stands; KindNotFound where the ledger has none.
	Status func(id transfer.ID) (*transfer.Progress, error)
	// Cancel cancels a transfer that the agent has, by a command that the principal may give; KindEnding where it is too late.
	Cancel func(by word.Origin, id transfer.ID) error
	// May is whether a principal has an authority at this agent; KindDenied where not.
	May func(principal string, right transfer.Authority) error
	// Holds is nil while the members behind a command have the keys that they had then; KindDenied where one was
	// enrolled again with others. Nothing more is done on the command then.
	Holds func(by word.Origin) error
	// Permit is what a principal may do with files here.
	Permit func(principal string) place.Permit
	// Programs runs those that the agent may run; nil: none.
	Programs call.Runner
	// Note puts an audit record into the outbox, in the transaction of what it is about.
	Note  func(t *ledger.Tx, r audit.Record) error
	Clock clock.Clock
	Log   *slog.Logger
}

// Sees reports whether somebody may know of what is an owner's: it is his own, or he has AuthOperate here.
func (d *Desk) Sees(who Caller, owner string) (bool, error) {
	if owner == who.Principal {
		return true, nil
	}
	err := d.May(who.Principal, transfer.AuthOperate)
	if transfer.KindOf(err) == transfer.KindDenied {
		return false, nil
	}
	return err == nil, err
}
