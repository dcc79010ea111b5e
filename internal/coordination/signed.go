package coordination

import (
	"sync"
	"time"

	"ferry/internal/security/identity"
	"ferry/internal/security/word"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A receivedQuestion is a question that was read, as its message has it.
type receivedQuestion struct {
	*wire.Ask
	signed *word.Word // nil: it was not signed
	body   []byte
	author *word.Author // of a signed question that was checked
}

// Bounds of the questions that are remembered. A word is good for two hours, and may have been made an hour ahead.
const (
	askedFor = 3 * time.Hour
	maxAsked = 500_000 // about 50 bytes each
	maxSeen  = 20_000  // acknowledgements of one principal: everyone may give those of its own transfers
)

// An obeyedQuestions has the IDs of the signed questions that were obeyed in this run.
type obeyedQuestions struct {
	words *word.Checker // nil: the network has no identities
	clock clock.Clock
	began time.Time // of this run

	mu         sync.Mutex
	young, old map[transfer.ID]bool // since turned, and in the time before
	rotated    time.Time
	each       int            // questions of one principal since rotated, at most; 0: any
	by         map[string]int // those questions
}

func newObeyedQuestions(self *identity.Identity, c clock.Clock) *obeyedQuestions {
	now := c.Now()
	o := &obeyedQuestions{clock: c, began: now, young: map[transfer.ID]bool{}, rotated: now, by: map[string]int{}}
	if self != nil {
		o.words = word.NewChecker(self, identity.Coordination, "")
	}
	return o
}

// check checks the signature of a question.
func (o *obeyedQuestions) check(a *receivedQuestion) (err error) {
	if o.words == nil {
		return nil
	}
	var id transfer.ID
	if a.signed != nil {
		id = a.signed.ID // a question has no ID of its own
	}
	a.author, err = o.words.Check(a.signed, a.body, word.Ask, id, a.Principal, o.clock.Now())
	return err
}

// once takes each question that was checked once. A question from before this run may have been obeyed by the run
// before: the error waits, and the asker signs the question anew.
func (o *obeyedQuestions) once(a *receivedQuestion) error {
	if a.author == nil {
		return nil
	}
	if time.UnixMilli(a.author.Made).Before(o.began) {
		return transfer.Errorf(transfer.KindBusy, "the question was signed before coordination started").WithHint("ask again; set your clock right if it is behind")
	}

	o.mu.Lock()
	defer o.mu.Unlock()
	if now := o.clock.Now(); now.Sub(o.rotated).Abs() >= askedFor {
		o.young, o.old, o.rotated, o.by = map[transfer.ID]bool{}, o.young, now, map[string]int{}
	}
	switch id := a.author.ID; {
	case o.young[id] || o.old[id]:
		return transfer.Errorf(transfer.KindConflict, "the question %s was asked before, and is not obeyed twice", id)
	case len(o.young)+len(o.old) >= maxAsked:
		return transfer.Errorf(transfer.KindBusy, "coordination has obeyed %d questions in the last hours, its limit", maxAsked).WithHint("try again later")
	case o.each > 0 && o.by[a.Principal] >= o.each:
		return transfer.Errorf(transfer.KindBusy, "coordination has obeyed %d questions of %s in the last hours, its limit", o.each, a.Principal).WithHint("try again later")
	default:
		o.young[id] = true
		if o.each > 0 {
			o.by[a.Principal]++
		}
		return nil
	}
}
