// Package scheduler gives the slots of a source agent to its transfers.
package scheduler

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sort"
	"sync"
	"time"

	"ferry/internal/automation/duty"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/sender"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/wake"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// peerRetry is the time for which an agent that is away is not asked again, unless a heartbeat comes.
const peerRetry = 4 * time.Second

// Config is the configuration of a Scheduler.
type Config struct {
	Agent     transfer.AgentName
	MaxSource int                        // transfers that it sends at once
	MaxQueued int                        // transfers that are not over
	Sends     *sender.Config             // of its transfers
	Wakeup    chan struct{}              // asks for a look at the queue at once
	May       func() bool                // reports whether transfers may begin
	Changed   func()                     // is called when a transfer begins or waits
	Progress  func(p *transfer.Progress) // publishes the status of a transfer
	Conn      *qmgr.Conn
	Context   context.Context
	Clock     clock.Clock
	Log       *slog.Logger
}

// A Scheduler gives the source slots: to the highest priority first, then to
// the oldest. A transfer that waits holds none; one that wakes queues again.
type Scheduler struct {
	cfg Config

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

// New returns a scheduler without transfers.
func New(cfg Config) *Scheduler {
	return &Scheduler{cfg: cfg, entries: map[transfer.ID]*entry{}, of: map[string]int{}, peers: peers{all: map[transfer.AgentName]*peer{}}}
}

// Add takes a transfer into the queue.
func (s *Scheduler) Add(o *sender.Outgoing) {
	rec := o.Record()
	s.mu.Lock()
	s.drop(o.ID)
	s.of[rec.Principal]++
	s.entries[o.ID] = &entry{o: o, principal: rec.Principal, to: rec.Request.Destination, priority: rec.Request.Priority, suspect: rec.Crashes > 0, stored: rec.Request.Stored()}
	s.mu.Unlock()
	s.watch(rec.Request.Destination)
	wake.Up(s.cfg.Wakeup)
}

// drop takes a transfer out of the queue. s.mu is held.
func (s *Scheduler) drop(id transfer.ID) {
	e := s.entries[id]
	if e == nil {
		return
	}
	delete(s.entries, id)
	if s.of[e.principal]--; s.of[e.principal] == 0 {
		delete(s.of, e.principal)
	}
}

// Replace puts a transfer that was parked back into the queue.
func (s *Scheduler) Replace(old *sender.Outgoing, rec *ledger.Source) {
	old.Dispose()
	s.mu.Lock()
	s.drop(old.ID)
	s.mu.Unlock()
	o := sender.New(*s.cfg.Sends, rec)
	s.Add(o)
	s.cfg.Progress(o.Status())
}

// Find returns a transfer that is not over; nil: there is none.
func (s *Scheduler) Find(id transfer.ID) *sender.Outgoing {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.entries[id]; e != nil {
		return e.o
	}
	return nil
}

// counted returns the number of a principal's transfers that are not over, and the number of all.
func (s *Scheduler) counted(principal string) (own, all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[principal], len(s.entries)
}

// Counts are for the heartbeat.
func (s *Scheduler) Counts() (running, waiting, parked int) {
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

func (s *Scheduler) all() []*sender.Outgoing {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*sender.Outgoing, 0, len(s.entries))
	for _, e := range s.entries {
		out = append(out, e.o)
	}
	return out
}

// Wake lets a waiting transfer try at once.
func (s *Scheduler) Wake(id transfer.ID) {
	s.mu.Lock()
	if e := s.entries[id]; e != nil {
		e.notBefore = time.Time{}
		e.again = e.running
	}
	s.mu.Unlock()
	wake.Up(s.cfg.Wakeup)
}

// Cancel ends a transfer that was asked to: at once where it has not got
// anywhere, otherwise by driving it to its end.
func (s *Scheduler) Cancel(o *sender.Outgoing) error {
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
	wake.Up(s.cfg.Wakeup)
	return err
}

// Loop starts the transfers that may start.
func (s *Scheduler) Loop() {
	t := s.cfg.Clock.NewTimer(time.Second)
	defer t.Stop()
	for {
		next := s.startSome()
		t.Reset(next)
		select {
		case <-s.cfg.Wakeup:
		case <-t.C():
		case <-s.cfg.Context.Done():
			return
		}
	}
}

// startSome fills the free slots and returns the time until the next call.
func (s *Scheduler) startSome() time.Duration {
	if !s.cfg.May() {
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
func (s *Scheduler) drive(e *entry, ending bool) {
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
		s.cfg.Progress(e.o.Status())
		e.o.Dispose()
	}

	s.cfg.Changed()
	wake.Up(s.cfg.Wakeup)
}

func (s *Scheduler) run(e *entry, ending bool) (v sender.DriveResult) {
	defer func() {
		if p := recover(); p != nil {
			s.cfg.Log.Error("transfer panicked and waits", "transfer", e.o.ID, "panic", p, "stack", string(debug.Stack()))
			v = sender.DriveResult{Retry: time.Minute}
		}
	}()

	if e.o.State() == transfer.Parked { // and to be cancelled
		done, err := e.o.CancelNow()
		if err != nil {
			s.cfg.Log.Error("cannot write the ledger", "error", err)
		}
		return sender.DriveResult{Final: done, Retry: peerRetry}
	}

	if !ending && e.o.NeedsDestination() && !s.reachable(e.to) {
		ended, retry, err := e.o.MarkUnreachable()
		if err != nil {
			s.cfg.Log.Error("cannot write the ledger", "error", err)
		}
		return sender.DriveResult{Final: ended, Retry: retry}
	}

	s.cfg.Changed()
	return e.o.Drive(s.cfg.Context)
}

// freshFor is the number of the connection's delays after a sign of an agent until it is asked again. On a slow link
// many transfers to it cost one question; on a fast link each one asks.
const freshFor = 4

// reachable asks an agent whether it is there. An agent that is away is not asked again for a while, so that many
// transfers to it cost one question.
func (s *Scheduler) reachable(name transfer.AgentName) bool {
	now := s.cfg.Clock.Now()
	if s.peers.down(name, now) {
		return false
	}
	if s.peers.fresh(name, freshFor*s.cfg.Conn.Delay(), now) {
		return true
	}
	_, err := s.cfg.Conn.Request(s.cfg.Context, wire.AskAgent(name, s.cfg.Agent.Token()), wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskPing}), time.Second+4*s.cfg.Conn.Delay())
	if err == nil {
		s.peers.answered(name, s.cfg.Clock.Now())
		return true
	}
	s.peers.missed(name, s.cfg.Clock.Now().Add(peerRetry))
	return false
}

// watch listens to the heartbeats of an agent that transfers go to. An agent that comes back gets its transfers at
// once.
func (s *Scheduler) watch(name transfer.AgentName) {
	err := s.peers.watch(name, func() (stop func(), err error) {
		return s.cfg.Conn.Subscribe(wire.BeatSubject(name), func(m qmgr.Message) {
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
		s.cfg.Log.Warn("cannot subscribe to an agent's heartbeats", "agent", name, "error", err)
	}
}

// ForgetPeers removes the agents that no transfer goes to any more, because requests may name any number of them.
func (s *Scheduler) ForgetPeers() {
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

// heard wakes the transfers to an agent that had been away, and tells those that run to one that has restarted.
func (s *Scheduler) heard(name transfer.AgentName, instance string) {
	anew := s.peers.heard(name, instance, s.cfg.Clock.Now())
	s.mu.Lock()
	woken := false
	for _, e := range s.entries {
		if e.to != name {
			continue
		}
		if e.running && anew {
			e.o.DestinationRestarted(instance)
		}
		r := e.o.Record().Progress.Reason
		if !e.running && !e.notBefore.IsZero() && (r != nil && r.Kind == transfer.KindUnreachable || anew && e.stored) {
			e.notBefore, woken = time.Time{}, true
		}
	}
	s.mu.Unlock()
	if woken {
		wake.Up(s.cfg.Wakeup)
	}
}

// Changed takes notice that outcomes have moved a transfer on. A transfer that does not run is woken, or dropped when
// it has ended.
func (s *Scheduler) Changed(o *sender.Outgoing) {
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
		s.cfg.Progress(o.Status())
		o.Dispose()
	} else {
		s.Wake(o.ID)
	}
}

// Dispose waits for running transfers, and closes all.
func (s *Scheduler) Dispose() {
	s.wg.Wait()
	for _, o := range s.all() {
		o.Dispose()
	}
	s.peers.forget(func(transfer.AgentName) bool { return false })
}

// Room returns an error of KindBusy where the queue has no room for one more transfer of a principal. A principal
// has half of the queue that the other principals leave, rounded up, and all together have no more than the queue. more
// is the number of transfers that the queue may have beyond its limit; below zero: that are left free.
func (s *Scheduler) Room(principal string, more int) error {
	most := s.cfg.MaxQueued + more
	own, all := s.counted(principal)
	if all >= most {
		return transfer.Errorf(transfer.KindBusy, "%s already has %d transfers queued, its limit", s.cfg.Agent, most).
			WithHint("wait until a transfer there ends")
	}
	if share := duty.Share(all-own, most); own >= share {
		return transfer.Errorf(transfer.KindBusy, "%s already has %d transfers queued at %s; its share is %d, half of those that other users leave of %d",
			principal, own, s.cfg.Agent, share, most).WithHint("cancel one of them, or wait until one ends")
	}
	return nil
}
