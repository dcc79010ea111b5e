package monitor

import (
	"path"
	"time"

	"ferry/internal/place"
	"ferry/internal/sys/clock"
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
	since    time.Time // after the first poll that saw this state
	same     int64     // polls that saw it again
	poll     uint64    // the latest poll that has seen it
	complete bool      // a notification has shown that the file was complete when it got its name
}

// begin counts a poll. It counts for the condition unchanged if an interval has passed since the last poll that
// counted.
func (s *sightings) begin(now time.Time, interval time.Duration) (counts bool) {
	s.polls++
	if counts = s.counted.IsZero() || now.Sub(s.counted) >= interval; counts {
		s.counted = now
	}
	return counts
}

// forget forgets the files that the latest poll has not seen: they are gone, or have triggered.
func (s *sightings) forget() {
	for key, one := range s.files {
		if one.poll != s.polls {
			delete(s.files, key)
		}
	}
}

// see returns the sighting of a file in a state, or nil if there is no room for another one. again counts the poll.
func (s *sightings) see(key string, is identity, now time.Time, again bool) *sighting {
	one := s.files[key]
	switch {
	case one == nil && len(s.files) >= maxSightings:
		return nil
	case one == nil:
		if s.files == nil {
			s.files = map[string]*sighting{}
		}
		one = &sighting{identity: is, since: now}
		s.files[key] = one
	case one.identity != is:
		*one = sighting{identity: is, since: now}
	case again:
		one.same++
	}
	one.poll = s.polls
	return one
}

// arrivals decides in one poll which files are complete and meet the condition.
type arrivals struct {
	condition Condition
	wanted    time.Duration // settle time
	seen      *sightings
	notices   *listener
	clock     clock.Clock
	now       time.Time     // beginning of the poll
	counts    bool          // see sightings.begin
	next      time.Duration // time until the first waiting file may be complete; 0: none waits
}

// meets reports whether a file meets the condition.
func (a *arrivals) meets(key string, f *place.Found, is identity) bool {
	switch c := a.condition; {
	case c.Kind == ConditionUnchanged:
		one := a.see(key, is)
		return one != nil && one.same >= c.Value
	case c.Kind == ConditionSize && is.size < c.Value:
		return false
	}
	return a.settled(key, f, is)
}

func (a *arrivals) see(key string, is identity) *sighting {
	return a.seen.see(key, is, a.clock.Now(), a.counts)
}

// settled reports whether a file is complete. Either it was the same at two polls that are at least the monitor's
// settle time apart. Or a notification has shown that it was complete when it got its name, and that it was not written
// to since.
func (a *arrivals) settled(key string, f *place.Found, is identity) bool {
	if a.wanted == 0 {
		return true
	}
	one := a.see(key, is)
	if one == nil {
		return false
	}
	one.complete = one.complete || a.notices.arrivedComplete(path.Join(f.In, path.Base(string(f.Path))))
	left := a.wanted - a.now.Sub(one.since)
	if one.complete || left <= 0 {
		return true
	}
	if a.next == 0 || left < a.next {
		a.next = left
	}
	return false
}
