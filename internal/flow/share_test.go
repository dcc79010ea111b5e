package flow

import (
	"testing"
	"time"
)

// On a full link a reader with nearly all of it gives half to other data within seconds. A reader with little gets
// half. The reader does not give way to data that needs no more.
func TestShareOfALink(t *testing.T) {
	const rate = 64e3 // bytes a second
	for _, c := range []struct {
		name        string
		part        float64 // of the reader at first
		wants       float64 // of the link, the most that the other data takes
		least, most float64 // part at the end
	}{
		{"the reader came first", 0.9, 1, 0.35, 0.65},
		{"the other data came first", 0.1, 1, 0.35, 0.65},
		{"the other data are few", 0.9, 0.05, 0.9, 1},
		{"the other data want a quarter", 0.5, 0.25, 0.55, 0.8},
	} {
		var s Share
		now := time.Unix(1000, 0)
		var own, beside float64
		part, sum := c.part, 0.0
		const rounds, counted = 40, 20
		for k := range rounds {
			portion := s.Portion(int64(own), int64(beside), now)
			// Each has its received bytes in flight, times its portion. The link serves them in proportion.
			mine := part * portion
			other := min(max(1-part, 0.02), c.wants)
			if full := mine + other; full > 1 {
				mine, other = mine/full, other/full
			}
			part = mine
			if free := 1 - mine - other; free > 0 && c.wants >= 1 {
				other += free
			}
			own, beside = own+mine*rate, beside+other*rate
			now = now.Add(time.Second)
			if k >= rounds-counted {
				sum += mine
			}
		}
		if got := sum / counted; got < c.least || got > c.most {
			t.Errorf("%s: the reader has %.2f of the line, want %.2f to %.2f", c.name, got, c.least, c.most)
		}
	}
}
