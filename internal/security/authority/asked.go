package authority

import (
	"maps"
	"time"

	"ferry/internal/security/word"
	"ferry/internal/transfer"
)

// questionsKept is how long the ID of a signed question is kept. A question to the authority is valid for two hours, and its
// time may be an hour ahead of the authority's clock.
const questionsKept = 4 * time.Hour

// CheckAuthor checks that an author has signed with the present keys of its name. If not, the error is of KindDenied.
func CheckAuthor(a *Authority, by *word.Author) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	has := a.state.names[by.By.String()]
	if has == nil || has.keys.TLS != by.Key || a.state.isRevoked(has.keys) {
		return transfer.Errorf(transfer.KindDenied, "%s has other keys than those that have signed, or none", by.By)
	}
	return nil
}

// RecordQuestion records a signed question before the authority obeys it. For a repeated question, which is recorded already, the
// error is of KindConflict.
func RecordQuestion(a *Authority, by *word.Author, op string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.state.asked[by.ID]; known {
		return transfer.Errorf(transfer.KindConflict, "the question %s was asked before, and is not obeyed twice", by.ID).WithHint("look whether it was done before you ask again")
	}
	now := a.clock()
	maps.DeleteFunc(a.state.asked, func(_ transfer.ID, at time.Time) bool { return now.Sub(at) > questionsKept })
	return a.do(&Act{Act: actAsked, Time: now, Name: by.By.String(), By: by.By.String(), Why: op, Author: by})
}
