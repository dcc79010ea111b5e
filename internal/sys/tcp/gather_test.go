package tcp

import (
	"bytes"
	"net"
	"slices"
	"testing"
)

// sizes is a connection that keeps how long its writes were.
type sizes struct {
	net.Conn
	all  []int
	data bytes.Buffer
}

func (s *sizes) Write(b []byte) (int, error) {
	s.all = append(s.all, len(b))
	return s.data.Write(b)
}

// Records go out many at a time, in order, and none stays behind after a short one or a flush.
func TestGatheredWrites(t *testing.T) {
	const record = FullRecord + 22
	c := &sizes{}
	g := Gather(c)
	var want []byte
	write := func(n int) {
		b := bytes.Repeat([]byte{byte(len(want))}, n)
		want = append(want, b...)
		if k, err := g.Write(b); k != n || err != nil {
			t.Fatal(k, err)
		}
	}
	step := func(what string, calls ...int) {
		t.Helper()
		if !slices.Equal(c.all, calls) {
			t.Errorf("%s: calls of %d; want %d", what, c.all, calls)
		}
		c.all = nil
	}
	write(record)
	step("before start", record)
	g.in, g.out = nil, make([]byte, 0, gatherSize)
	write(record)
	write(record)
	step("full records")
	write(100)
	step("a short one", 2*record+100)
	write(30)
	step("a short one alone", 30)
	for range 9 {
		write(record)
	}
	step("more than there is room for", 7*record)
	if err := g.Flush(); err != nil {
		t.Fatal(err)
	}
	step("flush", 2*record)
	if err := g.Flush(); err != nil {
		t.Fatal(err)
	}
	step("nothing to flush")
	write(gatherSize + 1)
	step("longer than the memory", gatherSize+1)
	if !bytes.Equal(c.data.Bytes(), want) {
		t.Error("other bytes went out than were written")
	}
}
