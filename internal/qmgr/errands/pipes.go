package errands

import (
	"maps"
	"sync"
	"time"

	"ferry/internal/transfer"
)

// PipeIdle is the time after which the unused readers of a pipe are removed.
const PipeIdle = 10 * time.Minute

// pipesOfUser is the number of pipes of one user that may have readers that they have not removed, PipeIdle after they
// were made: a stream has room for a limited number of readers.
const pipesOfUser = 128

// A pipeCount counts the pipes of each user. The zero value is empty.
type pipeCount struct {
	mu sync.Mutex
	of map[string]map[transfer.AgentName]time.Time // when they last asked for a reader
}

// enter counts a pipe that asks for a reader. The error is of KindBusy if its user has too many.
func (b *pipeCount) enter(pipe transfer.AgentName, now time.Time) error {
	user := pipe.StreamUser()
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.of[user]
	if _, known := all[pipe]; !known && len(all) >= pipesOfUser {
		if maps.DeleteFunc(all, func(_ transfer.AgentName, at time.Time) bool { return now.Sub(at).Abs() > PipeIdle }); len(all) >= pipesOfUser {
			return transfer.Errorf(transfer.KindBusy, "%d commands of this user read or write a pipe, or did until %s ago", len(all), PipeIdle).
				WithHint("wait for some of them to end; a command that was killed counts for as long")
		}
	}
	if all == nil {
		if b.of == nil {
			b.of = map[string]map[transfer.AgentName]time.Time{}
		}
		all = map[transfer.AgentName]time.Time{}
		b.of[user] = all
	}
	all[pipe] = now
	return nil
}

// leave removes a pipe from the count after its readers were removed.
func (b *pipeCount) leave(pipe transfer.AgentName) {
	user := pipe.StreamUser()
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.of[user], pipe); len(b.of[user]) == 0 {
		delete(b.of, user)
	}
}
