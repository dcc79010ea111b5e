package place

import (
	"strings"

	"ferry/internal/transfer"
)

// A Permit decides whether the principal of a request has a right to a file. It returns nil, or an error of KindDenied.
// right is one of AuthSource, AuthDeleteSource, AuthDest and AuthOverwrite. path is the true path of the file:
// absolute, with resolved links and with / between its names. A path with a / at its end is a directory: the question
// is whether the right holds for any file beneath it. A nil Permit allows everything.
type Permit func(right transfer.Authority, path string) error

// Reaches returns nil if the Permit allows a path or any file beneath it. The error is that for the path.
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

// Check returns the decision of the Permit.
func (p Permit) Check(right transfer.Authority, path string) error {
	if p == nil {
		return nil
	}
	return p(right, path)
}
