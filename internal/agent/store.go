package agent

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"ferry/internal/flow"
	"ferry/internal/lane/stored"
	"ferry/internal/ledger"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/streams"
	"ferry/internal/receiver"
	"ferry/internal/sender"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Times of stored delivery.
const (
	storeTry     = 30 * time.Second // at most; a question is given up earlier when no byte comes
	storeSlice   = 2 * time.Second  // of a shelf, while others wait
	storeLater   = 4 * time.Second  // until a transfer that could take no message is tried again
	storeTake    = 20 * time.Second // for a message, on a disk that hangs: then other shelves have their turn
	storeActive  = time.Second      // between two looks while messages come, at least
	storeSeldom  = 5 * time.Second  // and at most
	storeIdle    = time.Minute      // for so long after the last of it
	storeLooks   = 5 * time.Minute  // between two looks while none come
	storeSweeps  = 10 * time.Minute // between two sweeps
	storeRetry   = 2 * time.Second
	storeFar     = 15 * time.Second
	mostLooks    = 4096
	mostLists    = 512 // entries; a look at more may not have shown all
	shelfLookAge = time.Second
)

// A storing is an agent's part of the store of its queue manager. It stores data for other agents, reads data for this
// one, and removes data that is not needed any more. It is sender.Store and receiver.Shelves.
type storing struct {
	*core
	older *older
	at    *qmgr.StoreAt
	mem   *wire.Memory
	read  chan struct{} // there may be something to read
	trim  chan struct{} // there is something to trim
	tidy  chan struct{} // there may be something to sweep

	mu     sync.Mutex
	mark   string                           // of the store, and
	seen   bool                             // whether it was looked for
	looks  map[receiver.Shelf]*wire.Message // OPENs that wait for a reading of their shelves
	trims  map[receiver.Shelf]uint64        // first number that stays; MaxUint64: none does
	left   map[leftover]leaving             // is to go from the store
	parked int

	asking sync.Mutex          // held while is asked how much is ours
	rooms  map[string]roomView // by the queue manager that has the store

	owing map[string]bool // queue managers that may have stored data of earlier processes
}

// A leftover is the data of a transfer in the store of a queue manager.
type leftover struct {
	at string
	id transfer.ID
}

// A leaving is the part of a leftover that is to be removed.
type leaving struct {
	to     transfer.AgentName
	before uint32 // epochs
}

// A roomView is an answer to the question whether an agent may store more.
type roomView struct {
	err    error
	looked time.Time
}

var (
	_ sender.Store     = (*storing)(nil)
	_ receiver.Shelves = (*storing)(nil)
)

func newStoring(c *core, o *older, mem *wire.Memory) *storing {
	return &storing{core: c, older: o, at: qmgr.StoreOf(c.conn, c.cfg.Name), mem: mem, read: make(chan struct{}, 1), trim: make(chan struct{}, 1), tidy: make(chan struct{}, 1),
		looks: map[receiver.Shelf]*wire.Message{}, trims: map[receiver.Shelf]uint64{}, left: map[leftover]leaving{}, rooms: map[string]roomView{}, owing: map[string]bool{}}
}

// Compared reports whether the agent has compared its ledger with coordination's log in this run.
func (s *storing) Compared() bool { return s.older.compared.Load() }

// again has all shelves read: the connection is new.
func (s *storing) again() {
	poke(s.read)
	poke(s.trim)
	poke(s.tidy)
}

// Store names the store for a destination, for a source.
func (s *storing) Store(ctx context.Context, to transfer.AgentName) (sender.StoreName, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTry)
	defer cancel()
	v, err := s.at.Outgoing(ctx, to)
	return sender.StoreName{Mark: v.Mark, At: v.At, Ledger: v.Ledger}, err
}

// Shelf makes the lane of an epoch.
func (s *storing) Shelf(ctx context.Context, at string, to transfer.AgentName, id transfer.ID, epoch uint32, acked func(n uint64)) sender.Shelf {
	return stored.New(ctx, stored.Config{Publish: stored.Through(s.at, at), Subject: wire.StoreSubject(to, s.cfg.Name, id, epoch),
		Memory: s.mem, Clock: s.cfg.Clock, Room: func(ctx context.Context) error { return s.hasRoom(ctx, at) }, Acked: acked})
}

// hasRoom returns the reason why this agent may not store more at a queue manager at present: it has its share.
func (s *storing) hasRoom(ctx context.Context, at string) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	room := s.rooms[at]
	if now := s.cfg.Clock.Now(); now.Sub(room.looked) >= shelfLookAge {
		ctx, cancel := context.WithTimeout(ctx, storeTry)
		defer cancel()
		v, err := s.at.OutgoingAt(ctx, at)
		if err == nil && v.Used > v.Share {
			err = transfer.Errorf(transfer.KindNoSpace, "%s has its share of the queue manager's store: %s", s.cfg.Name, transfer.FormatBytes(v.Share)).
				WithHint("it goes on as destinations take the stored data")
		}
		room = roomView{err, now}
		s.rooms[at] = room
	}
	return room.err
}

// Purge removes the epochs of a transfer before a given one.
func (s *storing) Purge(ctx context.Context, at string, to transfer.AgentName, id transfer.ID, before uint32) error {
	ctx, cancel := context.WithTimeout(ctx, storeTry)
	defer cancel()
	return s.at.Purge(ctx, at, to, id, before)
}

// Left has the data that is left of a transfer in a store removed.
func (s *storing) Left(at string, to transfer.AgentName, id transfer.ID, before uint32) {
	s.mu.Lock()
	key := leftover{at, id}
	if len(s.left) < mostLooks { // of more the sweep finds those that are left
		s.left[key] = leaving{to, max(before, s.left[key].before)}
	}
	s.mu.Unlock()
	poke(s.tidy)
}

// Park lets as many transfers wait for room without a slot as there are slots. It reports whether one more may wait.
func (s *storing) Park() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parked >= s.cfg.MaxSource {
		return false
	}
	s.parked++
	return true
}

// Unpark is the end of such a wait.
func (s *storing) Unpark() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parked--
}

// Look has the shelf of an OPEN read.
func (s *storing) Look(at receiver.Shelf, open *wire.Message) {
	s.mu.Lock()
	if open != nil && (len(s.looks) < mostLooks || s.looks[at] != nil) {
		s.looks[at] = open
	}
	s.mu.Unlock()
	poke(s.read)
}

// Trim has data removed that is not needed any more: numbers below below, or all where it is 0.
func (s *storing) Trim(at receiver.Shelf, below uint64) {
	if below == 0 {
		below = math.MaxUint64
	}
	s.mu.Lock()
	s.trims[at] = max(s.trims[at], below)
	s.mu.Unlock()
	poke(s.trim)
}

// Mark names the store, as it was seen last.
func (s *storing) Mark() (mark string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mark, s.seen
}

// trimLoop removes stored data that the receiver has taken.
func (s *storing) trimLoop() {
	for s.await(s.trim, storeSweeps) {
		s.mu.Lock()
		trims := s.trims
		s.trims = map[receiver.Shelf]uint64{}
		s.mu.Unlock()
		for at, below := range trims {
			if err := s.trimNow(at, below); err != nil {
				s.Trim(at, below)
				s.log.Debug("cannot trim the stored data; will retry", "transfer", at.ID, "error", err)
				s.await(nil, storeRetry)
			}
		}
	}
}

func (s *storing) trimNow(at receiver.Shelf, below uint64) error {
	ctx, cancel := context.WithTimeout(s.ctx, storeTry)
	defer cancel()
	if below == math.MaxUint64 {
		below = 0
	}
	return s.at.Trim(ctx, shelfOf(at), below)
}

func shelfOf(at receiver.Shelf) streams.Shelf {
	return streams.Shelf{From: at.From, ID: at.ID, Epoch: at.Epoch}
}

// await waits until it is poked, or for d; it reports false when the agent ends.
func (s *storing) await(poked <-chan struct{}, d time.Duration) bool {
	t := s.cfg.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-poked:
	case <-t.C():
	case <-s.ctx.Done():
	}
	return s.ctx.Err() == nil
}

// owes notes queue managers that have stored data of earlier processes, before sweepLoop begins.
func (s *storing) owes(shelves []string) {
	for _, at := range shelves {
		s.owing[at] = true
	}
}

// sweepLoop removes the stored data of transfers that are over, and that of earlier epochs.
func (s *storing) sweepLoop() {
	for {
		pause := storeSweeps
		if err := s.sweepOnce(); err != nil {
			s.log.Debug("cannot sweep the stored data; will retry", "error", err)
			if pause = storeRetry; transfer.KindOf(err) == transfer.KindUnreachable { // a channel may be down for long
				pause = storeFar
			}
		}
		if !s.await(s.tidy, pause) {
			return
		}
	}
}

func (s *storing) sweepOnce() error {
	if failpoint.Planted("stored-not-purged") {
		return nil
	}
	s.mu.Lock()
	left := maps.Clone(s.left)
	s.mu.Unlock()
	var failed error
	for at := range s.owing {
		if err := s.sweepStore(at); err != nil {
			failed = errors.Join(failed, err) // the store of another queue manager may be out of reach for long
		} else {
			delete(s.owing, at)
		}
	}
	for key, l := range left {
		if err := s.Purge(s.ctx, key.at, l.to, key.id, l.before); err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		if key.at != "" {
			s.owing[key.at] = true // the next sweep finds data that was in flight
		}
		s.mu.Lock()
		if s.left[key] == l {
			delete(s.left, key)
		}
		s.mu.Unlock()
	}
	return errors.Join(failed, s.sweepStore(""))
}

// sweepStore removes from the store of a queue manager the data that no transfer of the ledger needs.
func (s *storing) sweepStore(at string) error {
	ctx, cancel := context.WithTimeout(s.ctx, storeTry)
	defer cancel()
	v, err := s.at.Sent(ctx, at)
	if err != nil {
		return err
	}
	for _, shelf := range v.Shelves {
		var rec *ledger.Source
		if err := s.ledger.View(func(t *ledger.Tx) (err error) {
			rec, err = t.Source(shelf.ID)
			return err
		}); err != nil {
			return err
		}
		before := uint32(math.MaxUint32)
		if rec != nil && !rec.State.Final() && !rec.Cancel && rec.Request.Destination == shelf.To {
			before = rec.Epoch
		}
		if shelf.Epoch >= before {
			continue
		}
		if err := s.Purge(ctx, at, shelf.To, shelf.ID, before); err != nil {
			return err
		}
	}
	return nil
}

// A shelfReader reads the data that is stored for the agent.
type shelfReader struct {
	*storing
	own   *owner
	recv  receiver.Desk
	line  *flow.Line // from the store
	share flow.Share // of that, beside other data
	got   int64      // bytes that have come

	looked time.Duration // that the last look took
	held   *holdings
	later  map[receiver.Shelf]time.Time // not before
	last   receiver.Shelf               // that was read last
	came   time.Time                    // when something came last
}

func newShelfReader(s *storing, own *owner, recv *receiver.Receiver) *shelfReader {
	return &shelfReader{storing: s, own: own, recv: receiver.Desk{Receiver: recv}, line: new(flow.Line), held: newHoldings(), later: map[receiver.Shelf]time.Time{}}
}

// loop reads until the agent ends.
func (r *shelfReader) loop() {
	for r.ctx.Err() == nil {
		if !r.cfg.Alone && !r.own.wait(taking) {
			return
		}
		pause, err := r.round()
		if err != nil {
			r.log.Debug("cannot read the stored data; will retry", "error", err)
			pause = storeRetry
		}
		if !r.await(r.read, pause) {
			return
		}
	}
}

// round lists the shelves, and reads each of them for a while. It returns the pause until the next round.
func (r *shelfReader) round() (pause time.Duration, err error) {
	r.mu.Lock()
	looks := r.looks // before the list: it shows all messages that these OPENs speak of
	r.looks = map[receiver.Shelf]*wire.Message{}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.ctx, storeTry)
	began := r.cfg.Clock.Now()
	v, err := r.at.Incoming(ctx)
	cancel()
	r.looked = r.cfg.Clock.Now().Sub(began)
	if err != nil {
		r.lookAgain(looks)
		return 0, err
	}
	r.mu.Lock()
	r.mark, r.seen = v.Mark, true
	r.mu.Unlock()

	shelves, more := r.inTurn(v.Shelves), false
	for _, at := range shelves {
		if r.later[at].After(r.cfg.Clock.Now()) {
			delete(looks, at)
			continue
		}
		end, err := r.shelf(at, shelves)
		if err != nil {
			r.lookAgain(looks)
			return 0, err
		}
		more = more || end == turned
		switch open := looks[at]; {
		case open == nil:
		case end == drained:
			r.recv.Absent(r.ctx, at, open) // all that there was has been handed over
		case !r.later[at].After(r.cfg.Clock.Now()):
			r.Look(at, open)
		}
		delete(looks, at)
	}
	for at, open := range looks {
		r.came = r.cfg.Clock.Now() // or is about to
		if len(v.Shelves) < mostLists || r.held.began(at) {
			r.recv.Absent(r.ctx, at, open)
		}
	}
	if more {
		return 0, nil
	}
	return r.pause(shelves), nil
}

// lookAgain keeps OPENs for another round, after a failure to read their shelves.
func (r *shelfReader) lookAgain(looks map[receiver.Shelf]*wire.Message) {
	for at, open := range looks {
		r.Look(at, open)
	}
}

// inTurn returns the shelves to read, in the order of their turns. Of each transfer it takes the newest epoch, and
// removes the others.
func (r *shelfReader) inTurn(all []streams.Shelf) (turn []receiver.Shelf) {
	type one struct {
		from transfer.AgentName
		id   transfer.ID
	}
	newest := map[one]uint32{}
	for _, sh := range all {
		newest[one{sh.From, sh.ID}] = max(newest[one{sh.From, sh.ID}], sh.Epoch)
	}
	for _, sh := range all {
		at := receiver.Shelf{From: sh.From, ID: sh.ID, Epoch: sh.Epoch}
		if newest[one{sh.From, sh.ID}] > sh.Epoch {
			r.Trim(at, 0)
			continue
		}
		turn = append(turn, at)
	}
	gone := func(at receiver.Shelf) bool { return !slices.Contains(turn, at) }
	r.held.forget(gone)
	maps.DeleteFunc(r.later, func(at receiver.Shelf, _ time.Time) bool { return gone(at) })
	if n := slices.Index(turn, r.last); n >= 0 {
		turn = slices.Concat(turn[n+1:], turn[:n+1])
	}
	return turn
}

// pause returns the time until the next look.
func (r *shelfReader) pause(shelves []receiver.Shelf) time.Duration {
	now, pause, active := r.cfg.Clock.Now(), storeLooks, r.active()
	if !r.came.IsZero() && now.Sub(r.came) < storeIdle {
		pause = active
	}
	for _, at := range shelves {
		if left := r.later[at].Sub(now); left > 0 {
			pause = min(pause, left)
		} else {
			pause = min(pause, active)
		}
	}
	return pause
}

// active is the time between two looks while messages come: a second, and on a slow link, where a look takes longer,
// ten times as long as that.
func (r *shelfReader) active() time.Duration { return min(max(storeActive, 10*r.looked), storeSeldom) }
