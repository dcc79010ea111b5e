package flow

import "time"

// A Share divides a line between a reader and other data that come by another connection. Each side has as
// much under way as comes for it in a second. So the side that came first would keep its part. A Share lets the
// reader have less under way while the reader has more of a full line than the other data, and more while it has less. The
// zero value is ready. One goroutine may use it.
type Share struct {
	at      time.Time // of the last sample; zero: there was none
	own     int64
	beside  int64
	total   float64 // bytes a second of both, the most lately
	portion float64
}

// Portions of the bytes that a line allows.
const (
	shareLess  = 0.7
	shareMore  = 1.5
	shareLeast = 200 * time.Millisecond // a sample
	shareStale = 5 * time.Second
	shareFades = 0.98 // of the most, with each sample
)

// Portion takes in how many bytes the reader has got ever, and how many of other data have come. It gives the portion of
// the bytes that a line allows: so much may be under way for the reader.
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
