package ledger

import "ferry/internal/transfer"

// Read returns the result of fn in a read-only transaction, as View runs it.
func Read[T any](l *Ledger, fn func(*Tx) (T, error)) (v T, err error) {
	err = l.View(func(t *Tx) (err error) {
		v, err = fn(t)
		return err
	})
	return v, err
}

// SourceOf returns the entry of a transfer at its source; nil where there is none.
func SourceOf(l *Ledger, id transfer.ID) (*Source, error) {
	return Read(l, func(t *Tx) (*Source, error) { return t.Source(id) })
}
