package agent

import (
	"context"
	"os"
	"time"

	"ferry/internal/audit"
	"ferry/internal/localfs"
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

// beat is the present heartbeat.
func (a *Agent) beat() *wire.Beat {
	host, _ := os.Hostname()
	mode := "client"
	facts := a.conn.Facts()
	if facts.InProcess {
		mode = "bindings"
	}
	b := &wire.Beat{V: wire.Version, Kind: wire.BeatKind, Agent: a.cfg.Name, Instance: a.instance, Status: wire.AgentReady, Started: a.started, Time: a.cfg.Clock.Now(), Version: a.cfg.Version, Platform: platform(), Host: host, Mode: mode, Durability: facts.Reduced, Roots: a.cfg.Roots, Limits: localfs.Limits(), Settings: a.cfg.Settings, Load: wire.Load{MaxSource: a.cfg.MaxSource, MaxDest: a.cfg.MaxDestination, MaxQueued: a.cfg.MaxQueued}}
	defer b.Fit()
	if a.sched == nil {
		return b
	}
	b.Incarnation = a.ledger.IncarnationText()
	b.SourceRun, b.SourceWait, b.Parked = a.sched.counts()
	b.DestRun = a.recv.Running()
	b.Outbox = int(a.ledger.Outbox())
	b.Rates = a.throttle.Limits()
	if b.SourceRun+b.DestRun > 0 {
		b.Status = wire.AgentActive
	}
	if facts.Degraded != "" {
		b.Status, b.Reason = wire.AgentDegraded, "the queue manager is degraded: "+facts.Degraded
	}
	if err := a.ledger.OutboxFull(); err != nil {
		b.Reason = err.Error()
	}
	if a.ledger.Low() {
		b.Reason = "the ledger's disk is full; nothing new is accepted"
	}
	a.mu.Lock()
	if a.stopping {
		b.Status = wire.AgentStopping
	}
	a.mu.Unlock()
	return b
}

func (a *Agent) publishBeat(status string) {
	a.mu.Lock()
	nameless := a.nameless
	a.mu.Unlock()
	if nameless {
		return // the name's owner speaks for it
	}
	b := a.beat()
	if status != "" {
		b.Status = status
	}
	a.conn.Publish(wire.ProgressSubject(a.cfg.Name), wire.Marshal(wire.Report{V: wire.Version, Kind: wire.BeatKind, Beat: b}))
}

// beatNow asks for a heartbeat out of turn: something in it has changed.
func (a *Agent) beatNow() { poke(a.beats) }

// chatter is how often what only people look at is said: every second, and on a line
// on which messages wait so much less that it takes a small part of it.
func (a *Agent) chatter() time.Duration {
	return min(max(time.Second, 4*a.conn.Lag()), wire.BeatEvery)
}

// beatLoop publishes heartbeats, and the STATE entry at most once a second.
func (a *Agent) beatLoop() {
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
		if held, ok := a.refused.Held(now); ok {
			a.noteRefused(audit.Record{Event: audit.Failed, Role: audit.RoleSource, State: transfer.Failed}, held)
		}
		running, waiting, _ := a.sched.counts()
		if due := now.Sub(stated) >= min(20*a.conn.Lag(), stateMost); due && (dirty || running+waiting > 0) {
			stated = now
			a.putState()
		}
		dirty = false
	}
}

func (a *Agent) putState() {
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

// progress publishes the picture of one transfer. Where messages wait on the line,
// figures that have only grown are left out: one at a time is under way, of all
// transfers. The end and what a transfer waits for are always said.
func (a *Agent) progress(p *transfer.Progress) {
	now, lag := a.cfg.Clock.Now(), a.conn.Lag()
	a.mu.Lock()
	spare := p.Reason == nil && !p.State.Final() && now.Before(a.figures)
	if !spare {
		a.figures = now.Add(min(16*lag, stateMost))
	}
	a.mu.Unlock()
	if spare {
		return
	}
	a.conn.Publish(wire.ProgressSubject(a.cfg.Name), wire.Marshal(wire.Report{V: wire.Version, Kind: wire.ProgressKind, Progress: p}))
}
