package transfer

import "encoding/base64"

// MaxVersion and MaxPlacePoint bound the opaque data of a place, in bytes.
const (
	MaxVersion    = 256
	MaxPlacePoint = 1 << 10
)

// A Version distinguishes one state of one source from any other. The place of the source makes it when the source is
// opened, and only that place interprets it; other code compares it. It has at most MaxVersion bytes. The first byte is
// its format. In JSON it is base64.
type Version string

// MarshalText writes a version in base64.
func (v Version) MarshalText() ([]byte, error) {
	return base64.RawStdEncoding.AppendEncode(nil, []byte(v)), nil
}

// UnmarshalText reads the text of MarshalText. It refuses any other text with KindMalformed.
func (v *Version) UnmarshalText(b []byte) error {
	if len(b) > base64.RawStdEncoding.EncodedLen(MaxVersion) {
		return Errorf(KindMalformed, "a version of a source has %d characters; %d bytes are the most", len(b), MaxVersion)
	}
	raw, err := base64.RawStdEncoding.Strict().AppendDecode(nil, b)
	if err != nil || base64.RawStdEncoding.EncodedLen(len(raw)) != len(b) { // DecodeString ignores line ends
		return Errorf(KindMalformed, "%.40q is no version of a source", b)
	}
	*v = Version(raw)
	return nil
}
