package compress_test

import (
	"testing"

	"ferry/internal/content/compress"
	"ferry/internal/transfer"
)

// A counter sends chunks through an Encoder and counts.
type counter struct {
	e      *compress.Encoder
	chunks int
	packed int // of them
	wire   int // bytes
	plain  int
}

func (c *counter) send(chunk []byte) (packed bool) {
	f, small := c.e.Encode(nil, chunk)
	c.chunks++
	c.plain += len(chunk)
	if f == compress.Plain {
		c.wire += len(chunk)
		return false
	}
	c.packed++
	c.wire += len(small)
	return true
}

func newAuto() *counter {
	var encoders compress.Encoders
	return &counter{e: encoders.New(transfer.CompressAuto)}
}

const chunk = 8 << 10

// tries sends chunks of noise and returns the positions of auto's looks. Only a text that would be compressed in place
// of the noise shows a look, so each position has an Encoder of its own.
func tries(t *testing.T, n int) (at []int) {
	t.Helper()
	for k := range n {
		c := newAuto()
		for j := range k {
			if c.send(noise(byte(j), chunk)) {
				t.Fatal("noise is compressed")
			}
		}
		if c.send(prose(uint64(k), chunk)) {
			at = append(at, k)
		}
	}
	return at
}

// TestAutoGivesUpAndLooksAgain checks that after two chunks of noise auto lets 4 chunks pass, then 8, 16, 32 and 64,
// with one look in between.
func TestAutoGivesUpAndLooksAgain(t *testing.T) {
	want := []int{0, 1, 6, 15, 32, 65, 130, 195}
	got := tries(t, 200)
	if len(got) != len(want) {
		t.Fatalf("it looks at chunks %v, want %v", got, want)
	}
	for k := range want {
		if got[k] != want[k] {
			t.Fatalf("it looks at chunks %v, want %v", got, want)
		}
	}
}

// TestAutoKeepsOnWhatShrinks checks that text is compressed to the last chunk, and that a picture inside it costs two
// chunks and a pause.
func TestAutoKeepsOnWhatShrinks(t *testing.T) {
	c := newAuto()
	for k := range 100 {
		if !c.send(prose(uint64(k), chunk)) {
			t.Fatalf("chunk %d of text is sent plain", k)
		}
	}
	c.send(noise(1, chunk))
	if !c.send(prose(1, chunk)) {
		t.Error("one chunk of noise makes it give up")
	}
	for k := range 10 {
		c.send(noise(byte(k), chunk))
	}
	before := c.packed
	for k := range 20 {
		c.send(prose(uint64(k), chunk))
	}
	if n := c.packed - before; n < 12 {
		t.Errorf("after ten chunks of noise %d of twenty of text are compressed", n)
	}
}

// TestAutoHalfAndHalf checks that most of the text is compressed in a file that begins with noise.
func TestAutoHalfAndHalf(t *testing.T) {
	c := newAuto()
	for k := range 400 {
		if k < 200 {
			c.send(noise(byte(k), chunk))
		} else {
			c.send(prose(uint64(k), chunk))
		}
	}
	if c.packed < 200-64 {
		t.Errorf("%d of 200 chunks of text are compressed", c.packed)
	}
}

// TestAutoLooksAtEachFile checks that auto looks at the first chunk of each file, after any other file.
func TestAutoLooksAtEachFile(t *testing.T) {
	c := newAuto()
	for k := range 50 {
		c.e.File()
		for j := range 5 {
			c.send(noise(byte(5*k+j), chunk))
		}
		c.e.File()
		if !c.send(prose(uint64(k), chunk)) {
			t.Fatalf("text %d is sent plain after a file of noise", k)
		}
	}
}

// TestAutoSamplesTheMiddle checks that, after giving up, a beginning that shrinks has no effect.
func TestAutoSamplesTheMiddle(t *testing.T) {
	archive := append(prose(1, 4<<10), noise(1, 64<<10)...)
	c := newAuto()
	for range 3 {
		c.e.File()
		if c.send(archive) {
			t.Error("an archive with a header of text is compressed")
		}
	}
}

// TestAutoNeverExpands checks chunks of different kinds in a mixed order.
func TestAutoNeverExpands(t *testing.T) {
	c := newAuto()
	for k := range 300 {
		if k%7 == 0 {
			c.e.File()
		}
		switch k % 3 {
		case 0:
			c.send(noise(byte(k), 1+k*100))
		case 1:
			c.send(prose(uint64(k), k*50))
		default:
			c.send(append(noise(byte(k), k*10), prose(uint64(k), k*10)...))
		}
		if c.wire > c.plain {
			t.Fatalf("after chunk %d, %d bytes have become %d", k, c.plain, c.wire)
		}
	}
}
