package cli

import (
	"context"
	"errors"

	"ferry/internal/transfer"
)

// A keeper keeps data in a directory that it must not lose, and reports when the directory is gone.
type keeper interface {
	Gone() <-chan struct{}
	Lost() error
}

// watchKeeper ends ctx, with the reason for lost, when a keeper has lost its
// directory.
func watchKeeper(ctx context.Context, end context.CancelCauseFunc, k keeper) {
	go func() {
		select {
		case <-k.Gone():
			end(k.Lost())
		case <-ctx.Done():
		}
	}()
}

// lost is the reason of a process that stops without having been told to; nil where it was told.
func lost(ctx context.Context) error {
	if e := (*transfer.Error)(nil); errors.As(context.Cause(ctx), &e) {
		return e
	}
	return nil
}
