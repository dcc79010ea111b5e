package place

import "ferry/internal/transfer"

// A Permit says whether somebody may do something with a file: nil, or an error of KindDenied.
// right is one of AuthSource, AuthDeleteSource, AuthDest and AuthOverwrite. path is where the
// file really lies, links resolved, absolute and with / between its names. A nil Permit
// allows everything.
type Permit func(right transfer.Authority, path string) error

// Check is what the Permit says.
func (p Permit) Check(right transfer.Authority, path string) error {
	if p == nil {
		return nil
	}
	return p(right, path)
}
