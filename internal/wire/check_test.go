package wire_test

import (
	"strings"
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A frame that is out of range is rejected, even if the hash of its message is right.
func TestFramesOutOfRange(t *testing.T) {
	begin := func(change func(*wire.Begin)) func(*wire.Builder) {
		b := wire.Begin{Type: transfer.ItemFile, Size: 10, Name: "a", Source: "/a"}
		change(&b)
		return func(w *wire.Builder) { w.Begin(1, &b) }
	}
	for what, add := range map[string]func(*wire.Builder){
		"item":             func(w *wire.Builder) { w.Skip(wire.MaxItems) },
		"number of items":  func(w *wire.Builder) { w.Last(1 << 63) },
		"offset below 0":   func(w *wire.Builder) { w.Hole(1, -1, 1) },
		"offset":           func(w *wire.Builder) { w.Data(1, 1<<62, 1) },
		"length below 0":   func(w *wire.Builder) { w.Hole(1, 0, -1) },
		"end":              func(w *wire.Builder) { w.End(1, -1<<63) },
		"type":             begin(func(b *wire.Begin) { b.Type = transfer.ItemBad }),
		"no type":          begin(func(b *wire.Begin) { b.Type = 0 }),
		"setuid":           begin(func(b *wire.Begin) { b.Mode = 0o4755 }),
		"mode":             begin(func(b *wire.Begin) { b.Mode = 1 << 31 }),
		"large size":       begin(func(b *wire.Begin) { b.Size = 1 << 62 }),
		"allocated":        begin(func(b *wire.Begin) { b.Allocated = -1 }),
		"offset past size": begin(func(b *wire.Begin) { b.Offset = 11 }),
		"a NUL":            begin(func(b *wire.Begin) { b.Name = "a\x00b" }),
		"long name":        begin(func(b *wire.Begin) { b.Name = transfer.Path(strings.Repeat("a/", 3000)) }),
		"form":             begin(func(b *wire.Begin) { b.Form = &transfer.Form{Encoding: strings.Repeat("x", 65)} }),
		"records":          begin(func(b *wire.Begin) { b.Form = &transfer.Form{Records: transfer.Records{LRECL: 1<<32 - 1}} }),
	} {
		b := wire.NewBuilder(16<<10, nil)
		add(b)
		if _, frames, err := wire.ParseChunk(b.Seal(wire.Header{Transfer: sampleID, Epoch: 1, Seq: 1})); transfer.KindOf(err) != transfer.KindMalformed {
			t.Errorf("%s: %v, %v", what, frames, err)
		}
	}
}

// A message that is out of range is reported so, and not as one of another version.
func TestOutOfRangeIsNotAnotherVersion(t *testing.T) {
	m := samples()["accept"]
	m.Accept.Settings.ChunkSize = 1 << 44
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wire.Decode(data); transfer.KindOf(err) != transfer.KindMalformed || !strings.Contains(err.Error(), "settings") {
		t.Errorf("%v", err)
	}
}
