// Package monitor watches directories of an agent's host and queues, and submits a transfer for the files that arrive
// in them. It is a duty of the agent (package duty). The agent's ledger has the definitions, the history of the files
// that have triggered, and the triggers that are not submitted yet.
//
// A poll reads the directory and the history together, both in one order. It finds the files that match, meet the
// condition, and are not in the history with their present state. Up to Batch of them are one trigger:
//
//	state      location                              next state
//	found      in memory, for one poll               recorded: in one transaction the history has its files, and
//	                                                 the ledger its request with the ID of the transfer
//	           (a crash: the next poll finds it)     refused: no request can be made of it; the history has its files
//	recorded   in the ledger                         submitted: the agent accepts the request, or knows its ID already
//	           (a crash: it is submitted again       refused: the agent refuses it for good
//	           under the same ID)                    recorded: the agent has no room, or cannot decide now: again later
//	submitted  in the log of the last triggers       nothing: the transfer is the agent's
//	refused    in the log, and in the audit log      nothing, until the file changes or the history is cleared
//
// While a recorded trigger of a monitor waits, polls record no new one, so that the number of waiting triggers is
// bounded. The next poll finds the files again. A file in the history triggers again when its inode, size or time of
// modification changes. A missing file stays in the history for a week (see keptGone).
//
// One goroutine does all the polls of one name, also after a change of its definition. A poll records nothing once the
// definition has changed. So a monitor never runs twice at once.
//
// The parts, from the top down:
//
//	monitors     the duty: commands, questions, and a runner for each monitor
//	runner       the steps of one monitor
//	poll         one read of a directory (directoryPoll) or queue (queuePoll)
//	arrivals     the files that are complete and meet the condition
//	comparison   the history beside the files
//	maker        triggers out of files; Definition.request is the request of one
//	collector    the results of a poll, recorded in groups
//	submitter    the recorded triggers, submitted in order
//	monitorEntries  the ledger entries of one monitor
//	host         files and transfers of the agent, with the rights of a principal
//	listener     the notices of the system
//
// Only polls decide. If the system reports that a file was closed after writing or moved into the directory, the next
// poll comes at once.
package monitor
