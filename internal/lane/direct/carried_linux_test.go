package direct_test

import (
	"testing"

	"ferry/internal/lane/direct"
)

// The source reports the bytes that its path has carried, and the destination the bytes that have arrived from it.
func TestAPathSaysWhatItCarries(t *testing.T) {
	_, a, b := two(t, nil)
	l := mustOpen(t, a, b, 1)
	before, _ := l.Carried()
	came := direct.Received(b.Hub, "ALPHA")
	message := framed(id(1), 1, 1, make([]byte, 100_000))
	size := len(message)
	if err := l.Send(message); err != nil {
		t.Fatal(err)
	}
	b.got(t, 1)
	until(t, "the path has carried the message", func() bool {
		n, waits := l.Carried()
		return int(n-before) >= size && !waits
	})
	if n := direct.Received(b.Hub, "ALPHA") - came; int(n) < size {
		t.Errorf("%d bytes have come of a message of %d", n, size)
	}
	if n := direct.Received(b.Hub, "GAMMA"); n != 0 {
		t.Errorf("%d bytes have come from an agent that has sent none", n)
	}
}
