package process

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
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

// slack is the largest value that SetSlack was called with.
//
// Without it a process that needs 8 MB, say, collects each time 8 MB have been made. For a gigabyte the queue manager
// took 1.49 s of processor that way, and 1.13 s with it; all roles together took a tenth more for ten thousand small
// files.
//
// It is a part of the percentage, which follows the memory in use. Memory that is only reserved would do the same in a
// simpler way, but the runtime clears it where it begins in pages that were used before. The system then gives it all.
var slack atomic.Int64

// Percentages of memory in use that may become garbage before a collection.
const (
	usualPercent = 100 // the runtime's
	// firstPercent delays the first collection of a process until it has made 16 MB. With the usual percentage a
	// command collects once or twice, which is a fifth of its processor time.
	firstPercent = 400
)

// DelayCollection delays the first collection, unless the environment says when to collect. It also has the usual
// percentage back after that collection.
func DelayCollection() {
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(firstPercent)
	afterCollection(setPercent)
}

// SetSlack sets the slack, unless the environment says when to collect, or it is larger already.
func SetSlack(n int64) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	for was := slack.Load(); was < n; was = slack.Load() {
		if !slack.CompareAndSwap(was, n) {
			continue
		}
		if was == 0 {
			followUse()
		} else {
			setPercent()
		}
	}
}

// followUse sets the percentage now and after each collection, while there is a slack.
func followUse() {
	setPercent()
	if slack.Load() > 0 {
		afterCollection(followUse)
	}
}

// afterCollection has f called once, after the next collection.
func afterCollection(f func()) {
	runtime.AddCleanup(new([64]byte), func(f func()) { f() }, f)
}

// setPercent sets the percentage that makes the slack.
func setPercent() {
	used := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/globals:bytes"}, {Name: "/gc/scan/stack:bytes"}}
	metrics.Read(used)
	sum := int64(0)
	for _, s := range used {
		sum += int64(s.Value.Uint64())
	}
	debug.SetGCPercent(int(usualPercent + slack.Load()*100/max(sum, minUse)))
}

// minUse is the least memory that the runtime takes as used, also before the first collection.
const minUse = 4 << 20

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
