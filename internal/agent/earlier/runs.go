// Package earlier finds out whether requests that were dead letters have run. A ledger that was made after a request was
// stored does not know that: an agent may have been removed and enrolled again. Coordination does.
package earlier

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"time"

	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const (
	ranTime  = 2 * time.Second // of coordination, to answer a question about a request
	ranPause = 5 * time.Second // without such questions, after one that was not answered: the reader of the queue waits for each
	ranEach  = 30              // such questions for one principal in ranOver: any member may say that its request was a dead letter
	ranOver  = time.Minute
)

// Runs are the runs of requests before the agent's ledger was made.
type Runs struct {
	Clock clock.Clock
	Since func() (time.Time, error)                                                 // requests with a later ID cannot have run before the ledger was made
	Known func(transfer.ID) (bool, error)                                           // reports whether the ledger has a request
	Ask   func(ctx context.Context, ask []byte, wait time.Duration) ([]byte, error) // coordination, for this agent

	silent atomic.Pointer[time.Time] // when coordination has last not answered

	mu    sync.Mutex
	asked map[string]int // questions since began, by principal
	began time.Time
}

// takes counts a question for a principal. It reports whether the principal has one left.
func (r *Runs) takes(principal string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.Clock.Now(); r.asked == nil || now.Sub(r.began).Abs() >= ranOver {
		r.asked, r.began = map[string]int{}, now
	}
	if r.asked[principal] >= ranEach {
		return false
	}
	r.asked[principal]++
	return true
}

// Check returns an error for a request that was a dead letter and must not run: KindConflict if it has run or was
// withdrawn, and KindBusy if that is not known. A request that the ledger has is the same transfer again, and passes.
func (r *Runs) Check(ctx context.Context, id transfer.ID, principal string) error {
	known, err := r.Known(id)
	if known || err != nil {
		return err
	}
	if since, err := r.Since(); err != nil || id.Time().After(since) {
		return err
	}
	unknown := func(why any) error {
		return transfer.Errorf(transfer.KindBusy, "the request was a dead letter, and waits until it is known whether its transfer %s has run: %v", id, why).
			WithHint("start coordination; `ferry status` shows whether it answers")
	}
	if at := r.silent.Load(); at != nil && r.Clock.Now().Sub(*at).Abs() < ranPause {
		return unknown("coordination does not answer")
	}
	if !r.takes(principal) {
		return transfer.Errorf(transfer.KindBusy, "the request was a dead letter, and waits: the agent has asked coordination about %d such requests of %s within a minute", ranEach, principal).
			WithHint("wait; the request comes again by itself")
	}
	data, err := r.Ask(ctx, wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskRan, Body: wire.Marshal(wire.RanAsked{Transfer: id, Principal: principal})}), ranTime)
	if err != nil {
		now := r.Clock.Now()
		r.silent.Store(&now)
		return unknown(err)
	}
	var ran wire.Ran
	ans, err := wire.DecodeAnswer(data)
	if err == nil {
		err = json.Unmarshal(ans.Body, &ran)
	}
	if err != nil {
		return unknown(err)
	}
	why := "was taken before" // it may have run, and may have been cancelled before it came
	switch {
	case ran.Taken:
	case ran.Withdrawn:
		why = "was withdrawn"
	default:
		return nil
	}
	return transfer.Errorf(transfer.KindConflict, "the request is not taken: it was a dead letter, and its transfer %s %s", id, why).
		WithHint("`ferry transfer show " + id.String() + "` has its outcome; submit the request again under a new ID")
}
