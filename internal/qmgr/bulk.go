package qmgr

import (
	"context"
	"sync"

	"ferry/internal/qmgr/link"
)

// A bulk is the third connection of a Conn, for stored delivery and for the messages of application
// queues. It is in the account of the control connection and is made when it is first needed. So signs of life,
// acknowledgements and questions do not queue behind megabytes.
type bulk struct {
	dialing sync.Mutex
	c       *Conn
	link    *link.Link
}

// ready returns the connection for bulk data, once it is up. To a queue manager in this process no connection is slow,
// and ready returns the connection for control. The error is of KindNoManager if the queue manager is away.
func (b *bulk) ready(ctx context.Context) (*link.Link, error) {
	c, l := b.c, b.link
	if c.cfg.Server != nil {
		return c.control, nil
	}
	b.dialing.Lock()
	defer b.dialing.Unlock()
	if l.Now.Load() == nil {
		if !c.control.Up.Load() {
			return nil, c.base.Away()
		}
		if err := l.Dial(ctx); err != nil {
			return nil, c.base.Explain(err, link.RoleBulk, 0)
		}
		c.base.Background(func() { c.watch(l) })
	}
	if !l.Up.Load() {
		return nil, c.base.Away()
	}
	return l, nil
}
