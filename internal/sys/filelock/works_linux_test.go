package filelock

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLocksWorkHere(t *testing.T) {
	dir := t.TempDir()
	if err := CheckLocks(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("the probe leaves %v, %v", left, err)
	}
}

// Of each mount it is said whether a lock on it keeps other hosts out.
func TestWhichFileSystemsAreRefused(t *testing.T) {
	for _, c := range []struct{ line, refused string }{
		{"36 35 8:1 / /srv/ferry rw,relatime - ext4 /dev/sda1 rw", ""},
		{"36 35 0:50 / /srv/ferry rw,relatime - nfs4 filer:/x rw,vers=4.2,hard,local_lock=none", ""},
		{"36 35 0:50 / /srv/ferry rw,relatime - nfs4 filer:/x rw,vers=4.0,local_lock=all", "local_lock=all"},
		{"36 35 0:50 / /srv/ferry rw,relatime - nfs filer:/x rw,vers=3,nolock,local_lock=all", "nolock"},
		{"36 35 0:50 / /srv/ferry rw,relatime - nfs filer:/x rw,vers=3,local_lock=none", "nfs4"},
		{"36 35 0:50 / /srv/ferry rw,relatime - cifs //filer/x rw,vers=3.1.1", ""},
		{"36 35 0:50 / /srv/ferry rw,relatime - cifs //filer/x rw,vers=3.1.1,nobrl", "nobrl"},
		{"36 35 0:50 / /srv/ferry rw,relatime - fuse.sshfs me@filer: rw", "without known locks"},
		{"36 35 0:50 / /srv/ferry rw,relatime - fuse.glusterfs filer:x rw", ""},
		{"36 35 0:50 / /srv/ferry rw,relatime - lustre filer:x rw,flock", ""},
		{"36 35 0:50 / /srv/ferry rw,relatime - lustre filer:x rw,localflock", "flock"},
		{"36 35 0:50 / /srv/ferry rw,relatime - 9p host rw", "without known locks"},
		{"36 35 0:50 / /srv/ferry rw,relatime - ocfs2 /dev/sdb rw,localflocks", "localflocks"},
	} {
		m, found := mountOf(strings.NewReader("1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"+c.line+"\n2 1 0:3 / /srv rw - tmpfs x rw\n"), "/srv/ferry/a", unix.Mkdev(0, 50))
		why := m.refused()
		if !found || (why == "") != (c.refused == "") || !strings.Contains(why, c.refused) {
			t.Errorf("%s: %q", c.line, why)
		}
	}
}

func TestNamesInTheMountTable(t *testing.T) {
	for path, kind := range map[string]string{"/a b/c": "xfs", "/a": "ext4", "/a bc": "ext4"} {
		m, found := mountOf(strings.NewReader("1 0 8:1 / / rw - ext4 x rw\n2 1 8:2 / /a\\040b rw - xfs y rw\n"), path, 0)
		if !found || m.kind != kind {
			t.Errorf("%s lies on %+v", path, m)
		}
	}
}
