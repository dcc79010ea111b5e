package compress_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"ferry/internal/content/compress"
	"ferry/internal/transfer"
)

// noise returns n bytes that do not shrink.
func noise(seed byte, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

// prose returns n bytes that shrink as text does, to a quarter or less.
func prose(seed uint64, n int) []byte {
	words := strings.Fields("the agent sends a file to another agent and the queue manager carries what they say until each of them has it on record")
	r := rand.New(rand.NewPCG(seed, 1))
	var b bytes.Buffer
	for b.Len() < n {
		at := r.IntN(len(words) - 4)
		fmt.Fprintf(&b, "%s %d. ", strings.Join(words[at:at+4], " "), r.IntN(1000))
	}
	return b.Bytes()[:n]
}

// shapes returns chunks of all sorts of data.
func shapes() map[string][]byte {
	const c = 256 << 10
	all := map[string][]byte{
		"nothing": {}, "a byte": {7}, "63 bytes": bytes.Repeat([]byte{1}, 63), "64 bytes": bytes.Repeat([]byte{1}, 64), "64 of noise": noise(1, 64),
		"zeros": make([]byte, c), "text": prose(1, c), "short text": prose(2, 200), "255 bytes": prose(3, 255), "256 bytes": prose(3, 256),
		"1024 bytes": prose(4, 1024), "noise": noise(2, c), "the largest": prose(5, transfer.MaxChunk), "the largest of noise": noise(3, transfer.MaxChunk),
		"half and half": append(noise(4, c/2), prose(6, c/2)...), "text in noise": append(append(noise(5, c/2), prose(7, c/8)...), noise(6, c/4)...),
		"a pattern": bytes.Repeat([]byte("ferry"), 10_000), "a block and one": prose(8, 128<<10+1), "last byte differs": append(make([]byte, c), 1),
	}
	return all
}

var words = []string{transfer.CompressNone, transfer.CompressFast, transfer.CompressHigh, transfer.CompressAuto, ""}

// TestRoundTrips checks that compressed chunks are smaller and are restored, and that other chunks stay plain, for all
// shapes. Encoder and Decoder use the memory that they get again.
func TestRoundTrips(t *testing.T) {
	var encoders compress.Encoders
	var decoder compress.Decoder
	var dst, back []byte
	shrunk := map[string]int{}
	for _, word := range words {
		for name, plain := range shapes() {
			e := encoders.New(word)
			e.File()
			kept := bytes.Clone(plain)
			f, small := e.Encode(dst, plain)
			if !bytes.Equal(plain, kept) {
				t.Fatalf("%s, %s: the plain bytes are changed", word, name)
			}
			if f == compress.Plain {
				if small != nil {
					t.Errorf("%s, %s: plain, with %d bytes", word, name, len(small))
				}
				continue
			}
			shrunk[word]++
			if len(small) > len(plain)-16 {
				t.Errorf("%s, %s: %d bytes become %d", word, name, len(plain), len(small))
			}
			got, err := decoder.Decode(back, f, small, len(plain))
			if err != nil || !bytes.Equal(got, plain) {
				t.Fatalf("%s, %s: %d bytes come back of %d, %v", word, name, len(got), len(plain), err)
			}
			dst, back = small[:0], got
		}
	}
	for word, want := range map[string]bool{"none": false, "": false, "fast": true, "high": true, "auto": true} {
		if shrunk[word] > 8 != want {
			t.Errorf("%q has compressed %d shapes", word, shrunk[word])
		}
	}
}

// TestWhatShrinks fixes the shapes that are worth compressing.
func TestWhatShrinks(t *testing.T) {
	var encoders compress.Encoders
	for _, c := range []struct {
		word, shape string
		format      compress.Format
		most        int // bytes
	}{
		{"fast", "zeros", compress.S2, 200}, {"high", "zeros", compress.Zstd, 200}, {"auto", "zeros", compress.S2, 200},
		{"fast", "text", compress.S2, 64 << 10}, {"high", "text", compress.Zstd, 44 << 10}, {"auto", "text", compress.S2, 64 << 10},
		{"fast", "noise", compress.Plain, 0}, {"high", "noise", compress.Plain, 0}, {"auto", "noise", compress.Plain, 0},
		{"fast", "half and half", compress.S2, 176 << 10}, {"auto", "half and half", compress.S2, 176 << 10},
		{"high", "text in noise", compress.Zstd, 204 << 10}, {"auto", "text in noise", compress.Plain, 0}, // an eighth of it is text
		{"fast", "63 bytes", compress.Plain, 0}, {"fast", "64 bytes", compress.S2, 48},
		{"high", "short text", compress.Zstd, 150}, {"auto", "a byte", compress.Plain, 0}, {"fast", "nothing", compress.Plain, 0},
	} {
		f, small := encoders.New(c.word).Encode(nil, shapes()[c.shape])
		if f != c.format || len(small) > c.most {
			t.Errorf("%s, %s: %s with %d bytes, want %s with %d at most", c.word, c.shape, f, len(small), c.format, c.most)
		}
	}
}

// TestRoom checks that Encode with a Room allocates no memory for a chunk, whether it shrinks or not.
func TestRoom(t *testing.T) {
	var encoders compress.Encoders
	var decoder compress.Decoder
	for _, word := range []string{"fast", "high"} {
		e := encoders.New(word)
		for name, plain := range shapes() {
			dst := make([]byte, compress.Room(len(plain)))
			f, small := e.Encode(dst, plain)
			if len(small) > 0 && &small[0] != &dst[0] {
				t.Errorf("%s, %s: a Room of %d bytes is too small", word, name, len(dst))
			}
			if f == compress.Plain {
				continue
			}
			back := make([]byte, len(plain)+compress.Slack)
			got, err := decoder.Decode(back, f, small, len(plain))
			if err != nil || &got[0] != &back[0] {
				t.Errorf("%s, %s: not in the memory that was given, %v", word, name, err)
			}
		}
	}
}

// TestTooLargeForAChunk checks that data too large for a frame is not compressed.
func TestTooLargeForAChunk(t *testing.T) {
	var encoders compress.Encoders
	if f, _ := encoders.New("fast").Encode(nil, make([]byte, transfer.MaxChunk+1)); f != compress.Plain {
		t.Errorf("more than a chunk is compressed as %s", f)
	}
}

// A forgery is a chunk that no encoder makes.
type forgery struct {
	format compress.Format
	src    []byte
	n      int // length given in its frame
}

// frame returns a zstd frame (RFC 8878, 3.1.1): a single segment with a content size of eight bytes.
func frame(size uint64, blocks ...[]byte) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{0x28, 0xb5, 0x2f, 0xfd, 3<<6 | 1<<5}, size)
	for _, x := range blocks {
		b = append(b, x...)
	}
	return b
}

// window returns a frame with a window of 1<<(10+exp) bytes and no content size.
func window(exp byte, blocks ...[]byte) []byte {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, exp << 3}
	for _, x := range blocks {
		b = append(b, x...)
	}
	return b
}

// block returns a block of a type (0 raw, 1 one byte repeated, 2 compressed).
func block(kind, size int, last bool, content ...byte) []byte {
	head := size<<3 | kind<<1
	if last {
		head |= 1
	}
	return append([]byte{byte(head), byte(head >> 8), byte(head >> 16)}, content...)
}

// many repeats a block, and marks the last of them as the last.
func many(count, kind, size int, content ...byte) (b []byte) {
	for k := range count {
		b = append(b, block(kind, size, k == count-1, content...)...)
	}
	return b
}

func forgeries() map[string]forgery {
	const k128 = 128 << 10
	bomb := func(n int) []byte {
		z, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
		return z.EncodeAll(make([]byte, n), nil)
	}
	sound := func(n int) []byte {
		z, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithSingleSegment(true))
		return z.EncodeAll(prose(1, n), nil)
	}
	good, goodS2 := sound(5000), s2.Encode(nil, prose(1, 5000))
	dict := bytes.Clone(frame(5000, block(1, 5000, true, 'a')))
	dict = append(append(dict[:4:4], dict[4]|1, 9), dict[5:]...) // a dictionary ID of one byte
	skippable := append([]byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4}, good...)
	return map[string]forgery{
		"s2: a length of 4 GiB":           {compress.S2, append(binary.AppendUvarint(nil, 1<<32-1), goodS2[2:]...), 5000},
		"s2: a length beyond all":         {compress.S2, bytes.Repeat([]byte{0xff}, 20), 5000},
		"s2: shorter than said":           {compress.S2, goodS2, 5001},
		"s2: longer than said":            {compress.S2, goodS2, 4999},
		"s2: cut":                         {compress.S2, goodS2[:len(goodS2)-1], 5000},
		"s2: more behind it":              {compress.S2, append(bytes.Clone(goodS2), 0, 'x'), 5000},
		"s2: a copy from before":          {compress.S2, append(binary.AppendUvarint(nil, 60), 0xfe, 0xff, 0x7f), 60},
		"s2: 64 MiB of zeros":             {compress.S2, s2.Encode(nil, make([]byte, 64<<20)), transfer.MaxChunk},
		"s2: nothing":                     {compress.S2, nil, 100},
		"zstd: nothing":                   {compress.Zstd, nil, 100},
		"zstd: a magic number alone":      {compress.Zstd, good[:4], 100},
		"zstd: a content size of 1 TiB":   {compress.Zstd, frame(1<<40, many(1000, 1, k128, 0)), transfer.MaxChunk},
		"zstd: a content size of 2^63":    {compress.Zstd, frame(1<<63, many(1000, 1, k128, 0)), transfer.MaxChunk},
		"zstd: blocks beyond the size":    {compress.Zstd, frame(transfer.MaxChunk, many(10_000, 1, k128, 0)), transfer.MaxChunk},
		"zstd: one block beyond the size": {compress.Zstd, frame(1000, block(1, k128, true, 0)), 1000},
		"zstd: blocks short of the size":  {compress.Zstd, frame(transfer.MaxChunk, many(2, 1, k128, 0)), transfer.MaxChunk},
		"zstd: 64 MiB of zeros":           {compress.Zstd, bomb(64 << 20), transfer.MaxChunk},
		"zstd: no content size":           {compress.Zstd, window(10, many(1, 1, 5000, 0)), 5000},
		"zstd: a window of 2 TiB":         {compress.Zstd, window(31, many(1, 1, 5000, 0)), 5000},
		"zstd: a window of 8 MiB":         {compress.Zstd, append([]byte{0x28, 0xb5, 0x2f, 0xfd, 1 << 6, 13 << 3, 0x88, 0x12}, block(1, 5000, true, 0)...), 5000},
		"zstd: a dictionary":              {compress.Zstd, dict, 5000},
		"zstd: skippable":                 {compress.Zstd, skippable, 5000},
		"zstd: shorter than said":         {compress.Zstd, good, 5001},
		"zstd: longer than said":          {compress.Zstd, good, 4999},
		"zstd: cut":                       {compress.Zstd, good[:len(good)-1], 5000},
		"zstd: twice":                     {compress.Zstd, append(bytes.Clone(good), good...), 5000},
		"zstd: noise behind it":           {compress.Zstd, append(bytes.Clone(good), noise(9, 100)...), 5000},
		"zstd: a thousand frames more":    {compress.Zstd, append(bytes.Clone(good), bytes.Repeat(frame(100, block(1, 100, true, 0)), 100)...), 5000},
		"zstd: a reserved block":          {compress.Zstd, frame(1000, block(3, 10, true, noise(8, 10)...)), 1000},
		"zstd: a compressed block bad":    {compress.Zstd, frame(1000, block(2, 10, true, noise(8, 10)...)), 1000},
		"plain":                           {compress.Plain, good, 5000},
		"a format to come":                {3, good, 5000},
		"no shorter than its plain bytes": {compress.S2, goodS2, len(goodS2)},
		"no plain bytes":                  {compress.S2, []byte{0}, 0},
		"fewer than none":                 {compress.Zstd, good, -1},
		"more than a chunk":               {compress.S2, s2.Encode(nil, make([]byte, transfer.MaxChunk+1)), transfer.MaxChunk + 1},
	}
}

// TestVectors decodes chunks written by hand from the formats' descriptions: every version must read them, with any
// encoder of its own.
func TestVectors(t *testing.T) {
	var decoder compress.Decoder
	for _, v := range []struct {
		format compress.Format
		src    []byte
		want   string
	}{
		// A length of 12, a literal of 2, a copy of 10 from 2 bytes before.
		{compress.S2, []byte{12, 0x04, 'a', 'b', 0x19, 2}, "abababababab"},
		// The same, with S2's repeat of the last offset: a copy of 4, repeated for 4 and 4 more.
		{compress.S2, []byte{14, 0x04, 'a', 'b', 0x01, 2, 0x01, 0, 0x01, 0}, "ababababababab"},
		{compress.Zstd, frame(40, block(0, 2, false, 'a', 'b'), block(1, 38, true, 'c')), "ab" + strings.Repeat("c", 38)},
		{compress.Zstd, frame(30, block(1, 10, false, 'x'), block(1, 20, true, 'y')), strings.Repeat("x", 10) + strings.Repeat("y", 20)},
	} {
		if got, err := decoder.Decode(nil, v.format, v.src, len(v.want)); err != nil || string(got) != v.want {
			t.Errorf("%s %x: %q, %v", v.format, v.src, got, err)
		}
	}
}

// fixed is the memory that a decoder of zstd may use besides the chunk.
const fixed = 512 << 10

// TestForgeries checks that a chunk without exactly the given length is refused, and takes no more memory than a chunk
// and a decoder.
func TestForgeries(t *testing.T) {
	for name, f := range forgeries() {
		decoder := new(compress.Decoder)
		var out []byte
		var err error
		cost := allocated(func() { out, err = decoder.Decode(nil, f.format, f.src, f.n) })
		if transfer.KindOf(err) != transfer.KindDigest || out != nil {
			t.Errorf("%s: %d bytes, %v", name, len(out), err)
		}
		if most := uint64(min(max(f.n, 0), transfer.MaxChunk) + compress.Slack + fixed); cost > most {
			t.Errorf("%s: it took %d KiB of memory; %d KiB are a chunk and a decoder", name, cost>>10, most>>10)
		}
		for range 2 { // the decoder is still good
			if got, err := decoder.Decode(nil, compress.Zstd, zstdOf(prose(1, 5000)), 5000); err != nil || !bytes.Equal(got, prose(1, 5000)) {
				t.Errorf("%s: after it a sound chunk gives %v", name, err)
			}
		}
	}
}

func zstdOf(b []byte) []byte {
	var encoders compress.Encoders
	_, small := encoders.New(transfer.CompressHigh).Encode(nil, b)
	return small
}

// allocated returns the number of bytes that f allocates, including freed ones.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestWarmDecoderAllocatesNothing checks that a used decoder with memory of its own takes almost no memory for the
// largest chunk, good or bad.
func TestWarmDecoderAllocatesNothing(t *testing.T) {
	var decoder compress.Decoder
	plain := prose(1, transfer.MaxChunk)
	dst := make([]byte, 0, transfer.MaxChunk+compress.Slack)
	bad := forgeries()["zstd: blocks beyond the size"]
	for name, f := range map[string]forgery{"zstd": {compress.Zstd, zstdOf(plain), len(plain)}, "s2": {compress.S2, s2.Encode(nil, plain), len(plain)}, "bad": bad} {
		cost := uint64(1 << 40)
		for range 5 { // memory may be collected in between, and the decoder with it
			cost = min(cost, allocated(func() { decoder.Decode(dst, f.format, f.src, f.n) }))
		}
		if cost > 16<<10 {
			t.Errorf("%s: %d bytes", name, cost)
		}
	}
}

// TestSeveralAtOnce checks that many transfers can use the agent's decoder and the memory of the encoders at the same
// time.
func TestSeveralAtOnce(t *testing.T) {
	var encoders compress.Encoders
	var decoder compress.Decoder
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			e := encoders.New([]string{"high", "fast"}[k%2])
			for n := range 20 {
				plain := prose(uint64(100*k+n), 20_000+n)
				f, small := e.Encode(nil, plain)
				got, err := decoder.Decode(nil, f, small, len(plain))
				if err != nil || !bytes.Equal(got, plain) {
					t.Errorf("chunk %d of transfer %d: %v", n, k, err)
				}
			}
		})
	}
	wg.Wait()
}

// FuzzDecode checks that a decoded chunk has exactly the given length, for any input, and takes no more memory than a
// chunk and a decoder.
func FuzzDecode(f *testing.F) {
	for _, x := range forgeries() {
		if len(x.src) < 64<<10 {
			f.Add(byte(x.format), x.src, x.n)
		}
	}
	f.Add(byte(compress.S2), s2.Encode(nil, prose(1, 3000)), 3000)
	f.Add(byte(compress.Zstd), zstdOf(prose(1, 3000)), 3000)
	f.Add(byte(compress.Zstd), zstdOf(make([]byte, 200<<10)), 200<<10)
	var decoder compress.Decoder
	f.Fuzz(func(t *testing.T, format byte, src []byte, n int) {
		var out []byte
		var err error
		cost := allocated(func() { out, err = decoder.Decode(nil, compress.Format(format), src, n) })
		if cost > uint64(min(max(n, 0), transfer.MaxChunk)+compress.Slack+fixed) {
			t.Fatalf("%d bytes of memory for %d", cost, n)
		}
		if err == nil && len(out) != n || err != nil && (out != nil || transfer.KindOf(err) != transfer.KindDigest) {
			t.Fatalf("%d bytes of %d, %v", len(out), n, err)
		}
	})
}

// FuzzRoundTrip checks that every chunk is restored, for any contents and any compression.
func FuzzRoundTrip(f *testing.F) {
	for _, b := range shapes() {
		f.Add(b[:min(len(b), 5000)])
	}
	var encoders compress.Encoders
	var decoder compress.Decoder
	f.Fuzz(func(t *testing.T, plain []byte) {
		for _, word := range words {
			format, small := encoders.New(word).Encode(nil, plain)
			if format == compress.Plain {
				continue
			}
			if got, err := decoder.Decode(nil, format, small, len(plain)); err != nil || !bytes.Equal(got, plain) {
				t.Fatalf("%s: %d bytes of %d, %v", word, len(got), len(plain), err)
			}
		}
	})
}

func ExampleEncoders() {
	var encoders compress.Encoders
	var decoder compress.Decoder
	chunk := bytes.Repeat([]byte("a line that comes again and again\n"), 100)
	format, small := encoders.New(transfer.CompressFast).Encode(nil, chunk)
	plain, err := decoder.Decode(nil, format, small, len(chunk))
	fmt.Println(format, len(chunk), len(small) < 100, bytes.Equal(plain, chunk), err)
	// Output: s2 3400 true true <nil>
}
