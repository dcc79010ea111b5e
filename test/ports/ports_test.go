package ports

import (
	"fmt"
	"net"
	"testing"
)

// TestTake reserves ports and the ones after them.
func TestTake(t *testing.T) {
	seen := map[int]bool{}
	for range 100 {
		n, release, err := Take()
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		if seen[n] || seen[n+1] {
			t.Errorf("%d or %d is reserved already", n, n+1)
		}
		seen[n], seen[n+1] = true, true
		for _, port := range []int{n, n + 1} {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				t.Errorf("a reserved port cannot be listened on: %v", err)
				continue
			}
			l.Close()
		}
	}
}

// TestReserve refuses a port while the one after it is reserved or is listened on, and takes it
// afterwards.
func TestReserve(t *testing.T) {
	n, release, err := Take()
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := reserve(n-1, n); ok {
		t.Error("a port is reserved twice")
	}
	release()
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", n))
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := reserve(n-1, n); ok {
		t.Error("a port is reserved that is listened on")
	}
	l.Close()
	held, ok := reserve(n)
	if !ok {
		t.Error("a port that was released is not free")
	}
	closeAll(held)
}
