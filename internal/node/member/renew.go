package member

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"ferry/internal/security/identity"
	"ferry/internal/sys/filelock"
	"ferry/internal/transfer"
)

// KeepRenewed renews an identity from when it is due, until ctx ends.
func KeepRenewed(ctx context.Context, i *identity.Identity, renew func(context.Context) error, log *slog.Logger) {
	t := time.NewTicker(renewEvery)
	defer t.Stop()
	soon := time.NewTimer(0) // which ends a wait
	defer soon.Stop()
	for {
		if !time.Now().Before(i.Due()) {
			if err := renew(ctx); err != nil && ctx.Err() == nil {
				log.Warn("the identity is not renewed yet", "identity", i.Name(), "until", i.Until(), "error", err)
				soon.Reset(RenewAgain)
			}
		}
		select {
		case <-t.C:
		case <-soon.C:
		case <-i.Soon(): // all identities of the network at once, and there may be thousands
			soon.Reset(rand.N(renewWithin))
		case <-ctx.Done():
			return
		}
	}
}

// Exclusively runs do in a state directory while the other instance does not: two instances that enrol at once would each
// make keys.
func Exclusively(ctx context.Context, dir string, do func() error) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the state directory cannot be made: %w", err)
	}
	for {
		lock, err := filelock.Take(filepath.Join(dir, "standby.enrol"))
		if err == nil {
			defer lock.Close()
			return do()
		}
		if !errors.Is(err, filelock.ErrHeld) {
			return transfer.Errorf(transfer.KindUnwritable, "the state directory %s cannot be locked: %w", dir, err)
		}
		select {
		case <-time.After(refusedPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// KeepReread reads the identity again at each interval. Both instances have one identity in the state directory, and only
// the active one renews it.
func KeepReread(ctx context.Context, i *identity.Identity, log *slog.Logger) {
	t := time.NewTicker(renewEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			Reread(i, log)
		case <-ctx.Done():
			return
		}
	}
}

// Reread reads an identity again that the other instance may have renewed; nil: there is none.
func Reread(i *identity.Identity, log *slog.Logger) {
	if i == nil {
		return
	}
	if err := i.Reread(); err != nil {
		log.Warn("the identity that this instance shares cannot be read again", "identity", i.Name(), "error", err)
	}
}
