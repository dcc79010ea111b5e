package qmgr

import (
	"context"
	"sync"
)

// A bulk is the third connection of a Conn, for stored delivery and for the messages of application
// queues. It is in the account of the control connection and is made when it is first needed. So signs of life,
// acknowledgements and questions do not queue behind megabytes.
type bulk struct {
	dialing sync.Mutex
	c       *Conn
	link    *link
}

// ready returns the connection for bulk data, once it is up. To a queue manager in this process no connection is slow,
// and ready returns the connection for control. The error is of KindNoManager if the queue manager is away.
func (b *bulk) ready(ctx context.Context) (*link, error) {
	c, l := b.c, b.link
	if c.cfg.Server != nil {
		return c.control, nil
	}
	b.dialing.Lock()
	defer b.dialing.Unlock()
	if l.now.Load() == nil {
		if !c.control.up.Load() {
			return nil, c.away()
		}
		if err := l.dial(ctx); err != nil {
			return nil, c.explain(err, roleBulk, 0)
		}
		c.background(func() { c.watch(l) })
	}
	if !l.up.Load() {
		return nil, c.away()
	}
	return l, nil
}
