//go:build linux

package monitored_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/test/campaign"
	"ferry/test/flow/network"
)

const (
	source, dest = "ALPHA", "BETA"
	settle       = time.Second
	writers      = 16 // names that change at the same time
)

// TestCampaignMonitorVersions has writers replace and reuse files under two monitors; one of them deletes its sources.
// Each version that stays until its arrival arrives once, with its bytes. No other version arrives twice.
func TestCampaignMonitorVersions(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "monitor-versions", Unit: "versions", Full: 1000, Short: 120,
		What: "files under monitors that are replaced by a rename, written in place in parts, written anew with inode, size and time as before, removed and made again, appended to and changed in mode",
	}, func(t *testing.T, c *campaign.C) {
		v := &versions{Network: network.Up(t, network.Setup{Ferry: campaign.Ferry(t), Agents: []string{source, dest}}), t: t, known: map[string]*version{}, read: map[string]bool{}}
		for _, m := range []string{"keep", "take"} {
			must(t, os.MkdirAll(v.Path(source, m), 0o755))
			v.Ferry("monitor", "create", m, "--agent", source, "--dir", m, "--match", "f*", "--settle", settle.String(), "--poll", "200ms",
				"--to", dest+":got/${TransferId}", fmt.Sprintf("--delete-source=%t", m == "take")).OK()
		}
		var all sync.WaitGroup
		for k := range min(writers, c.Count) {
			count := c.Count / writers
			if k < c.Count%writers {
				count++
			}
			w := &writer{versions: v, r: campaign.Rand(c.Seed + uint64(k)), name: fmt.Sprint("f", k), dir: []string{"keep", "take"}[k%2]}
			w.path = v.Path(source, w.dir+"/"+w.name)
			all.Go(func() {
				t.Run(w.name, func(t *testing.T) {
					w.t = t
					for range count {
						w.change()
					}
					w.stand()
				})
			})
		}
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() { defer close(stopped); v.pauses(campaign.Rand(c.Seed), stop) }()
		all.Wait()
		close(stop)
		<-stopped
		v.check()
		c.Add(c.Count)
	})
}

// versions are the contents that were written, with the arrived ones.
type versions struct {
	*network.Network
	t *testing.T

	mu    sync.Mutex
	known map[string]*version // by content
	read  map[string]bool     // names at the destination
	odd   []string
}

// A version is one content of one name.
type version struct {
	kind    string
	stood   bool
	arrived []string // the names at the destination
}

// torn is the kind of a content that a writer left unfinished for longer than the settle time, against its plan. It may
// arrive.
const torn = "left unfinished for too long by a host that was busy"

// pauses stops the destination at times, so that files are replaced between their triggers and their transfers.
func (v *versions) pauses(r *rand.Rand, stop <-chan struct{}) {
	moment := func() (goOn bool) {
		select {
		case <-time.After(settle/2 + time.Duration(r.Int64N(int64(settle)))):
			return true
		case <-stop:
			return false
		}
	}
	for moment() {
		v.Freeze(dest)
		goOn := moment()
		v.Thaw(dest)
		if !goOn {
			return
		}
	}
}

// know records that a content may arrive.
func (v *versions) know(content []byte, kind string) *version {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.known[string(content)] == nil {
		v.known[string(content)] = &version{kind: kind}
	}
	return v.known[string(content)]
}

// look reads the files that have arrived since the last look.
func (v *versions) look() {
	v.mu.Lock()
	defer v.mu.Unlock()
	entries, err := os.ReadDir(v.Path(dest, "got"))
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		v.odd = append(v.odd, err.Error())
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".ferry-") || v.read[e.Name()] {
			continue
		}
		v.read[e.Name()] = true
		content, err := os.ReadFile(filepath.Join(v.Path(dest, "got"), e.Name()))
		if is := v.known[string(content)]; err == nil && is != nil {
			is.arrived = append(is.arrived, e.Name())
		} else {
			v.odd = append(v.odd, fmt.Sprintf("%s has %d bytes that are no version: %.60q, %v", e.Name(), len(content), content, err))
		}
	}
}

// arrived reports whether a version is at the destination.
func (v *versions) arrived(is *version) bool {
	v.look()
	v.mu.Lock()
	defer v.mu.Unlock()
	return len(is.arrived) > 0 || len(v.odd) > 0
}

// check waits until all transfers have ended, and compares.
func (v *versions) check() {
	v.t.Helper()
	v.UntilEvery("every transfer has ended", time.Second, func() bool {
		for _, p := range v.Transfers("--limit", "100000") {
			if !p.Final() {
				return false
			}
		}
		return v.MonitorOf(source, "keep").Waiting+v.MonitorOf(source, "take").Waiting == 0
	})
	<-time.After(settle + time.Second) // time for files that would arrive again
	v.look()
	for _, p := range v.Transfers("--limit", "100000") {
		if p.State != "successful" {
			v.t.Errorf("transfer %s is %s: %v", p.ID, p.State, p.Reason)
		}
	}
	stood := 0
	for _, is := range v.known {
		if n := len(is.arrived); n > 1 || is.stood && n != 1 {
			v.t.Errorf("%s (it stood: %t) has arrived %d times: %v", is.kind, is.stood, n, is.arrived)
		}
		if is.stood {
			stood++
		}
	}
	for _, odd := range v.odd {
		v.t.Error(odd)
	}
	v.t.Logf("%d versions, %d of them stood, %d files have arrived", len(v.known), stood, len(v.read))
	v.Sound()
}

// A writer changes one name.
type writer struct {
	*versions
	t               *testing.T
	r               *rand.Rand
	name, dir, path string

	n       int
	is      *version // the last one
	content []byte
	mtime   time.Time
}

// change makes the next version, and decides whether it stays until its arrival.
func (w *writer) change() {
	ways := []struct {
		kind string
		do   func(kind string)
		any  bool // also where the previous version has not arrived
	}{
		{"by rename", w.rename, true},
		{"in parts", w.parts, false},
		{"as before", w.asBefore, false},
		{"made again", w.again, false},
		{"appended", w.append, w.dir == "keep"},
		{"mode", w.mode, w.dir == "keep"},
	}
	way := ways[w.r.IntN(len(ways))]
	for !way.any && w.is != nil && !w.is.stood {
		way = ways[w.r.IntN(len(ways))]
	}
	w.n++
	way.do(way.kind)
	if w.r.IntN(2) > 0 {
		w.stand()
	} else {
		<-time.After(settle/2 + time.Duration(w.r.Int64N(int64(2*settle))))
	}
}

// stand waits until the last version has arrived and, if the monitor deletes it, until it is gone.
func (w *writer) stand() {
	if w.is == nil || w.is.stood {
		return
	}
	w.until("arrives", func() bool { return w.arrived(w.is) })
	w.is.stood = true
	if w.dir == "take" {
		w.until("is deleted", func() bool {
			_, err := os.Lstat(w.path)
			return errors.Is(err, fs.ErrNotExist)
		})
	}
}

// until waits for an event of the last version.
func (w *writer) until(kind string, holds func() bool) {
	w.t.Helper()
	for limit := time.After(2 * time.Minute); !holds(); {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-limit:
			w.t.Fatalf("gave up waiting until %s %s", w.is.kind, kind)
		}
	}
}

// next returns the content of the next version, of the given size.
func (w *writer) next(kind string, size int) []byte {
	head := fmt.Sprintf("%s version %d, %s\n", w.name, w.n, kind)
	w.content = append([]byte(head), bytes.Repeat([]byte{byte('a' + w.n%26)}, max(0, size-len(head)))...)
	w.is = w.know(w.content, fmt.Sprintf("%s/%s %d, %s", w.dir, w.name, w.n, kind))
	return w.content
}

func (w *writer) size() int { return 100 + w.r.IntN(200_000) }

// rename writes another file, and renames it to the name.
func (w *writer) rename(kind string) {
	aside := filepath.Join(filepath.Dir(w.path), "."+w.name)
	must(w.t, os.WriteFile(aside, w.next(kind, w.size()), 0o644))
	must(w.t, os.Rename(aside, w.path))
}

// parts writes in place, with pauses that are shorter than the settle time.
func (w *writer) parts(kind string) {
	content := w.next(kind, w.size())
	w.write(os.O_TRUNC, content, 2+w.r.IntN(2))
}

// write writes a content in parts. A content that it has left unfinished for too long may arrive.
func (w *writer) write(flags int, content []byte, parts int) {
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_WRONLY|flags, 0o644)
	must(w.t, err)
	defer func() { must(w.t, f.Close()) }()
	before, err := os.ReadFile(w.path)
	must(w.t, err)
	for done, began := 0, time.Now(); done < len(content); began = time.Now() {
		if done > 0 {
			<-time.After(time.Duration(w.r.Int64N(int64(settle / 2))))
		}
		to := min(len(content), done+len(content)/parts+1)
		_, err := f.Write(content[done:to])
		must(w.t, err)
		if time.Since(began) > settle*8/10 {
			w.know(append(bytes.Clone(before), content[:done]...), torn)
		}
		done = to
	}
}

// asBefore writes a content of the same size into the same file and restores the time of modification, as cp -p does.
func (w *writer) asBefore(kind string) {
	st, err := os.Stat(w.path)
	if errors.Is(err, fs.ErrNotExist) {
		w.rename(kind)
		return
	}
	must(w.t, err)
	w.fill(kind, os.O_TRUNC, int(st.Size()), st.ModTime())
}

// again removes the file and creates another one of the same size and time of modification, which may have the same
// inode.
func (w *writer) again(kind string) {
	st, err := os.Stat(w.path)
	size, mtime := w.size(), w.mtime
	if err == nil {
		size, mtime = int(st.Size()), st.ModTime()
		must(w.t, os.Remove(w.path))
	} else if len(w.content) > 0 {
		size = len(w.content)
	}
	if mtime.IsZero() {
		mtime = time.Unix(1_700_000_000, 0)
	}
	w.fill(kind, os.O_EXCL, size, mtime)
}

// fill writes a content at once and sets its time.
func (w *writer) fill(kind string, flags, size int, mtime time.Time) {
	began := time.Now()
	content := w.next(kind, size)
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_WRONLY|flags, 0o644)
	must(w.t, err)
	_, err = f.Write(content)
	must(w.t, err)
	must(w.t, f.Close())
	must(w.t, os.Chtimes(w.path, time.Time{}, mtime))
	if w.mtime = mtime; time.Since(began) > settle*8/10 {
		w.know(nil, torn)
	}
}

// append appends to the file.
func (w *writer) append(kind string) {
	before, err := os.ReadFile(w.path)
	if errors.Is(err, fs.ErrNotExist) {
		w.rename(kind)
		return
	}
	must(w.t, err)
	more := fmt.Appendf(nil, "\n%s version %d, %s%s", w.name, w.n, kind, strings.Repeat("+", w.r.IntN(5000)))
	w.content = append(before, more...)
	w.is = w.know(w.content, fmt.Sprintf("%s/%s %d, %s", w.dir, w.name, w.n, kind))
	w.write(os.O_APPEND, more, 1)
}

// mode changes the mode, which makes no new version.
func (w *writer) mode(string) {
	if err := os.Chmod(w.path, []fs.FileMode{0o600, 0o640, 0o644}[w.r.IntN(3)]); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.t.Error(err)
	}
}
