//go:build linux

package disk_test

import (
	"fmt"
	"math/rand/v2"
	"path"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	localdisk "ferry/internal/place/local/disk"
	"ferry/internal/transfer"
	"ferry/test/campaign"
)

// A target names the transfer and item that the victim handles next.
type target struct {
	id   atomic.Pointer[transfer.ID]
	item atomic.Uint64
}

// attack starts the attackers. stop ends them and puts every directory back.
func (v *victim) attack(t *testing.T, seed uint64) (stop func()) {
	t.Helper()
	links := map[string][]string{}
	for _, c := range components {
		up := strings.Repeat("../", strings.Count(c, "/")+1)
		for k, to := range []string{v.outside + "/" + c, up + "outside/" + c, "hop", up + "root/" + up + "outside/" + c} {
			name := fmt.Sprintf("%s.evil%d", path.Base(c), k)
			must(t, unix.Symlinkat(to, v.dirs[path.Dir(c)], name))
			links[c] = append(links[c], name)
		}
		must(t, unix.Symlinkat(v.outside, v.dirs[c], "hop"))
	}
	must(t, unix.Symlinkat(v.outside, v.dirs["."], "hop"))
	done := make(chan struct{})
	var all sync.WaitGroup
	for k, f := range []func(r *rand.Rand){
		func(r *rand.Rand) { v.swap(r, links) },
		v.plant,
		v.plantOwn,
	} {
		r := campaign.Rand(seed ^ uint64(k+1)<<60)
		all.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					f(r)
				}
				//house:sleep because an attack that never pauses lets nothing succeed that could be attacked
				time.Sleep(time.Duration(r.IntN(150)) * time.Microsecond)
			}
		})
	}
	return sync.OnceFunc(func() { close(done); all.Wait() })
}

// swap replaces a directory by a link for a moment. Only one goroutine may call it; with two, a directory could stay
// away.
func (v *victim) swap(r *rand.Rand, links map[string][]string) {
	c := components[r.IntN(len(components))]
	dir, name, evil := v.dirs[path.Dir(c)], path.Base(c), links[c][r.IntN(len(links[c]))]
	if unix.Renameat2(dir, name, dir, evil, unix.RENAME_EXCHANGE) != nil {
		return
	}
	for range r.IntN(4) {
		runtime.Gosched()
	}
	unix.Renameat2(dir, name, dir, evil, unix.RENAME_EXCHANGE)
}

// plant puts links under final names and under names of sources.
func (v *victim) plant(r *rand.Rand) {
	dir, name, to := v.dirs["out/a/b"], fmt.Sprint("f", r.IntN(names)), v.outside+"/out/a/b/f0"
	if r.IntN(3) == 0 {
		s := v.sources[r.IntN(len(v.sources))]
		dir, name, to = v.dirs[path.Dir(s)], path.Base(s), v.outside+"/"+s
	}
	if r.IntN(2) == 0 {
		to = v.outside + "/not-there-yet"
	}
	unix.Symlinkat(to, dir, ".link")
	unix.Renameat2(dir, ".link", dir, name, uint(r.IntN(2))*unix.RENAME_EXCHANGE)
	for range r.IntN(4) {
		runtime.Gosched()
	}
	if r.IntN(2) == 0 {
		unix.Renameat2(dir, ".link", dir, name, 0)
	}
	unix.Unlinkat(dir, name, 0)
}

// plantOwn puts links under the next internal names of Ferry.
func (v *victim) plantOwn(r *rand.Rand) {
	id := v.target.id.Load()
	if id == nil {
		runtime.Gosched()
		return
	}
	item := v.target.item.Load() + uint64(r.IntN(6))
	dir, name := v.dirs["out/a/b"], localdisk.TempName(incarnation, 1, *id, item)
	if r.IntN(4) == 0 {
		dir, name = v.dirs["in/x"], localdisk.AsideName(incarnation, *id, item)
	}
	made := name
	if r.IntN(2) == 0 {
		made = ".ferry-made" // and then over the file that has the name already
	}
	switch r.IntN(4) {
	case 0:
		unix.Symlinkat(v.outside+"/out/f0", dir, made)
	case 1:
		unix.Symlinkat(v.outside+"/created", dir, made)
	case 2:
		unix.Linkat(unix.AT_FDCWD, v.outside+"/linked", dir, made, 0)
	default:
		unix.Unlinkat(dir, name, 0)
	}
	if made != name {
		unix.Renameat2(dir, made, dir, name, 0)
	}
}
