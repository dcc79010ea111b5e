package transfer

import "slices"

// A State is the state of a transfer on its source agent, which owns it. The ledger is written before each move.
//
//	Accepted → Negotiating ⇄ Running → Settling → SUCCESSFUL | PARTIAL | FAILED
//	              ⇅            ↓
//	           Waiting ←───────┘        any of them → Cancelling → CANCELLED
//
// Queued is not a state of the ledger. Users see it between submission and acceptance.
type State string

const (
	// Queued: the queue manager has the request; the agent does not have it yet. May go to Accepted, Withdrawn.
	Queued State = "queued"
	// Accepted: in the ledger, waits for a slot. After a crash: itself. May go
	// to Negotiating, Parked, Cancelled.
	Accepted State = "accepted"
	// Negotiating: OPEN is repeated until answered. After a crash: itself. May
	// go to Running, Waiting, Cancelling, Failed, Parked (found at a restart),
	// Cancelled (never accepted by the destination).
	Negotiating State = "negotiating"
	// Waiting: busy, unreachable or out of space; the reason and the next try
	// are shown and no slot is held. After a crash: itself. May go to
	// Negotiating, Cancelling, Failed (69), Parked, Cancelled (never accepted).
	Waiting State = "waiting"
	// Running: data flows in an epoch. After a crash: Negotiating. May go to
	// Negotiating, Waiting, Settling, Cancelling, Parked.
	Running State = "running"
	// Settling: every outcome is recorded; sources are being deleted. After a
	// crash: itself. May go to Successful, Partial, Failed.
	Settling State = "settling"
	// Cancelling: CANCEL is repeated until the destination has answered. After
	// a crash: itself. May go to Cancelled.
	Cancelling State = "cancelling"
	// Parked: three crashes without progress, or older than all entries of the ledger. After a crash: itself. May go to
	// Accepted (by an operator), Cancelled.
	Parked State = "parked"
	// Successful is final: every item arrived.
	Successful State = "successful"
	// Partial is final: some items arrived.
	Partial State = "partial"
	// Failed is final: nothing arrived, or the recovery time-out was over.
	Failed State = "failed"
	// Cancelled is final.
	Cancelled State = "cancelled"
	// Withdrawn is final: the submitter gave it up before the source agent had it. It has not run and never runs.
	Withdrawn State = "withdrawn"
)

// moves is the whole state machine. There is no other move.
var moves = map[State][]State{
	Queued:      {Accepted, Withdrawn},
	Accepted:    {Negotiating, Parked, Cancelled},
	Negotiating: {Running, Waiting, Cancelling, Failed, Parked, Cancelled},
	Waiting:     {Negotiating, Cancelling, Failed, Parked, Cancelled},
	Running:     {Negotiating, Waiting, Settling, Cancelling, Parked},
	Settling:    {Successful, Partial, Failed},
	Cancelling:  {Cancelled},
	Parked:      {Accepted, Cancelled},
	Successful:  nil,
	Partial:     nil,
	Failed:      nil,
	Cancelled:   nil,
	Withdrawn:   nil,
}

// States returns every state, in the order in which a transfer meets them.
func States() []State {
	return []State{Queued, Accepted, Negotiating, Waiting, Running, Settling, Cancelling, Parked,
		Successful, Partial, Failed, Cancelled, Withdrawn}
}

// CanMove reports whether a transfer in s may go to next. Staying is allowed.
func (s State) CanMove(next State) bool {
	return s == next && !s.Final() || slices.Contains(moves[s], next)
}

// Final reports whether the state never changes again.
func (s State) Final() bool {
	m, ok := moves[s]
	return ok && m == nil
}

// Code returns the result code of a transfer that ended in s. For FAILED it is the code of the error that failed it.
func (s State) Code() int {
	switch s {
	case Successful:
		return CodeSuccess
	case Partial:
		return CodePartial
	case Cancelled, Cancelling:
		return CodeCancelled
	case Withdrawn:
		return CodeRecovery
	case Parked:
		return CodeParked
	case Failed:
		return CodeNothing
	}
	return CodeFailed
}

// An Incoming is the state of a transfer on its destination agent.
//
//	Receiving → Decided → DONE        Receiving → ABANDONED | CANCELLED        Receiving | Decided → LOST
type Incoming string

const (
	// Receiving: an epoch is open, or the destination waits for a new OPEN. Holds a slot while data flows. After a
	// crash: itself, with no epoch until the next OPEN.
	Receiving Incoming = "receiving"
	// Decided: every item is committed or has failed. OUTCOMES is repeated, no slot is held. After a crash: itself.
	Decided Incoming = "decided"
	// Done is final: the source has acknowledged the last OUTCOMES.
	Done Incoming = "done"
	// Abandoned is final: the destination did not hear from the source before the deadline. Temporaries are removed.
	// The transfer is answered only when asked for.
	Abandoned Incoming = "abandoned"
	// Revoked is final: cancelled by the source.
	Revoked Incoming = "cancelled"
	// Orphaned is final: the source has lost its ledger, or runs on an older copy of it.
	// Temporaries are removed.
	Orphaned Incoming = "lost"
)

// incomingMoves is the whole state machine at the destination.
var incomingMoves = map[Incoming][]Incoming{
	Receiving: {Decided, Abandoned, Revoked, Orphaned},
	Decided:   {Done, Orphaned},
	Done:      nil,
	Abandoned: nil,
	Revoked:   nil,
	Orphaned:  nil,
}

// CanMove reports whether a transfer in s may go to next.
func (s Incoming) CanMove(next Incoming) bool { return slices.Contains(incomingMoves[s], next) }

// Final reports whether the destination has finished its work.
func (s Incoming) Final() bool {
	m, ok := incomingMoves[s]
	return ok && m == nil
}
