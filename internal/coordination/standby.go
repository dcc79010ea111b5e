package coordination

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/filelock"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Times of two coordination services on one directory: as of agents with a standby.
const (
	leaseEvery = 2 * time.Second
	leaseTerm  = 8 * time.Second
	claimEvery = time.Second
)

// A Claim is the lock of a directory that two coordination services share: its holder is the one writer of the audit
// log. A mark backs the lock, because a service that was stopped can lose the lock without notice. The service checks
// the mark before each append and before each receipt.
type Claim struct {
	lock io.Closer
	mark *filelock.Mark
	seen bool // the lock has kept this process out for a while

	alone bool // no standby could do better without the queue manager
}

// Close releases the directory.
func (c *Claim) Close() error { return c.lock.Close() }

// fence is nil while the directory is this process's.
func (c *Claim) fence() error {
	err := c.mark.Check()
	if errors.Is(err, filelock.ErrTaken) {
		return transfer.Errorf(transfer.KindAlive, "another coordination service has taken the audit log over")
	}
	if err != nil {
		return transfer.Errorf(transfer.KindBusy, "the owner of the audit log cannot be read: %w", err)
	}
	return nil
}

// StandBy waits until this process may be the one coordination service on a shared directory. It returns the claim that
// Start needs in its Config. standingBy is called once, when another service is active. The error is of KindUsage where
// the locks of the storage keep no other host out, and that of ctx where ctx ends.
func StandBy(ctx context.Context, cfg Config, conn *qmgr.Conn, standingBy func()) (*Claim, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.System
	}
	if err := os.MkdirAll(filepath.Join(cfg.Dir, "audit"), 0o700); err != nil {
		return nil, transfer.Errorf(transfer.KindUnwritable, "the directory of coordination cannot be made: %w", err)
	}
	log := quiet.New(cmp.Or(cfg.Log, slog.New(slog.DiscardHandler)), cfg.Clock.Now)
	if err := filelock.CheckLocks(cfg.Dir); err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "coordination cannot have a standby on this storage: %w", err).
			WithHint("keep --dir on storage that both hosts share, with locks that work between them; docs/operate.md has the list")
	}

	t := cfg.Clock.NewTimer(claimEvery)
	defer t.Stop()
	seen := false
	for {
		claim, err := takeClaim(cfg.Dir)
		switch {
		case errors.Is(err, filelock.ErrHeld):
			if !seen {
				seen = true
				standingBy()
			}
		case transfer.Full(err):
			log.Warn("the directory of coordination cannot be locked: the disk is full; standing by", "dir", cfg.Dir, "error", err)
		case err != nil:
			return nil, transfer.Errorf(transfer.KindOf(err), "the directory %s cannot be locked: %w", cfg.Dir, err)
		default:
			claim.seen = seen
			if conn.Healthy(ctx) != nil {
				claim.Close() // a service without the queue manager is of no use
				break
			}
			err := claim.take(cfg)
			if !transfer.Full(err) {
				return claim, err
			}
			log.Warn("the directory of coordination cannot be marked: the disk is full; standing by", "dir", cfg.Dir, "error", err)
		}
		t.Reset(claimEvery)
		select {
		case <-t.C():
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// claimShared claims a directory that services have shared, for a service without a standby. One of the others may be
// alive and have lost the lock without notice. It returns nil where the directory was never shared.
func claimShared(cfg Config) (*Claim, error) {
	_, marked, err := filelock.HolderOf(filepath.Join(cfg.Dir, "standby.mark"))
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUnreadable, "the owner of the directory %s cannot be read: %w", cfg.Dir, err)
	}
	if !marked {
		return nil, nil
	}
	c, err := takeClaim(cfg.Dir)
	if errors.Is(err, filelock.ErrHeld) {
		return nil, transfer.Errorf(transfer.KindAlive, "another coordination service has the directory %s", cfg.Dir).WithHint("stop it, or stand by with --standby")
	}
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUnwritable, "the directory %s cannot be locked: %w", cfg.Dir, err)
	}
	c.alone = true
	return c, c.take(cfg)
}

// takeClaim takes the lock, unless a service that has no standby writes the log.
func takeClaim(dir string) (*Claim, error) {
	lock, err := filelock.Take(filepath.Join(dir, "standby.lock"))
	if err != nil {
		return nil, err
	}
	log, err := filelock.Take(filepath.Join(dir, "audit", "lock"))
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &Claim{lock: lock}, log.Close()
}

// take marks the directory as this process's. On an error it releases the lock.
func (c *Claim) take(cfg Config) error {
	host, _ := os.Hostname()
	now := cfg.Clock.Now().UTC()
	var err error
	if c.mark, err = filelock.SetMark(filepath.Join(cfg.Dir, "standby.mark"), filelock.Holder{Instance: wire.Coordination + "-" + newInstance(), Host: host, Since: now}); err != nil {
		c.Close()
		return transfer.Errorf(transfer.KindUnwritable, "the directory %s cannot be marked as this process's: %w", cfg.Dir, err)
	}
	return nil
}

// keepLease gives the service up when it has not reached the queue manager for leaseTerm, so
// that a standby which does can take over.
func keepLease(ctx context.Context, s *Service) {
	t := s.cfg.Clock.NewTimer(leaseEvery)
	defer t.Stop()
	last := s.cfg.Clock.Now()
	for {
		select {
		case <-t.C():
		case <-ctx.Done():
			return
		}
		asked := s.cfg.Clock.Now()
		if err := s.conn.Healthy(ctx); err == nil {
			last = asked
		}
		if away := s.cfg.Clock.Now().Sub(last); away > leaseTerm {
			s.lose(transfer.Errorf(transfer.KindUnreachable, "coordination has not reached its queue manager for %s; it lets go of its directory, so that a standby can take over", away.Round(time.Second)))
			return
		}
		t.Reset(leaseEvery)
	}
}

// newInstance names one run.
func newInstance() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
