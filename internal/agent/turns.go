package agent

import (
	"sync"

	"ferry/internal/qmgr"
	"ferry/internal/wire"
)

// Limits of the messages that wait.
const (
	turnsRoom     = 64 << 20 // bytes of all speakers
	turnsPart     = 8        // a speaker may hold an eighth of the free room, so twenty of them leave a tenth
	turnsOverhead = 256      // bytes of a message beside its data
)

// turns are messages that wait to be handled. Speakers take turns, so the messages of one speaker delay a message of another by
// one message. In one queue for all, a speaker without rights had delayed and displaced the replies of every transfer.
// Its methods may be called at the same time.
type turns struct {
	wake chan struct{} // has one after a message was added

	mu    sync.Mutex
	order []string // speakers that have a message, in the order of their turns
	of    map[string]*turn
	held  int // bytes
}

// A turn has the messages of one speaker, oldest first.
type turn struct {
	messages []qmgr.Message
	held     int // bytes
}

func newTurns() *turns { return &turns{wake: make(chan struct{}, 1), of: map[string]*turn{}} }

// add has a message wait. It reports false where the speaker has no room. Any message may be lost on its way, and the speaker repeats it.
func (t *turns) add(m qmgr.Message) bool {
	from, size := wire.LastToken(m.Subject), len(m.Data)+len(m.Subject)+turnsOverhead
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.of[from]
	if x == nil {
		x = &turn{}
	}
	if x.held+size > (turnsRoom-t.held)/turnsPart {
		return false
	}
	if len(x.messages) == 0 {
		t.of[from] = x
		t.order = append(t.order, from)
	}
	x.messages = append(x.messages, m)
	x.held += size
	t.held += size
	select {
	case t.wake <- struct{}{}:
	default:
	}
	return true
}

// take returns the next message. It is not ok if none waits.
func (t *turns) take() (m qmgr.Message, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		return m, false
	}
	from := t.order[0]
	x := t.of[from]
	m = x.messages[0]
	x.messages[0] = qmgr.Message{}
	x.messages = x.messages[1:]
	size := len(m.Data) + len(m.Subject) + turnsOverhead
	x.held -= size
	t.held -= size
	t.order = t.order[1:]
	if len(x.messages) > 0 {
		t.order = append(t.order, from)
	} else {
		delete(t.of, from)
	}
	return m, true
}
