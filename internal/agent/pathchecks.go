package agent

import (
	"time"

	"ferry/internal/sys/clock"
)

// A check of the paths of a request may take checkTime. As many as maxPathChecks may continue in the background, on a
// network file system that hangs; beyond that requests are not checked.
const (
	checkTime     = 2 * time.Second
	maxPathChecks = 4
)

// The pathChecks are the checks that read directories. A command waits for each of them.
type pathChecks struct {
	clock  clock.Clock
	tokens chan struct{} // one for each that runs
}

func newPathChecks(clk clock.Clock) *pathChecks {
	return &pathChecks{clk, make(chan struct{}, maxPathChecks)}
}

// run runs check, which reads directories, for checkTime at most, because commands are
// taken one at a time. It returns nil where check has not ended by then.
func (l *pathChecks) run(check func() error) error {
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

	t := l.clock.NewTimer(checkTime)
	defer t.Stop()
	select {
	case err := <-found:
		return err
	case <-t.C():
		return nil
	}
}
