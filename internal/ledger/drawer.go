package ledger

import (
	"iter"

	"ferry/internal/transfer"
)

// MaxDrawerKey is the greatest length of a key in a drawer, in bytes.
const MaxDrawerKey = 8 << 10

// A Drawer is the part of a ledger that one of the agent's duties has to itself: an ordered map of bytes. Only the duty
// knows the format of the values, and their version.
type Drawer struct {
	b      Bucket
	prefix []byte
}

// DrawerOf returns the drawer of a duty, by the duty's name.
func DrawerOf(t *Tx, name string) Drawer {
	return Drawer{t.tx.Bucket(bDrawers), append([]byte(name), 0)}
}

func (d Drawer) key(key string) []byte { return append(d.prefix[:len(d.prefix):len(d.prefix)], key...) }

// Get returns a copy of the value of a key; nil if there is none.
func (d Drawer) Get(key string) []byte { return append([]byte(nil), d.b.Get(d.key(key))...) }

// Put sets the value of a key.
func (d Drawer) Put(key string, value []byte) error {
	if len(key) > MaxDrawerKey {
		return transfer.Errorf(transfer.KindTooLarge, "a key of %d bytes is too long for the ledger; the limit is %d", len(key), MaxDrawerKey)
	}
	return d.b.Put(d.key(key), value)
}

// Delete removes a key; a missing key is no error.
func (d Drawer) Delete(key string) error { return d.b.Delete(d.key(key)) }

// All returns the keys that begin with prefix and come after a key ("": all), in their order, with their values. Each
// value is good until the next one. The caller must not change the drawer meanwhile.
func (d Drawer) All(prefix, after string) iter.Seq2[string, []byte] {
	from := prefix
	if after != "" {
		from = max(prefix, after+"\x00")
	}
	return func(yield func(string, []byte) bool) {
		c := d.b.Cursor()
		for k, v := c.Seek(d.key(from)); k != nil && hasPrefix(k, d.key(prefix)); k, v = c.Next() {
			if !yield(string(k[len(d.prefix):]), v) {
				return
			}
		}
	}
}

// Count returns how many keys begin with prefix.
func (d Drawer) Count(prefix string) (n int) {
	for range d.All(prefix, "") {
		n++
	}
	return n
}

// Clear deletes the keys that begin with prefix.
func (d Drawer) Clear(prefix string) error { return dropAll(d.b, d.key(prefix)) }
