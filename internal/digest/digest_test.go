package digest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"ferry/internal/transfer"
)

func sample(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return b
}

// Published test values: RFC 1321, FIPS 180-4, and xxHash's own for the empty input.
func TestKnownValues(t *testing.T) {
	for m, want := range map[Method]string{
		MD5:    "md5:900150983cd24fb0d6963f7d28e17f72",
		SHA256: "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
	} {
		h := m.New()
		h.Write([]byte("abc"))
		if got := m.Sum(h); got != want {
			t.Errorf("%s of abc = %s, want %s", m, got, want)
		}
	}
	if got := XXH3.Sum(XXH3.New()); got != "xxh3:99aa06d3014798d86001c324468d497f" {
		t.Errorf("xxh3 of nothing = %s", got)
	}
}

func TestRunningCutAnywhereFollowsToTheSameSum(t *testing.T) {
	data := sample(700_000)
	for _, m := range []Method{XXH3, MD5, SHA256, None} {
		whole := NewRunning(m, nil)
		whole.Write(data)
		want := whole.Content()
		for _, cuts := range [][]int{{1}, {65536}, {700_000}, {100, 300_000}, {5, 6, 7, 699_999}} {
			var segs []transfer.Segment
			at := 0
			for _, c := range cuts {
				r := NewRunning(m, segs)
				r.Write(data[at:c])
				segs, at = r.Prefix(), c
			}
			f := Follow(bytes.NewReader(data), m, segs)
			f.Grow(int64(at))
			got, err := f.Finish(context.Background(), int64(len(data)))
			if err != nil || got != want {
				t.Errorf("%s cut at %v: %s, %v; want %s", m, cuts, got, err, want)
			}
		}
	}
}

func TestFollowerFindsAChangedPrefix(t *testing.T) {
	data := sample(500_000)
	r := NewRunning(XXH3, nil)
	r.Write(data[:400_000])
	segs := r.Prefix()
	data[1234] ^= 1
	f := Follow(bytes.NewReader(data), XXH3, segs)
	<-f.Checked()
	if !errors.Is(f.Err(), ErrPrefix) {
		t.Fatalf("a flipped bit in the prefix gives %v", f.Err())
	}
	if _, err := f.Finish(context.Background(), 500_000); !errors.Is(err, ErrPrefix) {
		t.Fatalf("Finish gives %v", err)
	}
}

func TestFollowerStopsAndReportsAShortFile(t *testing.T) {
	f := Follow(bytes.NewReader(sample(10)), XXH3, nil)
	f.Stop()
	f = Follow(bytes.NewReader(sample(10)), XXH3, nil)
	if _, err := f.Finish(context.Background(), 20); err == nil {
		t.Fatal("a file shorter than it should be has a digest")
	}
}

// seen counts reads.
type seen struct {
	*bytes.Reader
	reads atomic.Int64
}

func (s *seen) ReadAt(b []byte, off int64) (int, error) {
	s.reads.Add(1)
	return s.Reader.ReadAt(b, off)
}

// A Follower that has no hurry reads nothing of a small file before that has ended, and
// does not wait for the end of a large one.
func TestLaterWaits(t *testing.T) {
	data := sample(300_000)
	for _, large := range []bool{false, true} {
		r := &seen{Reader: bytes.NewReader(data)}
		synctest.Test(t, func(t *testing.T) {
			f := Later(r, MD5, 200_000)
			f.Grow(100_000)
			synctest.Wait()
			if r.reads.Load() != 0 {
				t.Error("it has started")
			}
			if large {
				f.Grow(200_000)
				synctest.Wait()
				if r.reads.Load() == 0 {
					t.Error("it has not started")
				}
			}
			got, err := f.Finish(context.Background(), int64(len(data)))
			whole := NewRunning(MD5, nil)
			whole.Write(data)
			if err != nil || got != whole.Whole() {
				t.Errorf("%s, %v; want %s", got, err, whole.Whole())
			}
			Later(r, MD5, 200_000).Stop()
		})
	}
}

func TestZerosAreBytes(t *testing.T) {
	a, b := NewRunning(SHA256, nil), NewRunning(SHA256, nil)
	a.Zeros(200_000)
	b.Write(make([]byte, 200_000))
	if a.Content() != b.Content() || a.At() != b.At() {
		t.Fatal("a hole has another digest than the zeros that it stands for")
	}
}

func TestPrefixAtZeroIsEmpty(t *testing.T) {
	if p := NewRunning(XXH3, nil).Prefix(); len(p) != 0 {
		t.Fatalf("prefix of nothing: %v", p)
	}
}

func BenchmarkMessage256K(b *testing.B) {
	data := sample(256 << 10)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		Message(data)
	}
}

func TestCloneGoesItsOwnWay(t *testing.T) {
	data := sample(300_000)
	for _, m := range []Method{XXH3, MD5, SHA256, None} {
		for _, at := range []int{0, 1, 1000, 299_999} {
			a := NewRunning(m, nil)
			a.Write(data[:at])
			b := a.Clone()
			b.Write([]byte("something else"))
			a.Write(data[at:])
			want := NewRunning(m, nil)
			want.Write(data)
			other := NewRunning(m, nil)
			other.Write(data[:at])
			other.Write([]byte("something else"))
			if a.Content() != want.Content() || b.Content() != other.Content() || b.At() != other.At() {
				t.Errorf("%s cloned at %d gives another digest", m, at)
			}
		}
	}
}

func TestTailIsOfWhatCameSince(t *testing.T) {
	data := sample(100_000)
	a := NewRunning(SHA256, nil)
	a.Write(data[:40_000])
	b := a.Rebase()
	if a.Rebased() || !b.Rebased() {
		t.Error("which of them began after others' segments is not known")
	}
	b.Write(data[40_000:])
	tail := NewRunning(XXH3, nil)
	tail.Write(data[40_000:])
	if "xxh3:"+b.Tail() != tail.Whole() {
		t.Errorf("the tail is %s, not %s", b.Tail(), tail.Whole())
	}
}
