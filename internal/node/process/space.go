package process

import (
	"context"
	"log/slog"
	"time"

	"ferry/internal/sys/space"
	"ferry/internal/transfer"
)

// FullPause is the pause before another try on a full disk.
const FullPause = 3 * time.Second

// WhileFull starts something, and starts it again for as long as the disk of its directory is full. The log
// has that once.
func WhileFull(ctx context.Context, log *slog.Logger, name, dir string, start func() error) error {
	for said := false; ; said = true {
		err := start()
		if !transfer.Full(err) || ctx.Err() != nil {
			return err
		}
		if !said {
			log.Warn("waiting for space on the disk", "of", name, "dir", dir, "error", err, "shortage", space.Shortage(dir))
		}
		SleepFor(ctx, FullPause)
	}
}

// SleepFor returns after a while, or when ctx ends.
func SleepFor(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}
