package digest

import (
	"bytes"
	"errors"
	"hash"
	"io"
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

// sums waits for a digest's end.
func sums(r *Running) (string, error) {
	r.End()
	<-r.Done()
	return r.Content(), r.Err()
}

func TestRunningCutAnywhereResumesToTheSameSum(t *testing.T) {
	data := sample(700_000)
	for _, m := range []Method{XXH3, MD5, SHA256, None} {
		whole := NewRunning(m, nil)
		whole.Write(data)
		want, _ := sums(whole)
		for _, cuts := range [][]int{{1}, {65536}, {700_000}, {100, 300_000}, {5, 6, 7, 699_999}} {
			var segs []transfer.Segment
			at := 0
			for _, c := range cuts {
				r := Resume(m, nil, segs, nil)
				r.Write(data[at:c])
				segs, at = r.Prefix(), c
			}
			r := Resume(m, nil, segs, bytes.NewReader(data))
			for len(data[at:]) > 0 {
				n := min(100_000, len(data)-at)
				r.Write(data[at : at+n])
				at += n
			}
			if got, err := sums(r); err != nil || got != want {
				t.Errorf("%s cut at %v: %s, %v; want %s", m, cuts, got, err, want)
			}
		}
	}
}

func TestAChangedPrefixIsFound(t *testing.T) {
	data := sample(500_000)
	r := NewRunning(XXH3, nil)
	r.Write(data[:400_000])
	segs := r.Prefix()
	data[1234] ^= 1
	r = Resume(XXH3, nil, segs, bytes.NewReader(data))
	if _, err := sums(r); !errors.Is(err, ErrPrefix) {
		t.Fatalf("a flipped bit in the prefix gives %v", err)
	}
	r.Write(data[400_000:]) // no goroutine takes it, and Write does not wait
}

func TestAShortFileHasNoDigest(t *testing.T) {
	r := Resume(XXH3, nil, []transfer.Segment{{End: 20}}, bytes.NewReader(sample(10)))
	if _, err := sums(r); err == nil || errors.Is(err, ErrPrefix) {
		t.Fatalf("a file shorter than it should be: %v", err)
	}
}

// slowly is a reader that waits for permission.
type slowly struct {
	io.ReaderAt
	may   chan struct{}
	reads atomic.Int64
}

func (s *slowly) ReadAt(b []byte, off int64) (int, error) {
	<-s.may
	s.reads.Add(int64(len(b)))
	return s.ReaderAt.ReadAt(b, off)
}

// Bytes that are written while the prefix is read back are read back as well. Later bytes are not, and no more than the
// backlog of them waits in memory.
func TestResumeCatchesUp(t *testing.T) {
	data := sample(400_000)
	first := NewRunning(XXH3, nil)
	first.Write(data[:100_000])
	synctest.Test(t, func(t *testing.T) {
		file := &slowly{ReaderAt: bytes.NewReader(data), may: make(chan struct{})}
		log := NewBacklog(func() {})
		r := Resume(SHA256, log, first.Prefix(), file)
		r.Write(data[100_000:300_000])
		synctest.Wait()
		if file.reads.Load() != 0 || log.bytes.Load() != 0 {
			t.Error("what is to be read back waits in memory")
		}
		close(file.may)
		synctest.Wait()
		if file.reads.Load() != 300_000 {
			t.Errorf("%d bytes were read back, not 300,000", file.reads.Load())
		}
		r.Write(data[300_000:])
		got, err := sums(r)
		whole := NewRunning(SHA256, nil)
		whole.Write(data)
		want, _ := sums(whole)
		if err != nil || got != want || file.reads.Load() != 300_000 || log.bytes.Load() != 0 {
			t.Errorf("%s, %v; want %s; %d bytes read back, %d in the backlog", got, err, want, file.reads.Load(), log.bytes.Load())
		}
	})
}

// held is a digest that takes no bytes until it may.
type held struct {
	hash.Hash
	may chan struct{}
}

func (h held) Write(b []byte) (int, error) {
	<-h.may
	return h.Hash.Write(b)
}

func TestABacklogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		log := NewBacklog(func() { told.Add(1) })
		may := make(chan struct{})
		b := startBackground(log, held{MD5.New(), may}, nil, nil)
		data := sample(pieceSize)
		for n := 0; !log.Full(); n++ {
			if b.write(data, pieceSize); n > 2*backlogMost/pieceSize {
				t.Fatal("it is never full")
			}
		}
		close(may)
		synctest.Wait()
		if log.Full() || log.bytes.Load() != 0 || told.Load() != 1 {
			t.Errorf("%d bytes are left, and that there is room was said %d times", log.bytes.Load(), told.Load())
		}
		b.end()
		synctest.Wait()
		if told.Load() != 2 {
			t.Error("the end was not said")
		}
		b.stop()
	})
}

func TestStopLetsGoOfWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := NewBacklog(func() {})
		r := NewRunning(MD5, log)
		r.Write(sample(1 << 20))
		r.Zeros(1 << 20)
		r.Stop()
		r.Stop()
		r.Write(sample(10))
		if log.bytes.Load() != 0 || r.Err() == nil {
			t.Errorf("%d bytes are left; %v", log.bytes.Load(), r.Err())
		}
	})
}

func TestZerosAreBytes(t *testing.T) {
	a, b := NewRunning(SHA256, nil), NewRunning(SHA256, nil)
	a.Zeros(200_000)
	b.Write(make([]byte, 200_000))
	first, _ := sums(a)
	if second, _ := sums(b); first != second || a.At() != b.At() {
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
			for _, r := range []*Running{a, b, want, other} {
				sums(r)
			}
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
