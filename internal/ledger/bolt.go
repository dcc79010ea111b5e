package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"ferry/internal/sys/filelock"
	"ferry/internal/transfer"
)

// boltStore is the Store of every real ledger: the file ledger.db. Every value in it ends with a CRC-32C (big-endian)
// of its bucket's name, a zero byte, its key and itself. The database has no checksums of its own except those of its
// two heads, and a flipped bit in an offset must not go unnoticed.
type boltStore struct {
	db    *bolt.DB
	file  string
	cache bool // of OpenCache: no ledger
}

// bSequences holds the sequence numbers of buckets, by their names: the database's own numbers have no checksum.
var bSequences = []byte("sequences")

const damagedHint = "move the whole directory aside to begin anew: outcomes of transfers under way are then unknown"

func damaged(file string, why error) *transfer.Error {
	return transfer.Errorf(transfer.KindInternal, "the ledger %s is damaged: %w", file, why).WithHint(damagedHint)
}

// lost returns the error of an empty or missing ledger beside a trace that only a ledger leaves.
func lost(file, trace string) *transfer.Error {
	return transfer.Errorf(transfer.KindInternal, "the ledger %s is lost: nothing is left of it, and %s shows that there was one", file, trace).
		WithHint(damagedHint)
}

// openBolt opens the database in dir. It waits up to patience while another process has it. It first reads and checks
// the whole database. It makes a missing one, unless a trace in dir shows that there was one.
func openBolt(dir string, patience time.Duration) (Store, error) {
	file := filepath.Join(dir, storeName)
	born, err := inspectBolt(file, patience)
	if err != nil {
		return nil, err
	}

	if !born {
		if err := checkNoLedger(dir, file); err != nil {
			return nil, err
		}
	}

	db, err := bolt.Open(file, 0o600, &bolt.Options{Timeout: patience, FreelistType: bolt.FreelistMapType, NoFreelistSync: true})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, inUse(file)
	case err != nil:
		return nil, transfer.Errorf(transfer.KindInternal, "the ledger %s cannot be opened: %w", file, err).WithHint(damagedHint)
	}
	return &boltStore{db: db, file: file}, nil
}

// checkNoLedger checks that a database may be begun, and removes the remains of an attempt before a power cut. It holds
// the lock of the database meanwhile: another process may be making one.
func checkNoLedger(dir, file string) error {
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return refuseEarlierLedger(dir, file)
	}

	lock, err := filelock.Take(file)
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return inUse(file)
	case err != nil:
		return cannotMake(file, err)
	}
	defer lock.Close()

	f, err := os.Open(file)
	if err != nil {
		return cannotMake(file, err)
	}

	born, err := databaseExists(f)
	f.Close()
	if err == nil && !born {
		if err := refuseEarlierLedger(dir, file); err != nil {
			return err
		}
		err = os.Truncate(file, 0)
	}
	if err != nil {
		return cannotMake(file, err)
	}
	return nil
}

func cannotMake(file string, err error) *transfer.Error {
	return transfer.Errorf(transfer.KindUnwritable, "the ledger %s cannot be made: %w", file, err)
}

// refuseEarlierLedger refuses a directory that has had a ledger.
func refuseEarlierLedger(dir, file string) error {
	found, err := earlierLedger(dir)
	if err != nil {
		return transfer.Errorf(transfer.KindInternal, "the ledger's directory %s cannot be read: %w", dir, err)
	}
	if found != "" {
		return lost(file, found)
	}
	return nil
}

// earlierLedger returns a file in a ledger's directory that proves an earlier ledger: the reserve, or an item journal.
// Empty: there is none.
func earlierLedger(dir string) (string, error) {
	reserve := filepath.Join(dir, reserveName)
	if _, err := os.Lstat(reserve); !errors.Is(err, fs.ErrNotExist) {
		return reserve, err
	}

	journals, err := os.ReadDir(filepath.Join(dir, "items"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}

	for _, j := range journals {
		if _, err := transfer.ParseID(j.Name()); err == nil {
			return filepath.Join(dir, "items", j.Name()), nil
		}
	}
	return "", err
}

func inUse(file string) *transfer.Error {
	return transfer.Errorf(transfer.KindAlive, "the ledger %s is in use by another process", file).
		WithHint("stop the other agent, or give this one a state directory of its own")
}

func (s *boltStore) damaged(why error) error {
	switch {
	case s.cache && notRead(why):
		return unreadCache(s.file, why)
	case s.cache:
		return damagedCache(s.file, why)
	}
	return damaged(s.file, why)
}

func (s *boltStore) inUse() error {
	if s.cache {
		return cacheInUse(s.file)
	}
	return inUse(s.file)
}

func (s *boltStore) View(fn func(StoreTx) error) error { return s.run(s.db.View, fn) }

func (s *boltStore) Update(fn func(StoreTx) error) error { return s.run(s.db.Update, fn) }

// run runs a transaction. If the transaction meets damage, run returns the damage as its error, also when fn returns
// none.
func (s *boltStore) run(do func(func(*bolt.Tx) error) error, fn func(StoreTx) error) (err error) {
	old := debug.SetPanicOnFault(true) // the file is mapped, and its end may be gone
	defer debug.SetPanicOnFault(old)
	defer s.guard(&err)
	return do(func(tx *bolt.Tx) error {
		t := &boltTx{tx: tx}
		err := fn(t)
		if t.bad != nil {
			return s.damaged(t.bad)
		}
		return err
	})
}

// guard turns a panic of the database, which panics at damage, into an error. A panic of fn continues.
func (s *boltStore) guard(err *error) {
	p := recover()
	if p == nil {
		return
	}
	_, fault := p.(interface{ Addr() uintptr })
	if !fault && !panicIn(string(debug.Stack()), "go.etcd.io/bbolt") {
		panic(p)
	}
	*err = s.damaged(fmt.Errorf("%v", p))
}

// panicIn reports whether a stack shows that a panic began in a package: in the
// function below the runtime's own.
func panicIn(stack, pkg string) bool {
	_, below, _ := strings.Cut(stack, "\npanic(")
	for line := range strings.Lines(below) {
		if strings.HasPrefix(line, "\t") || !strings.Contains(line, "(") || strings.HasPrefix(line, "runtime.") || strings.HasPrefix(line, "panic(") {
			continue
		}
		if line[0] == '{' || line[0] == '0' { // the rest of panic's own arguments
			continue
		}
		return strings.HasPrefix(line, pkg)
	}
	return false
}

func (s *boltStore) Close() error { return s.db.Close() }

type boltTx struct {
	tx  *bolt.Tx
	bad error // damage found so far
}

func (t *boltTx) ID() int { return t.tx.ID() }

func (t *boltTx) Bucket(name []byte) Bucket { return &boltBucket{t, t.tx.Bucket(name), name} }

func (t *boltTx) Make(name []byte) error {
	for _, n := range [][]byte{name, bSequences} {
		if _, err := t.tx.CreateBucketIfNotExists(n); err != nil {
			return err
		}
	}
	return nil
}

type boltBucket struct {
	tx   *boltTx
	b    *bolt.Bucket
	name []byte
}

// valueSum returns the checksum at the end of a value.
func valueSum(bucket, key, value []byte) uint32 {
	sum := crc32.Update(0, castagnoli, bucket)
	sum = crc32.Update(sum, castagnoli, []byte{0})
	sum = crc32.Update(sum, castagnoli, key)
	return crc32.Update(sum, castagnoli, value)
}

// unsealed checks and removes the checksum of a value.
func unsealed(bucket, key, sealed []byte) ([]byte, error) {
	n := len(sealed) - 4
	if n < 0 || binary.BigEndian.Uint32(sealed[n:]) != valueSum(bucket, key, sealed[:n]) {
		return nil, fmt.Errorf("the record %x of %s has a wrong checksum", key, bucket)
	}
	return sealed[:n:n], nil
}

// open removes the checksum. If it is wrong, open records that, and the transaction fails.
func (b *boltBucket) open(key, sealed []byte) []byte {
	v, err := unsealed(b.name, key, sealed)
	if err != nil && b.tx.bad == nil {
		b.tx.bad = err
	}
	return v
}

func (b *boltBucket) Get(key []byte) []byte {
	sealed := b.b.Get(key)
	if sealed == nil {
		return nil
	}
	return b.open(key, sealed)
}

func (b *boltBucket) Put(key, value []byte) error {
	sealed := make([]byte, 0, len(value)+4)
	sealed = binary.BigEndian.AppendUint32(append(sealed, value...), valueSum(b.name, key, value))
	return b.b.Put(key, sealed)
}

func (b *boltBucket) Delete(key []byte) error { return b.b.Delete(key) }
func (b *boltBucket) Count() int              { return b.b.Stats().KeyN }
func (b *boltBucket) Cursor() Iterator        { return &boltCursor{b, b.b.Cursor()} }

func (b *boltBucket) Sequence() uint64 {
	if v := b.tx.Bucket(bSequences).Get(b.name); len(v) == 8 {
		return binary.BigEndian.Uint64(v)
	}
	return 0
}

func (b *boltBucket) NextSequence() (uint64, error) {
	n := b.Sequence() + 1
	return n, b.SetSequence(n)
}

func (b *boltBucket) SetSequence(n uint64) error {
	return b.tx.Bucket(bSequences).Put(b.name, binary.BigEndian.AppendUint64(nil, n))
}

type boltCursor struct {
	b *boltBucket
	c *bolt.Cursor
}

func (c *boltCursor) Seek(key []byte) (k, v []byte) { return c.withoutSum(c.c.Seek(key)) }
func (c *boltCursor) Next() (k, v []byte)           { return c.withoutSum(c.c.Next()) }

// withoutSum returns a key and its value, and ends the iteration at damage.
func (c *boltCursor) withoutSum(k, sealed []byte) (key, v []byte) {
	if k == nil {
		return nil, nil
	}
	if v = c.b.open(k, sealed); c.b.tx.bad != nil {
		return nil, nil
	}
	return k, v
}
