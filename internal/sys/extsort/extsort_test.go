package extsort

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

func sorted(t *testing.T, s *Sorter) (all []string) {
	t.Helper()
	o, err := s.Sorted()
	if err != nil {
		t.Fatal(err)
	}
	for {
		name, err := o.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, name)
	}
}

// All added strings come out in order, once for each time, with any memory.
func TestSorted(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		s := New(dir, int64(1+r.IntN(1<<r.IntN(14))))
		var want []string
		for range r.IntN(3000) {
			b := make([]byte, 1+r.IntN(8))
			for i := range b {
				b[i] = byte(r.UintN(256))
			}
			want = append(want, string(b))
			if err := s.Add(string(b)); err != nil {
				t.Fatal(err)
			}
		}
		slices.Sort(want)
		if got := sorted(t, s); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d names came out of %d, or not in order", seed, len(got), len(want))
		}
		s.Close()
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Fatalf("seed %d: %v is left", seed, left[0])
		}
	}
}

// Strings that fit into memory make no file, and neither does a sorter without a directory.
func TestInMemory(t *testing.T) {
	dir := t.TempDir()
	for _, s := range []*Sorter{New(dir, 1<<20), New("", 1)} {
		for i := range 100 {
			if err := s.Add(fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(sorted(t, s)); n != 100 {
			t.Errorf("%d names of 100", n)
		}
		if files, _ := os.ReadDir(dir); len(files) > 0 {
			t.Errorf("%v was made", files[0])
		}
	}
}

// A file that has changed since it was written is an error, not another order.
func TestDamaged(t *testing.T) {
	for _, harm := range []func(f *os.File) error{
		func(f *os.File) error { return f.Truncate(int64(len(magic)) + 3) },
		func(f *os.File) error {
			_, err := f.WriteAt(bytes.Repeat([]byte{0xff}, 9), int64(len(magic)))
			return err
		},
	} {
		s := New(t.TempDir(), 64)
		for i := range 100 {
			if err := s.Add(fmt.Sprintf("a name of some length, %d", i)); err != nil {
				t.Fatal(err)
			}
		}
		if err := harm(s.f); err != nil {
			t.Fatal(err)
		}
		o, err := s.Sorted()
		for n := 0; err == nil; n++ {
			if n > 100 {
				t.Fatal("there is no end")
			}
			_, err = o.Next()
		}
		if err == io.EOF {
			t.Error("the damage was not noticed")
		}
		s.Close()
	}
}

// Where the file cannot be made that is an error.
func TestNoPlace(t *testing.T) {
	s := New(t.TempDir()+"/gone", 1)
	if err := s.Add("a"); !os.IsNotExist(err) {
		t.Errorf("it is %v", err)
	}
	s.Close()
}

// Clear removes the leftovers of a crash.
func TestClear(t *testing.T) {
	dir := t.TempDir() + "/names"
	for range 2 {
		if err := Clear(dir); err != nil {
			t.Fatal(err)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
			t.Fatalf("%v, %v", files, err)
		}
		s := New(dir, 1)
		if err := s.Add("a"); err != nil {
			t.Fatal(err)
		}
		s.f.Close()
	}
}

func BenchmarkSmall(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 1))
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprintf("file-%08x.dat", r.Uint32())
	}
	b.ReportAllocs()
	b.Run("sorter", func(b *testing.B) {
		for b.Loop() {
			s := New("/nowhere", 2<<20)
			for _, n := range names {
				s.Add(n)
			}
			o, _ := s.Sorted()
			for _, err := o.Next(); err == nil; _, err = o.Next() {
			}
		}
	})
	b.Run("slice", func(b *testing.B) {
		for b.Loop() {
			all := append([]string(nil), names...)
			slices.Sort(all)
		}
	})
}
