package wire_test

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/internal/content/compress"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// update writes the golden files anew: for a new kind, never for an existing one.
var update = flag.Bool("update", false, "write the golden files of messages")

var (
	sampleID    = transfer.ID{0x01, 0x89, 0x0a, 0x5d, 0xac, 0x96, 0x77, 0x4b, 0xbc, 0xce, 0xb3, 0x02, 0x09, 0x9a, 0x80, 0x57}
	sampleTime  = time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC)
	sampleVsn   = transfer.Version("\x01\x00\xffversion")
	sampleErr   = &transfer.Error{Kind: transfer.KindNoSpace, Text: "no space", Hint: "make some"}
	sampleCData = []byte{12, 0x04, 'a', 'b', 0x19, 2} // abababababab
	oddName     = transfer.Path("caf\xc3\xa9/\xff%\n")
)

func sampleRequest() transfer.Request {
	return transfer.Request{Version: transfer.RequestVersion, ID: sampleID, Submitted: sampleTime,
		Originator: transfer.Originator{User: "ann", Host: "box"}, Source: "ALPHA", Destination: "BETA",
		Items: append(transfer.ItemsAt(transfer.Match("in/*")), transfer.RequestItem{Source: transfer.File(oddName), Dest: transfer.File("list.txt"),
			Resolved: &transfer.Resolution{Base: "/srv/list.txt"}, Options: sampleText()}),
		Rest: &transfer.Rest{Items: 3, Bytes: 99, Sum: strings.Repeat("ef", 32), Deletes: true, Appends: true},
		Dest: transfer.File("out/"), Durability: transfer.DurabilityProcess, Lane: transfer.LaneQueue, Delivery: transfer.DeliveryFast,
		Compress: transfer.CompressNone, Priority: 9, Job: "nightly", Meta: map[string]string{"k": "v"},
		Settings: transfer.Settings{ChunkSize: 4096, WindowSize: 2, FrameSize: 3, CheckpointInterval: 4}, Recovery: transfer.Duration(-1),
		Options: transfer.Options{Recursive: true, Mode: transfer.ModeBinary, Checksum: "sha256",
			IfExists: transfer.IfExistsOverwrite, Disposition: transfer.DispositionDelete},
		Triggers: []transfer.Trigger{{When: transfer.TriggerSize, Size: 10, Files: []transfer.Path{oddName}}},
		Programs: &transfer.Programs{PreSource: sampleProgram("a.sh"), PostSource: sampleProgram("b.sh"), PreDest: sampleProgram("c.sh"), PostDest: sampleProgram("d/e.sh")}}
}

func sampleProgram(name string) *transfer.Program {
	return &transfer.Program{Name: name, Args: []string{"a b", "\n$HOME"}, Timeout: transfer.Duration(30 * time.Second), Retries: 2,
		Pause: transfer.Duration(time.Second), Success: "0,4-8"}
}

func sampleText() transfer.Options {
	return transfer.Options{Mode: transfer.ModeText, Disposition: transfer.DispositionLeave, Content: transfer.Content{ToEncoding: "IBM-1047"}}
}

func sampleResolved() []transfer.Resolved {
	return []transfer.Resolved{{N: 2, Resolution: transfer.Resolution{Base: "/srv/" + oddName}}, {N: 7, Error: sampleErr}}
}

func sampleResume() transfer.Resume {
	r := transfer.Resume{Points: []transfer.Point{{Item: 4, Source: 1000,
		Prefix: []transfer.Segment{{End: 1000, Sum: "00ff"}}, Version: sampleVsn}}}
	for _, n := range []uint64{0, 1, 2, 5, 900} {
		r.Decided.Add(n)
	}
	return r
}

// samples returns one message of every kind, with every field set.
func samples() map[string]*wire.Message {
	open := sampleRequest()
	open.Items, open.Rest, open.Triggers, open.Programs = nil, nil, nil, open.Programs.OfDest()
	of := func(m wire.Message) *wire.Message {
		m.From, m.Transfer = "ALPHA", sampleID
		return &m
	}
	return map[string]*wire.Message{
		"open": of(wire.Message{Kind: wire.KindOpen, Open: &wire.Open{Nonce: 3, Source: "00000000000000aa", Dest: "00000000000000bb",
			Several: true, Request: open, MaxChunk: 1 << 20, Principal: "ann@box", Targets: &wire.Targets{After: 1, More: true,
				List: []transfer.Target{{N: 2, Dest: transfer.File("list.txt"), Several: true, Resolved: &transfer.Resolution{Base: "/srv/list.txt"}, Options: sampleText()}}}}}),
		"resolved": of(wire.Message{Kind: wire.KindResolved, Resolved: &wire.Resolved{Nonce: 3, After: 1, Known: 7, List: sampleResolved()}}),
		"accept": of(wire.Message{Kind: wire.KindAccept, Accept: &wire.Accept{Nonce: 3, Epoch: 7, Dest: "00000000000000bb",
			Settings: transfer.DefaultSettings(), Lane: transfer.LaneQueue, Credit: 1 << 33, Sums: 19, Resume: sampleResume(),
			Resolution: transfer.Resolution{Base: "/srv/" + oddName, Into: true}, Resolved: sampleResolved()}}),
		"busy":   of(wire.Message{Kind: wire.KindBusy, Busy: &wire.Busy{Nonce: 3, Epoch: 7, Place: 2, Reason: sampleErr, Program: true}}),
		"refuse": of(wire.Message{Kind: wire.KindRefuse, Refuse: &wire.Refuse{Nonce: 3, Error: sampleErr}}),
		"ack": of(wire.Message{Kind: wire.KindAck, Ack: &wire.Ack{Epoch: 7, Seq: 1 << 50, Credit: 99, Bytes: 98, Here: 1<<50 + 3, At: 1 << 40,
			Safe: &wire.Safe{Item: 4, Offset: 1000}}}),
		"resync": of(wire.Message{Kind: wire.KindResync, Resync: &wire.Resync{Epoch: 8, Credit: 99, Resume: sampleResume(), Reason: "a gap",
			Direct: &wire.Direct{Mode: wire.DirectTLS, Addresses: []string{"h:1"}, Pin: strings.Repeat("ab", 32), Token: strings.Repeat("cd", 32)}}}),
		"outcomes": of(wire.Message{Kind: wire.KindOutcomes, Outcomes: &wire.Outcomes{Batch: 1<<32 | 5, Last: true, Outcomes: []transfer.Outcome{
			{Item: 0, Type: transfer.ItemFile, Path: oddName, Source: "/in/a", Size: 5000, Digest: "xxh3:00", SrcSum: "xxh3:00",
				Note: "taken", Taken: transfer.TakenPresumed, Version: sampleVsn, To: 2},
			{Item: 1, Type: transfer.ItemBad, Path: "b", Err: sampleErr}}}}),
		"outcomes-ack": of(wire.Message{Kind: wire.KindOutcomesAck, OutcomesAck: &wire.OutcomesAck{Batch: 1<<32 | 5}}),
		"cancel":       of(wire.Message{Kind: wire.KindCancel, Cancel: &wire.Cancel{Principal: "ann@box"}}),
		"alive":        of(wire.Message{Kind: wire.KindAlive, Alive: &wire.Alive{Epoch: 7}}),
		"cancelled":    of(wire.Message{Kind: wire.KindCancelled}),
	}
}

// chunks returns one chunk message of every frame type, one without frames and one with all types.
func chunks() map[string][]byte {
	head := wire.Header{Transfer: sampleID, Epoch: 7, Seq: 1<<40 | 3}
	begin := &wire.Begin{Type: transfer.ItemFile, Again: true, Mode: 0o640, Size: 5000, Mtime: -5, Allocated: 4096, Offset: 1000,
		Version: sampleVsn, Name: oddName, Source: "/in/" + oddName}
	formed := *begin
	formed.Form = &transfer.Form{Encoding: "IBM-1047", EOL: "lf", Records: transfer.Records{RECFM: "FBA", LRECL: 133, BLKSIZE: 27930}}
	unsized := *begin
	unsized.Size = -1
	one := func(add func(*wire.Builder)) []byte {
		b := wire.NewBuilder(4096, nil)
		add(b)
		return b.Seal(head)
	}
	frames := map[string]func(*wire.Builder){
		"empty":         func(*wire.Builder) {},
		"begin":         func(b *wire.Builder) { b.Begin(4, begin) },
		"data":          func(b *wire.Builder) { copy(b.Data(4, 1000, 5), "hello") },
		"hole":          func(b *wire.Builder) { b.Hole(4, 1005, 1<<40) },
		"end":           func(b *wire.Builder) { b.End(4, 5000) },
		"fail":          func(b *wire.Builder) { b.Fail(5, sampleErr, oddName) },
		"skip":          func(b *wire.Builder) { b.Skip(6) },
		"last":          func(b *wire.Builder) { b.Last(7) },
		"begin-unsized": func(b *wire.Builder) { b.Begin(4, &unsized) },
		"begin-form":    func(b *wire.Builder) { b.Begin(4, &formed) },
		"sum":           func(b *wire.Builder) { b.Sum(4, "xxh3:00ff", "") },
		"sum-tail":      func(b *wire.Builder) { b.Sum(4, "sha256:00ff", "00112233445566778899aabbccddeeff") },
		"cdata":         func(b *wire.Builder) { b.CData(4, 1005, 12, compress.S2, sampleCData) },
		"cdata-zstd":    func(b *wire.Builder) { b.CData(4, 1017, transfer.MaxChunk, compress.Zstd, []byte("some bytes")) },
	}
	out := map[string][]byte{}
	for name, add := range frames {
		out[name] = one(add)
	}
	out["all"] = one(func(b *wire.Builder) {
		for _, name := range []string{"begin", "data", "hole", "end", "sum", "fail", "skip", "last"} {
			frames[name](b)
		}
	})
	return out
}

// golden compares got with a file, so that no change of the format goes unnoticed.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s has changed on the wire:\n%s\nwas\n%s", name, got, want)
	}
}

// lines returns bytes as hex, 32 to a line.
func lines(b []byte) []byte {
	var out strings.Builder
	for len(b) > 0 {
		n := min(len(b), 32)
		out.WriteString(hex.EncodeToString(b[:n]) + "\n")
		b = b[n:]
	}
	return []byte(out.String())
}
