package audit

import (
	"sync"

	"ferry/internal/audit/witness"
)

// A location is the position of consecutive records of a numbering in the log.
type location struct {
	from  uint64
	count int
	index int64
}

// locationCache has the positions of the newest records of the numberings.
type locationCache struct {
	mu     sync.Mutex
	of     map[stream][]location
	sought map[stream]sought
}

// A sought is the progress of the search for an unknown place. Each question reads a part of the log, and the next one
// continues there.
type sought struct {
	n    uint64 // number of the record
	down int64  // everything from this index on has been read; 0: nothing
	up   int64  // the previous record is just before this index; 0: unknown
}

// seek returns the progress of the search for a record.
func (p *locationCache) seek(key stream, n uint64) sought {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sought[key]; s.n == n {
		return s
	}
	return sought{n: n}
}

// keep saves the progress of a search. If there are too many, it drops those of other numberings.
func (p *locationCache) keep(key stream, s sought) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sought == nil || len(p.sought) >= distinguishedStreams {
		p.sought = map[stream]sought{}
	}
	p.sought[key] = s
}

// maxLocations is the number of known places of a numbering.
const maxLocations = 1024

func newLocationCache() *locationCache { return &locationCache{of: map[stream][]location{}} }

// add notes the place of a record.
func (p *locationCache) add(key stream, n uint64, index int64) {
	if key.agent == Coordination {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.of[key]
	if len(list) > 0 {
		last := &list[len(list)-1]
		if last.from+uint64(last.count) == n && last.index+int64(last.count) == index && last.count < witness.MaxRun {
			last.count++
			return
		}
	}
	if len(list) >= 2*maxLocations {
		list = append([]location(nil), list[maxLocations:]...)
	}
	if len(list) == 0 && len(p.of) >= distinguishedStreams*2 {
		for other := range p.of {
			delete(p.of, other)
			break
		}
	}
	p.of[key] = append(list, location{n, 1, index})
}

// find returns the place of a record, with those after it. If there are several, it returns the newest.
func (p *locationCache) find(key stream, n uint64) (location, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.of[key]
	for i := len(list) - 1; i >= 0; i-- {
		if pl := list[i]; pl.from <= n && n < pl.from+uint64(pl.count) {
			skip := int(n - pl.from)
			return location{n, pl.count - skip, pl.index + int64(skip)}, true
		}
	}
	return location{}, false
}
