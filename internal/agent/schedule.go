package agent

import (
	"runtime/debug"
	"sort"
	"sync"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/sender"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// peerRetry is the time for which an agent that is away is not asked again, unless a heartbeat comes.
const peerRetry = 4 * time.Second

// A scheduler gives the source slots: to the highest priority first, then to
// the oldest. A transfer that waits holds none; one that wakes queues again.
type scheduler struct {
	*core
	own    *owner
	sends  *sender.Config
	wakeup chan struct{}

	mu      sync.Mutex
	entries map[transfer.ID]*entry
	of      map[string]int // entries of each principal
	running int
	peers   peers
	wg      sync.WaitGroup
}

type entry struct {
	o         *sender.Outgoing
	principal string
	to        transfer.AgentName
	priority  int
	notBefore time.Time
	running   bool
	again     bool // woken while it ran
	suspect   bool // it was running when the agent crashed
	stored    bool // its destination need not be there
}

// newScheduler makes a scheduler of transfers that are sent with the configuration sends.
func newScheduler(c *core, own *owner, sends *sender.Config) *scheduler {
	return &scheduler{core: c, own: own, sends: sends, wakeup: own.begin, entries: map[transfer.ID]*entry{}, of: map[string]int{}, peers: peers{all: map[transfer.AgentName]*peer{}}}
}

// add takes a transfer into the queue.
func (s *scheduler) add(o *sender.Outgoing) {
	rec := o.Record()
	s.mu.Lock()
	s.drop(o.ID)
	s.of[rec.Principal]++
	s.entries[o.ID] = &entry{o: o, principal: rec.Principal, to: rec.Request.Destination, priority: rec.Request.Priority, suspect: rec.Crashes > 0, stored: rec.Request.Stored()}
	s.mu.Unlock()
	s.watch(rec.Request.Destination)
	poke(s.wakeup)
}

// drop takes a transfer out of the queue. s.mu is held.
func (s *scheduler) drop(id transfer.ID) {
	e := s.entries[id]
	if e == nil {
		return
	}
	delete(s.entries, id)
	if s.of[e.principal]--; s.of[e.principal] == 0 {
		delete(s.of, e.principal)
	}
}

// replace puts a transfer that was parked back into the queue.
func (s *scheduler) replace(old *sender.Outgoing, rec *ledger.Source) {
	old.Dispose()
	s.mu.Lock()
	s.drop(old.ID)
	s.mu.Unlock()
	o := sender.New(*s.sends, rec)
	s.add(o)
	s.progress(o.Status())
}

// find returns a transfer that is not over; nil: there is none.
func (s *scheduler) find(id transfer.ID) *sender.Outgoing {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[id]; e != nil {
		return e.o
	}
	return nil
}

// counted returns the number of a principal's transfers that are not over, and the number of all.
func (s *scheduler) counted(principal string) (own, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[principal], len(s.entries)
}

// counts are for the heartbeat.
func (s *scheduler) counts() (running, waiting, parked int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.entries {
		switch {
		case e.running:
			running++
		case e.o.State() == transfer.Parked:
			parked++
		default:
			waiting++
		}
	}
	return running, waiting, parked
}

func (s *scheduler) all() []*sender.Outgoing {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*sender.Outgoing, 0, len(s.entries))
	for _, e := range s.entries {
		out = append(out, e.o)
	}
	return out
}

// wake lets a waiting transfer try at once.
func (s *scheduler) wake(id transfer.ID) {
	s.mu.Lock()
	if e := s.entries[id]; e != nil {
		e.notBefore = time.Time{}
		e.again = e.running
	}
	s.mu.Unlock()
	poke(s.wakeup)
}

// cancel ends a transfer that was asked to: at once where it has not got
// anywhere, otherwise by driving it to its end.
func (s *scheduler) cancel(o *sender.Outgoing) error {
	s.mu.Lock()
	e := s.entries[o.ID]
	if e == nil || e.running {
		s.mu.Unlock()
		return nil // Drive sees it
	}

	e.running = true // no other goroutine may start it meanwhile
	s.running++
	s.mu.Unlock()
	done, err := o.CancelNow()
	s.mu.Lock()
	e.running = false
	s.running--
	e.notBefore = time.Time{}
	if done {
		s.drop(o.ID)
	}
	s.mu.Unlock()
	poke(s.wakeup)
	return err
}

// loop starts the transfers that may start.
func (s *scheduler) loop() {
	t := s.cfg.Clock.NewTimer(time.Second)
	defer t.Stop()
	for {
		next := s.startSome()
		t.Reset(next)
		select {
		case <-s.wakeup:
		case <-t.C():
		case <-s.ctx.Done():
			return
		}
	}
}

// startSome fills the free slots and returns the time until the next call.
func (s *scheduler) startSome() time.Duration {
	if !s.own.may(beginning) {
		return time.Second
	}

	now := s.cfg.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	next := time.Second * 30
	var ready []*entry
	suspectRuns := false
	for _, e := range s.entries {
		if e.suspect = e.suspect && e.o.Record().Crashes > 0; e.suspect {
			suspectRuns = suspectRuns || e.running
			next = min(next, time.Second) // the next one may go as soon as this one has moved
		}
		switch {
		case e.running || e.o.State() == transfer.Parked && !e.o.Cancelled():
		case e.notBefore.After(now):
			next = min(next, e.notBefore.Sub(now))
		default:
			ready = append(ready, e)
		}
	}

	sort.Slice(ready, func(i, j int) bool {
		if ready[i].priority != ready[j].priority {
			return ready[i].priority > ready[j].priority
		}
		return ready[i].o.ID.String() < ready[j].o.ID.String()
	})
	for _, e := range ready {
		ending := e.o.State() == transfer.Cancelling || e.o.Cancelled()
		if s.running >= s.cfg.MaxSource && !ending {
			break
		}
		if e.suspect && suspectRuns {
			continue // one at a time, to find the one that crashes the agent (R3)
		}
		suspectRuns = suspectRuns || e.suspect
		e.running = true
		s.running++
		s.wg.Go(func() { s.drive(e, ending) })
	}
	return next
}

// drive runs one transfer until it ends or must wait.
func (s *scheduler) drive(e *entry, ending bool) {
	v := s.run(e, ending)
	s.mu.Lock()
	e.running = false
	s.running--
	state := e.o.State()
	switch {
	case v.Final || state.Final():
		s.drop(e.o.ID)
	case e.again || state == transfer.Settling && v.Reason == nil:
		e.notBefore = time.Time{}
	default:
		e.notBefore = s.cfg.Clock.Now().Add(v.Retry)
	}

	e.again = false
	s.mu.Unlock()
	if state.Final() && !v.Final { // the last outcomes ended it behind Drive's back
		s.progress(e.o.Status())
		e.o.Dispose()
	}

	s.beatNow()
	poke(s.wakeup)
}

func (s *scheduler) run(e *entry, ending bool) (v sender.Verdict) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("transfer panicked and waits", "transfer", e.o.ID, "panic", p, "stack", string(debug.Stack()))
			v = sender.Verdict{Retry: time.Minute}
		}
	}()

	state := e.o.State()
	if state == transfer.Parked { // and to be cancelled
		done, err := e.o.CancelNow()
		if err != nil {
			s.log.Error("cannot write the ledger", "error", err)
		}
		return sender.Verdict{Final: done, Retry: peerRetry}
	}

	if !ending && sender.Stow(e.o).Shelved() && state == transfer.Waiting && !s.reachable(e.to) {
		ended, err := sender.Stow(e.o).StillShelved()
		if err != nil {
			s.log.Error("cannot write the ledger", "error", err)
		}
		return sender.Verdict{Final: ended, Retry: sender.Stow(e.o).AskAgain()}
	}

	if !ending && !e.stored && (state == transfer.Accepted || state == transfer.Waiting) && !s.reachable(e.to) {
		ended, err := e.o.MarkUnreachable()
		if err != nil {
			s.log.Error("cannot write the ledger", "error", err)
		}
		return sender.Verdict{Final: ended, Retry: peerRetry}
	}

	s.beatNow()
	return e.o.Drive(s.ctx)
}

// freshFor is the number of the connection's delays after a sign of an agent until it is asked again. On a slow link
// many transfers to it cost one question; on a fast link each one asks.
const freshFor = 4

// reachable asks an agent whether it is there. An agent that is away is not asked again for a while, so that many
// transfers to it cost one question.
func (s *scheduler) reachable(name transfer.AgentName) bool {
	now := s.cfg.Clock.Now()
	if s.peers.down(name, now) {
		return false
	}
	if s.peers.fresh(name, freshFor*s.conn.Delay(), now) {
		return true
	}
	_, err := s.conn.Request(s.ctx, wire.AskAgent(name, s.cfg.Name.Token()), wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskPing}), time.Second+4*s.conn.Delay())
	if err == nil {
		s.peers.answered(name, s.cfg.Clock.Now())
		return true
	}
	s.peers.missed(name, s.cfg.Clock.Now().Add(peerRetry))
	return false
}

// watch listens to the heartbeats of an agent that transfers go to. An agent that comes back gets its transfers at
// once.
func (s *scheduler) watch(name transfer.AgentName) {
	err := s.peers.watch(name, func() (stop func(), err error) {
		return s.conn.Subscribe(wire.BeatSubject(name), func(m qmgr.Message) {
			r, err := wire.DecodeReport(m.Data)
			if err != nil || r.Beat == nil {
				return
			}
			if r.Beat.Status == wire.AgentStopping || r.Beat.Status == wire.AgentStopped {
				s.peers.leaves(name)
				return
			}
			s.heard(name, r.Beat.Instance)
		})
	})
	if err != nil {
		s.log.Warn("cannot subscribe to an agent's heartbeats", "agent", name, "error", err)
	}
}

// forgetPeers removes the agents that no transfer goes to any more, because requests may name any number of them.
func (s *scheduler) forgetPeers() {
	s.peers.forget(func(name transfer.AgentName) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, e := range s.entries {
			if e.to == name {
				return true
			}
		}
		return false
	})
}

// heard wakes the transfers to an agent that had been away, and nudges those that run to one that has restarted.
func (s *scheduler) heard(name transfer.AgentName, instance string) {
	anew := s.peers.heard(name, instance, s.cfg.Clock.Now())
	s.mu.Lock()
	woken := false
	for _, e := range s.entries {
		if e.to != name {
			continue
		}
		if e.running && anew {
			e.o.Nudge(instance)
		}
		r := e.o.Record().Progress.Reason
		if !e.running && !e.notBefore.IsZero() && (r != nil && r.Kind == transfer.KindUnreachable || anew && e.stored) {
			e.notBefore, woken = time.Time{}, true
		}
	}
	s.mu.Unlock()
	if woken {
		poke(s.wakeup)
	}
}

// changed takes notice that outcomes have moved a transfer on. A transfer that does not run is woken, or dropped when
// it has ended.
func (s *scheduler) changed(o *sender.Outgoing) {
	s.mu.Lock()
	e := s.entries[o.ID]
	idle := e != nil && !e.running
	if idle && o.State().Final() {
		s.drop(o.ID)
	}
	s.mu.Unlock()
	if !idle {
		return
	}

	if o.State().Final() {
		s.progress(o.Status())
		o.Dispose()
	} else {
		s.wake(o.ID)
	}
}

// dispose waits for running transfers, and closes all.
func (s *scheduler) dispose() {
	s.wg.Wait()
	for _, o := range s.all() {
		o.Dispose()
	}
	s.peers.forget(func(transfer.AgentName) bool { return false })
}
