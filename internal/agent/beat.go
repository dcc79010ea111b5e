package agent

import (
	"time"

	"ferry/internal/wire"
)

// The heartbeats of an agent report that it lives, and its status.
type heartbeats struct {
	*transferEnds
	each func(now time.Time) // called before each heartbeat that may be due
}

func (a *heartbeats) publishBeat(status string) {
	a.published.mu.Lock()
	nameless := a.published.nameless
	a.published.mu.Unlock()
	if nameless || a.fenced() {
		return // the name's owner speaks for it
	}
	b := a.beat()
	if status != "" {
		b.Status = status
	}
	a.conn.Publish(wire.BeatSubject(a.cfg.Name), wire.Marshal(wire.Report{V: wire.Version, Kind: wire.BeatKind, Beat: b}))
}

// announceFor is the time for which an agent that starts publishes a heartbeat at each turn. Interest takes a moment to
// pass a channel: another agent of the name may miss the first heartbeats. Until the next regular heartbeat there is no
// gap, so that two agents of one name that start together detect each other within 5 s.
const announceFor = wire.BeatEvery

// beatLoop publishes heartbeats: at once, within a second, where something has changed.
func (a *heartbeats) beatLoop() {
	a.publishBeat("")
	t := a.cfg.Clock.NewTimer(a.reportPause())
	defer t.Stop()
	began := a.cfg.Clock.Now()
	last, dirty := began, true
	for {
		select {
		case <-a.beats:
			dirty = true
			continue
		case <-t.C():
			t.Reset(a.reportPause())
		case <-a.ctx.Done():
			return
		}
		now := a.cfg.Clock.Now()
		if due := now.Sub(last) >= wire.BeatEvery; due || dirty || now.Sub(began) < announceFor {
			last = now
			a.publishBeat("")
		}
		a.each(now)
		dirty = false
	}
}

// reportPause is the pause between reports that only people read. It is a second, and longer on a link with waiting
// messages, so that the reports take a small part of the link.
func (a *heartbeats) reportPause() time.Duration {
	return min(max(time.Second, 4*a.conn.Lag()), wire.BeatEvery)
}
