package qmgr

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"ferry/internal/transfer"

	"github.com/nats-io/nats.go/jetstream"
)

// OwnerBucket holds who has a name: one value of at most 64 KiB for each name,
// which is replaced only by whoever has seen the present one.
const OwnerBucket = "FERRY_OWNER"

// Owner is what SetOwner wrote last for a name, and its revision; revision 0
// where nothing was written or all has been lost. It asks once.
func (c *Conn) Owner(ctx context.Context, name string) (data []byte, revision uint64, err error) {
	err = c.owner(ctx, name, func(kv jetstream.KeyValue, key string) error {
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
	if len(data) > maxOwnerSize {
		return 0, transfer.Errorf(transfer.KindTooLarge, "the owner of %s has %d bytes; the limit is %d", name, len(data), maxOwnerSize)
	}

	now := uint64(0)
	err := c.owner(ctx, name, func(kv jetstream.KeyValue, key string) (err error) {
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

// owner runs op on the bucket of owners, and once more if the bucket had to be made.
func (c *Conn) owner(ctx context.Context, key string, op func(jetstream.KeyValue, string) error) error {
	if !c.control.up.Load() {
		return c.away()
	}

	k := bucketKey(key)
	run := func() error {
		kv, err := c.control.bucket(ctx, OwnerBucket)
		if err != nil {
			return err
		}
		return op(kv, k)
	}
	err := run()
	if err != nil && missing(err) {
		if err := c.Ensure(ctx); err != nil {
			return c.explain(err, key+" in "+OwnerBucket, 0)
		}
		err = run()
	}

	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return err
	}
	return c.explain(err, key+" in "+OwnerBucket, 0)
}

// bucketKey writes a key in the bytes that a bucket takes.
func bucketKey(key string) string {
	var b strings.Builder
	for i, ch := range []byte(key) {
		edge := ch == '.' && (i == 0 || i == len(key)-1 || key[i-1] == '.')
		switch {
		case 'A' <= ch && ch <= 'Z', 'a' <= ch && ch <= 'z', '0' <= ch && ch <= '9',
			ch == '-', ch == '_', ch == '/', ch == '.' && !edge:
			b.WriteByte(ch)
		default:
			fmt.Fprintf(&b, "=%02X", ch)
		}
	}
	return b.String()
}
