package qmgr

import (
	"context"
	"errors"

	"ferry/internal/transfer"

	"github.com/nats-io/nats.go/jetstream"
)

// OwnerBucket holds who has a name: one value of at most 64 KiB for each name,
// which is replaced only by whoever has seen the present one.
const OwnerBucket = "FERRY_OWNER"

// Owner is what SetOwner wrote last for a name, and its revision; revision 0
// where nothing was written or all has been lost. It asks once.
func (c *Conn) Owner(ctx context.Context, name string) (data []byte, revision uint64, err error) {
	err = c.bucket(ctx, OwnerBucket, name, func(kv jetstream.KeyValue, key string) error {
		e, err := kv.Get(ctx, key)
		if err == nil {
			data, revision = e.Value(), e.Revision()
		}
		return err
	})
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil, 0, nil
	}
	return data, revision, err
}

// SetOwner writes the value of a name, where its revision is still the one that
// is given, and gives the new one. Its error is of KindConflict where the value
// has been replaced. It tries once: after another error the value may have been
// written all the same.
func (c *Conn) SetOwner(ctx context.Context, name string, data []byte, revision uint64) (uint64, error) {
	now := uint64(0)
	err := c.bucket(ctx, OwnerBucket, name, func(kv jetstream.KeyValue, key string) (err error) {
		now, err = kv.Update(ctx, key, data, revision)
		if errors.Is(err, jetstream.ErrKeyRevisionMismatch) {
			return transfer.Errorf(transfer.KindConflict, "the owner of %s is not the one that was seen", name)
		}
		if err == nil {
			c.witness.saw("KV_"+OwnerBucket, now)
		}
		return err
	})
	return now, err
}
