package ledger

// A Store holds the records of a ledger: buckets, which are ordered maps of
// bytes, changed in transactions. One that has returned from Update without an
// error survives a crash of the process and of the host.
//
// A transaction of which Update returns an error has had no effect, or, where
// the error was in making it durable, may have had all of it; it never has had
// a part. Which of the two a later transaction can tell from StoreTx.ID.
//
// Update is called by one goroutine at a time, View by any number, at the same
// time as Update. Nobody else has the store open.
type Store interface {
	View(fn func(StoreTx) error) error
	// Update runs fn once. Where fn returns an error nothing has changed, and
	// the error is passed on as it is.
	Update(fn func(StoreTx) error) error
	Close() error
}

// A StoreTx is a transaction. It is not used after the function that it was
// given to has returned, nor are the keys and values that it has given out.
type StoreTx interface {
	// ID numbers transactions: that of a View is that of the last Update that it
	// sees, that of an Update is one more than the last that took effect.
	ID() int
	// Make makes a bucket where it is missing; only in an Update.
	Make(name []byte) error
	Bucket(name []byte) Bucket // that has been made
}

// A Bucket is an ordered map, and a number that counts up. Keys are not empty.
// What it gives out is not to be changed, nor is what it was given before the
// transaction ends.
type Bucket interface {
	Get(key []byte) []byte // nil where there is none
	Put(key, value []byte) error
	Delete(key []byte) error // of what is not there is no error
	Cursor() Iterator
	Count() int // in an Update: when that began
	Sequence() uint64
	NextSequence() (uint64, error) // counts up and gives the new number
	SetSequence(n uint64) error    // counts on from n
}

// An Iterator goes through a bucket in the order of the keys. A change to the
// bucket ends it, until the next Seek. At the end the key is nil.
type Iterator interface {
	Seek(key []byte) (k, v []byte) // the first that is not less; nil: the first of all
	Next() (k, v []byte)
}
