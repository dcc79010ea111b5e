package agents

import (
	"context"
	"sync"

	"ferry/internal/agent"
	"ferry/internal/node/process"
)

// A Running agent runs in this process until it is closed.
type Running struct {
	*agent.Agent
	Close func() // may be called more than once
	// refused gets an error when the queue manager refuses the agent's identity.
	refused <-chan error
	Ended   func() // called when the agent had to stop by itself; may be nil
}

// WaitAll waits until ctx ends. An agent may have to stop before that, because another one has its name or its identity
// was revoked. attend closes it and prints the reason; the others continue. In a process with agents alone (only), the
// last reason is the error.
func WaitAll(ctx context.Context, c process.Console, agents []Running, only bool) error {
	type loss struct {
		of  Running
		err error
	}
	losses := make(chan loss)
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, a := range agents {
		all.Go(func() {
			var err error
			select {
			case err = <-a.Displaced():
			case err = <-a.refused:
			case <-ctx.Done():
				return
			}
			select {
			case losses <- loss{a, err}:
			case <-ctx.Done():
			}
		})
	}

	for left := len(agents); ; {
		select {
		case <-ctx.Done():
			return nil
		case l := <-losses:
			l.of.Close()
			if l.of.Ended != nil {
				l.of.Ended()
			}
			if left--; left == 0 && only {
				return l.err
			}
			c.Notice(l.err.Error())
		}
	}
}
