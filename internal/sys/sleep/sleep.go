package sleep

import (
	"context"
	"time"
)

// For waits for d, less if wake is closed, and reports whether ctx has ended.
func For(ctx context.Context, d time.Duration, wake <-chan struct{}) (ended bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-t.C:
	}
	return ctx.Err() != nil
}

// Wake has the receiver of a channel with room for one look once more.
func Wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
