package receiver

import (
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Stored delivery (R31). The messages of a source lie on shelves of the queue manager's store, one for each of its
// epochs. The agent reads the shelves, one at a time, and hands each message to Take. Take returns when the transfer's
// actor has handled the message: messages wait only in the store.
//
// A message stays there until all of its data is decided, or is safe and can be resumed by the process that reads the
// next one. The ledger has that as Taken. After a crash the rest of the shelf is read again from there.
//
//	OPEN, the first message   a new epoch: ACCEPT, for a source that receives it
//	chunk messages            each in its turn; one that is ahead of its turn comes again
//	a hole                    RESYNC, until a shelf of a later epoch is there; this one is removed

// A Shelf is one epoch of a transfer in the store.
type Shelf struct {
	From  transfer.AgentName
	ID    transfer.ID
	Epoch uint32
}

// Shelves are the agent's operations on the store.
type Shelves interface {
	// Look makes the agent read the shelf of a transfer after an OPEN from its source. If the shelf is empty, the agent
	// hands that OPEN to Absent. It does not block.
	Look(at Shelf, open *wire.Message)
	// Trim reports that the messages of a shelf below a number are needed no more; 0: all of them. It does not block,
	// and the removal may come later.
	Trim(at Shelf, below uint64)
	// Mark returns the name of the store when the agent looked last; "": there is none. known is false before that.
	Mark() (mark string, known bool)
	// Compared reports whether the agent has compared its ledger with coordination's log in this run: by then an older
	// copy of the ledger has another ledger.Mark.
	Compared() bool
}

// A StoredMessage is a message of a shelf, with its number in the store.
type StoredMessage struct {
	Shelf
	Number uint64
	Data   []byte
}

// A Verdict is the result of a stored message.
type Verdict int

const (
	Took   Verdict = iota // it was handled: the next one
	Rewind                // the shelf is to be read again from its first message
	Later                 // the transfer cannot take a message at present
	Spent                 // no message of the shelf is needed any more
)

// A Taking is the verdict on a stored message, with its reason.
type Taking struct {
	Verdict Verdict
	Why     *transfer.Error // of Later
}
