package scheduler

import (
	"sync"
	"time"

	"ferry/internal/transfer"
)

// peers are the agents that transfers go to.
type peers struct {
	mu  sync.Mutex
	all map[transfer.AgentName]*peer
}

type peer struct {
	downUntil time.Time // it is taken to be away
	instance  string    // of its last heartbeat
	at        time.Time // when it was
	stop      func()    // ends the subscription to its heartbeats; nil: there is none
}

// watch subscribes to the heartbeats of a peer, unless there is a subscription.
func (p *peers) watch(name transfer.AgentName, hear func() (stop func(), err error)) error {
	one := &peer{}
	p.mu.Lock()
	known := p.all[name] != nil
	if !known {
		p.all[name] = one
	}
	p.mu.Unlock()
	if known {
		return nil
	}

	stop, err := hear()
	p.mu.Lock()
	if err != nil {
		if p.all[name] == one {
			delete(p.all, name)
		}
		p.mu.Unlock()
		return err
	}

	forgotten := p.all[name] != one // meanwhile
	one.stop = stop
	p.mu.Unlock()
	if forgotten {
		stop()
	}
	return nil
}

// forget removes the peers that are not used. It calls used with the lock held. A transfer that begins to use a peer
// and then watches it therefore finds the peer, or makes it again.
func (p *peers) forget(used func(name transfer.AgentName) bool) {
	var stops []func()
	p.mu.Lock()
	for name, one := range p.all {
		if used(name) {
			continue
		}
		delete(p.all, name)
		if one.stop != nil {
			stops = append(stops, one.stop)
		}
	}
	p.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
}

// down reports whether a peer is taken to be away.
func (p *peers) down(name transfer.AgentName, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.all[name]
	return one != nil && one.downUntil.After(now)
}

// fresh reports whether a sign of a peer came less than a time ago.
func (p *peers) fresh(name transfer.AgentName, within time.Duration, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.all[name]
	return one != nil && !one.at.IsZero() && now.Sub(one.at) < within
}

// answered notes that a peer has answered a question.
func (p *peers) answered(name transfer.AgentName, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.all[name]; one != nil {
		one.at = now
	}
}

// leaves notes that a peer ends: it is asked before the next transfer to it.
func (p *peers) leaves(name transfer.AgentName) { p.answered(name, time.Time{}) }

// missed notes that a peer is away, and until when it is not asked again.
func (p *peers) missed(name transfer.AgentName, until time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one := p.all[name]; one != nil {
		one.downUntil, one.at = until, time.Time{}
	}
}

// heard notes that a peer is there, and reports whether it has restarted since its last sign.
func (p *peers) heard(name transfer.AgentName, instance string, now time.Time) (anew bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.all[name]
	if one == nil {
		return false
	}
	anew = one.instance != "" && one.instance != instance
	one.downUntil, one.instance, one.at = time.Time{}, instance, now
	return anew
}
