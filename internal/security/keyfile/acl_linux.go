package keyfile

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"ferry/internal/sys/posixacl"
)

// aclOf is the access control list of a file or a directory; nil where it has none, or its file system offers none.
func aclOf(path string) ([]posixacl.Entry, error) {
	b := make([]byte, 516) // 64 entries
	n, err := unix.Lgetxattr(path, posixacl.Access, b)
	if errors.Is(err, unix.ERANGE) {
		b = make([]byte, posixacl.MaxSize)
		n, err = unix.Lgetxattr(path, posixacl.Access, b)
	}
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil, nil
	}
	if err != nil {
		return nil, &fs.PathError{Op: "read access control list", Path: path, Err: err}
	}
	list, _ := posixacl.Parse(b[:n])
	return list, nil
}
