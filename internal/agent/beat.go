package agent

import (
	"time"

	"ferry/internal/wire"
)

// A heart says that the agent lives, and what it does.
type heart struct {
	*work
	each func(now time.Time) // called before each heartbeat that may be due
}

func (a *heart) publishBeat(status string) {
	a.voice.mu.Lock()
	nameless := a.voice.nameless
	a.voice.mu.Unlock()
	if nameless {
		return // the name's owner speaks for it
	}
	b := a.beat()
	if status != "" {
		b.Status = status
	}
	a.conn.Publish(wire.ProgressSubject(a.cfg.Name), wire.Marshal(wire.Report{V: wire.Version, Kind: wire.BeatKind, Beat: b}))
}

// beatLoop publishes heartbeats: at once, within a second, where something has changed.
func (a *heart) beatLoop() {
	a.publishBeat("")
	t := a.cfg.Clock.NewTimer(a.chatter())
	defer t.Stop()
	last, dirty := a.cfg.Clock.Now(), true
	for {
		select {
		case <-a.beats:
			dirty = true
			continue
		case <-t.C():
			t.Reset(a.chatter())
		case <-a.ctx.Done():
			return
		}
		now := a.cfg.Clock.Now()
		if due := now.Sub(last) >= wire.BeatEvery; due || dirty {
			last = now
			a.publishBeat("")
		}
		a.each(now)
		dirty = false
	}
}
