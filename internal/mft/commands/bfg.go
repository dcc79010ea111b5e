package commands

import (
	"fmt"

	"ferry/internal/transfer"
)

// The styles of messages.
const (
	StyleFerry = "ferry" // Ferry's identifiers
	StyleBFG   = "bfg"   // the identifiers and words that scripts for MQ MFT look for
)

// CheckStyle refuses an unknown style.
func CheckStyle(style string) error {
	if style != StyleFerry && style != StyleBFG {
		return transfer.Errorf(transfer.KindUsage, "messages %.40q are unknown; they are %s or %s", style, StyleFerry, StyleBFG)
	}
	return nil
}

// bfg returns a message with the identifier of MQ MFT, for the messages that scripts look for. The texts are Ferry's
// own. They take the same arguments.
func bfg(m Message) (Message, bool) {
	switch m {
	case Issued:
		return "BFGCL0035I: The transfer request is issued. The request ID is: %s", true
	case Waiting:
		return "BFGCL0182I: The request is now waiting to be processed by the agent %s, which has not confirmed it yet.", true
	case Taken:
		return "BFGCL0182I: The request is now waiting to be processed by the agent. Agent %s has it.", true
	case Ended:
		return "BFGRP0032I: The transfer %s has successfully completed: %s. Files: %d, bytes: %d.", true
	case Cancelled:
		return "BFGCL0137I: The request to cancel is issued.\nBFGCL0196I: The transfer %s was successfully cancelled: it is %s.", true
	case Pinging:
		return "BFGCL0212I: Issuing a ping request to agent %s.", true
	case Answered:
		return "BFGCL0213I: agent %s responded to ping in %.3f seconds. Its state is %s.", true
	case Monitored:
		return "BFGCL0251I: The request has completed: the monitor %s is %s at agent %s.", true
	}
	return m, false
}

// EndedIn returns the message for a transfer that has not ended well, in a style.
func EndedIn(style string, state transfer.State) Message {
	switch {
	case style != StyleBFG:
		return EndedBad
	case state == transfer.Partial:
		return "BFGRP0033I: The transfer %s has completed in part: %s. Files: %d, failed: %d. Reason: %s"
	case state == transfer.Cancelled:
		return "BFGCL0196I: The transfer %s was cancelled: %s. Files: %d, failed: %d. Reason: %s"
	}
	return "BFGRP0034I: The transfer %s has completed with no files being transferred: %s. Files: %d, failed: %d. Reason: %s"
}

// StateOf returns the name of MQ MFT for the state of a transfer that has not ended.
func StateOf(state transfer.State) string {
	switch state {
	case transfer.Queued, transfer.Accepted:
		return "NewSenderTransfer"
	case transfer.Negotiating:
		return "NegotiatingTransfer"
	case transfer.Waiting:
		return "WaitingForDestinationCapacity"
	case transfer.Settling:
		return "CompletedTransfer"
	case transfer.Cancelling:
		return "CancelledInProgressTransfer"
	case transfer.Parked:
		return "RecoveringTransfer"
	}
	return "RunningTransfer"
}

// In returns the line of a message in a style.
func (m Message) In(style string, args ...any) string {
	if style == StyleBFG {
		m, _ = bfg(m)
	}
	return fmt.Sprintf(string(m), args...) + "\n"
}

// Head returns the lines that each command begins with in a style: as many as MQ MFT's commands have.
func Head(style, version string) string {
	if style != StyleBFG {
		return ""
	}
	return "Ferry " + version + ", as the commands of IBM MQ Managed File Transfer\n" + Credentials.With()
}
