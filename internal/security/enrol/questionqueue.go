package enrol

import (
	"encoding/json"
	"sync"

	"ferry/internal/qmgr"
	"ferry/internal/security/word"
	round "ferry/internal/sys/turns"
	"ferry/internal/wire"
)

// Limits of the questions that wait.
const (
	maxConcurrent       = 8    // questions that are worked on
	maxPerMember        = 32   // questions of one member; more are refused
	maxWaiting          = 8192 // questions of all members
	administrationAhead = 8    // questions of administration that come before one of the others
)

// A questionQueue has the questions that wait for the authority. Members take turns, so the questions of one member delay those of another
// by one question each. Questions that change or list the network come before renewals and the like. Those come from all agents at
// once after a restart, and an agent asks again. One of those is taken after each administrationAhead of the former: members without
// rights can ask the former without end, and they are refused. Its methods may be called at the same time.
type questionQueue struct {
	mu      sync.Mutex
	changed sync.Cond
	held    map[string]int // questions of a member that wait or are worked on
	all     int
	first   round.Round[qmgr.Message] // administration
	ahead   int                       // questions of first that were taken since one of second
	second  round.Round[qmgr.Message]
	over    bool
}

func newQuestionQueue() *questionQueue {
	t := &questionQueue{held: map[string]int{}}
	t.changed.L = &t.mu
	return t
}

// add has a question wait, and reports false where its member has too many of them.
func (t *questionQueue) add(m qmgr.Message) bool {
	member := wire.LastToken(m.Subject)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[member] >= maxPerMember || t.all >= maxWaiting {
		return false
	}
	t.held[member]++
	t.all++
	if isAdministration(m.Data) {
		t.first.Add(member, m)
	} else {
		t.second.Add(member, m)
	}
	t.changed.Signal()
	return true
}

// next waits for the next question. It reports false once no question is left after end.
func (t *questionQueue) next() (m qmgr.Message, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.first.Speakers()+t.second.Speakers() == 0 {
		if t.over {
			return m, false
		}
		t.changed.Wait()
	}
	from := &t.second
	if t.first.Speakers() > 0 && (t.ahead < administrationAhead || t.second.Speakers() == 0) {
		from = &t.first
		t.ahead++
	} else {
		t.ahead = 0
	}
	_, m, ok = from.Take()
	return m, ok
}

// done gives the place of a question back.
func (t *questionQueue) done(m qmgr.Message) {
	member := wire.LastToken(m.Subject)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.held[member]--; t.held[member] == 0 {
		delete(t.held, member)
	}
}

// end has next report false when no question is left.
func (t *questionQueue) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	t.changed.Broadcast()
}

// isAdministration reports whether a question takes an authority. Refusals of such questions cost little, so they cannot hold up renewals.
func isAdministration(message []byte) bool {
	var q struct {
		Op op `json:"op"`
	}
	_, body, err := word.Open(message)
	if err != nil || len(body) > maxAsk || json.Unmarshal(body, &q) != nil {
		return false
	}
	switch q.Op {
	case opEnrol, opToken, opDrop, opRevoke, opTokens, opIdentities, opRotate, opPolicy, opMember:
		return true
	}
	return false
}
