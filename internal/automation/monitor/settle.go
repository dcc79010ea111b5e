package monitor

import (
	"path"
	"time"

	"ferry/internal/place/local/walk"
	"ferry/internal/sys/wake"
)

// maxSightings is the number of files that may wait, in memory, until they are unchanged; others begin when there is
// room. It also bounds the names of notifications.
const maxSightings = 100_000

// sightings has the files that wait until they are unchanged, by fileKey.
type sightings struct {
	files   map[string]*sighting
	counted time.Time // time of the latest poll that counted
	polls   uint64
}

// A sighting is a file that stays in one state.
type sighting struct {
	identity
	since time.Time // after the first poll that saw this state
	same  int64     // polls that saw it again
	poll  uint64    // the latest poll that has seen it
	whole bool      // a notification has shown that the file was complete when it got its name
}

// sight returns the sighting of a file in a state, or nil if there is no room for another one.
func (p *poll) sight(key string, is identity) *sighting {
	s := p.sightings.files[key]
	switch {
	case s == nil && len(p.sightings.files) >= maxSightings:
		return nil
	case s == nil:
		if p.sightings.files == nil {
			p.sightings.files = map[string]*sighting{}
		}
		s = &sighting{identity: is, since: p.Clock.Now()}
		p.sightings.files[key] = s
	case s.identity != is:
		*s = sighting{identity: is, since: p.Clock.Now()}
	case p.counts:
		s.same++
	}
	s.poll = p.polls
	return s
}

// unchanged reports whether a file was the same at wanted polls after the first.
func (p *poll) unchanged(key string, is identity, wanted int64) bool {
	s := p.sight(key, is)
	return s != nil && s.same >= wanted
}

// settled reports whether a file is complete. Either it was the same at two polls that are at least the monitor's
// settle time apart. Or a notification has shown that it was complete when it got its name, and that it was not written
// to since.
func (p *poll) settled(key string, f *walk.Found, is identity) bool {
	wanted := time.Duration(p.rec.Settle)
	if wanted == 0 {
		return true
	}
	s := p.sight(key, is)
	if s == nil {
		return false
	}
	s.whole = s.whole || p.cameWhole(f)
	left := wanted - p.now.Sub(s.since)
	if s.whole || left <= 0 {
		return true
	}
	if p.next == 0 || left < p.next {
		p.next = left
	}
	return false
}

// cameWhole reports whether a file that was just examined was moved to its name and not written to between the move and
// the examination. It first reads the notices of the time before.
func (p *poll) cameWhole(f *walk.Found) bool {
	at := path.Join(f.In, path.Base(string(f.Path)))
	if p.watcher == nil || !p.isMarked(at) {
		return false
	}
	p.watcher.CatchUp()
	return p.isMarked(at)
}

func (r *runner) isMarked(at string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.moved[at]
	return ok
}

// forgetMoved forgets the files that were moved before the poll began, because the poll has seen them. If the
// directories are not watched any more, it forgets all files. r.mu is held.
func (r *runner) forgetMoved(watching bool) {
	for at, when := range r.moved {
		if !watching || when < r.begun {
			delete(r.moved, at)
		}
	}
}

// A notice is an event of a name in a directory.
type notice int

const (
	noticeClosed  notice = iota // the file was closed after writing
	noticeMoved                 // a file was moved to the name
	noticeTouched               // the file was made, written to, removed or moved away
	noticeMade                  // a directory was made there, or moved to the name
	noticeLost                  // notices were lost: any event may have happened to any name
)

// came handles a notice of a name in a directory from the watcher.
func (r *runner) came(dir, name string, is notice) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := path.Join(dir, name)
	switch is {
	case noticeLost:
		clear(r.moved)
	case noticeTouched:
		delete(r.moved, at)
		return
	case noticeMade:
		if at == r.awaited {
			wake.Up(r.wake)
		}
		return
	}
	if r.wanted == nil || is != noticeLost && !r.wanted(name) {
		return
	}
	if is == noticeMoved && len(r.moved) < maxSightings {
		r.moved[at] = r.begun
	}
	wake.Up(r.wake)
}
