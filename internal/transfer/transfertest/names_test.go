package transfertest

import "testing"

func TestHostile(t *testing.T) {
	if n := len(Hostile()); n < 300 {
		t.Errorf("there are %d names", n)
	}
}
