package ledger

import (
	"errors"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"ferry/internal/transfer"
)

// boltStore is the Store of every real ledger: the file ledger.db.
type boltStore struct{ db *bolt.DB }

// openBolt opens the database in dir, which another process may have for as
// long as patience lasts.
func openBolt(dir string, patience time.Duration) (Store, error) {
	file := filepath.Join(dir, "ledger.db")
	db, err := bolt.Open(file, 0o600, &bolt.Options{Timeout: patience, FreelistType: bolt.FreelistMapType, NoFreelistSync: true})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, transfer.Errorf(transfer.KindAlive, "the ledger %s is in use by another process", file).
			WithHint("stop the other agent, or give this one a state directory of its own")
	case err != nil:
		return nil, transfer.Errorf(transfer.KindInternal, "the ledger %s cannot be opened: %w", file, err).
			WithHint("restore it from a copy, or move it away to begin with an empty one: outcomes of running transfers are then unknown")
	}
	return boltStore{db}, nil
}

func (s boltStore) View(fn func(StoreTx) error) error {
	return s.db.View(func(tx *bolt.Tx) error { return fn(boltTx{tx}) })
}

func (s boltStore) Update(fn func(StoreTx) error) error {
	return s.db.Update(func(tx *bolt.Tx) error { return fn(boltTx{tx}) })
}

func (s boltStore) Close() error { return s.db.Close() }

type boltTx struct{ tx *bolt.Tx }

func (t boltTx) ID() int { return t.tx.ID() }

func (t boltTx) Bucket(name []byte) Bucket { return boltBucket{t.tx.Bucket(name)} }

func (t boltTx) Make(name []byte) error {
	_, err := t.tx.CreateBucketIfNotExists(name)
	return err
}

type boltBucket struct{ *bolt.Bucket }

func (b boltBucket) Cursor() Iterator { return b.Bucket.Cursor() }
func (b boltBucket) Count() int       { return b.Stats().KeyN }
