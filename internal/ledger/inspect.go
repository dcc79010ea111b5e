package ledger

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"ferry/internal/transfer"
)

// The file format of bbolt, as its own sources have it (go.etcd.io/bbolt
// internal/common), integers in the order of the host's bytes:
//
//	page     8 number  2 flags  2 count  4 further pages that belong to it
//	head     (pages 0 and 1, behind that) 4 magic  4 version  4 page size
//	         4 flags  8 root page  8 sequence  8 free list's page
//	         8 number of pages  8 transaction  8 FNV-1a of all before
//	branch   count times: 4 position  4 size of the key  8 page
//	leaf     count times: 4 flags  4 position  4 size of the key
//	         4 size of the value
//	bucket   (a leaf's value, flag 1) 8 root page  8 sequence, and, where the
//	         root page is 0, a leaf page in place
//
// A position counts from the beginning of its entry.
const (
	pageHead   = 16
	entrySize  = 16
	bucketHead = 16
	headSize   = 64

	flagBranch, flagLeaf, flagHead = 1, 2, 4

	boltMagic   = 0xED0CDAED
	boltVersion = 2

	maxDepth = 64
)

var order = binary.NativeEndian

// inspectBolt reads the database from its first page to its last and refuses a page that differs from the written one.
// The database itself would panic, or believe the damage. If the newer of its two heads is damaged, it would go back by
// a transaction that had been acknowledged. inspectBolt repairs nothing. born is false if there is no database at all.
//
// bbolt's own Tx.Check does not replace it: Tx.Check follows a page's number before it checks that the page exists, in
// a goroutine of its own, so that a fault there ends the process. Of 217 changes of TestDamageIsFound that inspectBolt
// refuses, Tx.Check reports 27, sees nothing in 96, and ends the process in 94 (bbolt 1.5).
func inspectBolt(file string, patience time.Duration) (born bool, err error) {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, transfer.Errorf(transfer.KindInternal, "the ledger %s cannot be opened: %w", file, err).WithHint("let the agent's user read and write it")
	}
	defer f.Close()

	if born, err := databaseExists(f); err != nil || !born {
		return false, err
	}

	if otherByteOrder(f) {
		return true, transfer.Errorf(transfer.KindInternal, "the ledger %s was written by a host with the other byte order, and this host cannot read it", file).
			WithHint("start the agent on a host of the kind that it ran on, or give it a state directory of its own here")
	}

	return true, (&boltStore{file: file}).inspect(context.Background(), f, patience)
}

// A storedFile is an open file of a database.
type storedFile interface {
	io.ReaderAt
	Stat() (fs.FileInfo, error)
	Close() error
}

// inspect checks the pages of a file that has a database, until ctx ends.
func (s *boltStore) inspect(ctx context.Context, f storedFile, patience time.Duration) (err error) {
	// An open for reading keeps writers out, and fails rarely.
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer s.guard(&err)
	db, err := bolt.Open(s.file, 0o600, &bolt.Options{ReadOnly: true, Timeout: patience})
	if errors.Is(err, berrors.ErrTimeout) {
		return s.inUse()
	}
	if err != nil {
		return s.damaged(err)
	}
	defer db.Close()

	info, err := f.Stat()
	if err == nil {
		err = inspectPages(endingReader{ctx, f}, info.Size())
	}
	if err != nil {
		return s.damaged(err)
	}
	return nil
}

// otherByteOrder reports whether a database begins with numbers in the other byte order.
func otherByteOrder(f io.ReaderAt) bool {
	head := make([]byte, pageHead+8)
	if _, err := f.ReadAt(head, 0); err != nil {
		return false
	}
	other := func(at int) uint32 { return bits.ReverseBytes32(order.Uint32(head[at:])) }
	return other(pageHead) == boltMagic && other(pageHead+4) == boltVersion
}

// databaseExists reports whether there is a database. A power cut during its making can leave a file of the right size
// without contents.
func databaseExists(f storedFile) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return false, err
	}

	if info.Size() > int64(4*os.Getpagesize()) {
		return true, nil
	}

	data := make([]byte, info.Size())
	if _, err := f.ReadAt(data, 0); err != nil {
		return true, err
	}

	if len(bytes.Trim(data, "\x00")) > 0 {
		return true, nil
	}
	return false, nil
}

// inspectPages checks a whole database.
func inspectPages(f io.ReaderAt, bytes int64) error {
	in := &inspection{f: f, bytes: uint64(bytes)}
	if err := in.heads(); err != nil {
		return err
	}
	in.seen = make([]uint64, in.pages/64+1)
	return in.tree(order.Uint64(in.newest[16:]), nil, nil, nil, 0)
}

// An inspection goes through a database once. It holds the pages from the root to its present position.
type inspection struct {
	f      io.ReaderAt
	bytes  uint64 // of the file
	size   uint64 // of a page
	pages  uint64 // of the database
	newest []byte // the valid head with the newest transaction
	seen   []uint64
}

func (in *inspection) read(at, n uint64) ([]byte, error) {
	if n > in.bytes || at > in.bytes-n {
		return nil, fmt.Errorf("it ends after %d bytes", in.bytes)
	}
	b := make([]byte, n)
	_, err := in.f.ReadAt(b, int64(at))
	return b, err
}

// heads checks both heads: after every transaction both are good.
func (in *inspection) heads() error {
	first, err := in.read(0, pageHead+headSize)
	if err != nil {
		return err
	}

	if in.size = uint64(order.Uint32(first[pageHead+8:])); in.size < 512 || in.size > 1<<20 {
		return errors.New("page 0 is damaged")
	}

	var last uint64
	for n := range uint64(2) {
		page, err := in.read(n*in.size, pageHead+headSize)
		if err != nil {
			return err
		}
		h := page[pageHead:]
		sum := fnv.New64a()
		sum.Write(h[:56])
		if order.Uint64(page) != n || order.Uint16(page[8:])&flagHead == 0 || order.Uint32(h) != boltMagic || order.Uint32(h[4:]) != boltVersion ||
			order.Uint64(h[56:]) != sum.Sum64() || uint64(order.Uint32(h[8:])) != in.size {
			return fmt.Errorf("page %d is damaged, and the last transaction is unknown", n)
		}
		if tx := order.Uint64(h[48:]); in.newest == nil || tx > last {
			in.newest, last = h, tx
		}
	}

	in.pages = order.Uint64(in.newest[40:])
	if in.pages > in.bytes/in.size {
		return fmt.Errorf("it has %d bytes, and its %d pages need %d", in.bytes, in.pages, in.pages*in.size)
	}
	return nil
}

// page returns a page with its further pages. Each page may be met only once.
func (in *inspection) page(id uint64) ([]byte, error) {
	if id < 2 || id >= in.pages {
		return nil, fmt.Errorf("page %d is asked for, and there are %d", id, in.pages)
	}

	p, err := in.read(id*in.size, in.size)
	if err != nil {
		return nil, err
	}

	if order.Uint64(p) != id {
		return nil, fmt.Errorf("page %d says that it is page %d", id, order.Uint64(p))
	}

	more := uint64(order.Uint32(p[12:]))
	if more >= in.pages-id {
		return nil, fmt.Errorf("page %d goes on beyond the end", id)
	}

	for n := id; n <= id+more; n++ {
		if in.seen[n/64]&(1<<(n%64)) != 0 {
			return nil, fmt.Errorf("page %d is in use twice", n)
		}
		in.seen[n/64] |= 1 << (n % 64)
	}

	if more == 0 {
		return p, nil
	}
	return in.read(id*in.size, (more+1)*in.size)
}

// tree checks a page and all pages below it. Its keys are not less than from, and less than to unless to is nil. bucket
// is nil in the tree of buckets.
func (in *inspection) tree(id uint64, bucket, from, to []byte, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("page %d is %d levels deep", id, depth)
	}
	p, err := in.page(id)
	if err != nil {
		return err
	}
	return in.entries(p, id, bucket, from, to, depth)
}

// entries checks the entries of a page, which may stand in a bucket's value.
func (in *inspection) entries(p []byte, id uint64, bucket, from, to []byte, depth int) error {
	flags, count := order.Uint16(p[8:]), int(order.Uint16(p[10:]))
	if flags != flagBranch && flags != flagLeaf || pageHead+count*entrySize > len(p) || flags == flagBranch && count == 0 {
		return fmt.Errorf("page %d is no page of records", id)
	}

	var keys, values [][]byte
	var kinds []uint32
	var below []uint64
	for n := range count {
		at := pageHead + n*entrySize
		e := p[at:]
		pos, ksize, vsize, kind := order.Uint32(e), order.Uint32(e[4:]), uint32(0), uint32(0)
		if flags == flagLeaf {
			kind, pos, ksize, vsize = order.Uint32(e), order.Uint32(e[4:]), order.Uint32(e[8:]), order.Uint32(e[12:])
		} else {
			below = append(below, order.Uint64(e[8:]))
		}
		begin, end := uint64(at)+uint64(pos), uint64(at)+uint64(pos)+uint64(ksize)+uint64(vsize)
		if int(pos) < (count-n)*entrySize || end > uint64(len(p)) {
			return fmt.Errorf("record %d on page %d lies outside of it", n, id)
		}
		key := p[begin : begin+uint64(ksize)]
		if n > 0 && bytes.Compare(keys[n-1], key) >= 0 || n == 0 && bytes.Compare(key, from) < 0 || to != nil && bytes.Compare(key, to) >= 0 {
			return fmt.Errorf("record %d on page %d is out of order", n, id)
		}
		keys, values, kinds = append(keys, key), append(values, p[begin+uint64(ksize):end]), append(kinds, kind)
	}

	for n := range count {
		var err error
		if flags == flagBranch {
			next := to
			if n+1 < count {
				next = keys[n+1]
			}
			err = in.tree(below[n], bucket, keys[n], next, depth+1)
		} else {
			err = in.record(id, bucket, keys[n], values[n], kinds[n], depth)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// record checks one record of a leaf: a bucket, or a value in a bucket.
func (in *inspection) record(id uint64, bucket, key, value []byte, kind uint32, depth int) error {
	switch {
	case bucket != nil && kind == 0:
		_, err := unsealed(bucket, key, value)
		return err
	case bucket != nil || kind != 1 || len(value) < bucketHead:
		return fmt.Errorf("page %d has a record of an unknown kind", id)
	}

	if root := order.Uint64(value); root != 0 {
		return in.tree(root, key, nil, nil, depth+1)
	}

	if len(value) < bucketHead+pageHead {
		return fmt.Errorf("the bucket %s is cut off", key)
	}
	return in.entries(value[bucketHead:], id, key, nil, nil, depth+1)
}
