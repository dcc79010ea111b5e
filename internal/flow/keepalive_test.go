package flow

import (
	"testing"
	"time"
)

// A signer is a transfer that sends a keepalive when it is due.
type signer struct {
	*Flight
	seq  uint64
	last time.Time
}

// sign sends a message, and the other side acknowledges it.
func (s *signer) sign(now time.Time) {
	s.seq++
	s.Send(s.seq, 110, now)
	s.Out(now)
	s.Acked(s.seq, time.Time{}, now)
	s.controller.rate, s.controller.trip = slowestLink, time.Second // an answer without a delay would change them
	s.last = now
}

// On 64 kbit/s, 25 waiting transfers send one keepalive a second in all, with or without data of one of them. None
// is silent for longer than 24 s. The link is silent for at most 8 s. Each of three transfers sends one every 4 s.
func TestKeepalivesOfManyTransfers(t *testing.T) {
	const seconds = 240
	for _, c := range []struct {
		name      string
		transfers int
		data      bool
		signs     int
		longest   time.Duration
	}{
		{"25 transfers, data beside them", 25, true, 24 * seconds / 24, 24 * time.Second},
		{"25 transfers, no data", 25, false, 25 * seconds / 24, 24 * time.Second},
		{"three transfers, data beside them", 3, true, 2 * seconds / 4, 4 * time.Second},
		{"three transfers, no data", 3, false, 3 * seconds / 4, 4 * time.Second},
	} {
		l := &Controller{rate: slowestLink}
		start := time.Unix(1e9, 0)
		all := make([]*signer, c.transfers)
		for n := range all {
			all[n] = &signer{Flight: l.Join(func() {}), last: start}
		}
		signs, longest, silent, heard := 0, time.Duration(0), time.Duration(0), start
		for now := start; now.Sub(start) < seconds*time.Second; now = now.Add(time.Second) {
			for n, s := range all {
				longest = max(longest, now.Sub(s.last))
				if c.data && n == 0 {
					s.sign(now)
					continue
				}
				if s.Quiet(s.last, now) <= 0 {
					silent = max(silent, now.Sub(heard))
					signs, heard = signs+1, now
					s.sign(now)
				}
			}
		}
		if signs > c.signs {
			t.Errorf("%s: %d keepalives in %d s; at most %d are needed", c.name, signs, seconds, c.signs)
		}
		if longest > c.longest {
			t.Errorf("%s: a transfer was silent for %s", c.name, longest)
		}
		if !c.data && silent > keepaliveMost {
			t.Errorf("%s: the line was silent for %s", c.name, silent)
		}
	}
}

// If messages of 25 transfers take long on the link, one of the transfers says every 8 s beside the data that the
// source lives. Each of them does so if its own message takes 24 s.
func TestOneTransferSaysThatTheSourceLives(t *testing.T) {
	l := &Controller{rate: slowestLink}
	start := time.Unix(1e9, 0)
	var all []*Flight
	said := map[*Flight]int{}
	for range 25 {
		f := l.Join(func() {})
		f.Send(1, 4<<10, start)
		f.Out(start)
		all = append(all, f)
	}
	sum := 0
	for after := time.Second; after <= 23*time.Second; after += time.Second {
		for _, f := range all {
			if f.KeepaliveDue(start.Add(after)) {
				sum++
			}
		}
	}
	if sum < 2 || sum > 3 {
		t.Errorf("in 23 s the destination was told %d times that the source lives", sum)
	}
	for after := 24 * time.Second; after <= 48*time.Second; after += time.Second {
		for _, f := range all {
			if f.KeepaliveDue(start.Add(after)) {
				said[f]++
			}
		}
	}
	for n, f := range all {
		if said[f] < 1 || said[f] > 4 {
			t.Errorf("in 25 s transfer %d said %d times that the source lives", n, said[f])
		}
	}
}
