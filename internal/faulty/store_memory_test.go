package faulty_test

import (
	"bytes"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"ferry/internal/faulty"
	"ferry/internal/ledger"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// caseRand returns a generator that depends on a name alone.
func caseRand(name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(h.Sum64(), 1))
}

// panics reports whether a call panics.
func panics(call func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	call()
	return false
}

// TestMemoryStoreIsStrict: calls that would break a real store panic here.
func TestMemoryStoreIsStrict(t *testing.T) {
	s := faulty.NewMemoryStore()
	name := []byte("b")
	var late ledger.Bucket
	must(t, s.Update(func(tx ledger.StoreTx) error {
		must(t, tx.Make(name))
		late = tx.Bucket(name)
		must(t, errors.Join(late.Put([]byte("1"), nil), late.Put([]byte("2"), nil)))
		c := late.Cursor()
		c.Seek(nil)
		must(t, late.Delete([]byte("1")))
		if !panics(func() { c.Next() }) {
			t.Error("an iterator goes on over a change")
		}
		if k, _ := c.Seek(nil); string(k) != "2" {
			t.Errorf("sought again it finds %q", k)
		}
		return nil
	}))
	if !panics(func() { late.Get([]byte("2")) }) {
		t.Error("a bucket is used after its transaction")
	}
	if !panics(func() { s.View(func(tx ledger.StoreTx) error { tx.Bucket([]byte("none")); return nil }) }) {
		t.Error("a bucket is there that was not made")
	}
}

func TestSnapshotsPartWays(t *testing.T) {
	s := faulty.NewMemoryStore()
	name, key := []byte("b"), []byte("k")
	set := func(s *faulty.MemoryStore, v string) {
		must(t, s.Update(func(tx ledger.StoreTx) error {
			return errors.Join(tx.Make(name), tx.Bucket(name).Put(key, []byte(v)))
		}))
	}
	get := func(s *faulty.MemoryStore) (v string) {
		must(t, s.View(func(tx ledger.StoreTx) error { v = string(tx.Bucket(name).Get(key)); return nil }))
		return v
	}
	set(s, "1")
	var during *faulty.MemoryStore
	must(t, s.Update(func(tx ledger.StoreTx) error {
		during = s.Snapshot()
		return tx.Bucket(name).Put(key, []byte("2"))
	}))
	after := s.Snapshot()
	set(after, "3")
	must(t, s.Close())
	if a, b, c := get(during), get(after), get(s.Snapshot()); a != "1" || b != "3" || c != "2" {
		t.Errorf("during %s, after %s, of the closed one %s", a, b, c)
	}
	if s.Size() != 1 {
		t.Errorf("it has %d records", s.Size())
	}
}

// crashes returns the contents that file a may have after a crash, by the number of their occurrences.
func crashes(f *faulty.MemoryFiles, times int) map[string]int {
	r := caseRand("crashes")
	seen := map[string]int{}
	for range times {
		if b := f.Crashed(r).Bytes("a"); b != nil {
			seen[string(b)]++
		} else {
			seen["none"]++
		}
	}
	return seen
}

func create(t *testing.T, files ledger.Files, name string) ledger.File {
	t.Helper()
	f, err := files.Create(name)
	must(t, err)
	return f
}

func TestCrashKeepsWhatIsSynced(t *testing.T) {
	m := faulty.NewMemoryFiles()
	f := create(t, m, "a")
	first := bytes.Repeat([]byte("a"), 5000)
	_, err := f.WriteAt(first, 0)
	must(t, errors.Join(err, f.Sync()))
	if seen := crashes(m, 50); seen["none"] == 0 || seen[string(first)] == 0 || len(seen) != 2 {
		t.Errorf("with the name not synced there are %d states", len(seen))
	}
	must(t, m.Sync())
	if seen := crashes(m, 50); len(seen) != 1 || seen[string(first)] != 50 {
		t.Errorf("with all synced there are %d states", len(seen))
	}
	second := bytes.Repeat([]byte("b"), 9000)
	_, err = f.WriteAt(second, 5000)
	must(t, err)
	whole := string(first) + string(second)
	seen := crashes(m, 2000)
	if seen[whole] == 0 || seen[string(first)] == 0 || seen[whole[:5120]] == 0 || seen[whole[:8192]] == 0 ||
		seen[whole[:5120]+string(make([]byte, 14000-5120))] == 0 || len(seen) < 100 {
		t.Errorf("there are only %d states of unsynced data", len(seen))
	}
	for state := range seen {
		if state[:5000] != string(first) {
			t.Fatal("a crash has removed synced data")
		}
	}
	if got := m.Killed().Bytes("a"); string(got) != whole {
		t.Error("the end of a process has removed its written data")
	}
	must(t, m.Remove("a"))
	if seen := crashes(m, 50); seen["none"] == 0 || seen["none"] == 50 {
		t.Errorf("a removal that is not synced is never undone, or always")
	}
}

// TestFailedSyncIsFinal: the next sync has nothing to do and succeeds, and the data of the failed one is lost.
func TestFailedSyncIsFinal(t *testing.T) {
	m := faulty.NewMemoryFiles()
	files := faulty.FaultyFiles{Files: m, Fault: &faulty.StoreFault{At: 4, Errno: syscall.EIO}}
	f := create(t, files, "a")
	must(t, files.Sync())
	_, err := f.WriteAt([]byte("lost"), 0)
	must(t, err)
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("the fourth call: %v", err)
	}
	must(t, f.Sync())
	if seen := crashes(m, 200); seen["lost"] == 200 {
		t.Error("a second sync has made durable the data of the failed one")
	}
	_, err = f.WriteAt([]byte("lost"), 0)
	must(t, errors.Join(err, f.Sync()))
	if seen := crashes(m, 200); seen["lost"] != 200 {
		t.Errorf("written again and synced, and not durable: %v", seen)
	}
}

func TestFaultsHitWhereTheyShould(t *testing.T) {
	for want, fault := range map[string]func() *faulty.StoreFault{
		"........": func() *faulty.StoreFault { return &faulty.StoreFault{} },
		".x......": func() *faulty.StoreFault { return &faulty.StoreFault{At: 2} },
		".xxx....": func() *faulty.StoreFault { return &faulty.StoreFault{At: 2, Count: 3} },
		"..xxxxxx": func() *faulty.StoreFault { return &faulty.StoreFault{At: 3, Count: -1} },
		".x..x..x": func() *faulty.StoreFault { return &faulty.StoreFault{At: 2, Every: 3} },
	} {
		for _, late := range []bool{false, true} {
			s := faulty.NewMemoryStore()
			must(t, s.Update(func(tx ledger.StoreTx) error { return tx.Make([]byte("b")) }))
			f := faulty.FaultyStore{Store: s, Fault: fault()}
			f.Fault.Errno, f.Fault.Late = syscall.ENOSPC, late
			got := ""
			for n := range byte(8) {
				was := s.Size()
				err := f.Update(func(tx ledger.StoreTx) error { return tx.Bucket([]byte("b")).Put([]byte{n}, nil) })
				switch {
				case err == nil:
					got += "."
				case errors.Is(err, syscall.ENOSPC):
					got += "x"
				}
				if took := s.Size() > was; took != (err == nil || late) {
					t.Errorf("call %d, late %v: error %v, took effect: %v", n+1, late, err, took)
				}
			}
			if trips := strings.Count(want, "x"); got != want || f.Fault.Trips() != int64(trips) || f.Fault.Calls() != 8 {
				t.Errorf("%s, want %s; %d failed of %d", got, want, f.Fault.Trips(), f.Fault.Calls())
			}
		}
	}
}
