package forward

import (
	"context"
	"errors"
	"maps"
	"sync"

	"ferry/internal/qmgr/channel"
)

var errUnlinked = errors.New("a connection has ended")

// whileLinked returns a context that ends, with errUnlinked, when a connection ends that leads to a queue manager. The
// question or its answer may have been lost with it. Without the context the asker would wait for its whole time. is
// reports whether a neighbour is the queue manager, or a member of its cluster.
func whileLinked(ctx context.Context, all *channel.Channels, is func(peer string) bool) (linked context.Context, end func()) {
	linked, unlinked := context.WithCancelCause(ctx)
	now, changed := all.Connected()
	lead := leading(now, is)
	var task sync.WaitGroup
	task.Go(func() {
		for {
			select {
			case <-changed:
			case <-linked.Done():
				return
			}
			now, changed = all.Connected()
			for c := range lead {
				if !now[c] {
					unlinked(errUnlinked)
					return
				}
			}
			lead = leading(now, is)
		}
	})
	return linked, func() { unlinked(nil); task.Wait() }
}

// leading returns the connections that lead to a queue manager: those with it, or with members of its cluster. Without
// any, another queue manager is between. Then they are those of the only neighbour; with several, the way is not known.
func leading(all map[channel.Connection]bool, is func(peer string) bool) (lead map[channel.Connection]bool) {
	lead = maps.Clone(all)
	maps.DeleteFunc(lead, func(c channel.Connection, _ bool) bool { return !c.Queues })
	direct, peers := maps.Clone(lead), map[string]bool{}
	maps.DeleteFunc(direct, func(c channel.Connection, _ bool) bool {
		peers[c.Peer] = true
		return !is(c.Peer)
	})
	switch {
	case len(direct) > 0:
		return direct
	case len(peers) > 1:
		return nil
	}
	return lead
}
