package receiver

import (
	"time"

	"ferry/internal/ledger"
	"ferry/internal/receiver/writing"
	"ferry/internal/transfer"
)

// Bounds of one source agent, so that none keeps others out (INV-12). They are well above the needs of an agent that
// keeps to Ferry's own limits.
const (
	maxOfSource   = 512  // transfers that have an actor, and that wait for a slot
	maxTombstones = 1000 // tombstones that a run makes for a source
	maxSleeping   = 4096 // transfers without data, kept on disk alone until their source is heard
)

// sourceStates is the state of a Receiver by source; r.mu guards it.
type sourceStates struct {
	actors map[transfer.AgentName]int
	// sleeping are transfers without an actor: they were accepted, no data has come, and the source is silent. The next
	// OPEN wakes them.
	sleeping map[transfer.ID]sleeper
	leaving  map[transfer.ID]bool // are being dropped
}

type sleeper struct {
	from  transfer.AgentName
	since time.Time // last contact with its source
}

func newSourceStates() sourceStates {
	return sourceStates{actors: map[transfer.AgentName]int{}, sleeping: map[transfer.ID]sleeper{}, leaving: map[transfer.ID]bool{}}
}

// full reports whether a source, or all sources together, have the most transfers allowed here.
func (r *Receiver) full(from transfer.AgentName) bool {
	return r.sources.actors[from] >= maxOfSource || len(r.actors) >= maxActors
}

// sleep records a transfer without data whose actor ends. If too many sleep, it forgets one: of the source with the
// most sleepers, the one that has slept longest.
func (r *Receiver) sleep(a *incoming) {
	now := r.cfg.Clock.Now()
	r.mu.Lock()
	r.sources.sleeping[a.id] = sleeper{a.from, now.Add(-a.contact.silence(now))}
	gone, from, ok := r.tooMany()
	r.mu.Unlock()
	if ok {
		r.forget(gone, from)
	}
}

// tooMany returns the sleeper to forget; ok is false if there are not too many. r.mu is held.
func (r *Receiver) tooMany() (gone transfer.ID, from transfer.AgentName, ok bool) {
	count := map[transfer.AgentName]int{}
	for _, s := range r.sources.sleeping {
		if count[s.from]++; count[s.from] > count[from] {
			from = s.from
		}
	}

	if len(r.sources.sleeping) <= maxSleeping && count[from] <= maxOfSource {
		return gone, from, false
	}

	var since time.Time
	for id, s := range r.sources.sleeping {
		if s.from == from && r.actors[id] == nil && (!ok || s.since.Before(since)) {
			gone, since, ok = id, s.since, true
		}
	}

	if ok {
		delete(r.sources.sleeping, gone)
		r.sources.leaving[gone] = true
	}
	return gone, from, ok
}

// forget drops the ledger entry of a transfer without data, and its temporaries. If its source comes back, the answer
// is that there is no record.
func (r *Receiver) forget(id transfer.ID, from transfer.AgentName) {
	defer func() {
		r.mu.Lock()
		delete(r.sources.leaving, id)
		r.mu.Unlock()
	}()

	r.cfg.Quiet.Dropped(string(from), "too many idle transfers; the oldest is forgotten", "transfer", id)
	left, err := r.entries.Find(id)
	if err == nil && left.In != nil {
		landing := r.cfg.Place.Land(writing.LandingOf(left.In))
		if serr := landing.RemoveLeftovers(left.Dirs, true); serr != nil {
			r.cfg.Log.Warn("cannot remove temporary files; will retry", "transfer", id, "error", serr)
			r.unswept.Store(true)
			err = r.entries.Abandon(left.In)
		} else {
			err = r.entries.Drop(id)
		}
		landing.Close()
	}
	if err != nil {
		r.cfg.Log.Error("cannot remove a transfer that has received no data", "transfer", id, "error", err)
	}
}

// wakeOverdue makes actors for sleeping transfers with a source that was silent past the deadline. Those actors give
// them up like any other transfer.
func (r *Receiver) wakeOverdue() error {
	now := r.cfg.Clock.Now()
	r.mu.Lock()
	none := len(r.sources.sleeping) == 0
	r.mu.Unlock()
	if none {
		return nil
	}

	asleep, err := r.entries.Receiving()
	if err != nil {
		return err
	}

	for _, rec := range asleep {
		if err := r.wakeIfOverdue(rec, now); err != nil {
			return err
		}
	}
	return nil
}

func (r *Receiver) wakeIfOverdue(rec *ledger.Incoming, now time.Time) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := rec.Request.ID
	s, ok := r.sources.sleeping[id]
	if !ok || r.actors[id] != nil || now.Sub(s.since) <= rec.Deadline() || r.ctx.Err() != nil {
		return nil
	}

	a := r.newActor(id, s.from)
	if err := a.adopt(rec); err != nil {
		return err
	}

	a.contact.before = now.Sub(s.since)
	delete(r.sources.sleeping, id)
	r.start(a)
	return nil
}
