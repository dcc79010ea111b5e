package digest

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// However many streams are written to at once, in pieces of any size, each has the
// digest of its own bytes, and so has a copy of it made in between.
func TestStreamsTogether(t *testing.T) {
	data := sample(3 << 20)
	for _, streams := range []int{1, 2, 3, few, few + 1, seats - 1, seats, seats + 1, 3 * seats} {
		var all sync.WaitGroup
		for n := range streams {
			all.Go(func() {
				random := rand.New(rand.NewPCG(uint64(streams), uint64(n)))
				for range 20 {
					from := random.IntN(len(data))
					size := random.IntN(min(len(data)-from, 1<<uint(random.IntN(20))) + 1)
					most := 1 + random.IntN(200_000)
					h := newMD5()
					for at := 0; at < size; {
						k := min(1+random.IntN(most), size-at)
						h.Write(data[from+at : from+at+k])
						if at += k; random.IntN(4) == 0 {
							h.Sum(nil)
							h = clone(h)
						}
					}
					want := md5.Sum(data[from : from+size])
					if got := h.Sum(nil); !bytes.Equal(got, want[:]) {
						t.Errorf("%d streams: %d bytes in pieces of up to %d have %x; want %x", streams, size, most, got, want)
						return
					}
				}
			})
		}
		all.Wait()
	}
	if together.led || len(together.seated)+len(together.waiting) > 0 {
		t.Errorf("somebody is still at work: %+v", &together)
	}
}

// Whoever leads takes along those who wait, and those who come later sit down when a
// seat is free; who has nothing left is told, and the last one leaves nobody behind.
func TestLeaderTakesOthersAlong(t *testing.T) {
	if !vectorMD5 {
		t.Log("this processor digests one stream at a time")
		return
	}
	data := sample(40 * shift * md5.BlockSize)
	var c crew
	all := make([]*stream, seats+2)
	for n := range all {
		m := newMD5().(*stream)
		m.left = data[:(1+n)*md5.BlockSize*shift]
		m.size = uint64(len(m.left))
		all[n] = m
		c.waiting = append(c.waiting, m)
	}
	c.led = true
	c.lead(all[3]) // four shifts: the first three have ended, and two more have sat down
	if len(c.waiting) != 0 || len(c.seated) != seats+2-4 || !c.led {
		t.Fatalf("%d wait and %d are seated, led: %v", len(c.waiting), len(c.seated), c.led)
	}
	for n, m := range all[:3] {
		if !m.turn.TryLock() || m.leads {
			t.Errorf("stream %d is not told that it has ended", n)
		}
	}
	for next := all[4]; ; next = c.seated[0] {
		if !next.turn.TryLock() || !next.leads {
			t.Fatal("the one that is to lead next is not told")
		}
		if c.lead(next); !c.led {
			break
		}
	}
	for n, m := range all {
		want := md5.Sum(data[:(1+n)*md5.BlockSize*shift])
		if got := m.Sum(nil); !bytes.Equal(got, want[:]) {
			t.Errorf("stream %d has %x; want %x", n, got, want)
		}
	}
}

// Every length around the ends of blocks, for its padding.
func TestStreamOfEveryLength(t *testing.T) {
	data := sample(5 * md5.BlockSize)
	for size := range len(data) {
		h := newMD5()
		h.Write(data[:size])
		want := md5.Sum(data[:size])
		if got := h.Sum(nil); !bytes.Equal(got, want[:]) {
			t.Fatalf("%d bytes have %x; want %x", size, got, want)
		}
	}
}

// Streams of different lengths in one go: each seat is another one's.
func FuzzStreams(f *testing.F) {
	f.Add(sample(1000), uint8(3), uint16(100))
	f.Add(sample(5000), uint8(16), uint16(64))
	f.Add(sample(700), uint8(few), uint16(130))
	f.Add([]byte{}, uint8(1), uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, streams uint8, cut uint16) {
		var all sync.WaitGroup
		for n := range min(int(streams), 2*seats) {
			all.Go(func() {
				mine := data[min(n, len(data)):]
				k := min(int(cut), len(mine))
				h := newMD5()
				h.Write(mine[:k])
				h.Write(mine[k:])
				want := md5.Sum(mine)
				if got := h.Sum(nil); !bytes.Equal(got, want[:]) {
					t.Errorf("stream %d of %d: %d bytes cut at %d have %x; want %x", n, streams, len(mine), k, got, want)
				}
			})
		}
		all.Wait()
	})
}

func BenchmarkMD5(b *testing.B) {
	data := sample(256 << 10)
	for _, streams := range []int{1, 2, 4, 8, 16, 32} {
		b.Run(fmt.Sprint(streams), func(b *testing.B) {
			b.SetBytes(int64(streams * len(data)))
			var all sync.WaitGroup
			for range streams {
				all.Go(func() {
					h := newMD5()
					for range b.N {
						h.Write(data)
					}
				})
			}
			all.Wait()
		})
	}
	b.Run("library", func(b *testing.B) {
		b.SetBytes(int64(len(data)))
		h := md5.New()
		for b.Loop() {
			h.Write(data)
		}
	})
}
