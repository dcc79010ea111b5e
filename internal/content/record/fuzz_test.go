package record

import (
	"bytes"
	"testing"
)

// chosen returns the attributes of a fuzzed byte.
func chosen(t testing.TB, n byte) Attributes {
	all := append(formats(t), asaFormats(t)...)
	return all[int(n)%len(all)]
}

// For any bytes of a file, reading them at once and byte by byte gives the same records or the same error. The summary
// counts those records, and records that were read can be written again unchanged.
func FuzzReadRecords(f *testing.F) {
	f.Add(byte(0), []byte("abcdefgh"))
	f.Add(byte(3), []byte("\x00\x06\x00\x00ab\x00\x04\x00\x00"))
	f.Add(byte(6), []byte("\x00\x0e\x00\x00\x00\x06\x00\x00ab\x00\x04\x00\x00"))
	f.Add(byte(6), []byte("\x00\x0e\x00\x00\x00\x06\x00\x00ab\x00\x03\x00\x00"))
	f.Add(byte(8), []byte("\x00\x06\x00\x00ab\x00\x05\x00\x00c"))
	f.Add(byte(11), []byte(" abcde0abcde"))
	f.Fuzz(func(t *testing.T, n byte, file []byte) {
		a := chosen(t, n)
		for name, make := range readers(a) {
			whole, err1 := convert(t, make, file)
			bits, err2 := drive(t, make, file, feed{pieces(1), pieces(1), func() bool { return true }, nil})
			if (err1 == nil) != (err2 == nil) || err1 != nil && err1.Error() != err2.Error() || !bytes.Equal(whole, bits) {
				t.Fatalf("%s to %s: whole %q, %v; byte for byte %q, %v", a, name, whole, err1, bits, err2)
			}
		}
		same := func() (*Converter, error) { return Reblock(a, a, 0, Options{Long: Fail}) }
		out, err := convert(t, same, file)
		s, sumErr := Summarize(bytes.NewReader(file), int64(len(file)), a)
		if (err == nil) != (sumErr == nil) || s.Bytes > int64(len(file)) {
			t.Fatalf("%s: %v, and summed up %+v, %v", a, err, s, sumErr)
		}
		if err != nil {
			return
		}
		records := modelRecords(a, file)
		if s.Records != int64(len(records)) || s.Bytes != int64(len(file)) {
			t.Fatalf("%s: %+v, and %d records", a, s, len(records))
		}
		if want := modelFile(a, records, 0, false); !bytes.Equal(out, want) {
			t.Fatalf("%s: %q becomes %q, want %q", a, file, out, want)
		}
	})
}

// The conversions accept any text in any pieces.
func FuzzText(f *testing.F) {
	f.Add(byte(0), byte(1), byte(1), []byte("abc\n\nabcdefgh\n"))
	f.Add(byte(6), byte(3), byte(7), []byte("\n\n\nabcdefghijklmnopqrstuvwxyz"))
	f.Add(byte(13), byte(2), byte(2), []byte("\f\n\r\n\n\n\nabc"))
	f.Fuzz(func(t *testing.T, n, src, dst byte, text []byte) {
		a := chosen(t, n)
		if len(text) > 4096 {
			return
		}
		for _, p := range []Page{ASCII(), crlf()} {
			if a.ASA && len(p.LineEnd) > 1 {
				continue
			}
			make := func() (*Converter, error) { return FromText(a, p, Options{}) }
			want, err := convert(t, make, text)
			if err != nil {
				t.Fatal(err)
			}
			if !a.ASA && !bytes.Equal(want, modelFromText(a, p, Wrap, text)) {
				t.Fatalf("%s: %q becomes %q", a, text, want)
			}
			got, err := drive(t, make, text, feed{pieces(1 + int(src)), pieces(1 + int(dst)), func() bool { return true }, nil})
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s: %q becomes %q, in pieces %q, %v", a, text, want, got, err)
			}
			if _, err := convert(t, func() (*Converter, error) { return ToText(a, p, Options{}) }, want); err != nil {
				t.Fatalf("%s: %q becomes %q, which is not sound: %v", a, text, want, err)
			}
		}
	})
}

// Any state is refused, or the conversion continues from it and ends, perhaps with an error.
func FuzzState(f *testing.F) {
	for n := range byte(17) {
		for kind := range byte(5) {
			c := must(f, fuzzed(f, n, kind))
			c.Convert(make([]byte, 7), []byte("\x00\x0e\x00\x00\x00\x06\x00\x00 b\n\x00\x04\x00\x00"))
			if state, err := c.MarshalBinary(); err == nil {
				f.Add(n, kind, state[9:], []byte("\x00\x00abc\n\x00\x05\x00\x00d"))
			}
		}
	}
	f.Fuzz(func(t *testing.T, n, kind byte, state, src []byte) {
		make9 := fuzzed(t, n, kind)
		c := must(t, make9)
		own, err := c.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		if c.UnmarshalBinary(append(own[:9:9], state...)) != nil || len(src) > 4096 {
			return
		}
		again, err := c.MarshalBinary()
		if err != nil || len(again) > MaxState || must(t, make9).UnmarshalBinary(again) != nil {
			t.Fatalf("the state %X comes back as %X, %v", state, again, err)
		}
		dst := make([]byte, 100)
		for range 100_000 {
			n, m, err := c.Convert(dst, src)
			if src = src[m:]; err != nil {
				return
			}
			if len(src) == 0 && n < len(dst) {
				break
			}
		}
		for range 100_000 {
			if _, done, err := c.Finish(dst); err != nil || done {
				return
			}
		}
		t.Fatalf("from the state %X it does not end", state)
	})
}

// fuzzed makes the kind of converter of two fuzzed bytes.
func fuzzed(t testing.TB, n, kind byte) maker {
	a := chosen(t, n)
	switch kind % 5 {
	case 0:
		return func() (*Converter, error) { return FromText(a, ASCII(), Options{}) }
	case 1:
		return func() (*Converter, error) { return ToText(a, ASCII(), Options{}) }
	case 2:
		return func() (*Converter, error) { return FromBinary(a) }
	case 3:
		return func() (*Converter, error) { return ToBinary(a) }
	}
	return func() (*Converter, error) { return Reblock(a, chosen(t, n+5), 0, Options{Long: Truncate}) }
}
