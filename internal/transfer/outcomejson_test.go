package transfer

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

// plainly returns v as encoding/json writes it.
func plainly(t testing.TB, v any, escapeHTML bool) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escapeHTML)
	if err := e.Encode(v); err != nil {
		t.Fatal(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

var someTexts = []string{"", "a", "/in/day/f-17.dat", "xxh3:00112233445566778899aabbccddeeff", "with blank", "a<b>&c", `"quoted"`, `back\slash`, "new\nline", "50%", "%41",
	"ü", "日本", "\u2028", "\xff\xfe", "del\x7f", "nul\x00", "'", "/"}

// fill sets fields to random values, most of them common ones.
func fill(r *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for n := range v.NumField() {
			if r.IntN(4) > 0 {
				fill(r, v.Field(n))
			}
		}
	case reflect.Pointer:
		if r.IntN(20) == 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem())
		}
	case reflect.String:
		k := 4
		if r.IntN(8) == 0 {
			k = len(someTexts)
		}
		v.SetString(someTexts[r.IntN(k)])
	case reflect.Bool:
		v.SetBool(r.IntN(20) == 0)
	case reflect.Int64:
		v.SetInt([]int64{0, 1, -1, 10 << 10, 1<<63 - 1, -1 << 63, r.Int64(), 999999999999999999, 1000000000000000000}[r.IntN(9)])
	case reflect.Uint8:
		v.SetUint([]uint64{0, 1, 2, 3, 255}[r.IntN(5)])
	case reflect.Uint64:
		v.SetUint([]uint64{0, 1, 1<<64 - 1, r.Uint64(), 999999999999999999, 1000000000000000000}[r.IntN(6)])
	}
}

func someOutcomes(r *rand.Rand) []Outcome {
	outs := make([]Outcome, r.IntN(5))
	for n := range outs {
		fill(r, reflect.ValueOf(&outs[n]).Elem())
		if r.IntN(5) > 0 {
			outs[n].Note, outs[n].Picked = "", ""
		}
	}
	return outs
}

// Outcomes are written and read exactly as by encoding/json. The special parser reads the common forms.
func TestOutcomesAsJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	read := 0
	for range 20_000 {
		outs, escape := someOutcomes(r), r.IntN(2) == 0
		want := plainly(t, outs, escape)
		got, err := AppendOutcomes([]byte("before"), outs, escape)
		if err != nil || string(got) != "before"+string(want) {
			t.Fatalf("%s, want %s: %v", got, want, err)
		}
		again, n, ok := ParseOutcomes(append(slices.Clone(want), "behind"...))
		if !ok {
			continue
		}
		if len(outs) > 0 {
			read++
		}
		var plain []Outcome
		if err := json.Unmarshal(want, &plain); err != nil || n != len(want) || !reflect.DeepEqual(again, plain) {
			t.Fatalf("%s was read as %+v, want %+v: %v", want, again, plain, err)
		}
	}
	if read < 800 {
		t.Errorf("only %d were read", read)
	}
	usual := []Outcome{{Item: 7, Type: ItemFile, Path: "/in/f", Source: "/out/ü", Size: 10, Digest: "xxh3:00", SrcSum: "xxh3:00",
		Version: "\x01some\xff"}, {Type: ItemDir, Path: "/in/50%"}}
	if again, _, ok := ParseOutcomes(plainly(t, usual, false)); !ok || !reflect.DeepEqual(again, usual) {
		t.Errorf("a common outcome is left to encoding/json: %v", again)
	}
}

// FuzzParseOutcomes: an accepted text has the same value in encoding/json.
func FuzzParseOutcomes(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 20 {
		f.Add(plainly(f, someOutcomes(r), false))
	}
	for _, s := range []string{`[]`, `[{"item":01,"type":"file","path":"a"}]`, `[{"item":1,"type":"file","path":"a"},]`, `[{"item":1,"type":300,"path":"a"}]`,
		`[{"item":1.0,"type":"file","path":"a"}]`, `[{"item":18446744073709551616,"type":"file","path":"a"}]`, `[{"item":1,"type":"file","path":"%4"}]`, `[{"item":1,"type":"file","path":"\u0041"}]`,
		`[{"item":-0,"type":"file","path":"a","size":-0}]`, `[{"item":1,"type":"file","path":"a","size":-9223372036854775808}]`, `[{"item":1,"type":"file","path":"a","path":"b"}]`, "[{\"item\":1,\"type\":1,\"path\":\"\xff\"}]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		outs, n, ok := ParseOutcomes(b)
		if !ok {
			return
		}
		var plain []Outcome
		if err := json.Unmarshal(b[:n], &plain); err != nil || !reflect.DeepEqual(outs, plain) {
			t.Fatalf("%q was read as %+v, want %+v: %v", b[:n], outs, plain, err)
		}
	})
}

func BenchmarkOutcomes(b *testing.B) {
	outs := make([]Outcome, 256)
	for n := range outs {
		outs[n] = Outcome{Item: uint64(n), Type: ItemFile, Path: "/srv/inbox/day/f000123.dat", Source: "/data/out/day/f000123.dat", Size: 10 << 10,
			Digest: "xxh3:00112233445566778899aabbccddeeff", SrcSum: "xxh3:00112233445566778899aabbccddeeff"}
	}
	text := plainly(b, outs, true)
	b.Run("append", func(b *testing.B) {
		var buf []byte
		for b.Loop() {
			buf, _ = AppendOutcomes(buf[:0], outs, true)
		}
	})
	b.Run("marshal", func(b *testing.B) {
		for b.Loop() {
			json.Marshal(outs)
		}
	})
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			ParseOutcomes(text)
		}
	})
	b.Run("unmarshal", func(b *testing.B) {
		for b.Loop() {
			var again []Outcome
			json.Unmarshal(text, &again)
		}
	})
}
