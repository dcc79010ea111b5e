package receiver

import (
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Bounds of one source agent, so that none keeps others out (INV-12). They are well above the needs of an agent that
// keeps to Ferry's own limits.
const (
	maxOfSpeaker = 512  // transfers that have an actor, and that wait for a slot
	maxTombs     = 1000 // tombstones that a run makes for a source
	maxSleeping  = 4096 // transfers without data, kept on disk alone until their source is heard
)

// speakers is the state of a Receiver by source; r.mu guards it.
type speakers struct {
	actors map[transfer.AgentName]int
	tombs  map[transfer.AgentName]int
	// sleeping are transfers without an actor: they were accepted, no data has come, and the source is silent. The next
	// OPEN wakes them.
	sleeping map[transfer.ID]sleeper
	leaving  map[transfer.ID]bool      // are being dropped
	reading  map[transfer.ID]time.Time // of transfers with a shelf that is being read: last report of the reader
	headless map[transfer.ID]bool      // the first message of their shelf is missing
	strange  map[transfer.ID]int       // by transfer: OPENs that named another store
}

type sleeper struct {
	from  transfer.AgentName
	since time.Time // last contact with its source
}

func newSpeakers() speakers {
	return speakers{actors: map[transfer.AgentName]int{}, tombs: map[transfer.AgentName]int{}, sleeping: map[transfer.ID]sleeper{}, leaving: map[transfer.ID]bool{}, reading: map[transfer.ID]time.Time{}, headless: map[transfer.ID]bool{}, strange: map[transfer.ID]int{}}
}

// full reports whether a source, or all sources together, have the most transfers allowed here.
func (r *Receiver) full(from transfer.AgentName) bool {
	return r.speakers.actors[from] >= maxOfSpeaker || len(r.actors) >= maxActors
}

// turnAway answers an OPEN that finds no room; other messages are repeated.
func (r *Receiver) turnAway(m *wire.Message, reason *transfer.Error) {
	if m.Kind == wire.KindOpen {
		r.send(m.From, busyAt(m.Open, m.Transfer, maxActors, reason))
	}
}

// mayEntomb counts a tombstone of a source, and reports whether the source may have one more.
func (r *Receiver) mayEntomb(from transfer.AgentName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.speakers.tombs) > maxActors {
		clear(r.speakers.tombs)
	}
	r.speakers.tombs[from]++
	return r.speakers.tombs[from] <= maxTombs
}

// untouched reports whether the ledger entry is the whole state of a transfer: no file has come, and no part of one is
// safe.
func (i *incoming) untouched() bool {
	return i.rec != nil && !i.ep.live && i.rec.State == transfer.Receiving && !i.withdrawn && i.com.short.bytes == 0 && i.rec.Crashes == 0 &&
		i.contact.silence(i.r.cfg.Clock.Now()) <= i.rec.Deadline() && i.rec.Decided.Count() == 0 && len(i.com.offers.waiting) == 0 && !i.hasItems()
}

// sleep ends the actor of a transfer without data. If too many sleep, it forgets one: of the source with the most
// sleepers, the one that has slept longest.
func (i *incoming) sleep() {
	i.over = true
	r, now := i.r, i.r.cfg.Clock.Now()
	r.mu.Lock()
	r.speakers.sleeping[i.id] = sleeper{i.from, now.Add(-i.contact.silence(now))}
	gone, from, ok := r.tooMany()
	r.mu.Unlock()
	if ok {
		r.forget(gone, from)
	}
}

// tooMany returns the sleeper to forget; ok is false if there are not too many. r.mu is held.
func (r *Receiver) tooMany() (gone transfer.ID, from transfer.AgentName, ok bool) {
	count := map[transfer.AgentName]int{}
	for _, s := range r.speakers.sleeping {
		if count[s.from]++; count[s.from] > count[from] {
			from = s.from
		}
	}

	if len(r.speakers.sleeping) <= maxSleeping && count[from] <= maxOfSpeaker {
		return gone, from, false
	}

	var since time.Time
	for id, s := range r.speakers.sleeping {
		if s.from == from && r.actors[id] == nil && (!ok || s.since.Before(since)) {
			gone, since, ok = id, s.since, true
		}
	}

	if ok {
		delete(r.speakers.sleeping, gone)
		r.speakers.leaving[gone] = true
	}
	return gone, from, ok
}

// forget drops the ledger entry of a transfer without data, and its temporaries. If its source comes back, the answer
// is that there is no record.
func (r *Receiver) forget(id transfer.ID, from transfer.AgentName) {
	defer func() {
		r.mu.Lock()
		delete(r.speakers.leaving, id)
		r.mu.Unlock()
	}()

	r.cfg.Quiet.Dropped(string(from), "too many idle transfers; the oldest is forgotten", "transfer", id)
	var dirs []transfer.Path
	var rec *ledger.Incoming
	err := r.cfg.Ledger.View(func(t *ledger.Tx) (err error) {
		if rec, err = t.Incoming(id); err == nil {
			dirs, err = t.Dirs(id)
		}
		return err
	})
	if err == nil && rec != nil {
		landing := r.cfg.Place.Land(landingOf(rec))
		if serr := landing.Tidy(dirs, true); serr != nil {
			r.cfg.Log.Warn("cannot remove temporary files; will retry", "transfer", id, "error", serr)
			rec.Unswept = true
			r.unswept.Store(true)
			if err = rec.Move(transfer.Abandoned); err == nil {
				err = r.cfg.Ledger.Update(func(t *ledger.Tx) error { return t.PutIncoming(rec) })
			}
		} else {
			err = r.cfg.Ledger.Update(func(t *ledger.Tx) error { return t.DropIncoming(id) })
		}
		landing.Close()
	}
	if err != nil {
		r.cfg.Log.Error("cannot remove a transfer that has received no data", "transfer", id, "error", err)
	}
}

// restsIn reports whether an entry of an earlier run needs no actor before its source sends a message.
func restsIn(t *ledger.Tx, rec *ledger.Incoming) (bool, error) {
	if rec.State != transfer.Receiving || rec.Live || rec.Crashes > 0 || rec.Decided.Count() > 0 {
		return false, nil
	}
	rests := true
	err := t.Items(rec.Request.ID, func(uint64, *ledger.Item) error {
		rests = false
		return nil
	})
	return rests, err
}

// wakeOverdue makes actors for sleeping transfers with a source that was silent past the deadline. Those actors give
// them up like any other transfer.
func (r *Receiver) wakeOverdue() error {
	now := r.cfg.Clock.Now()
	r.mu.Lock()
	none := len(r.speakers.sleeping) == 0
	r.mu.Unlock()
	if none {
		return nil
	}

	var asleep []*ledger.Incoming
	if err := r.cfg.Ledger.View(func(t *ledger.Tx) error {
		return t.Incomings(func(rec *ledger.Incoming) error {
			if rec.State == transfer.Receiving {
				asleep = append(asleep, rec)
			}
			return nil
		})
	}); err != nil {
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
	s, ok := r.speakers.sleeping[id]
	if !ok || r.actors[id] != nil || now.Sub(s.since) <= rec.Deadline() || r.ctx.Err() != nil {
		return nil
	}

	a := r.newActor(id, s.from)
	if err := a.adopt(rec); err != nil {
		return err
	}

	a.contact.before = now.Sub(s.since)
	delete(r.speakers.sleeping, id)
	r.start(a)
	return nil
}
