package agent

import (
	"context"
	"errors"
	"os"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/sys/filelock"
	"ferry/internal/sys/wake"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Two instances of an agent on one ledger (R34). The lock of the ledger decides which of them is active. The holder of
// the name in the queue manager is a lease that the active instance renews. The network sees nothing else of the
// decision.
//
//	active    renews every leaseEvery; without that for leaseTerm it stops: it ends all
//	          work, closes the ledger, and releases the lock
//	standby   tries the lock every claimEvery, and at once when the active one says that
//	          it stops; with it, and with the queue manager in reach, it is active
//
// From a network cut to the release of the lock take leaseTerm and the end of the active instance's work. With
// claimEvery that is less than the 15 s that a takeover may take.
const (
	leaseEvery = 2 * time.Second
	leaseTerm  = 8 * time.Second
	leaseLook  = 500 * time.Millisecond
	claimEvery = time.Second
)

// StandBy waits until this instance may be the active one of its agent, and returns the claim that Start needs in its
// Config. It calls standing once, when another instance is active. The error is of KindUsage where the locks of the
// state directory's storage do not exclude other hosts. It is of KindAlive where another instance is active though the
// lock is free, and that of ctx where it ends.
func StandBy(ctx context.Context, cfg Config, conn *qmgr.Conn, standing func()) (*ledger.DirLock, error) {
	cfg.fill()
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, transfer.Errorf(transfer.KindUnwritable, "the state directory cannot be made: %w", err)
	}
	if err := filelock.CheckLocks(cfg.Dir); err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "agent %s cannot have a standby on this storage: %w", cfg.Name, err).
			WithHint("keep --dir on storage that both hosts share, with locks that work between them; docs/operate.md has the list")
	}

	c := newCore(cfg, conn)
	defer c.cancel()
	s := &standby{core: c, own: newOwner(c), wake: make(chan struct{}, 1), onStandby: standing}
	stop, err := conn.Subscribe(wire.BeatSubject(cfg.Name), s.heard)
	if err != nil {
		return nil, err
	}
	defer stop()
	return s.wait(ctx)
}

// A GivenUp is the error of a Start that had the claim, and could not become active with it. Another instance has taken
// over the ledger meanwhile, or the queue manager was lost. The instance may stand by again.
type GivenUp struct{ Err error }

func (e *GivenUp) Error() string { return e.Err.Error() }
func (e *GivenUp) Unwrap() error { return e.Err }

// givenUp makes a GivenUp of such an error of Start.
func (c *core) givenUp(err error) error {
	if c.cfg.DirLock == nil {
		return err
	}
	kind := transfer.KindOf(err)
	inUse := c.ledger == nil && kind == transfer.KindAlive // it has no other way to be of that kind yet
	if inUse || c.fenced() || kind == transfer.KindUnreachable {
		return &GivenUp{err}
	}
	return err
}

// claimInTime is claim with a limit of leaseTerm for an agent with a standby. While the queue manager cannot be
// reached, such an agent must not keep the lock from the standby for long.
func (o *owner) claimInTime(ctx context.Context, silent bool) error {
	if o.cfg.DirLock == nil {
		return o.claim(ctx, silent)
	}
	lost := transfer.Errorf(transfer.KindUnreachable, "agent %s has its ledger, and could not say so to the queue manager for %s", o.cfg.Name, leaseTerm)
	ctx, cancel := context.WithTimeoutCause(ctx, leaseTerm, lost)
	defer cancel()
	return o.claim(ctx, silent)
}

// A standby is one wait for the lock.
type standby struct {
	*core
	own       *owner
	wake      chan struct{}
	onStandby func()
	seen      bool // the lock was seen to keep this instance out
	said      time.Time
}

// heard takes reports under the agent's name. An instance that stops has released the lock, or is about to.
func (s *standby) heard(m qmgr.Message) {
	r, err := wire.DecodeReport(m.Data)
	if err == nil && r.Beat != nil && (r.Beat.Status == wire.AgentStopping || r.Beat.Status == wire.AgentStopped) {
		wake.Up(s.wake)
	}
}

func (s *standby) wait(ctx context.Context) (*ledger.DirLock, error) {
	t := s.cfg.Clock.NewTimer(claimEvery)
	defer t.Stop()
	for {
		claim, err := s.try(ctx)
		if claim != nil || err != nil {
			if s.seen {
				s.say(wire.AgentStopped)
			}
			return claim, err
		}
		if s.cfg.Clock.Now().Sub(s.said) >= wire.BeatEvery {
			s.say(wire.AgentStandby)
		}
		t.Reset(claimEvery)
		select {
		case <-t.C():
		case <-s.wake:
		case <-ctx.Done():
			if s.seen {
				s.say(wire.AgentStopped)
			}
			return nil, context.Cause(ctx)
		}
	}
}

// try takes the lock, if it can be had now and this instance can be active.
func (s *standby) try(ctx context.Context) (*ledger.DirLock, error) {
	claim, err := ledger.TakeDirLock(s.cfg.Dir, filelock.Holder{Instance: s.instance, Host: s.own.mine.Host, Since: s.started.UTC()})
	if errors.Is(err, filelock.ErrHeld) {
		if !s.seen {
			s.seen = true
			s.log.Info("standing by", "dir", s.cfg.Dir, "active", ledger.DirLockHolder(s.cfg.Dir).Host)
			s.onStandby()
		}
		return nil, nil
	}
	if transfer.Full(err) {
		s.quiet.Warn("the lock of the ledger cannot be taken: the disk is full; standing by", "dir", s.cfg.Dir, "error", err)
		return nil, nil
	}
	if err != nil {
		return nil, transfer.Errorf(transfer.KindOf(err), "the ledger in %s cannot be locked: %w", s.cfg.Dir, err)
	}

	if err := s.may(ctx); err != nil {
		claim.Close()
		if transfer.KindOf(err) == transfer.KindAlive {
			return nil, err
		}
		s.quiet.Warn("cannot be active without the queue manager; standing by", "error", err)
		return nil, nil
	}
	s.log.Info("has the lock of the ledger: becoming active", "dir", s.cfg.Dir)
	return claim, nil
}

// may asks the queue manager, which an active instance must reach. A lock that was seen to keep this instance out
// decides alone which instance is active. A lock that was free at once may not work. If another instance holds the name
// and answers then, the lock does not work, or that instance has another directory.
func (s *standby) may(ctx context.Context) error {
	h, _, err := s.own.read(ctx)
	if err != nil || s.seen || h.Instance == "" {
		return err
	}
	for range maxSilent {
		_, asked, err := s.askInstance(ctx, wire.InstanceSubject(s.cfg.Name, h.Instance))
		switch {
		case err == nil:
			return transfer.Errorf(transfer.KindAlive, "agent %s runs on %s since %s, and the lock of its ledger in %s is free here: the storage is not the one that %s has in %s, or its locks do not work between the two hosts",
				s.cfg.Name, h.Host, h.Since.Format(time.RFC3339), s.cfg.Dir, h.Host, h.Dir).
				WithHint("share one directory between the hosts, on storage with locks; docs/operate.md has the list")
		case transfer.KindOf(err) == transfer.KindUnreachable:
			return nil
		case !asked:
			return err
		}
	}
	return nil
}

// say reports to coordination that this instance stands by.
func (s *standby) say(status string) {
	s.said = s.cfg.Clock.Now()
	reason := ""
	if h := ledger.DirLockHolder(s.cfg.Dir); h.Instance != "" && status == wire.AgentStandby {
		reason = "for the instance on " + h.Host
	}
	s.conn.Publish(wire.BeatSubject(s.cfg.Name), wire.Marshal(wire.Report{V: wire.Version, Kind: wire.StandbyKind, Standby: &wire.Standby{
		V: wire.Version, Agent: s.cfg.Name, Instance: s.instance, Status: status, Reason: reason, Host: s.own.mine.Host, Platform: platform(),
		Version: s.cfg.Version, Started: s.started}}))
}

// awaitCheck waits until the holder of the name is to be checked again: the session is over, another instance was
// heard, or the lease could not be renewed.
func (o *owner) awaitCheck(ctx context.Context, session int64) {
	renew := o.cfg.Clock.NewTimer(leaseEvery)
	defer renew.Stop()
	due := renew.C()
	if o.cfg.DirLock == nil {
		due = nil // no standby waits for it
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.checkSoon:
			o.set(session, stageReports)
			o.beatNow() // the other instance must get a heartbeat of this one, too
			return
		case <-due:
			asked := o.cfg.Clock.Now()
			held, _, err := o.read(ctx)
			if err != nil || held.Instance != o.mine.Instance {
				return
			}
			o.mu.Lock()
			o.renewed = asked
			o.mu.Unlock()
			renew.Reset(leaseEvery)
		}
	}
}

// endExpiredLease ends the agent's work where its lease could not be renewed for leaseTerm, so that
// a standby which reaches the queue manager can be active.
func (o *owner) endExpiredLease() {
	o.mu.Lock()
	o.renewed = o.cfg.Clock.Now() // recovery of the ledger may have taken long
	o.mu.Unlock()
	t := o.cfg.Clock.NewTimer(leaseLook)
	defer t.Stop()
	for {
		select {
		case <-t.C():
			t.Reset(leaseLook)
		case <-o.ledger.Gone():
			o.lose(o.ledger.Lost())
			return
		case <-o.ctx.Done():
			return
		}
		o.mu.Lock()
		since := o.cfg.Clock.Now().Sub(o.renewed)
		o.mu.Unlock()
		if since > leaseTerm {
			o.lose(transfer.Errorf(transfer.KindUnreachable, "agent %s could not renew its lease at the queue manager for %s; it lets go of its ledger, so that a standby can take over", o.cfg.Name, since.Round(time.Second)))
			return
		}
	}
}

// displaced reports whether the agent has lost its name or its lease.
func (o *owner) displaced() bool {
	o.published.mu.Lock()
	defer o.published.mu.Unlock()
	return o.published.nameless
}
