package place

import "ferry/internal/transfer"

// A Limiter is a Source or a Target that does not keep all promises of docs/places.md. A Router is none: its places are
// asked. Another type that wraps a place has to implement Limiter itself.
type Limiter interface {
	// Limits returns the promises that it does not keep. Audit records of transfers have them.
	Limits() []string
}

// SourceLimits returns the promises that a source does not keep for sources of a place.
func SourceLimits(s Source, of transfer.Place) []string {
	if r, ok := s.(*Router); ok {
		s = r.source(of)
	}
	return limits(s)
}

// TargetLimits returns the promises that a target does not keep for a DEST of a place.
func TargetLimits(t Target, of transfer.Place) []string {
	if r, ok := t.(*Router); ok {
		t = r.target(of)
	}
	return limits(t)
}

func limits(of any) []string {
	if l, ok := of.(Limiter); ok {
		return l.Limits()
	}
	return nil
}
