// Package monitor watches directories of an agent's host, and submits a transfer for what
// comes into them. It is a duty of the agent (package duty): definitions, the history of what has
// triggered, and triggers that are not submitted yet are in the agent's ledger.
//
// A poll reads the directory and the history side by side, both in one order, and finds the files that
// match, meet the condition, and are not in the history as they are. Up to Batch of them are one trigger:
//
//	state      where it is                           what comes next
//	found      in memory, for one poll               recorded: in one transaction the history has its files, and
//	                                                 the drawer its request with the ID of the transfer
//	           (a crash: the next poll finds it)     refused: no request can be made of it; the history has its files
//	recorded   in the drawer                         submitted: the agent accepts the request, or knows its ID already
//	           (a crash: it is submitted again       refused: the agent refuses it for good
//	           under the same ID)                    recorded: the agent has no room, or cannot decide now: again later
//	submitted  in the log of the last triggers       nothing: the transfer is the agent's
//	refused    in the log, and in the audit log      nothing, until the file changes or the history is cleared
//
// Nothing new is recorded while a recorded trigger of the monitor waits, so that what waits is bounded; what is
// not recorded the next poll finds. A file in the history triggers again when its inode, size or time of modification is
// another. One that is gone stays in the history for a week (see keptGone).
//
// One goroutine does all the polls of one name, whatever becomes of its definition, and a poll
// records nothing once the definition is another: a monitor never runs twice at once.
//
// Polls are the truth. Where the system tells of files that are closed after writing or moved
// into the directory, a poll comes at once.
package monitor
