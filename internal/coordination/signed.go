package coordination

import (
	"maps"
	"sync"
	"time"

	"ferry/internal/clock"
	"ferry/internal/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
	"ferry/internal/word"
)

// An asking is a question that was read, as its message has it.
type asking struct {
	*wire.Ask
	signed *word.Word // nil: it was not signed
	body   []byte
	author *word.Author // of a signed question that was checked
}

// Bounds of the questions that are remembered. A word is good for two hours, and may have been made an hour ahead.
const (
	askedFor = 4 * time.Hour
	maxAsked = 100_000
)

// An obeyed has the IDs of the signed questions that were obeyed in this run.
type obeyed struct {
	words *word.Checker // nil: the network has no identities
	clock clock.Clock
	began time.Time // of this run

	mu sync.Mutex
	at map[transfer.ID]time.Time
}

func newObeyed(self *identity.Identity, c clock.Clock) *obeyed {
	o := &obeyed{clock: c, began: c.Now(), at: map[transfer.ID]time.Time{}}
	if self != nil {
		o.words = word.NewChecker(self)
	}
	return o
}

// take checks the signature of a question, and takes each question once. A question from before this run may have been obeyed by the run
// before: the error waits, and the asker signs it anew.
func (o *obeyed) take(a *asking) (err error) {
	if o.words == nil {
		return nil
	}
	var id transfer.ID
	if a.signed != nil {
		id = a.signed.ID // a question has no ID of its own
	}
	now := o.clock.Now()
	if a.author, err = o.words.Check(a.signed, a.body, word.Ask, id, a.Principal, now); err != nil {
		return err
	}
	if time.UnixMilli(a.author.Made).Before(o.began) {
		return transfer.Errorf(transfer.KindBusy, "the question was signed before coordination started").WithHint("ask again; set your clock right if it is behind")
	}

	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.at[id]; known {
		return transfer.Errorf(transfer.KindConflict, "the question %s was asked before, and is not obeyed twice", id)
	}
	if len(o.at) >= maxAsked {
		maps.DeleteFunc(o.at, func(_ transfer.ID, at time.Time) bool { return now.Sub(at) > askedFor })
	}
	if len(o.at) >= maxAsked {
		return transfer.Errorf(transfer.KindBusy, "coordination has obeyed %d questions in %s, its limit", maxAsked, askedFor)
	}
	o.at[id] = now
	return nil
}
