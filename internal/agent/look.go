package agent

import (
	"time"

	"ferry/internal/sys/clock"
)

// A check of the paths of a request may take lookTime. As many as mostLooks may continue in the background, on a network
// file system that hangs; beyond that requests are not checked.
const (
	lookTime  = 2 * time.Second
	mostLooks = 4
)

// The looks are the checks that read directories. A command waits for each of them.
type looks struct {
	clock  clock.Clock
	tokens chan struct{} // one for each that runs
}

func newLooks(clk clock.Clock) *looks { return &looks{clk, make(chan struct{}, mostLooks)} }

// run runs check, which reads directories, for lookTime at most, because commands are
// taken one at a time. It returns nil where check has not ended by then.
func (l *looks) run(check func() error) error {
	select {
	case l.tokens <- struct{}{}:
	default:
		return nil // all of them hang
	}

	found := make(chan error, 1)
	go func() {
		defer func() { <-l.tokens }()
		found <- check()
	}()

	t := l.clock.NewTimer(lookTime)
	defer t.Stop()
	select {
	case err := <-found:
		return err
	case <-t.C():
		return nil
	}
}
