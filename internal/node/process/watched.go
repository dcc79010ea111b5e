package process

import (
	"context"
	"errors"

	"ferry/internal/transfer"
)

// A Watched keeps data in a directory that it must not lose, and reports when the directory is gone.
type Watched interface {
	Gone() <-chan struct{}
	Lost() error
}

// Watch ends ctx, with the reason for lost, when it has lost its
// directory.
func Watch(ctx context.Context, end context.CancelCauseFunc, k Watched) {
	go func() {
		select {
		case <-k.Gone():
			end(k.Lost())
		case <-ctx.Done():
		}
	}()
}

// Lost is the reason of a process that stops without having been told to; nil where it was told.
func Lost(ctx context.Context) error {
	if e := (*transfer.Error)(nil); errors.As(context.Cause(ctx), &e) {
		return e
	}
	return nil
}
