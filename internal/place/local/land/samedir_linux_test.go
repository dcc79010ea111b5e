package land

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"ferry/internal/place"
	"ferry/internal/place/local/disk"
	"ferry/internal/place/local/disk/disktest"
	"ferry/internal/transfer"
)

// A rivalDisk runs another program just before it makes a directory.
type rivalDisk struct {
	disk.Disk
	before func()
}

func (d *rivalDisk) Mkdir(at *disk.Dir, name string) error {
	if rival := d.before; rival != nil {
		d.before = nil
		rival()
	}
	return d.Disk.Mkdir(at, name)
}

// TestTwoTransfersMakeOneDirectory: two transfers find a directory missing. The one with the successful mkdir has made
// it. The other one does not change its mode and time, and its outcome reports that the directory existed.
func TestTwoTransfersMakeOneDirectory(t *testing.T) {
	for _, through := range []string{"the directory itself", "a file in it", "a file in it, made before the look"} {
		t.Run(through, func(t *testing.T) {
			dir := realTemp(t)
			d := &rivalDisk{Disk: disk.RealDisk()}
			f := openFS(t, d, dir)
			preserve := func(c *place.LandConfig) { c.Preserve = true }
			first := lander(openFS(t, nil, dir), disktest.NewJournal(nil), preserve)
			won := func() {
				done, err := first.Commit(t.Context(), []place.Pending{dirItem(0, "d", 0o711)})
				must(t, err)
				if len(done) != 1 || !done[0].OK() || done[0].Existed {
					t.Errorf("the first transfer has %+v", done)
				}
			}
			then := time.Unix(1_400_000_000, 0)
			second := lander(f, disktest.NewJournal(nil), func(c *place.LandConfig) {
				preserve(c)
				c.Transfer = transfer.NewID(time.Unix(3, 0))
			})
			loc, err := landing{second}.Locate("d/x", "x")
			if must(t, err); len(loc.NewDirs) != 1 {
				t.Fatalf("missing directories %q", loc.NewDirs)
			}
			late := dirItem(2, "d", 0o755)
			late.Mtime = then.UnixNano()
			group := []place.Pending{late}
			if d.before = won; through != "the directory itself" {
				if through != "a file in it" {
					won()
					d.before = nil
				}
				p, err := write(second, 1, "d/x", body(10, 1))
				must(t, err)
				group = []place.Pending{p, late}
			}
			done, err := second.Commit(t.Context(), group)
			must(t, err)
			if o := done[len(done)-1]; !o.OK() || !o.Existed {
				t.Errorf("the second transfer has %+v", o)
			}
			fi, err := os.Stat(filepath.Join(dir, "d"))
			must(t, err)
			if fi.Mode().Perm() != 0o711 || fi.ModTime().Equal(then) {
				t.Errorf("the directory has mode %v and time %v", fi.Mode(), fi.ModTime())
			}
			must(t, first.Close())
			must(t, second.Close())
		})
	}
}
