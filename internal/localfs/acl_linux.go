package localfs

import (
	"encoding/binary"
	"errors"

	"golang.org/x/sys/unix"
)

// An access control list, as the kernel gives it: a version of 4 bytes, then entries of 8, each a
// kind, permission bits and an ID; all little-endian.
const (
	aclDefault = "system.posix_acl_default"
	aclVersion = 2
	aclHeader  = 4
	aclEntry   = 8
)

// The kinds of entries that permission bits stand for.
const (
	aclUser  = 0x01 // the owner
	aclGroup = 0x04 // the owner's group
	aclMask  = 0x10 // the most that all groups and named users have
	aclOther = 0x20
)

// DefaultMode reads the default access control list of a directory. The kernel gives a new file
// these bits, less those that the call which makes it leaves out, and then no umask.
func (realDisk) DefaultMode(d *Dir) (mode uint32, ok bool, err error) {
	var b [aclHeader + 64*aclEntry]byte
	var n int
	err = retry(func() error {
		n, err = unix.Fgetxattr(dirFD(d), aclDefault, b[:])
		return err
	})
	if errors.Is(err, unix.ERANGE) { // more entries than are usual
		return longDefaultMode(dirFD(d))
	}
	return modeOfACL(b[:max(n, 0)], err)
}

func longDefaultMode(fd int) (mode uint32, ok bool, err error) {
	b := make([]byte, 64<<10) // the most that an attribute has
	n, err := unix.Fgetxattr(fd, aclDefault, b)
	return modeOfACL(b[:max(n, 0)], err)
}

// modeOfACL is the permission bits for which a list stands. Where there is a mask, the group's bits
// are those of the mask, as chmod and stat have it.
func modeOfACL(b []byte, err error) (mode uint32, ok bool, _ error) {
	switch {
	case errors.Is(err, unix.ENODATA), notOffered(err), err == nil && len(b) < aclHeader:
		return 0, false, nil
	case err != nil:
		return 0, false, err
	case binary.LittleEndian.Uint32(b) != aclVersion:
		return 0, false, nil
	}
	masked := false
	for b = b[aclHeader:]; len(b) >= aclEntry; b = b[aclEntry:] {
		perm := uint32(binary.LittleEndian.Uint16(b[2:])) & 0o7
		switch binary.LittleEndian.Uint16(b) {
		case aclUser:
			mode |= perm << 6
		case aclMask:
			mode, masked = mode&^0o070|perm<<3, true
		case aclGroup:
			if !masked {
				mode |= perm << 3
			}
		case aclOther:
			mode |= perm
		}
	}
	return mode, true, nil
}
