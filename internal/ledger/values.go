package ledger

import (
	"encoding/binary"
	"encoding/json"

	"ferry/internal/transfer"
)

func getU64(b Bucket, key string) uint64 {
	v := b.Get([]byte(key))
	if len(v) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(v)
}

func putU64(b Bucket, key string, v uint64) error {
	return b.Put([]byte(key), binary.BigEndian.AppendUint64(nil, v))
}

func itemKey(id transfer.ID, item uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(nil), id[:]...), item)
}

// getJSON reads a value; found is false if there is none. A value that cannot be read is an error that names it, never
// skipped.
func getJSON(b Bucket, name string, key []byte, v any) (found bool, err error) {
	data := b.Get(key)
	if data == nil {
		return false, nil
	}
	if err := json.Unmarshal(data, v); err != nil {
		return false, transfer.Errorf(transfer.KindInternal, "ledger: %s record %x is damaged: %w", name, key, err)
	}
	return true, nil
}

func putJSON(b Bucket, key []byte, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return b.Put(key, data)
}

// each calls fn for every key that begins with prefix, in order.
func each(b Bucket, prefix []byte, fn func(k, v []byte) error) error {
	c := b.Cursor()
	for k, v := c.Seek(prefix); k != nil && hasPrefix(k, prefix); k, v = c.Next() {
		if err := fn(k, v); err != nil {
			return err
		}
	}
	return nil
}

func hasPrefix(k, p []byte) bool { return len(k) >= len(p) && string(k[:len(p)]) == string(p) }

// dropAll deletes every key that begins with prefix.
func dropAll(b Bucket, prefix []byte) error {
	c := b.Cursor()
	for k, _ := c.Seek(prefix); k != nil && hasPrefix(k, prefix); k, _ = c.Seek(prefix) {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
