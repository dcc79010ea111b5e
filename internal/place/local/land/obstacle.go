package land

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// An obstacle prevents a file from landing and may disappear by itself: a read-only file system, or a mount point at
// the file's name. A transfer waits for it for a limited time; then the item fails.
type obstacle struct {
	of     transfer.ID
	device uint64        // of a file system that is read-only
	path   transfer.Path // of a mount point; empty for a file system
}

// like reports whether two obstacles share one limit of patience: all mount points of a transfer, or one file system.
func (b obstacle) like(other obstacle) bool {
	return b.of == other.of && b.device == other.device && (b.path == "") == (other.path == "")
}

// meetings holds the times of the first and the last meeting with an obstacle.
type meetings struct{ first, last time.Time }

// Times of obstacles.
const (
	obstaclePatience       = 10 * time.Minute // where LandConfig has none
	obstacleForgottenAfter = 20 * time.Minute // after it was last met: a waiting transfer tries again within seconds
)

// obstacles holds the obstacles that transfers have met. An obstacle stays until it disappears or until no transfer has
// met it for a long time.
type obstacles struct {
	mu  sync.Mutex
	met map[obstacle]meetings
}

// lasts records that an obstacle was met. It reports whether the obstacle, or one like it, has lasted longer than
// patience.
func (o *obstacles) lasts(b obstacle, now time.Time, patience time.Duration) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	is, known := o.met[b]
	if !known || now.Sub(is.last) > obstacleForgottenAfter {
		is.first = now
	}
	is.last = now
	first := is.first
	for other, m := range o.met {
		switch {
		case now.Sub(m.last) > obstacleForgottenAfter:
			delete(o.met, other)
		case other.like(b) && m.first.Before(first):
			first = m.first
		}
	}
	over := now.Sub(first) >= patience
	if o.met == nil {
		o.met = map[obstacle]meetings{}
	}
	if known || !over { // of many files that fail at once, none is kept
		o.met[b] = is
	}
	for other, m := range o.met {
		if over && other.like(b) {
			m.last = now
			o.met[other] = m
		}
	}
	return over
}

// gone forgets an obstacle.
func (o *obstacles) gone(b obstacle) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.met, b)
}

// obstacleWaits decides about the obstacles that the items of one transfer meet.
type obstacleWaits struct {
	fs       *Target
	of       transfer.ID
	patience time.Duration // LandConfig.Patience
}

// obstructed returns the reason to wait for an obstacle that has not lasted too long. It returns nil for another error,
// or if the patience is exhausted.
func (s *obstacleWaits) obstructed(p transfer.Path, err error) error {
	if !disk.IsReadOnly(err) && !disk.IsBusy(err) {
		return nil
	}
	patience := cmp.Or(s.patience, obstaclePatience)
	b := obstacle{of: s.of, path: p}
	if disk.IsReadOnly(err) {
		b = obstacle{of: s.of, device: deviceOf(s.fs.roots, p)}
	}
	if s.fs.obstacles.lasts(b, s.fs.cfg.Clock.Now(), patience) {
		return nil
	}
	e := *transfer.AsError(disk.TargetError(p, err))
	e.Kind, e.Hint = transfer.KindBusy, fmt.Sprintf("it is tried again by itself for %s, and fails then", patience)
	return &e
}

// landError returns disk.TargetError, or an error that waits for an obstacle.
func (s *obstacleWaits) landError(p transfer.Path, err error) error {
	var e *transfer.Error
	if wait := s.obstructed(p, err); wait != nil && !errors.As(err, &e) {
		return wait
	}
	return disk.TargetError(p, err)
}

// doubtful returns the error of a temporary that cannot be resumed, or an error that waits while it may be sound.
func (s *obstacleWaits) doubtful(p disk.Location, why error) error {
	if err := s.obstructed(transfer.Path(p.Path), why); err != nil {
		return err // the temporary is sound
	}
	if err := disk.PassingError(transfer.Path(p.Path), "opened", why); err != nil {
		return err // the temporary may be sound
	}
	return disk.Wrap(transfer.KindMissing, why, "", "the temporary of %s cannot be resumed: %s", transfer.Path(p.Path), disk.Reason(why))
}

// deviceOf returns the device of the nearest directory above a path, or 0 if none can be opened.
func deviceOf(roots *disk.Roots, p transfer.Path) uint64 {
	for at, err := roots.Locate(p); err == nil && !at.IsRoot(); {
		at = at.Parent()
		if d, err := roots.OpenDir(at); err == nil {
			defer d.Close()
			return d.ID().Dev
		}
	}
	return 0
}

// writable records that the file system of a directory accepts writes.
func (s *obstacleWaits) writable(d *sharedDir) {
	s.fs.obstacles.gone(obstacle{of: s.of, device: d.ID().Dev})
}
