package identity

import "testing"

// A Leaves caches a bounded number of certificates, those in use.
func TestLeavesAreBounded(t *testing.T) {
	var l Leaves
	used := [32]byte{0xff}
	l.put(used, &Leaf{})
	for n := range 10 * maxLeaves {
		l.put([32]byte{byte(n), byte(n >> 8)}, &Leaf{})
		if l.get(used) == nil {
			t.Fatalf("a certificate that is used is forgotten after %d others", n)
		}
	}
	if n := len(l.young) + len(l.old); n > maxLeaves {
		t.Errorf("%d certificates are remembered", n)
	}
}
