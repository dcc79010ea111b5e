package disk

import (
	"errors"

	"golang.org/x/sys/unix"

	"ferry/internal/sys/posixacl"
)

// DefaultMode reads the default access control list of a directory. The kernel gives these bits to a new file, less the
// bits that the creating call leaves out. The umask does not apply then.
func (realDisk) DefaultMode(d *Dir) (mode uint32, ok bool, err error) {
	var b [516]byte // 64 entries
	var n int
	err = retry(func() error {
		n, err = unix.Fgetxattr(dirFD(d), posixacl.Default, b[:])
		return err
	})
	if errors.Is(err, unix.ERANGE) { // more entries than are usual
		return longDefaultMode(dirFD(d))
	}
	return modeOfACL(b[:max(n, 0)], err)
}

func longDefaultMode(fd int) (mode uint32, ok bool, err error) {
	b := make([]byte, posixacl.MaxSize)
	n, err := unix.Fgetxattr(fd, posixacl.Default, b)
	return modeOfACL(b[:max(n, 0)], err)
}

// modeOfACL returns the permission bits that stand for an access control list. If the list has a mask, the group bits
// are those of the mask, as chmod and stat show them.
func modeOfACL(b []byte, err error) (mode uint32, ok bool, _ error) {
	if errors.Is(err, unix.ENODATA) || NotOffered(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	list, ok := posixacl.Parse(b)
	masked := false
	for _, e := range list {
		switch e.Tag {
		case posixacl.Owner:
			mode |= e.Perm << 6
		case posixacl.Mask:
			mode, masked = mode&^0o070|e.Perm<<3, true
		case posixacl.OwnerGroup:
			if !masked {
				mode |= e.Perm << 3
			}
		case posixacl.Other:
			mode |= e.Perm
		}
	}
	return mode, ok, nil
}
