package codepage

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// block is the size of a chunk of text.
const block = 256 << 10

// report returns a text of lines of 80 characters, as mainframes print it.
func report(n int) []byte {
	line := "00012345 INVOICE   2026-03-31  MUELLER AND SONS LTD     1,234.56 EUR  Paid in full\n"
	return bytes.Repeat([]byte(line), n/len(line)+1)[:n]
}

func BenchmarkConvert(b *testing.B) {
	german := bytes.Repeat([]byte("Die Brücke über den Fluß führt zu größeren Städten; Öl und Äpfel überall.\n"), 4000)
	japanese := bytes.Repeat([]byte("日本語のテキストは二バイトの文字で書かれています。\n"), 4000)
	for _, c := range []struct {
		from, to string
		text     []byte
		note     string
		fromEOL  EOL
		toEOL    EOL
	}{
		{"IBM-1047", "UTF-8", report(block), "", Default, Default},
		{"UTF-8", "IBM-1047", report(block), "", Default, Default},
		{"IBM-1047", "UTF-8", report(block), "crlf", Default, CRLF},
		{"IBM-273", "UTF-8", german, "german", Default, Default},
		{"UTF-8", "IBM-273", german, "german", Default, Default},
		{"IBM-1047", "ISO-8859-1", report(block), "", Default, Default},
		{"IBM-037", "IBM-1047", report(block), "", Default, Default},
		{"UTF-8", "UTF-8", report(block), "", Default, LF},
		{"UTF-8", "UTF-8", report(block), "crlf", Default, CRLF},
		{"UTF-8", "UTF-8", report(block), "identity", LF, LF},
		{"UTF-8", "UTF-8", japanese, "japanese", Default, LF},
		{"Shift_JIS", "UTF-8", japanese, "japanese", Default, Default},
		{"UTF-8", "Shift_JIS", report(block), "", Default, Default},
		{"IBM-939", "UTF-8", japanese, "japanese", Default, Default},
		{"UTF-8", "IBM-939", japanese, "japanese", Default, Default},
		{"UTF-8", "UTF-16LE", report(block), "", Default, Default},
		{"UTF-16LE", "UTF-8", report(block), "", Default, Default},
	} {
		name := strings.TrimSuffix(fmt.Sprintf("%s_%s_%s", c.from, c.to, c.note), "_")
		b.Run(name, func(b *testing.B) {
			o := Options{From: page(b, c.from), To: page(b, c.to), FromEOL: c.fromEOL, ToEOL: c.toEOL}
			src := must(b, Options{From: page(b, "UTF-8"), To: o.From}, c.text)
			conv := converter(b, o)
			dst := make([]byte, 0, 4*len(src))
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				var err error
				if dst, err = conv.Convert(dst[:0], src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkConvertParallel(b *testing.B) {
	o := Options{From: page(b, "IBM-1047"), To: page(b, "UTF-8")}
	src := must(b, Options{From: page(b, "UTF-8"), To: o.From}, report(4*block))
	for _, n := range []int{1, 2, runtime.GOMAXPROCS(0)} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			conv := converter(b, o)
			var dst []byte
			b.SetBytes(int64(len(src)))
			for b.Loop() {
				var err error
				if dst, err = conv.ConvertParallel(dst[:0], src, n); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
