package record

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

// A line of 1 GiB without an end is never held: no memory is allocated for it, and the state stays small. The same
// holds for output that grows: a line end becomes a record of 32,760 bytes.
func TestHugeLineIsNotBuffered(t *testing.T) {
	const piece = 1 << 20
	for _, c := range []struct {
		recfm string
		long  LongLines
		fill  byte
		size  int
		want  int64
	}{
		{"RECFM(FB),LRECL(80)", Wrap, 'x', 1 << 30, (1<<30 + 79) / 80 * 80},
		{"RECFM(VB),LRECL(32756)", Wrap, 'x', 1 << 30, 1<<30 + (1<<30+32751)/32752*8},
		{"RECFM(V),LRECL(1024)", Truncate, 'x', 1 << 30, 1024},
		{"RECFM(FB),LRECL(32760)", Wrap, '\n', 1 << 15, 32760 << 15},
	} {
		c2 := must(t, func() (*Converter, error) { return FromText(attrs(t, c.recfm), ASCII(), Options{Long: c.long}) })
		src, dst := bytes.Repeat([]byte{c.fill}, min(piece, c.size)), make([]byte, 64<<10)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var given int64
		for left := c.size; left > 0; {
			n, m, err := c2.Convert(dst, src[:min(left, len(src))])
			if err != nil || n == 0 && m == 0 {
				t.Fatalf("%s: %d, %d, %v with %d bytes left", c.recfm, n, m, err, left)
			}
			given, left = given+int64(n), left-m
		}
		for done := false; !done; {
			var n int
			var err error
			if n, done, err = c2.Finish(dst); err != nil {
				t.Fatal(err)
			}
			given += int64(n)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 256<<10 {
			t.Errorf("%s: %d bytes were allocated on the way", c.recfm, got)
		}
		if given != c.want {
			t.Errorf("%s: %d bytes, want %d", c.recfm, given, c.want)
		}
		state, err := c2.MarshalBinary()
		if err != nil || len(state) > 128 {
			t.Errorf("%s: a state of %d bytes, %v", c.recfm, len(state), err)
		}
	}
	c := must(t, func() (*Converter, error) {
		return FromText(attrs(t, "RECFM(FB),LRECL(80)"), ASCII(), Options{Long: Fail})
	})
	if n, m, err := c.Convert(make([]byte, piece), bytes.Repeat([]byte{'x'}, piece)); n > 80 || m > 80 || transfer.KindOf(err) != transfer.KindMalformed {
		t.Errorf("a line that must fail: %d, %d, %v", n, m, err)
	}
}

func TestStatesAreBounded(t *testing.T) {
	most := 0
	for _, text := range []string{"RECFM(VB),LRECL(32756)", "RECFM(VB),LRECL(80),BLKSIZE(32760)", "RECFM(V),LRECL(32756)", "RECFM(U),BLKSIZE(32760)", "RECFM(FB),LRECL(32760)", "RECFM(VBA),LRECL(32756)"} {
		a := attrs(t, text)
		src := bytes.Repeat([]byte("x"), 200_000)
		for i := 0; i < len(src); i += 1000 {
			src[i+i/1000%7] = '\n'
		}
		drive(t, func() (*Converter, error) { return FromText(a, ASCII(), Options{}) }, src,
			feed{pieces(977), pieces(3001), func() bool { return true }, nil})
		c := must(t, func() (*Converter, error) { return FromText(a, ASCII(), Options{}) })
		for at := 0; at < len(src); {
			_, m, err := c.Convert(make([]byte, 7000), src[at:min(len(src), at+977)])
			if err != nil {
				t.Fatal(err)
			}
			at += m
			state, err := c.MarshalBinary()
			if err != nil {
				t.Fatal(err)
			}
			if most = max(most, len(state)); a.Format.fixed() && len(state) > 64 {
				t.Fatalf("%s: a state of %d bytes", a, len(state))
			}
		}
	}
	if most > MaxState || most < MaxBLKSIZE/2 {
		t.Errorf("the largest state has %d bytes; the limit is %d, and half a block should be in one of them", most, MaxState)
	}
}

func TestStatesOfOthersAreRefused(t *testing.T) {
	fb, vb := attrs(t, "RECFM(FB),LRECL(80)"), attrs(t, "RECFM(VB),LRECL(80)")
	makers := []maker{
		func() (*Converter, error) { return FromText(fb, ASCII(), Options{}) },
		func() (*Converter, error) { return FromText(fb, EBCDIC(), Options{}) },
		func() (*Converter, error) { return FromText(fb, ASCII(), Options{Long: Truncate}) },
		func() (*Converter, error) { return FromText(vb, ASCII(), Options{}) },
		func() (*Converter, error) { return ToText(fb, ASCII(), Options{}) },
		func() (*Converter, error) { return ToText(fb, ASCII(), Options{KeepTrailingBlanks: true}) },
		func() (*Converter, error) { return ToBinary(fb) },
		func() (*Converter, error) { return FromBinary(fb) },
		func() (*Converter, error) { return Reblock(fb, vb, 0, Options{}) },
		func() (*Converter, error) { return Reblock(fb, vb, 1, Options{}) },
		func() (*Converter, error) { return Reblock(vb, fb, 0, Options{}) },
	}
	for i, m := range makers {
		state, err := must(t, m).MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		for j, other := range makers {
			err := must(t, other).UnmarshalBinary(state)
			if (err == nil) != (i == j) || err != nil && !strings.Contains(err.Error(), "other attributes") {
				t.Errorf("the state of %d in %d: %v", i, j, err)
			}
		}
		refuse := func(what string, b []byte, want string) {
			c := must(t, m)
			if err := c.UnmarshalBinary(b); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%d: a state %s: %v", i, what, err)
			} else if _, _, again := c.Convert(make([]byte, 9), []byte("x")); again == nil {
				t.Errorf("%d: after a state %s it goes on", i, what)
			}
		}
		for n := range len(state) {
			refuse(fmt.Sprintf("of %d bytes", n), state[:n], "cannot be used")
		}
		refuse("with something after it", append(bytes.Clone(state), 0), "cannot be used")
		refuse("that is too long", bytes.Repeat([]byte{1}, MaxState+1), "too long")
		state[0] = 2
		refuse("of another version", state, "version 2; this is version 1")
	}
}
