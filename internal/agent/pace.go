package agent

import (
	"sync"
	"time"
)

// paceEach is the pause between requests of one speaker that could not be taken and come again.
const paceEach = 20 * time.Millisecond

// A pacer gives the time at which requests that could not be taken come again. A speaker may have thousands of them in
// the queue. At one pace for all, they would leave no time for requests of other speakers.
type pacer struct {
	mu   sync.Mutex
	next map[string]time.Time // by speaker
}

// delay returns the time until a request of a speaker comes again. It is longer where many requests of the same speaker
// wait.
func (p *pacer) delay(speaker string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == nil {
		p.next = map[string]time.Time{}
	}
	soon := now.Add(again)
	if len(p.next) >= maxPaced {
		for who, at := range p.next {
			if at.Before(soon) {
				delete(p.next, who)
			}
		}
	}
	at := p.next[speaker].Add(paceEach)
	if at.Before(soon) || at.Sub(now) > maxPace { // the clock was set back
		at = soon
	}
	p.next[speaker] = at
	return at.Sub(now)
}

const (
	maxPaced = 1000 // speakers that are remembered; those with requests that wait come on top
	maxPace  = 10 * time.Minute
)
