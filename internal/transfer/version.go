package transfer

import "encoding/base64"

// MaxVersion and MaxPlacePoint bound what a place says of its own, in bytes.
const (
	MaxVersion    = 256
	MaxPlacePoint = 1 << 10
)

// A Version tells one state of one source from any other. The place in which the
// source lies makes it when the source is opened, and is the only one that reads it;
// others compare it. It is at most MaxVersion bytes, of which the first says how it is
// written. In JSON it is base64.
type Version string

// MarshalText writes a version in base64.
func (v Version) MarshalText() ([]byte, error) {
	return base64.RawStdEncoding.AppendEncode(nil, []byte(v)), nil
}

// UnmarshalText reads what MarshalText writes; anything else is refused with KindMalformed.
func (v *Version) UnmarshalText(b []byte) error {
	if len(b) > base64.RawStdEncoding.EncodedLen(MaxVersion) {
		return Errorf(KindMalformed, "a version of a source has %d characters; %d bytes are the most", len(b), MaxVersion)
	}
	raw, err := base64.RawStdEncoding.Strict().AppendDecode(nil, b)
	if err != nil || base64.RawStdEncoding.EncodedLen(len(raw)) != len(b) { // it passes over line ends
		return Errorf(KindMalformed, "%.40q is no version of a source", b)
	}
	*v = Version(raw)
	return nil
}
