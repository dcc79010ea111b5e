package receiver

import (
	"context"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Stored delivery (R31). The messages of a source lie on shelves of the queue manager's store, one for each of its
// epochs. The agent reads the shelves, one at a time, and hands each message to Take. Take returns when the transfer's
// actor has handled the message: messages wait only in the store.
//
// A message stays there until all of its data is decided, or is safe and can be resumed by the process that reads the
// next one. The ledger has that as Taken. After a crash the rest of the shelf is read again from there.
//
//	OPEN, the first message   a new epoch: ACCEPT, for a source that receives it
//	chunk messages            each in its turn; one that is ahead of its turn comes again
//	a hole                    RESYNC, until a shelf of a later epoch is there; this one is removed

// A Shelf is one epoch of a transfer in the store.
type Shelf struct {
	From  transfer.AgentName
	ID    transfer.ID
	Epoch uint32
}

// Shelves are the agent's operations on the store.
type Shelves interface {
	// Look makes the agent read the shelf of a transfer after an OPEN from its source. If the shelf is empty, the agent
	// hands that OPEN to Absent. It does not block.
	Look(at Shelf, open *wire.Message)
	// Trim reports that the messages of a shelf below a number are needed no more; 0: all of them. It does not block,
	// and the removal may come later.
	Trim(at Shelf, below uint64)
	// Mark returns the name of the store when the agent looked last; "": there is none. known is false before that.
	Mark() (mark string, known bool)
	// Compared reports whether the agent has compared its ledger with coordination's log in this run: by then an older
	// copy of the ledger has another ledger.Mark.
	Compared() bool
}

// A StoredMessage is a message of a shelf, with its number in the store.
type StoredMessage struct {
	Shelf
	Number uint64
	Data   []byte
}

// A Verdict is the result of a stored message.
type Verdict int

const (
	Took   Verdict = iota // it was handled: the next one
	Rewind                // the shelf is to be read again from its first message
	Later                 // the transfer cannot take a message at present
	Spent                 // no message of the shelf is needed any more
)

// A Taking is the verdict on a stored message, with its reason.
type Taking struct {
	Verdict Verdict
	Why     *transfer.Error // of Later
}

const (
	mostAhead    = 512             // most messages before their turn; more are a hole
	mostMarks    = 4096            // taken messages that are tracked one by one
	mostOwed     = 16384           // undelivered outcomes above which no more is taken
	trimEvery    = time.Second     // at most
	shelfRepeat  = 2 * time.Second // time until RESYNC about a hole is repeated, doubling
	shelfRepeats = time.Minute
	mostHeadless = 4096
)

// A shelving is the status of an incoming transfer's shelf.
type shelving struct {
	marks   []shelfMark // of messages that were taken but not recorded as taken, oldest first
	top     uint64      // one more than the greatest item that has begun
	ahead   int         // messages before their turn since the last one in turn
	fresh   bool        // no message has come since the shelf was opened
	trimDue time.Time   // zero: no message is to be trimmed
	trimmed time.Time   // last trim
	acked   time.Time   // last ACK

	hole    string    // the gap on the shelf of the ledger's epoch; empty: none
	holeDue time.Time // when RESYNC is repeated
	backoff time.Duration
}

// A shelfMark is a message that was taken, with the data that must be decided or safe before the message is needed no
// more.
type shelfMark struct {
	seq, number uint64
	top         uint64 // one more than the greatest item that had begun
	open        bool   // that item had not ended
	offset      int64  // the bytes that had come of it
	last        bool   // it has the number of items
}

// A shelved is a stored message on its way to its actor.
type shelved struct {
	StoredMessage
	head   wire.Header
	open   *wire.Open // instead of a chunk message
	absent bool       // the shelf is empty; open came by REPLY
	said   chan Taking
}

func (p *shelved) answer(v Verdict, why error) {
	p.said <- Taking{v, transfer.AsError(why)}
}

// A Desk hands stored messages over to a Receiver.
type Desk struct{ *Receiver }

// Take takes a stored message, and returns when it is handled or ctx ends.
func (r Desk) Take(ctx context.Context, m StoredMessage) Taking {
	p := &shelved{StoredMessage: m, said: make(chan Taking, 1)}
	var why string
	if len(m.Data) > 0 && m.Data[0] == '{' {
		open, err := wire.Decode(m.Data)
		switch {
		case err != nil:
			why = err.Error()
		case open.Kind != wire.KindOpen || open.From != m.From || open.Transfer != m.ID || open.Open.Stored == nil || open.Open.Stored.Epoch != m.Epoch:
			why = "the OPEN on a shelf is of something else"
		default:
			p.open = open.Open
		}
	} else if h, err := wire.PeekHeader(m.Data); err != nil {
		why = err.Error()
	} else if p.head = h; h.Transfer != m.ID || h.Epoch != m.Epoch {
		why = "a message on a shelf is of something else"
	}
	if why != "" {
		r.cfg.Quiet.Dropped(string(m.From), "the stored data cannot be read", "transfer", m.ID, "error", why)
		return Taking{Verdict: Spent}
	}
	return r.hand(ctx, p)
}

// Absent reports an empty shelf for an OPEN that names the shelf.
func (r Desk) Absent(ctx context.Context, at Shelf, open *wire.Message) {
	r.hand(ctx, &shelved{StoredMessage: StoredMessage{Shelf: at}, open: open.Open, absent: true, said: make(chan Taking, 1)})
}

// Comes reports the shelves that are being read, or wait for the reader: on a slow link a message takes long. Their
// transfers are not silent.
func (r Desk) Comes(shelves []Shelf) {
	now := r.cfg.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.speakers.reading)
	for _, at := range shelves {
		r.speakers.reading[at.ID] = now
	}
}

// comes reports whether the transfer's shelf was read a short while ago.
func (i taking) comes(now time.Time) bool {
	i.r.mu.Lock()
	defer i.r.mu.Unlock()
	at, ok := i.r.speakers.reading[i.id]
	return ok && now.Sub(at) < sourceSilent
}

// hand hands a message to its actor and waits for the verdict.
func (r Desk) hand(ctx context.Context, p *shelved) Taking {
	r.mu.Lock()
	a := r.actors[p.ID]
	s, asleep := r.speakers.sleeping[p.ID]
	switch {
	case r.ctx.Err() != nil:
		r.mu.Unlock()
		return Taking{Verdict: Later}
	case a != nil && a.from != p.From, asleep && s.from != p.From:
		r.mu.Unlock()
		r.cfg.Quiet.Dropped(string(p.From), errTaken.Text, "transfer", p.ID)
		return Taking{Verdict: Spent}
	case a == nil && (r.full(p.From) || r.speakers.leaving[p.ID]):
		r.mu.Unlock()
		return Taking{Later, errCrowded}
	case a == nil:
		delete(r.speakers.sleeping, p.ID)
		a = r.newActor(p.ID, p.From)
		a.box.putStored(p)
		r.start(a)
	case !a.box.putStored(p):
		r.mu.Unlock()
		return Taking{Verdict: Later}
	}
	r.mu.Unlock()
	select {
	case t := <-p.said:
		return t
	case <-ctx.Done():
	case <-r.ctx.Done():
	}
	return Taking{Verdict: Later}
}

// behead records that a transfer without an entry here has a shelf without its first message: the queue manager has
// lost it, or an earlier ledger has taken it (R35).
func (r Desk) behead(id transfer.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.speakers.headless) >= mostHeadless {
		clear(r.speakers.headless)
	}
	r.speakers.headless[id] = true
}

// restore removes the record that a transfer is headless.
func (r Desk) restore(id transfer.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.speakers.headless, id)
}

func (r Desk) headless(id transfer.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.speakers.headless[id]
}

// errBeheaded refuses a transfer that an earlier ledger has partly taken.
func (rc *record) errBeheaded() *transfer.Error {
	return transfer.Errorf(transfer.KindLost, "%s has no record of the transfer, and some of the data stored for it has been taken", rc.r.cfg.Agent)
}
