package ledger

import (
	"iter"

	"ferry/internal/transfer"
)

// MaxNamespaceKey is the greatest length of a key in a namespace, in bytes.
const MaxNamespaceKey = 8 << 10

// A Namespace is the part of a ledger that one of the agent's duties has to itself: an ordered map of bytes. Only the
// duty knows the format of the values, and their version.
type Namespace struct {
	b      Bucket
	prefix []byte
}

// NamespaceOf returns the namespace of a duty, by the duty's name.
func NamespaceOf(t *Tx, name string) Namespace {
	return Namespace{t.tx.Bucket(bNamespaces), append([]byte(name), 0)}
}

func (d Namespace) key(key string) []byte {
	return append(d.prefix[:len(d.prefix):len(d.prefix)], key...)
}

// Get returns a copy of the value of a key; nil if there is none.
func (d Namespace) Get(key string) []byte { return append([]byte(nil), d.b.Get(d.key(key))...) }

// Put sets the value of a key.
func (d Namespace) Put(key string, value []byte) error {
	if len(key) > MaxNamespaceKey {
		return transfer.Errorf(transfer.KindTooLarge, "a key of %d bytes is too long for the ledger; the limit is %d", len(key), MaxNamespaceKey)
	}
	return d.b.Put(d.key(key), value)
}

// Delete removes a key; a missing key is no error.
func (d Namespace) Delete(key string) error { return d.b.Delete(d.key(key)) }

// All returns the keys that begin with prefix and come after a key ("": all), in their order, with their values. Each
// value is good until the next one. The caller must not change the namespace meanwhile.
func (d Namespace) All(prefix, after string) iter.Seq2[string, []byte] {
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
func (d Namespace) Count(prefix string) (n int) {
	for range d.All(prefix, "") {
		n++
	}
	return n
}

// Clear deletes the keys that begin with prefix.
func (d Namespace) Clear(prefix string) error { return dropAll(d.b, d.key(prefix)) }
