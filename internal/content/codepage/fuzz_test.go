package codepage

import (
	"bytes"
	"testing"
)

// Any bytes, any two pages and any line ends: the fast loops give the result of single steps, and a stop anywhere
// changes nothing. Text that was converted without a replacement converts back to the same text.
func FuzzConvert(f *testing.F) {
	pages := List()
	number := func(name string) uint8 {
		for i, p := range pages {
			if p.Name() == name {
				return uint8(i)
			}
		}
		f.Fatal(name)
		return 0
	}
	for _, j := range journeys {
		f.Add(number(page(f, j.from).Name()), number(page(f, j.to).Name()), uint8(j.eol), true, uint16(7), text(f, page(f, j.from), j.sample))
	}
	f.Add(number("GB18030"), number("UTF-8"), uint8(Keep), false, uint16(3), []byte("a\x81\x30\x81\x30\x90\x30\x81\x30\xff\x81"))
	f.Add(number("IBM-939"), number("IBM-939"), uint8(CRLF), true, uint16(4), []byte("\x0e\x45\x45\x15\x0f\x0e\x0e\x0d\x25\x0e\x0f\x0d"))
	f.Add(number("ISO-2022-JP"), number("ISO-2022-KR"), uint8(LF), true, uint16(5), []byte("\x1b$BF|\n\x1b(J\\\x1b(I1\x1b$\x1b\x1b$BF\x0e\x1b$)C"))
	f.Add(number("ISO-2022-KR"), number("ISO-2022-JP"), uint8(CRLF), true, uint16(2), []byte("\x0eGQ \x0e\x1b$)CGQ\x0f\x0f\r\x0eG"))
	f.Add(number("UTF-32"), number("EUC-TW"), uint8(Default), false, uint16(3), []byte("\xff\xfe\x00\x00\x00\x4e\x00\x00\x00\x00\x02\x00"))
	f.Add(number("EUC-TW"), number("UTF-32"), uint8(Keep), false, uint16(3), []byte("\x8e\xa2\xa1\xa1a\x8e\xa2\xa1\r\x8e"))
	f.Add(number("IBM-300"), number("IBM-834"), uint8(Keep), false, uint16(1), []byte("\x40\x40\x45\x45\x15\x25"))
	f.Add(number("UTF-8"), number("UTF-8-BOM"), uint8(LF), true, uint16(1), []byte("\xef\xbb\xbf\xef\xbb\xbf\r\xf4\x90\x80\x80\r\n"))
	f.Fuzz(func(t *testing.T, from, to, eol uint8, replace bool, cut uint16, src []byte) {
		if len(pages) > 256 {
			t.Fatal("a byte is too small for the number of a page")
		}
		if len(src) == 0 || len(src) > 1<<12 {
			return
		}
		o := Options{From: pages[int(from)%len(pages)], To: pages[int(to)%len(pages)], ToEOL: EOL(eol % 5)}
		if o.ToEOL == Keep {
			o.FromEOL = Keep
		}
		if replace {
			o.Replace = "?"
		}
		if _, err := New(o); err != nil {
			return // a line end that the page lacks
		}
		compareWithSteps(t, o, src)
		whole, err := all(t, o, src)
		if err != nil {
			return
		}
		at := int(cut) % len(src)
		c := converter(t, o)
		dst, err := c.Convert(nil, src[:at])
		if err != nil {
			t.Fatal(err)
		}
		c = resumed(t, o, c)
		if dst, err = c.Convert(dst, src[at:]); err == nil {
			dst, err = c.Finish(dst)
		}
		if err != nil || !bytes.Equal(dst, whole) {
			t.Fatalf("%s: %q cut at %d gives %q, %v; want %q", o.describe(), src, at, dst, err, whole)
		}
		if !replace && o.ToEOL == Keep && o.From != o.To { // between the same pages bytes are copied, right or wrong
			comesBack(t, o, src, whole)
		}
	})
}

// comesBack converts both texts to Unicode, where equal text has equal bytes, and compares them.
func comesBack(t *testing.T, o Options, src, dst []byte) {
	t.Helper()
	unicode, err := Lookup("UTF-8")
	if err != nil {
		t.Fatal(err)
	}
	was := must(t, Options{From: o.From, To: unicode, FromEOL: Keep}, src)
	is := must(t, Options{From: o.To, To: unicode, FromEOL: Keep}, dst)
	if o.From.table == nil {
		was = bytes.TrimPrefix(was, []byte("\ufeff"))
	}
	is = bytes.TrimPrefix(is, []byte("\ufeff"))
	if !bytes.Equal(was, is) {
		t.Fatalf("%s: %q is %q, which is %q and not %q", o.describe(), src, dst, is, was)
	}
}

func FuzzState(f *testing.F) {
	conversions := []Options{
		{From: page(f, "UTF-8"), To: page(f, "IBM-930")}, {From: page(f, "ISO-2022-JP"), To: page(f, "ISO-2022-JP"), ToEOL: CRLF},
		{From: page(f, "ISO-2022-KR"), To: page(f, "UTF-32")},
	}
	for i, pieces := range [][]string{{"", "a", "漢\xe6", "\r"}, {"", "a", "\x1b$BF|", "\x1b(I1", "\x1b$", "B"}, {"\x1b$)C", "\x0eGQG", "\x0f\r"}} {
		c := converter(f, conversions[i])
		for _, piece := range pieces {
			if _, err := c.Convert(nil, []byte(piece)); err == nil {
				b, _ := c.State().MarshalBinary()
				f.Add(b)
			}
		}
	}
	f.Add([]byte{stateVersion})
	f.Fuzz(func(t *testing.T, b []byte) {
		var s State
		if s.UnmarshalBinary(b) != nil {
			return
		}
		again, err := s.MarshalBinary()
		var same State
		if err != nil || len(again) > MaxState || same.UnmarshalBinary(again) != nil || same != s {
			t.Fatalf("%x is %+v, which is %x and %+v", b, s, again, same)
		}
		// Resuming from any such state fails only with an error.
		for _, o := range conversions {
			s.belongs = converter(t, o).st.belongs
			next, err := Resume(o, s)
			if err != nil {
				continue
			}
			dst, err := next.Convert(nil, []byte("a漢\x1b$BF|\r\n"))
			if err == nil {
				next.Finish(dst)
			}
		}
	})
}

func FuzzLookup(f *testing.F) {
	for _, name := range []string{"IBM-1047", "cp037", "", "IBM-1074", "\xff", "ISO_8859-1:1987", "0", "00000000000000000000"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		p, err := Lookup(name)
		if (p == nil) == (err == nil) || err != nil && len(err.Error()) > 600 {
			t.Fatalf("%q is %v, %v", name, p, err)
		}
	})
}
