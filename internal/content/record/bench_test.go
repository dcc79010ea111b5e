package record

import (
	"bytes"
	"testing"
)

// The lines have 0 to 79 bytes, 40 on average, as in usual text.
func benchmarkText() []byte {
	var b []byte
	for n := 0; len(b) < 1<<20; n = (n + 37) % 80 {
		b = append(append(b, bytes.Repeat([]byte{'x'}, n)...), '\n')
	}
	return b
}

func BenchmarkConvert(b *testing.B) {
	text := benchmarkText()
	for _, recfm := range []string{"RECFM(FB),LRECL(80)", "RECFM(VB),LRECL(255)", "RECFM(FBA),LRECL(133)", "RECFM(U)"} {
		a := attrs(b, recfm)
		from := func() (*Converter, error) { return FromText(a, ASCII(), Options{}) }
		file, err := convert(b, from, text)
		if err != nil {
			b.Fatal(err)
		}
		for _, c := range []struct {
			name string
			make maker
			src  []byte
		}{
			{"text-to-", from, text},
			{"to-text-", func() (*Converter, error) { return ToText(a, ASCII(), Options{}) }, file},
			{"bytes-to-", func() (*Converter, error) { return FromBinary(a) }, text},
			{"to-bytes-", func() (*Converter, error) { return ToBinary(a) }, file},
		} {
			b.Run(c.name+a.RECFM(), func(b *testing.B) {
				b.SetBytes(int64(len(c.src)))
				dst := make([]byte, 256<<10)
				for b.Loop() {
					conv := must(b, c.make)
					for src := c.src; len(src) > 0; {
						_, m, err := conv.Convert(dst, src)
						if err != nil {
							b.Fatal(err)
						}
						src = src[m:]
					}
				}
			})
		}
	}
}
