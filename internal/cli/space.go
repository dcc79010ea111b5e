package cli

import (
	"context"
	"log/slog"
	"time"

	"ferry/internal/sys/space"
	"ferry/internal/transfer"
)

// fullPause is the pause before another try on a full disk.
const fullPause = 3 * time.Second

// whileFull starts something, and starts it again for as long as the disk of its directory is full. The log
// has that once.
func whileFull(ctx context.Context, log *slog.Logger, name, dir string, start func() error) error {
	for said := false; ; said = true {
		err := start()
		if !transfer.Full(err) || ctx.Err() != nil {
			return err
		}
		if !said {
			log.Warn("waiting for space on the disk", "of", name, "dir", dir, "error", err, "shortage", space.Shortage(dir))
		}
		sleepFor(ctx, fullPause)
	}
}

// sleepFor returns after a while, or when ctx ends.
func sleepFor(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
