package intent

import (
	"encoding/binary"

	"ferry/internal/place/local/disk"
	"ferry/internal/transfer"
)

// pointFormat is the first byte of a point in a temporary; a varint follows: its length.
const pointFormat = 1

// PointAt returns the resume point in a temporary after the given number of bytes.
func PointAt(at int64) []byte { return binary.AppendVarint([]byte{pointFormat}, at) }

// ParsePoint parses the result of PointAt. Its error is of KindVersion.
func ParsePoint(p []byte) (at int64, err error) {
	r := disk.NewFields(p)
	format := r.Byte()
	at = r.Int()
	if format != pointFormat || !r.Done() {
		return 0, transfer.Errorf(transfer.KindVersion, "a resume point in a local file is in a format that this version of Ferry does not know")
	}
	return at, nil
}
