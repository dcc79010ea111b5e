package ledger

import "ferry/internal/transfer"

// MaxDrawerKey is how long a key in a drawer may be, in bytes.
const MaxDrawerKey = 8 << 10

// A Drawer is the part of a ledger that one of the agent's duties has to itself: an
// ordered map of bytes. What is in it, and its version, only the duty knows.
type Drawer struct {
	b      Bucket
	prefix []byte
}

// DrawerOf gives a duty its part, by the duty's name.
func DrawerOf(t *Tx, name string) Drawer {
	return Drawer{t.tx.Bucket(bDrawers), append([]byte(name), 0)}
}

func (d Drawer) key(key string) []byte { return append(d.prefix[:len(d.prefix):len(d.prefix)], key...) }

// Get is a copy of the value of a key; nil where there is none.
func (d Drawer) Get(key string) []byte { return append([]byte(nil), d.b.Get(d.key(key))...) }

// Put sets the value of a key.
func (d Drawer) Put(key string, value []byte) error {
	if len(key) > MaxDrawerKey {
		return transfer.Errorf(transfer.KindTooLarge, "a key of %d bytes is too long for the ledger; the limit is %d", len(key), MaxDrawerKey)
	}
	return d.b.Put(d.key(key), value)
}

// Delete removes a key; that there is none is no error.
func (d Drawer) Delete(key string) error { return d.b.Delete(d.key(key)) }

// Each calls fn for the keys that begin with prefix, from the key from on ("": the first), in their
// order, until it fails. The value is fn's for the call only. fn does not change the drawer.
func (d Drawer) Each(prefix, from string, fn func(key string, value []byte) error) error {
	c := d.b.Cursor()
	for k, v := c.Seek(d.key(max(prefix, from))); k != nil && hasPrefix(k, d.key(prefix)); k, v = c.Next() {
		if err := fn(string(k[len(d.prefix):]), v); err != nil {
			return err
		}
	}
	return nil
}

// Clear deletes the keys that begin with prefix.
func (d Drawer) Clear(prefix string) error { return dropAll(d.b, d.key(prefix)) }
