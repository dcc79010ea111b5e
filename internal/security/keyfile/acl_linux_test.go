package keyfile

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"ferry/internal/sys/posixacl"
)

// The list that the kernel keeps of a directory and of an open file is read.
func TestListsOfTheKernel(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "token")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	b := binary.LittleEndian.AppendUint32(nil, posixacl.Version)
	entries := []posixacl.Entry{{Tag: posixacl.Owner, Perm: 7, ID: ^uint32(0)}, {Tag: posixacl.User, Perm: 7, ID: 4711},
		{Tag: posixacl.OwnerGroup, Perm: 0, ID: ^uint32(0)}, {Tag: posixacl.Mask, Perm: 7, ID: ^uint32(0)}, {Tag: posixacl.Other, ID: ^uint32(0)}}
	for _, e := range entries {
		b = binary.LittleEndian.AppendUint16(b, uint16(e.Tag))
		b = binary.LittleEndian.AppendUint16(b, uint16(e.Perm))
		b = binary.LittleEndian.AppendUint32(b, e.ID)
	}
	for _, at := range []string{dir, path} {
		if err := unix.Setxattr(at, posixacl.Access, b, 0); err != nil {
			t.Fatal(err)
		}
		e, err := look(at)
		mine := func(int) bool { return true }
		if err != nil || !e.others(0o2, func(uid int) bool { return uid != 4711 }, mine) || e.others(0o7, mine, mine) {
			t.Errorf("%s: %+v, %v", at, e, err)
		}
	}
}
