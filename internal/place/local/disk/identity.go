package disk

import (
	"encoding/binary"

	"ferry/internal/transfer"
)

// An Identity distinguishes one state of one file from any other state or file. It is taken when the file is opened,
// and compared before its digest is sent and before the file is deleted. Times are nanoseconds since 1970.
type Identity struct {
	Dev, Ino           uint64
	Size, Mtime, Ctime int64
}

// SameFile compares the fields that a rename keeps: device, inode, size and mtime.
func (a Identity) SameFile(b Identity) bool {
	return a.Dev == b.Dev && a.Ino == b.Ino && a.Size == b.Size && a.Mtime == b.Mtime
}

// identityFormat is the first byte of an identity as it travels:
//
//	1 format  8 device  8 mtime  varints: size, inode, ctime less mtime
//
// The fields that files of one directory share come first.
const identityFormat = 1

// Version returns the identity as a transfer.Version.
func (a Identity) Version() transfer.Version {
	b := make([]byte, 17, 40)
	b[0] = identityFormat
	binary.BigEndian.PutUint64(b[1:], a.Dev)
	binary.BigEndian.PutUint64(b[9:], uint64(a.Mtime))
	b = binary.AppendVarint(b, a.Size)
	b = binary.AppendUvarint(b, a.Ino)
	return transfer.Version(binary.AppendVarint(b, a.Ctime-a.Mtime))
}

// ParseVersion parses the result of version. Its error is of KindVersion.
func ParseVersion(v transfer.Version) (a Identity, err error) {
	r := NewFields([]byte(v))
	if r.Byte() != identityFormat || len(r.b) < 16 {
		return a, transfer.Errorf(transfer.KindVersion, "the version of a local file is in a format that this version of Ferry does not know")
	}
	a.Dev, a.Mtime = binary.BigEndian.Uint64(r.b), int64(binary.BigEndian.Uint64(r.b[8:]))
	r.b = r.b[16:]
	a.Size, a.Ino = r.Int(), r.Uint()
	a.Ctime = a.Mtime + r.Int()
	if !r.Done() {
		return Identity{}, transfer.Errorf(transfer.KindVersion, "the version of a local file is damaged")
	}
	return a, nil
}

// Fields parses encoded fields one after another. After an error every field is zero.
type Fields struct {
	b   []byte
	bad bool
}

// NewFields returns the fields of encoded data.
func NewFields(b []byte) Fields { return Fields{b: b} }

// Byte parses one byte.
func (r *Fields) Byte() byte {
	if b := r.Bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// Bytes parses n bytes.
func (r *Fields) Bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.b, r.bad = nil, true
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// Uint parses a varint.
func (r *Fields) Uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.b, r.bad = nil, true
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Int parses a signed varint.
func (r *Fields) Int() int64 {
	v := r.Uint() // as encoding/binary has signed numbers: the sign is the lowest bit
	return int64(v>>1) ^ -int64(v&1)
}

// Text parses a text: its length and its bytes.
func (r *Fields) Text() string { return string(r.Bytes(r.Uint())) }

// Done reports whether all bytes have been read and no field was missing.
func (r *Fields) Done() bool { return !r.bad && len(r.b) == 0 }

// Identity returns the identity of the file in its present state.
func (s *Stat) Identity() Identity {
	return Identity{Dev: s.Dev, Ino: s.Ino, Size: s.Size, Mtime: s.Mtime, Ctime: s.Ctime}
}
