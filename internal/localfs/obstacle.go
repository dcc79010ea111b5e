package localfs

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"ferry/internal/transfer"
)

// An obstacle keeps a file from its place and may go by itself: a file system that is read-only, or a mount
// point at the file's name. A transfer waits for it for a time; then the item fails.
type obstacle struct {
	of       transfer.ID
	readOnly bool
}

// Times of obstacles.
const (
	obstaclePatience = 10 * time.Minute // where LandConfig has none
	obstacleForgot   = 24 * time.Hour
)

// obstacles are those that transfers have met, each with the time since when.
type obstacles struct {
	mu    sync.Mutex
	since map[obstacle]time.Time
}

// lasts notes that an obstacle is met, and gives for how long that has been so.
func (o *obstacles) lasts(b obstacle, now time.Time) time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	for other, since := range o.since {
		if now.Sub(since) > obstacleForgot {
			delete(o.since, other)
		}
	}
	if o.since == nil {
		o.since = map[obstacle]time.Time{}
	}
	since, met := o.since[b]
	if !met {
		since, o.since[b] = now, now
	}
	return now.Sub(since)
}

func (o *obstacles) gone(b obstacle) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.since, b)
}

func isBusy(err error) bool { return errors.Is(err, syscall.EBUSY) }

// obstructed is the reason to wait where an error is that of an obstacle that has not lasted for too long; nil
// where it is another error, or a verdict by now.
func obstructed(l *Landing, p transfer.Path, err error) error {
	if !isReadOnly(err) && !isBusy(err) {
		return nil
	}
	patience := cmp.Or(l.cfg.Patience, obstaclePatience)
	if l.fs.obstacles.lasts(obstacle{l.cfg.Transfer, isReadOnly(err)}, l.fs.cfg.Clock.Now()) >= patience {
		return nil
	}
	e := *transfer.AsError(targetError(p, err))
	e.Kind, e.Hint = transfer.KindBusy, fmt.Sprintf("it is tried again by itself for %s, and fails then", patience)
	return &e
}

// landError is targetError, or the wait for an obstacle.
func landError(l *Landing, p transfer.Path, err error) error {
	var e *transfer.Error
	if wait := obstructed(l, p, err); wait != nil && !errors.As(err, &e) {
		return wait
	}
	return targetError(p, err)
}

// writable notes that a file system of the destination takes files.
func writable(l *Landing) { l.fs.obstacles.gone(obstacle{l.cfg.Transfer, true}) }
