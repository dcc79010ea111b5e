package sender

import "testing"

func TestCredit(t *testing.T) {
	c := &credit{limit: 10}
	for _, s := range []struct {
		least, most, got int64
		ok               bool
	}{{1, 4, 4, true}, {5, 100, 6, true}, {1, 1, 0, false}, {0, 1, 0, true}} {
		if got, ok := c.take(s.least, s.most); got != s.got || ok != s.ok {
			t.Errorf("of %+v it gives %d, %v", s, got, ok)
		}
	}
	c.giveBack(3)
	c.raise(5) // came late
	if got, ok := c.take(3, 9); got != 3 || !ok || c.used() != 10 {
		t.Errorf("after giveBack %d are taken, %v; %d are used", got, ok, c.used())
	}
	c.raise(12)
	if got, ok := c.take(1, 9); got != 2 || !ok {
		t.Errorf("beyond the first limit there are %d, %v", got, ok)
	}
}
