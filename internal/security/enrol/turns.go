package enrol

import (
	"encoding/json"
	"sync"

	"ferry/internal/qmgr"
	"ferry/internal/security/word"
	"ferry/internal/wire"
)

// Limits of the questions that wait.
const (
	deskAtOnce = 8    // questions that are worked on
	deskOfOne  = 32   // questions of one member; more are refused
	deskInAll  = 8192 // questions of all members
	deskAhead  = 8    // questions of administration that come before one of the others
)

// turns are the questions that wait for the authority. Members take turns, so the questions of one member delay those of another
// by one question each. Questions that change or list the network come before renewals and the like. Those come from all agents at
// once after a restart, and an agent asks again. One of those is taken after each deskAhead of the former: members without
// rights can ask the former without end, and they are refused. Its methods may be called at the same time.
type turns struct {
	mu      sync.Mutex
	changed sync.Cond
	held    map[string]int // questions of a member that wait or are worked on
	all     int
	first   turn // administration
	ahead   int  // questions of first that were taken since one of second
	second  turn
	over    bool
}

// A turn is a queue that serves members in turn.
type turn struct {
	order []string // members that have a question, in the order of their turns
	of    map[string][]qmgr.Message
}

func newTurns() *turns {
	t := &turns{held: map[string]int{}, first: turn{of: map[string][]qmgr.Message{}}, second: turn{of: map[string][]qmgr.Message{}}}
	t.changed.L = &t.mu
	return t
}

// add has a question wait, and reports false where its member has too many of them.
func (t *turns) add(m qmgr.Message) bool {
	member := wire.LastToken(m.Subject)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held[member] >= deskOfOne || t.all >= deskInAll {
		return false
	}
	t.held[member]++
	t.all++
	if administers(m.Data) {
		t.first.add(member, m)
	} else {
		t.second.add(member, m)
	}
	t.changed.Signal()
	return true
}

// next waits for the next question. It reports false once no question is left after end.
func (t *turns) next() (m qmgr.Message, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.first.order)+len(t.second.order) == 0 {
		if t.over {
			return m, false
		}
		t.changed.Wait()
	}
	if len(t.first.order) > 0 && (t.ahead < deskAhead || len(t.second.order) == 0) {
		t.ahead++
		return t.first.take(), true
	}
	t.ahead = 0
	return t.second.take(), true
}

// done gives the place of a question back.
func (t *turns) done(m qmgr.Message) {
	member := wire.LastToken(m.Subject)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all--
	if t.held[member]--; t.held[member] == 0 {
		delete(t.held, member)
	}
}

// end has next report false when no question is left.
func (t *turns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	t.changed.Broadcast()
}

func (t *turn) add(member string, m qmgr.Message) {
	if len(t.of[member]) == 0 {
		t.order = append(t.order, member)
	}
	t.of[member] = append(t.of[member], m)
}

func (t *turn) take() qmgr.Message {
	member := t.order[0]
	t.order = t.order[1:]
	m, rest := t.of[member][0], t.of[member][1:]
	delete(t.of, member)
	if len(rest) > 0 {
		t.of[member] = rest
		t.order = append(t.order, member)
	}
	return m
}

// administers reports whether a question takes an authority. Refusals of such questions cost little, so they cannot hold up renewals.
func administers(message []byte) bool {
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
