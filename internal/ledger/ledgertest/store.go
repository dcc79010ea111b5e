package ledgertest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"ferry/internal/ledger"
)

var (
	one = []byte("one")
	two = []byte("two")
)

// RunStore holds stores to their contract. place gives each test the function that opens an empty store: the first
// time, and again after Close.
func RunStore(t *testing.T, place func(*testing.T) func() (ledger.Store, error)) {
	for _, c := range []struct {
		name string
		test func(*testing.T, func() (ledger.Store, error))
	}{
		{"values come back as they were", storeValues},
		{"a refused transaction changes nothing", storeRefused},
		{"transactions are numbered", storeIDs},
		{"a view stands still", storeViews},
		{"iterators go in order", storeIterates},
		{"sequences go on", storeSequence},
		{"it behaves as a map", storeModel},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, place(t)) })
	}
}

// opened opens a store with the buckets one and two in it.
func opened(t testing.TB, open func() (ledger.Store, error)) ledger.Store {
	t.Helper()
	s, err := open()
	must(t, err)
	t.Cleanup(func() { s.Close() })
	must(t, s.Update(func(tx ledger.StoreTx) error { return errors.Join(tx.Make(one), tx.Make(two), tx.Make(one)) }))
	return s
}

func put(t testing.TB, s ledger.Store, pairs ...string) {
	t.Helper()
	must(t, s.Update(func(tx ledger.StoreTx) error {
		for n := 0; n < len(pairs); n += 2 {
			if err := tx.Bucket(one).Put([]byte(pairs[n]), []byte(pairs[n+1])); err != nil {
				return err
			}
		}
		return nil
	}))
}

// all returns the keys and values of a bucket, by an iterator.
func all(b ledger.Bucket) (pairs []string) {
	c := b.Cursor()
	for k, v := c.Seek(nil); k != nil; k, v = c.Next() {
		pairs = append(pairs, string(k), string(v))
	}
	return pairs
}

func holds(t testing.TB, s ledger.Store, pairs ...string) {
	t.Helper()
	must(t, s.View(func(tx ledger.StoreTx) error {
		if got := all(tx.Bucket(one)); !slices.Equal(got, pairs) {
			t.Errorf("it holds %q, want %q", got, pairs)
		}
		if n := tx.Bucket(one).Count(); n != len(pairs)/2 {
			t.Errorf("it counts %d, want %d", n, len(pairs)/2)
		}
		return nil
	}))
}

func storeValues(t *testing.T, open func() (ledger.Store, error)) {
	s := opened(t, open)
	long := string(bytes.Repeat([]byte("x"), 100_000))
	put(t, s, "b", "2", "a", "1", "c", "", "\x00\xff", long, "a", "11")
	for range 2 {
		holds(t, s, "\x00\xff", long, "a", "11", "b", "2", "c", "")
		must(t, s.View(func(tx ledger.StoreTx) error {
			b := tx.Bucket(one)
			if v := b.Get([]byte("c")); v == nil || len(v) > 0 {
				t.Errorf("an empty value is %v", v)
			}
			for _, k := range []string{"d", "aa", "\x00"} {
				if v := b.Get([]byte(k)); v != nil {
					t.Errorf("%q has value %q", k, v)
				}
			}
			if got := all(tx.Bucket(two)); got != nil {
				t.Errorf("the other bucket has %q", got)
			}
			if err := b.Put([]byte("x"), nil); err == nil {
				t.Error("a view writes")
			}
			if _, err := b.NextSequence(); err == nil {
				t.Error("a view counts")
			}
			return nil
		}))
		must(t, s.Close())
		if err := s.Update(func(ledger.StoreTx) error { return nil }); err == nil {
			t.Error("a closed store is updated")
		}
		if err := s.View(func(ledger.StoreTx) error { return nil }); err == nil {
			t.Error("a closed store is viewed")
		}
		s = opened(t, open)
	}

	must(t, s.Update(func(tx ledger.StoreTx) error {
		b := tx.Bucket(one)
		for _, k := range []string{"b", "b", "never"} {
			if err := b.Delete([]byte(k)); err != nil {
				return err
			}
		}
		if err := b.Put(nil, []byte("v")); err == nil {
			t.Error("an empty key is taken")
		}
		return nil
	}))
	holds(t, s, "\x00\xff", long, "a", "11", "c", "")
	// Slices given to a store belong to the caller again after the transaction.
	k, v := []byte("k"), []byte("v")
	must(t, s.Update(func(tx ledger.StoreTx) error { return tx.Bucket(one).Put(k, v) }))
	k[0], v[0] = 'z', 'z'
	holds(t, s, "\x00\xff", long, "a", "11", "c", "", "k", "v")
}

func storeRefused(t *testing.T, open func() (ledger.Store, error)) {
	s := opened(t, open)
	put(t, s, "a", "1", "b", "2")
	no := errors.New("no")
	err := s.Update(func(tx ledger.StoreTx) error {
		b := tx.Bucket(one)
		if _, err := b.NextSequence(); err != nil {
			t.Error(err)
		}
		if err := errors.Join(b.Put([]byte("a"), []byte("9")), b.Delete([]byte("b")), b.Put([]byte("c"), nil), tx.Make([]byte("three"))); err != nil {
			t.Error(err)
		}
		if got := all(b); !slices.Equal(got, []string{"a", "9", "c", ""}) {
			t.Errorf("a transaction does not see its own writes: %q", got)
		}
		return no
	})
	if err != no {
		t.Errorf("the error has become %v", err)
	}

	holds(t, s, "a", "1", "b", "2")
	if err := s.View(func(tx ledger.StoreTx) error {
		if n := tx.Bucket(one).Sequence(); n != 0 {
			t.Errorf("the sequence is %d", n)
		}
		return no
	}); err != no {
		t.Errorf("the error of a view has become %v", err)
	}
}

func storeIDs(t *testing.T, open func() (ledger.Store, error)) {
	s := opened(t, open)
	seen := func() (id int) {
		must(t, s.View(func(tx ledger.StoreTx) error { id = tx.ID(); return nil }))
		return id
	}
	for n := range 5 {
		was, own := seen(), 0
		err := s.Update(func(tx ledger.StoreTx) error {
			own = tx.ID()
			if n%2 == 1 {
				return errors.New("no")
			}
			return nil
		})
		if want := was + (n+1)%2; own != was+1 || seen() != want {
			t.Errorf("after %d an update was %d and left %d, error %v", was, own, seen(), err)
		}
	}

	last := seen()
	must(t, s.Close())
	s, err := open()
	must(t, err)
	defer s.Close()
	if now := seen(); now < last {
		t.Errorf("closed at %d, opened at %d", last, now)
	}
}

// storeViews checks that a view sees one state during concurrent updates, and that no view sees an update before its
// end.
func storeViews(t *testing.T, open func() (ledger.Store, error)) {
	s := opened(t, open)
	put(t, s, "a", "1")
	must(t, s.View(func(tx ledger.StoreTx) error {
		before := all(tx.Bucket(one))
		done := make(chan error)
		go func() {
			done <- s.Update(func(w ledger.StoreTx) error {
				err := w.Bucket(one).Put([]byte("a"), []byte("2"))
				holds(t, s, "a", "1")
				return err
			})
		}()
		must(t, <-done)
		if got := all(tx.Bucket(one)); !slices.Equal(got, before) {
			t.Errorf("a view saw %q and then %q", before, got)
		}
		return nil
	}))
	holds(t, s, "a", "2")
}

func storeIterates(t *testing.T, open func() (ledger.Store, error)) {
	s := opened(t, open)
	must(t, s.View(func(tx ledger.StoreTx) error {
		if k, _ := tx.Bucket(one).Cursor().Seek(nil); k != nil {
			t.Errorf("the first of nothing is %q", k)
		}
		return nil
	}))
	for n := range 500 { // more than one page of any store
		put(t, s, fmt.Sprintf("%04d", 2*n), fmt.Sprint(n))
	}

	must(t, s.Update(func(tx ledger.StoreTx) error {
		b := tx.Bucket(one)
		c := b.Cursor()
		for seek, want := range map[string]string{"0000": "0000", "0001": "0002", "0500": "0500", "0501": "0502", "0998": "0998", "0999": "", "": "0000"} {
			if k, _ := c.Seek([]byte(seek)); string(k) != want {
				t.Errorf("at or behind %q is %q", seek, k)
			}
		}
		k, _ := c.Seek([]byte("0996"))
		for _, want := range []string{"0996", "0998", "", ""} {
			if string(k) != want {
				t.Errorf("next is %q, want %q", k, want)
			}
			k, _ = c.Next()
		}
		// Deleting each found key and seeking again meets each key once.
		n := 0
		for k, _ := c.Seek([]byte("02")); k != nil && k[1] == '2'; k, _ = c.Seek([]byte("02")) {
			n++
			if err := b.Delete(k); err != nil {
				return err
			}
		}
		if left := len(all(b)) / 2; n != 50 || left != 450 || b.Count() != 500 {
			t.Errorf("%d were taken away, %d are left, and there were %d", n, left, b.Count())
		}
		return nil
	}))
}

func storeSequence(t *testing.T, open func() (ledger.Store, error)) {
	s := opened(t, open)
	for want := range uint64(6) {
		must(t, s.Update(func(tx ledger.StoreTx) error {
			b := tx.Bucket(one)
			n, err := b.NextSequence()
			if n != want+1 || b.Sequence() != n || tx.Bucket(two).Sequence() != 0 {
				t.Errorf("after %d comes %d", want, n)
			}
			return errors.Join(err, b.Put([]byte("k"), nil), b.Delete([]byte("k")))
		}))
		if want == 3 {
			must(t, s.Close())
			s = opened(t, open)
		}
	}
	must(t, s.Update(func(tx ledger.StoreTx) error { return tx.Bucket(one).SetSequence(1 << 40) }))
	must(t, s.Close())
	s = opened(t, open)
	must(t, s.Update(func(tx ledger.StoreTx) error {
		if n, err := tx.Bucket(one).NextSequence(); n != 1<<40+1 || err != nil {
			t.Errorf("after a number that was set comes %d, %v", n, err)
		}
		return nil
	}))
}

// storeModel compares a store with a map over random transactions, some of them refused, and over openings.
func storeModel(t *testing.T, open func() (ledger.Store, error)) {
	r := rand.New(rand.NewPCG(1, 2))
	s := opened(t, open)
	model := map[string]string{}
	for n := range 300 {
		next, no := maps.Clone(model), error(nil)
		err := s.Update(func(tx ledger.StoreTx) error {
			b := tx.Bucket(one)
			for range r.IntN(20) {
				k := fmt.Sprint(r.IntN(200))
				if r.IntN(3) == 0 {
					delete(next, k)
					must(t, b.Delete([]byte(k)))
				} else {
					v := string(bytes.Repeat([]byte{byte(n)}, r.IntN(300)))
					next[k] = v
					must(t, b.Put([]byte(k), []byte(v)))
				}
			}
			if r.IntN(5) == 0 {
				no = errors.New("no")
			}
			return no
		})
		if err != no {
			t.Fatal(err)
		}
		if no == nil {
			model = next
		}
		if r.IntN(50) == 0 {
			must(t, s.Close())
			s = opened(t, open)
		}
		var want []string
		for _, k := range slices.Sorted(maps.Keys(model)) {
			want = append(want, k, model[k])
		}
		holds(t, s, want...)
	}
}
