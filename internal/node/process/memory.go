package process

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"

	"ferry/internal/agent"
)

// baseMemory is the memory that a process needs beside its agents' in-flight data, in bytes. A process with the queue
// manager needs as much again.
const baseMemory = 48 << 20

// How much new memory is let become garbage before it is collected, beside as
// much as is in use. The queue manager makes new memory for each message.
const (
	SlackOfManager = 64 << 20
	SlackOfOthers  = 32 << 20
)

// slack is never read or written, so the system gives it no memory. The collector, which begins when there is twice as
// much as was left the last time, counts it.
//
// Without it a process that needs 8 MB, say, collects each time 8 MB have been made. For a gigabyte the queue manager
// took 1.49 s of processor that way, and 1.13 s with it; all roles together took a tenth more for ten thousand small
// files.
var slack atomic.Pointer[[]byte]

// firstPercent delays the first collection of a process until it has made 16 MB. With the 100 of the runtime a
// command collects once or twice, which is a fifth of its processor time.
const firstPercent = 400

// DelayCollection delays the first collection, unless the environment says when to collect. It also has the percentage
// of the runtime back after that collection.
func DelayCollection() {
	if os.Getenv("GOGC") != "" {
		return
	}
	runtime.AddCleanup(new([64]byte), func(percent int) { debug.SetGCPercent(percent) }, debug.SetGCPercent(firstPercent))
}

// SetSlack sets the slack, unless the environment says when to collect.
func SetSlack(n int64) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	reserved := make([]byte, n)
	slack.Store(&reserved)
	if limit := debug.SetMemoryLimit(-1); limit < math.MaxInt64-n {
		debug.SetMemoryLimit(limit + n) // which counts the slack too
	}
}

// LimitMemory makes the collector run before the process has more memory than the agents' in-flight data and beside. It
// is no hard limit, and the environment's GOMEMLIMIT overrides it.
func LimitMemory(agents []agent.Config, manager bool) {
	if len(agents) == 0 || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	limit := int64(baseMemory)
	if manager {
		limit += baseMemory
	}
	for _, a := range agents {
		limit += a.Memory
	}
	debug.SetMemoryLimit(limit)
}
