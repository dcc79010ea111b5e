package disk

import "testing"

func TestAtLeast(t *testing.T) {
	for release, want := range map[string]bool{
		"5.17.0": true, "5.17": true, "5.17-rc4": true, "6.1.0-13-amd64": true, "6.18.44": true, "10.0.1": true,
		"5.16.20": false, "5.4.0": false, "4.19.300": false, "5.8.0": false, "5.14.0-503.el9": false,
		"": false, "5": false, "5.": false, "x.20": false, "5.x": false, "-1.99": false,
	} {
		if atLeast(release, firstReportingKernel) != want {
			t.Errorf("%q: %v", release, !want)
		}
	}
}

const someMounts = `22 1 254:0 / / rw,relatime - ext4 /dev/vda rw,discard
23 22 0:21 / /dev/shm rw,nosuid shared:4 - tmpfs tmpfs rw
24 22 8:1 / /old rw - ext2 /dev/sda1 rw
25 22 8:2 / /x rw,noatime shared:7 master:2 - xfs /dev/sda2 rw,attr2,inode64
26 22 8:3 / /rt rw - xfs /dev/sda3 rw,attr2,rtdev=/dev/sdb,noquota
27 22 8:4 / /a rw - ext4 /dev/sda4 rw
28 22 8:4 /sub /b rw - ext4 /dev/sda4 rw
29 22 8:5 / /c rw - ext4 /dev/sda5 rw
30 22 8:5 / /d rw - ext2 /dev/sda5 rw
31 22 8:6 / /odd
32 22 8:7 / /space\040- rw - ext3 /dev/sda7 rw
`

func TestSyncedWhole(t *testing.T) {
	for dev, want := range map[[2]uint32]bool{
		{254, 0}: true, {0, 21}: false, {8, 1}: false, {8, 2}: true, {8, 3}: false, {8, 4}: true, {8, 5}: false, {8, 6}: false, {8, 7}: true, {9, 9}: false,
	} {
		if syncedWhole([]byte(someMounts), dev[0], dev[1]) != want {
			t.Errorf("%v: %v", dev, !want)
		}
	}
}

// A truncated table never makes a device acceptable.
func FuzzSyncedWhole(f *testing.F) {
	f.Add([]byte(someMounts), uint32(8), uint32(2))
	f.Add([]byte("1 1 8:2 / / rw - xfs a b"), uint32(8), uint32(2))
	f.Add([]byte(" - \n - - - \n"), uint32(0), uint32(0))
	f.Fuzz(func(t *testing.T, mounts []byte, major, minor uint32) {
		if syncedWhole(mounts, major, minor) && !syncedWhole(append([]byte(someMounts), mounts...), major, minor) && major > 8 && major != 254 {
			t.Error("other devices' lines have made a difference")
		}
	})
}
