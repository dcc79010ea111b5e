package transfer

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
	"time"
)

// An ID names one transfer. It is a UUIDv7 (RFC 9562). Its first 48 bits are the submitter's clock in milliseconds, so
// that IDs sort by time. The submitter makes it once and uses it in every repeat of the request.
type ID [16]byte

// NewID returns an ID for the given time.
func NewID(now time.Time) ID {
	var id ID
	rand.Read(id[6:]) // never fails: crypto/rand ends the process instead
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// ParseID reads the 36-character form. It accepts version 7 only.
func ParseID(s string) (ID, error) {
	id, ok := parseID(s)
	if !ok { // the error is built only when needed: ParseID runs for every message
		return ID{}, Errorf(KindUsage, "transfer ID %q is malformed; it has the form 01890a5d-ac96-774b-bcce-b302099a8057", s)
	}
	return id, nil
}

func parseID(s string) (id ID, ok bool) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return id, false
	}

	digits := make([]byte, 0, 32)
	for _, part := range []string{s[:8], s[9:13], s[14:18], s[19:23], s[24:]} {
		digits = append(digits, part...)
	}
	_, err := hex.Decode(id[:], digits)
	return id, err == nil && id[6]>>4 == 7 && id[8]>>6 == 2
}

// CheckIDSuffix returns an error unless s is an ID or a suffix of one, with six characters or more.
func CheckIDSuffix(s string) error {
	if len(s) < 6 || len(s) > 36 || strings.Trim(strings.ToLower(s), "0123456789abcdef-") != "" {
		return Errorf(KindUsage, "transfer ID %q is malformed; give the whole ID or its last six or more characters", s)
	}
	return nil
}

func (id ID) String() string {
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// Time returns the time of the submitter's clock when the ID was made, to the millisecond.
func (id ID) Time() time.Time {
	var ms int64
	for i := range 6 {
		ms = ms<<8 | int64(id[i])
	}
	return time.UnixMilli(ms)
}

// IsZero reports whether the ID is unset.
func (id ID) IsZero() bool { return id == ID{} }

// MarshalText writes the 36-character form, and nothing for the zero ID.
func (id ID) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return nil, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText reads the 36-character form; the empty text is the zero ID.
func (id *ID) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*id = ID{}
		return nil
	}
	v, err := ParseID(string(b))
	*id = v
	return err
}
