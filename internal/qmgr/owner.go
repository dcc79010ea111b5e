package qmgr

import (
	"context"

	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
)

// Owner returns the value that SetOwner wrote last for a name, and its revision. The revision is 0 if the name was
// never written or its stream has been lost. Owner asks once.
func (c *Conn) Owner(ctx context.Context, name string) (data []byte, revision uint64, err error) {
	if !c.control.Up.Load() {
		return nil, 0, c.base.Away()
	}
	o, err := c.admin.Owner(ctx, name)
	return o.Value, o.Revision, c.base.Explain(err, streams.OwnerSubject(name), 0)
}

// SetOwner writes the value of a name, at most 64 KiB, if its revision is still the given one. It returns the new
// revision. Its error is of KindConflict if the value has been replaced. It tries once: after another error the value
// may have been written all the same.
func (c *Conn) SetOwner(ctx context.Context, name string, data []byte, revision uint64) (uint64, error) {
	if len(data) > streams.MaxOwnerSize {
		return 0, transfer.Errorf(transfer.KindTooLarge, "the owner of %s has %d bytes; the limit is %d", name, len(data), streams.MaxOwnerSize)
	}
	if !c.control.Up.Load() {
		return 0, c.base.Away()
	}
	now, err := c.admin.SetOwner(ctx, name, streams.Owner{Value: data, Revision: revision})
	if err != nil {
		return 0, c.base.Explain(err, streams.OwnerSubject(name), len(data))
	}
	c.history.saw(string(streams.StreamOwner), now)
	return now, nil
}
