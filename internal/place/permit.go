package place

import (
	"strings"

	"ferry/internal/transfer"
)

// A Permit says whether somebody may do something with a file: nil, or an error of KindDenied.
// right is one of AuthSource, AuthDeleteSource, AuthDest and AuthOverwrite. path is where the
// file really lies, links resolved, absolute and with / between its names. One with a / at its end asks for a
// directory whether he may do so with any file beneath it. A nil Permit allows everything.
type Permit func(right transfer.Authority, path string) error

// Reaches is nil where the Permit allows a path, or any file beneath it. The error is that of the path.
func (p Permit) Reaches(right transfer.Authority, path string) error {
	err := p.Check(right, path)
	if transfer.KindOf(err) != transfer.KindDenied {
		return err
	}
	if beneath := p(right, strings.TrimSuffix(path, "/")+"/"); transfer.KindOf(beneath) != transfer.KindDenied {
		return beneath
	}
	return err
}

// Check is what the Permit says.
func (p Permit) Check(right transfer.Authority, path string) error {
	if p == nil {
		return nil
	}
	return p(right, path)
}
