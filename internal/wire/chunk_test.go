package wire_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ferry/internal/content/compress"
	"ferry/internal/content/digest"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

func TestChunkGolden(t *testing.T) {
	for name, m := range chunks() {
		golden(t, "chunk-"+name+".hex", lines(m))
	}
}

func TestChunkRoundTrip(t *testing.T) {
	for name, m := range chunks() {
		h, frames, err := wire.ParseChunk(bytes.Clone(m))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := (wire.Header{Transfer: sampleID, Epoch: 7, Seq: 1<<40 | 3}); h != want {
			t.Errorf("%s: header %+v", name, h)
		}
		if got := rebuild(h, frames); !bytes.Equal(got, m) {
			t.Errorf("%s: written again it is another message", name)
		}
	}
	_, frames, err := wire.ParseChunk(chunks()["all"])
	if err != nil || len(frames) != 8 {
		t.Fatalf("%d frames, %v", len(frames), err)
	}
	b := frames[0].Begin
	if b == nil || b.Name != oddName || b.Version != sampleVsn || b.Mtime != -5 || !b.Again || b.Offset != 1000 {
		t.Errorf("begin: %+v", b)
	}
	if string(frames[1].Data) != "hello" || frames[2].Length != 1<<40 || frames[3].Length != 5000 ||
		frames[4].Digest != "xxh3:00ff" ||
		frames[5].Fail.Kind != transfer.KindNoSpace || frames[5].Source != oddName || frames[7].Item != 7 {
		t.Errorf("frames: %+v", frames)
	}
}

// TestHolesThatMeet checks that a Builder joins a hole to the one before it only if nothing is between them.
func TestHolesThatMeet(t *testing.T) {
	b := wire.NewBuilder(4096, nil)
	b.Hole(1, 0, 4096)
	b.Hole(1, 4096, 10)
	b.Data(1, 4106, 5)
	b.Undo()
	b.Hole(1, 4106, 6) // as after data that turned out to be zeros
	b.Hole(2, 4112, 7)
	b.Hole(2, 5000, 8)
	b.End(2, 5008)
	b.Hole(2, 5008, 9)
	_, frames, err := wire.ParseChunk(b.Seal(wire.Header{Transfer: sampleID, Epoch: 7, Seq: 1}))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range frames {
		if f.Type == wire.FrameHole {
			got = append(got, fmt.Sprint(f.Item, f.Offset, f.Length))
		}
	}
	if want := []string{"1 0 4112", "2 4112 7", "2 5000 8", "2 5008 9"}; !slices.Equal(got, want) {
		t.Errorf("holes %q, want %q", got, want)
	}
	b.Hole(2, 5017, transfer.MaxChunk-10)
	if b.HoleIsFull(10) || !b.HoleIsFull(11) || b.ExtendsHole(2, transfer.MaxChunk+5007, 11) {
		t.Error("a hole does not end at the most bytes of a chunk")
	}
}

// rebuild writes frames with a Builder.
func rebuild(h wire.Header, frames []wire.Frame) []byte {
	size := 0
	for _, f := range frames {
		size += len(f.Data) + len(f.Digest) + len(f.Source) + 256
		if f.Begin != nil {
			size += len(f.Begin.Name) + len(f.Begin.Source)
			if m := f.Begin.Form; m != nil {
				size += len(m.Encoding) + len(m.EOL) + len(m.Records.RECFM) + wire.FormRoom
			}
		}
		if f.Fail != nil {
			size += len(f.Fail.Text)
		}
	}
	b := wire.NewBuilder(size, nil)
	for _, f := range frames {
		switch f.Type {
		case wire.FrameBegin:
			b.Begin(f.Item, f.Begin)
		case wire.FrameData:
			copy(b.Data(f.Item, f.Offset, len(f.Data)), f.Data)
		case wire.FrameCData:
			b.CData(f.Item, f.Offset, int(f.Length), f.Format, f.Data)
		case wire.FrameHole:
			b.Hole(f.Item, f.Offset, f.Length)
		case wire.FrameEnd:
			b.End(f.Item, f.Length)
		case wire.FrameSum:
			b.Sum(f.Item, f.Digest, f.Tail)
		case wire.FrameFail:
			b.Fail(f.Item, f.Fail, f.Source)
		case wire.FrameSkip:
			b.Skip(f.Item)
		case wire.FrameLast:
			b.Last(f.Item)
		}
	}
	return b.Seal(h)
}

func TestEveryFlippedBitIsRefused(t *testing.T) {
	for name, m := range chunks() {
		for bit := range 8 * len(m) {
			m[bit/8] ^= 1 << (bit % 8)
			if _, _, err := wire.ParseChunk(m); err == nil {
				t.Errorf("%s with bit %d of byte %d flipped is taken", name, bit%8, bit/8)
			}
			m[bit/8] ^= 1 << (bit % 8)
		}
		if _, _, err := wire.ParseChunk(m); err != nil {
			t.Errorf("%s was changed by being read: %v", name, err)
		}
	}
}

func TestEveryTornChunkIsRefused(t *testing.T) {
	for name, m := range chunks() {
		for n := range m {
			if _, _, err := wire.ParseChunk(seal(m[:n])); err == nil && n != 40 {
				t.Errorf("%s cut at %d is taken", name, n)
			}
		}
		if _, _, err := wire.ParseChunk(seal(append(bytes.Clone(m), 0))); err == nil {
			t.Errorf("%s with a byte behind it is taken", name)
		}
	}
}

// seal returns a copy of a message with the right hash.
func seal(m []byte) []byte {
	m = bytes.Clone(m)
	if len(m) >= wire.HeaderSize {
		clear(m[32:40])
		binary.BigEndian.PutUint64(m[32:], digest.Message(m))
	}
	return m
}

func TestChunkRefusals(t *testing.T) {
	m := chunks()["skip"]
	change := func(at int, v byte) []byte {
		c := bytes.Clone(m)
		c[at] = v
		return seal(c)
	}
	for _, c := range []struct {
		name string
		m    []byte
		kind transfer.Kind
	}{
		{"nothing", nil, transfer.KindVersion},
		{"version", change(0, 9), transfer.KindVersion},
		{"frame type 0", change(40, 0), transfer.KindVersion},
		{"frame type 9", change(40, 9), transfer.KindVersion},
		{"more frames than there are", change(31, 2), transfer.KindVersion},
		{"fewer", change(31, 0), transfer.KindVersion},
		{"hash", func() []byte { c := bytes.Clone(m); c[41]++; return c }(), transfer.KindDigest},
	} {
		if _, _, err := wire.ParseChunk(c.m); transfer.KindOf(err) != c.kind {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestCDataRefusals: an accepted compressed chunk can be restored into the memory of one chunk, or its compressed bytes
// alone are damaged.
func TestCDataRefusals(t *testing.T) {
	pack := func(plain, claimed uint32, format byte, data []byte) []byte {
		m := bytes.Clone(chunks()["empty"])
		m[31] = 1
		m = binary.AppendVarint(append(m, 8), 4)
		m = binary.AppendUvarint(m, 1000)
		m = append(binary.AppendUvarint(m, uint64(plain)), format)
		return seal(append(binary.AppendUvarint(m, uint64(claimed)), data...))
	}
	ten := []byte("0123456789")
	if _, f, err := wire.ParseChunk(pack(11, 10, 1, ten)); err != nil || f[0].Length != 11 || f[0].Offset != 1000 || f[0].Item != 4 ||
		f[0].Format != compress.S2 || !bytes.Equal(f[0].Data, ten) || f[0].Cost(4096) != 11 {
		t.Fatalf("a sound one: %+v, %v", f, err)
	}
	for _, c := range []struct {
		name string
		m    []byte
		says string
	}{
		{"no plain bytes", pack(0, 0, 1, nil), "0 plain bytes"},
		{"more than a chunk", pack(transfer.MaxChunk+1, 10, 1, ten), "1048577 plain bytes; it may have 1 to 1048576"},
		{"4 GiB", pack(1<<32-1, 10, 2, ten), "4294967295 plain bytes"},
		{"not compressed", pack(11, 10, 0, ten), "format 0"},
		{"a format to come", pack(11, 10, 3, ten), "format 3"},
		{"larger than it was", pack(9, 10, 1, ten), "takes 10 bytes for 9"},
		{"as large as it was", pack(10, 10, 1, ten), "takes 10 bytes for 10"},
		{"shorter than it says", pack(100, 11, 1, ten), "ends inside a frame"},
		{"4 GiB of compressed bytes", pack(1<<20, 1<<32-1, 1, ten), "ends inside a frame"},
	} {
		if _, _, err := wire.ParseChunk(c.m); transfer.KindOf(err) != transfer.KindVersion || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestFramesClaimed: a short message that claims many frames costs little.
func TestFramesClaimed(t *testing.T) {
	m := chunks()["empty"]
	m[30], m[31] = 0xff, 0xff
	m = seal(m)
	if n := testing.AllocsPerRun(100, func() { wire.ParseChunk(m) }); n > 20 {
		t.Errorf("%v allocations", n)
	}
	huge := seal(binary.AppendUvarint(append(bytes.Clone(m), 2, 8, 0), 1<<32-1))
	if _, _, err := wire.ParseChunk(huge); err == nil {
		t.Error("4 GiB of data that are not there are taken")
	}
}

// TestNamesShareTheirBeginnings: a file of a directory costs only the bytes in which its name differs from the previous
// one. The memory for names is bounded for any message.
func TestNamesShareTheirBeginnings(t *testing.T) {
	b := wire.NewBuilder(64<<10, nil)
	var want []wire.Begin
	for n := range 100 {
		f := wire.Begin{Type: transfer.ItemFile, Mode: 0o644, Size: 800, Mtime: 1_700_000_000_000_000_000 + int64(n)*1e6, Allocated: 4096,
			Name: transfer.Path(fmt.Sprintf("in/%06d", n)), Source: transfer.Path(fmt.Sprintf("/srv/alpha/outgoing/in/%06d", n))}
		f.Version = transfer.Version(fmt.Sprintf("\x0164770.17000000.%d", 1_234_567+n))
		b.Begin(uint64(n), &f)
		b.End(uint64(n), 800)
		b.Sum(uint64(n), "xxh3:"+strings.Repeat("5a", 16), "")
		want = append(want, f)
	}
	m := b.Seal(wire.Header{})
	if len(m) > 60*100 {
		t.Errorf("100 small files take %d bytes", len(m))
	}
	_, frames, err := wire.ParseChunk(m)
	if err != nil {
		t.Fatal(err)
	}
	for n := range want {
		if got := frames[3*n].Begin; !reflect.DeepEqual(*got, want[n]) {
			t.Fatalf("%d: %+v, not %+v", n, *got, want[n])
		}
	}
	name := strings.Repeat("n", transfer.MaxPath)
	begins := func(count int) []byte { // the first one has a long name, the others have the same name
		m := bytes.Clone(chunks()["empty"])
		binary.BigEndian.PutUint16(m[30:], uint16(count))
		for n := range count {
			m = append(m, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0)
			if n == 0 {
				m = append(binary.AppendUvarint(append(m, 0), uint64(len(name))), name...)
			} else {
				m = append(binary.AppendUvarint(m, uint64(len(name))), 0)
			}
			m = append(m, 0, 0)
		}
		return seal(m)
	}
	if _, frames, err := wire.ParseChunk(begins(3)); err != nil || string(frames[2].Begin.Name) != name {
		t.Errorf("three names of %d bytes: %v", len(name), err)
	}
	if _, _, err := wire.ParseChunk(begins(60_000)); transfer.KindOf(err) != transfer.KindVersion {
		t.Errorf("a short message with 240 MB of names: %v", err)
	}
}

// TestBuilderFillsMessages: Room and Fits hold in any order of frames, and no message exceeds its maximum size.
func TestBuilderFillsMessages(t *testing.T) {
	for chunk := transfer.MinChunk; chunk <= 64<<10; chunk += 4096 {
		b := wire.NewBuilder(chunk, nil)
		if b.Room() < chunk {
			t.Errorf("a chunk of %d does not fit an empty message", chunk)
		}
		name := transfer.Path(strings.Repeat("n", transfer.MaxPath))
		frames := 0
		for b.Fits(2 * len(name)) {
			b.Begin(1, &wire.Begin{Type: transfer.ItemFile, Name: name, Source: name})
			frames++
		}
		for room := b.Room(); room > 0; room = b.Room() {
			b.Data(1, 0, room)
			frames++
		}
		if !b.Fits(64 + len("sha256:")) {
			t.Errorf("chunk %d: there is no room for an END behind the data", chunk)
		}
		b.End(1, 5)
		b.Sum(1, "sha256:"+strings.Repeat("0", 64), strings.Repeat("0", 32))
		m := b.Seal(wire.Header{})
		if len(m) > chunk+wire.Overhead {
			t.Errorf("chunk %d: the message has %d bytes", chunk, len(m))
		}
		_, got, err := wire.ParseChunk(m)
		if err != nil || len(got) != frames+2 {
			t.Errorf("chunk %d: %d frames, %v", chunk, len(got), err)
		}
	}
}

// TestCDataTakesThePlainRoom: compression does not put more of a file into a message, frames of all types still fit
// after it, and the next message starts empty.
func TestCDataTakesThePlainRoom(t *testing.T) {
	const chunk = 64 << 10
	b := wire.NewBuilder(chunk, nil)
	plain, frames := 0, 0
	for room := b.Room(); room > 0; room = b.Room() {
		n := min(room, 5000)
		b.CData(1, int64(plain), n, compress.Zstd, make([]byte, n/10))
		plain += n
		frames++
	}
	if plain < chunk || plain > chunk+wire.Overhead {
		t.Errorf("a message of chunks of 64 KiB has %d plain bytes", plain)
	}
	if !b.Fits(64 + len("sha256:")) {
		t.Error("there is no room for an END behind it")
	}
	b.End(1, 5)
	m := b.Seal(wire.Header{})
	if _, got, err := wire.ParseChunk(m); err != nil || len(got) != frames+1 || len(m) > chunk/4 {
		t.Errorf("%d frames in %d bytes, %v", len(got), len(m), err)
	}
	if b.Room() < chunk {
		t.Errorf("the next message has room for %d bytes", b.Room())
	}
	b.CData(1, 0, chunk, compress.S2, make([]byte, chunk-1))
	if _, _, err := wire.ParseChunk(b.Seal(wire.Header{})); err != nil {
		t.Error(err)
	}
}

func TestBuilderUndoAndMemory(t *testing.T) {
	mem := &wire.Memory{}
	b := wire.NewBuilder(4096, mem)
	b.Skip(1)
	copy(b.Data(1, 0, 3), "abc")
	b.Undo()
	first := b.Seal(wire.Header{Seq: 1})
	want := func() []byte { c := wire.NewBuilder(4096, nil); c.Skip(1); return c.Seal(wire.Header{Seq: 1}) }()
	if !bytes.Equal(first, want) {
		t.Error("Undo leaves something behind")
	}
	kept := bytes.Clone(first)
	b.Last(9)
	second := b.Seal(wire.Header{Seq: 2})
	if !bytes.Equal(first, kept) {
		t.Error("a message changes when the next one is made")
	}
	mem.Put(second)
	b.Skip(4)
	if _, f, err := wire.ParseChunk(b.Seal(wire.Header{Seq: 3})); err != nil || len(f) != 1 || f[0].Item != 4 {
		t.Errorf("in lent memory: %+v, %v", f, err)
	}
}

func TestCost(t *testing.T) {
	_, frames, err := wire.ParseChunk(chunks()["all"])
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for n := range frames {
		got = append(got, frames[n].Cost(4096))
	}
	if want := []int64{4096, 5, 4096, 0, 0, 4096, 0, 0}; !reflect.DeepEqual(got, want) {
		t.Errorf("costs %v, want %v", got, want)
	}
}

// FuzzParseChunk: an accepted message is written again as the same bytes, except for bits without a meaning yet. The
// parser never panics.
func FuzzParseChunk(f *testing.F) {
	for _, m := range chunks() {
		f.Add(m)
	}
	f.Add([]byte{})
	f.Add(make([]byte, 41))
	f.Fuzz(func(t *testing.T, raw []byte) {
		wire.ParseChunk(bytes.Clone(raw)) // most of these fail at the hash
		m := seal(raw)
		h, frames, err := wire.ParseChunk(m)
		if err != nil {
			return
		}
		if cap(frames) > len(m)/2+1 {
			t.Fatalf("room for %d frames in %d bytes", cap(frames), len(m))
		}
		for _, fr := range frames {
			if fr.Item >= wire.MaxItems || fr.Offset < 0 || fr.Offset > wire.MaxSize || fr.Begin != nil && (fr.Begin.Mode > 0o777 || fr.Begin.Size < -1 || fr.Begin.Size >= 0 && fr.Begin.Offset > fr.Begin.Size) {
				t.Fatalf("a frame is read that is out of its range: %+v", fr)
			}
			if fr.Fail != nil && len(fr.Fail.Text) > 1000 {
				return // a Builder cuts it
			}
		}
		for n := 1; n < len(frames); n++ {
			if a, b := &frames[n-1], &frames[n]; a.Type == wire.FrameHole && b.Type == wire.FrameHole && a.Item == b.Item && a.Offset+a.Length == b.Offset && a.Length+b.Length <= transfer.MaxChunk {
				return // a Builder joins them
			}
		}
		again := rebuild(h, frames)
		if len(again) != len(m) {
			t.Fatalf("%d bytes, written again %d", len(m), len(again))
		}
		for i := range m {
			reserved := i < 2 || 32 <= i && i < 40
			if m[i] != again[i] && !reserved {
				t.Fatalf("byte %d is %#x, written again %#x", i, m[i], again[i])
			}
		}
	})
}

func ExampleBuilder() {
	b := wire.NewBuilder(4096, nil)
	b.Skip(1)
	b.Last(2)
	m := b.Seal(wire.Header{Epoch: 1, Seq: 5})
	h, frames, err := wire.ParseChunk(m)
	fmt.Println(h.Epoch, h.Seq, len(frames), err)
	// Output: 1 5 2 <nil>
}
