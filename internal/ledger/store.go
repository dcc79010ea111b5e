package ledger

// A Store holds the data of a ledger: buckets, which are ordered maps of bytes, changed in transactions. A transaction
// that has returned from Update without an error survives a crash of the process and of the host.
//
// If Update returns an error, the transaction had no effect. If the error was in making it durable, it may instead have
// had its whole effect; it never has a part. StoreTx.ID shows a later transaction which case it is.
//
// Update is called by one goroutine at a time, View by any number, at the same time as Update. No other process has the
// store open.
type Store interface {
	View(fn func(StoreTx) error) error
	// Update runs fn once. If fn returns an error, Update changes nothing and returns the same error.
	Update(fn func(StoreTx) error) error
	Close() error
}

// A StoreTx is a transaction. The caller must not use it, or keys and values from it, after its function has returned.
type StoreTx interface {
	// ID numbers transactions. The ID of a View is that of the last Update that it sees. The ID of an Update is one
	// more than the last that took effect.
	ID() int
	// Make makes a missing bucket; only in an Update.
	Make(name []byte) error
	Bucket(name []byte) Bucket // the bucket must exist
}

// A Bucket is an ordered map, and a number that counts up. Keys are not empty. A caller must not change slices from a
// Bucket. It must not change slices given to a Bucket before the transaction ends.
type Bucket interface {
	Get(key []byte) []byte // nil if there is none
	Put(key, value []byte) error
	Delete(key []byte) error // a missing key is no error
	Cursor() Iterator
	Count() int // in an Update: at its beginning
	Sequence() uint64
	NextSequence() (uint64, error) // counts up and returns the new number
	SetSequence(n uint64) error    // counts on from n
}

// An Iterator goes through a bucket in the order of the keys. A change to the bucket ends it, until the next Seek. At
// the end the key is nil.
type Iterator interface {
	Seek(key []byte) (k, v []byte) // the first key that is not less; nil: the first of all
	Next() (k, v []byte)
}
