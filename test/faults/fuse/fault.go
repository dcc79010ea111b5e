//go:build linux

package fuse

import (
	"strings"
	"sync"
	"syscall"
	"time"
)

// An Op is a kind of file system call.
type Op string

// The kinds of calls that a Fault can make fail.
const (
	OpLookup   Op = "lookup"
	OpOpen     Op = "open" // of an existing file
	OpCreate   Op = "create"
	OpMkdir    Op = "mkdir"
	OpRead     Op = "read" // needs more than one fault: the kernel reads ahead and tries again
	OpWrite    Op = "write"
	OpTruncate Op = "truncate"
	OpAllocate Op = "allocate" // fallocate, to reserve and to punch
	OpMeta     Op = "meta"     // modes, owners and times
	OpSync     Op = "fsync"    // of data, or data and metadata
	OpSyncDir  Op = "fsyncdir"
	OpRename   Op = "rename"
	OpLink     Op = "link"
	OpUnlink   Op = "unlink"
	OpReadDir  Op = "readdir"
)

// A Fault makes one call fail, or all calls from one on.
type Fault struct {
	Op      Op
	Name    string // only calls on names that contain this
	Nth     int    // counted from Fail on; 0 is the next, as 1 is
	Errno   syscall.Errno
	Forever bool // the Nth and all that follow
}

type faults struct {
	mu     sync.Mutex
	list   []*Fault
	counts map[Op]int
	failed int
}

func (f *faults) add(x Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	x.Nth = max(x.Nth, 1)
	f.list = append(f.list, &x)
}

func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = nil
}

func (f *faults) count(op Op) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts[op]
}

func (f *faults) hits() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// call counts a call and returns its injected error, or nil.
func (f *faults) call(op Op, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[op]++
	var fail error
	for _, x := range f.list {
		if x.Op != op || !strings.Contains(name, x.Name) {
			continue
		}
		x.Nth--
		if fail == nil && (x.Nth == 0 || x.Forever && x.Nth < 0) {
			fail = x.Errno
		}
	}
	if fail != nil {
		f.failed++
	}
	return fail
}

// A bucket limits the rate of bytes, with bursts of a tenth of a second.
type bucket struct {
	mu   sync.Mutex
	rate int64
	free time.Time // earliest time of the next bytes at this rate
}

func (b *bucket) set(rate int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rate, b.free = rate, time.Now()
}

// take waits until n bytes may pass, or until gone is closed.
func (b *bucket) take(n int, gone <-chan struct{}) {
	b.mu.Lock()
	if b.rate <= 0 {
		b.mu.Unlock()
		return
	}
	now := time.Now()
	if burst := now.Add(-time.Second / 10); b.free.Before(burst) {
		b.free = burst
	}
	b.free = b.free.Add(time.Duration(int64(n) * int64(time.Second) / b.rate))
	wait := b.free.Sub(now)
	b.mu.Unlock()
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-gone:
	}
}
