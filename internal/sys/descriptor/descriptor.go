// Package descriptor divides the descriptors of a process among its activities, so that the limit is never met. The
// descriptors that a transfer needs are reserved for it. The rest is lent to activities that only make things faster.
package descriptor

import (
	"fmt"
	"math"
)

// A Share is the number of descriptors of one agent, by use. The zero value sets no bounds.
type Share struct {
	Transfers       int // that may run at once, as many again in the other direction
	Places          int // items that are begun and undecided: a file and its directory each
	Optional        int // descriptors to lend, beside those
	Unauthenticated int // connections of the direct lane that are not authenticated yet
}

// Reserved descriptors. A transfer that is sent has its item journal, its walk (a directory, and one below it), the
// directory and the file that it reads, and a file that is looked up meanwhile. One that is received watches its file
// system and looks into directories beside those of its files.
const (
	ofProcess  = 16 // its own streams and those of the runtime, its lock, a profile
	ofAgent    = 8  // ledger, three connections, the direct lane's port
	ofManager  = 28 // open files of streams and the audit log, also while they are rewritten
	ofSending  = 8
	ofArriving = 5
	ofPlace    = 2
	perBoth    = ofSending + ofArriving

	mostPlaces = 1024 // the protocol allows no more

	leastUnauthenticated = 4
	mostUnauthenticated  = 256
	leastFiles           = perBoth + 4*ofPlace // one transfer each way, and a group of a few files

	leastClients = 8
	mostClients  = 1 << 16
)

// Least is the lowest limit with which this number of agents, and a queue manager where manager is set, can run in one
// process.
func Least(agents int, manager bool) int {
	n := ofProcess + agents*(ofAgent+leastUnauthenticated+leastFiles)
	if manager {
		n += ofManager + leastClients
	}
	return n
}

// Divide gives each of the agents of a process its Share of a limit, with at most so
// many transfers, and the queue manager the number of its clients where there is one.
// The error says that the limit is below Least.
func Divide(limit, agents int, manager bool, transfers int) (each Share, clients int, err error) {
	if least := Least(agents, manager); limit < least {
		return Share{}, 0, fmt.Errorf("this process may have %d files open, and needs %d", limit, least)
	}

	left := limit - ofProcess
	if manager {
		left -= ofManager
		clients = min(max(leastClients, left/4), mostClients, left-agents*(ofAgent+leastUnauthenticated+leastFiles))
		left -= clients
	}

	if agents == 0 {
		return Share{}, clients, nil
	}

	left = left/agents - ofAgent
	each.Unauthenticated = min(max(leastUnauthenticated, left/8), mostUnauthenticated)
	files := left - each.Unauthenticated
	each.Transfers = min(max(1, files/2/perBoth), transfers)
	rest := files - each.Transfers*perBoth
	each.Places = min(max(each.Transfers+2, rest/3), mostPlaces)
	each.Optional = max(0, rest-each.Places*ofPlace)
	return each, clients, nil
}

// Unlimited is the limit where there is none.
const Unlimited = math.MaxInt32
