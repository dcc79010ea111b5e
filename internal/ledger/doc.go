// Package ledger keeps an agent's promises on disk, and how far each file is
// safe. The queue manager only carries messages; the ledger is the record.
//
// One agent has one ledger: a directory with
//
//	ledger.db     a bbolt database, every transaction synced before it returns
//	items/ID      the item journal of a transfer that this agent sends
//	reserve       disk space put aside, given up when the disk is full (R33)
//	standby.lock  of an agent with a standby: locked by the instance that has the ledger (R34)
//	standby.mark  of such an agent: which instance that is, see DirLock
//
// The buckets of ledger.db; every value is JSON that begins with its version:
//
//	meta       version, incarnation, generation, when it was made, running time, floor, floor of commands, clean
//	source     transfer ID → Source: this agent sends it
//	incoming   transfer ID → Incoming: this agent receives it
//	items      transfer ID, item → Item: an incoming item that is not over
//	dirs       transfer ID, directory → nothing: temporaries may be there
//	deletes    transfer ID, item → Delete: a source file still to be deleted
//	commands   command ID → the answer that was given
//	tombs      transfer ID → when: cancelled before it was known
//	outbox     number → audit record, until coordination has it
//	parts      transfer ID, principal, item → a part of a request whose head has not come
//	asked      transfer ID, item → a part of a request that was accepted
//	resolved   transfer ID, item → Resolved: the resolution of an item's DEST
//	targets    transfer ID, item → Target: where items of an incoming transfer land
//	retries    transfer ID[, principal] → the ID of the transfer that repeats it now
//	drawers    duty, key → the data of that duty of the agent, see Namespace
//
// A ledger is bound to its machine's architecture (bbolt stores in native byte
// order); the numbers inside keys are big-endian so that they sort.
package ledger
