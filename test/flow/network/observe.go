//go:build linux

package network

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"ferry/test/judge"
)

// An Observer checks every name that appears in a tree at that moment, and again after each write under that name. It
// records the names that had any content but a whole file, and the number of times that a name was given.
type Observer struct {
	n     *Network
	fd    int
	file  *os.File // closing it ends the reading
	dirs  map[int32]string
	want  map[string][]judge.Sum // by path; other names are not checked
	given map[string]int
	torn  []string
	seen  atomic.Int64
	over  chan struct{}
}

// Observe begins to observe a directory beneath an agent's root, which it makes. The jobs' files must exist already.
func (n *Network) Observe(agent, dir string, jobs ...*Job) *Observer {
	n.t.Helper()
	top := n.Path(agent, dir)
	n.must(os.MkdirAll(top, 0o755))
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	n.must(err)
	o := &Observer{n: n, fd: fd, file: os.NewFile(uintptr(fd), "inotify"), dirs: map[int32]string{}, want: map[string][]judge.Sum{},
		given: map[string]int{}, over: make(chan struct{})}
	for _, j := range jobs {
		for k := range j.Count {
			path := n.Path(j.To, j.dest(k))
			o.want[path] = append(o.want[path], j.sums[j.name(k)])
			if old, ok := j.old[j.name(k)]; ok {
				o.want[path] = append(o.want[path], old)
			}
		}
	}
	o.watch(filepath.Clean(top))
	go o.run()
	n.t.Cleanup(o.Stop)
	return o
}

// Torn stops the observer. It returns the wrong contents, and the number of checks of files.
func (o *Observer) Torn() (torn []string, seen int) {
	o.Stop()
	return o.torn, o.Seen()
}

// Seen returns the number of checks of files so far.
func (o *Observer) Seen() int { return int(o.seen.Load()) }

// Tell stops the observer and adds its findings to the facts of its jobs: names that had any content but a whole file,
// and names that were given more than once.
func (o *Observer) Tell(f *judge.Facts) {
	o.Stop()
	f.Torn = append(f.Torn, o.torn...)
	for _, t := range f.Transfers {
		for _, it := range t.Items {
			agent, rel, _ := strings.Cut(it.Dest, ":")
			if n := o.given[o.n.Path(agent, rel)]; t.Committed != nil && n > t.Committed[it.Dest] {
				t.Committed[it.Dest] = n
			}
		}
	}
}

// Stop ends the observation.
func (o *Observer) Stop() {
	o.file.Close()
	<-o.over
}

// watch observes a directory and all files that are in it already.
func (o *Observer) watch(dir string) {
	wd, err := unix.InotifyAddWatch(o.fd, dir, unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_MODIFY|unix.IN_ONLYDIR)
	if err != nil {
		return // it has gone
	}
	o.dirs[int32(wd)] = dir
	names, _ := os.ReadDir(dir)
	for _, d := range names {
		o.look(filepath.Join(dir, d.Name()))
	}
}

func (o *Observer) run() {
	defer close(o.over)
	buf := make([]byte, 256<<10)
	for {
		n, err := o.file.Read(buf)
		if err != nil {
			return
		}
		for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
			wd, mask := int32(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint32(b[4:])
			end := unix.SizeofInotifyEvent + binary.NativeEndian.Uint32(b[12:])
			name := strings.TrimRight(string(b[unix.SizeofInotifyEvent:end]), "\x00")
			b = b[end:]
			o.event(wd, mask, name)
		}
	}
}

func (o *Observer) event(wd int32, mask uint32, name string) {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		o.torn = append(o.torn, "the observer was too slow and has missed what happened")
	}
	dir := o.dirs[wd]
	if dir == "" || name == "" || strings.HasPrefix(name, ".ferry-") {
		return
	}
	path := filepath.Join(dir, name)
	if mask&(unix.IN_MOVED_TO|unix.IN_CREATE) != 0 {
		o.given[path]++
	}
	if mask&unix.IN_MODIFY != 0 && o.want[path] != nil {
		o.torn = append(o.torn, fmt.Sprintf("%s was written to under its final name", path))
	}
	o.look(path)
}

// look checks a name. It reads a file to its end at once.
func (o *Observer) look(path string) {
	info, err := os.Lstat(path)
	if err != nil {
		return
	}
	if info.IsDir() {
		o.watch(path)
		return
	}
	want, ok := o.want[path]
	if !ok {
		return
	}
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	got, err := judge.Of(f)
	o.seen.Add(1)
	if err == nil && !slices.Contains(want, got) {
		o.torn = append(o.torn, fmt.Sprintf("%s appeared with %d bytes that are not the %d of the file", path, got.Size, want[0].Size))
	}
}
