// Package posixacl reads POSIX access control lists in the form that Linux uses: a version of 4 bytes, then entries of
// 8, each a tag, permission bits and an ID; all little-endian.
package posixacl

import "encoding/binary"

// The extended attributes that have the lists of a file or a directory.
const (
	Access  = "system.posix_acl_access"
	Default = "system.posix_acl_default"
)

// MaxSize is how large an extended attribute may be, in bytes.
const MaxSize = 64 << 10

// Version is the version of the format.
const Version = 2

const (
	header = 4
	size   = 8
)

// A Tag says which users an entry is for.
type Tag uint16

// The tags of entries.
const (
	Owner      Tag = 0x01 // the owner of the file
	User       Tag = 0x02 // the user with the ID
	OwnerGroup Tag = 0x04 // the group of the file
	Group      Tag = 0x08 // the group with the ID
	Mask       Tag = 0x10 // the most that entries for users and groups give, other than Owner
	Other      Tag = 0x20 // all other users
)

// An Entry is one entry of a list.
type Entry struct {
	Tag  Tag
	Perm uint32 // permission bits, at most 7
	ID   uint32 // of a User or a Group
}

// Parse reads a list. ok is false for none, and for one of another version.
func Parse(b []byte) (list []Entry, ok bool) {
	if len(b) < header || binary.LittleEndian.Uint32(b) != Version {
		return nil, false
	}
	for b = b[header:]; len(b) >= size; b = b[size:] {
		list = append(list, Entry{Tag(binary.LittleEndian.Uint16(b)), uint32(binary.LittleEndian.Uint16(b[2:])) & 0o7, binary.LittleEndian.Uint32(b[4:])})
	}
	return list, true
}

// Effective is the list with the mask applied to all entries that it holds for.
func Effective(list []Entry) []Entry {
	mask := uint32(0o7)
	for _, e := range list {
		if e.Tag == Mask {
			mask = e.Perm
		}
	}
	out := make([]Entry, len(list))
	for n, e := range list {
		if e.Tag == User || e.Tag == OwnerGroup || e.Tag == Group {
			e.Perm &= mask
		}
		out[n] = e
	}
	return out
}
