package disk

import (
	"context"
	"sync"
)

// Claims holds the names that the commits of one agent have to themselves. The zero value has none.
type Claims struct {
	mu sync.Mutex
	of map[Entry]chan struct{} // closed when the name is free again
}

// Take waits until no other commit has any of the names, and takes them. done gives them back.
func (s *Claims) Take(ctx context.Context, names []Entry) (done func(), err error) {
	for {
		busy := s.tryTake(names)
		if busy == nil {
			return func() { s.give(names) }, nil
		}
		select {
		case <-busy:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// tryTake takes all names or none. If it takes none, it returns a channel that closes when one of the names is free.
func (s *Claims) tryTake(names []Entry) (busy chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range names {
		if busy := s.of[n]; busy != nil {
			return busy
		}
	}
	if s.of == nil {
		s.of = map[Entry]chan struct{}{}
	}
	free := make(chan struct{})
	for _, n := range names {
		s.of[n] = free
	}
	return nil
}

func (s *Claims) give(names []Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(names) > 0 {
		close(s.of[names[0]])
	}
	for _, n := range names {
		delete(s.of, n)
	}
}
