package agent

import (
	"context"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// stateMost is how old the STATE entry may be of an agent at work, however slow the
// line.
const stateMost = 30 * time.Second

// maxState bounds the list of transfers in the STATE entry, which is for
// people: it does not grow with the work.
const maxState = 50

// stateEntry is the agent's value in the STATE bucket.
type stateEntry struct {
	V       int                `json:"v"`
	Agent   transfer.AgentName `json:"agent"`
	Time    time.Time          `json:"time"`
	Status  string             `json:"status"`
	Running int                `json:"source_running"`
	Waiting int                `json:"source_waiting"`
	Parked  int                `json:"parked"`
	DestRun int                `json:"destination_running"`
	List    []stateLine        `json:"transfers,omitempty"`
}

type stateLine struct {
	ID    transfer.ID        `json:"id"`
	To    transfer.AgentName `json:"to"`
	State transfer.State     `json:"state"`
	Files int64              `json:"files"`
	Bytes int64              `json:"bytes"`
}

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

// beatLoop publishes heartbeats, and the STATE entry at most once a second.
func (a *heart) beatLoop() {
	a.publishBeat("")
	t := a.cfg.Clock.NewTimer(a.chatter())
	defer t.Stop()
	last, dirty := a.cfg.Clock.Now(), true
	var stated time.Time // when STATE was written
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
		running, waiting, _ := a.sched.counts()
		if due := now.Sub(stated) >= min(20*a.conn.Lag(), stateMost); due && (dirty || running+waiting > 0) {
			stated = now
			a.putState()
		}
		dirty = false
	}
}

func (a *heart) putState() {
	e := stateEntry{V: 1, Agent: a.cfg.Name, Time: a.cfg.Clock.Now().UTC(), Status: wire.AgentReady, DestRun: a.recv.Running()}
	e.Running, e.Waiting, e.Parked = a.sched.counts()
	if e.Running+e.DestRun > 0 {
		e.Status = wire.AgentActive
	}
	for _, o := range a.sched.all() {
		if len(e.List) == maxState {
			break
		}
		p := o.Status()
		e.List = append(e.List, stateLine{p.ID, p.Destination, p.State, p.Files, p.Bytes})
	}
	ctx, cancel := context.WithTimeout(a.ctx, 2*time.Second)
	defer cancel()
	if err := a.conn.PutState(ctx, a.cfg.Name.Token(), wire.Marshal(e)); err != nil {
		a.log.Debug("cannot write the STATE entry", "error", err)
	}
}
