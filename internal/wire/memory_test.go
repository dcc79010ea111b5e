package wire

import "testing"

func TestMemoryLendsWhatIsAskedFor(t *testing.T) {
	var none *Memory
	none.Put(none.Get(100))
	m := &Memory{}
	for _, n := range []int{0, 1, HeaderSize, memoryStep / 2, memoryStep, memoryStep + 1, 1<<20 + Overhead, memorySteps * memoryStep, 5 << 20} {
		for range 3 {
			b := m.Get(n)
			if len(b) != n {
				t.Fatalf("asked for %d bytes, got %d", n, len(b))
			}
			for i := range b {
				b[i] = 1
			}
			m.Put(b)
			m.Put(b[:0:0]) // no capacity is left to lend
		}
	}
	m.Put(make([]byte, 100)) // not from this Memory
	if b := m.Get(100); len(b) != 100 {
		t.Fatal("a foreign buffer is lent")
	}
}
