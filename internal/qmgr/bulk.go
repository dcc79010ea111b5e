package qmgr

import (
	"context"
	"sync"
	"sync/atomic"
)

// A bulk is a third connection of a Conn, for the messages of application queues. Beside them, on a connection that
// they share, signs of life and answers would wait behind megabytes. It is made when it is needed.
type bulk struct {
	making sync.Mutex
	now    atomic.Pointer[link]
}

// link is the connection for bulk data. Where the queue manager is in this process no connection is slow, and it is
// that for control.
func (b *bulk) link(ctx context.Context, c *Conn) (*link, error) {
	if c.cfg.Server != nil {
		return c.control, nil
	}
	b.making.Lock()
	defer b.making.Unlock()
	l := b.now.Load()
	if l == nil {
		if l = newLink(c, roleBulk); c.ctx.Err() != nil {
			return nil, errClosed
		}
		if err := l.dial(ctx); err != nil {
			return nil, noManager(ctx, c.where, err)
		}
		if b.now.Store(l); c.ctx.Err() != nil {
			l.close()
		}
		c.background(func() { c.watch(l) })
	}
	return l, nil
}

func (b *bulk) links() []*link {
	if l := b.now.Load(); l != nil {
		return []*link{l}
	}
	return nil
}

func (b *bulk) close() {
	for _, l := range b.links() {
		l.close()
	}
}
