package flow

import "time"

// A Share divides a link between a reader and other data on another connection. Each side has as many bytes in flight
// as it receives in a second, so the first side would keep its part. A Share gives the reader less in flight while the
// reader has more of a full link than the other data, and more while it has less. The zero value is ready. One
// goroutine may use it.
type Share struct {
	at      time.Time // of the last sample; zero: there was none
	own     int64
	beside  int64
	total   float64 // recent maximum of both, in bytes a second
	portion float64
}

// Portions of the bytes that a Controller allows.
const (
	shareLess  = 0.7
	shareMore  = 1.5
	shareLeast = 200 * time.Millisecond // duration of a sample
	shareStale = 5 * time.Second
	shareFades = 0.98 // of the maximum, with each sample
)

// Portion takes the total bytes of the reader and of the other data so far. It returns the portion of the bytes allowed
// by the Controller that the reader may have in flight.
func (s *Share) Portion(own, beside int64, now time.Time) float64 {
	took := now.Sub(s.at)
	if took < shareLeast {
		return s.portion
	}
	mine, other := float64(own-s.own)/took.Seconds(), float64(beside-s.beside)/took.Seconds()
	s.at, s.own, s.beside = now, own, beside
	if took > shareStale { // or there was no sample
		s.portion, s.total = 1, 0
		return s.portion
	}

	all := mine + other
	s.total = max(all, shareFades*s.total)
	switch {
	case other < all/10:
		s.portion = 1
	case mine > 1.15*other && all >= 0.9*s.total:
		s.portion = shareLess
	case mine < 0.85*other, all < 0.9*s.total:
		s.portion = shareMore
	default:
		s.portion = 1
	}
	return s.portion
}
