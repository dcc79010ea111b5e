package streams

import (
	"strings"
	"sync"
	"time"
)

const (
	// DegradedFor is the time for which a queue manager is called degraded after a fault was noticed. By then it is in
	// the log and on no screen.
	DegradedFor = time.Hour
	MaxFindings = 4 // shown at once; the newest
)

// Findings are the losses that were noticed of a store.
type Findings struct {
	mu  sync.Mutex
	all []finding
}

type finding struct {
	text string
	at   time.Time
}

// Add takes a finding and reports whether it is new.
func (f *Findings) Add(text string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.all {
		if f.all[i].text == text && now.Sub(f.all[i].at) < DegradedFor {
			f.all[i].at = now
			return false
		}
	}
	f.all = append(f.all, finding{text, now})
	f.all = f.all[max(0, len(f.all)-MaxFindings):]
	return true
}

// Text returns the findings to show now; "" if there are none.
func (f *Findings) Text(now time.Time) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, x := range f.all {
		if now.Sub(x.at) < DegradedFor {
			all = append(all, x.text)
		}
	}
	return strings.Join(all, "; ")
}
