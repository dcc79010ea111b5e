package shelves

import (
	"context"
	"maps"
	"slices"
	"time"

	"ferry/internal/flow"
	"ferry/internal/qmgr/streams"
	"ferry/internal/receiver"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A reader reads the data that is stored for the agent.
type reader struct {
	*Client
	may   func() bool // waits until data may be read; false: the agent ends
	recv  receiver.Desk
	line  *flow.Controller // from the store
	share flow.Share       // of that, beside other data
	got   int64            // bytes that have come

	looked time.Duration // that the last look took
	held   *holdings
	later  map[receiver.Shelf]time.Time // not before
	last   receiver.Shelf               // that was read last
	came   time.Time                    // when something came last
}

func newReader(s *Client, recv *receiver.Receiver, may func() bool) *reader {
	return &reader{Client: s, may: may, recv: receiver.Desk{Receiver: recv}, line: new(flow.Controller), held: newHoldings(), later: map[receiver.Shelf]time.Time{}}
}

// loop reads until the agent ends.
func (r *reader) loop() {
	for r.cfg.Context.Err() == nil {
		if !r.may() {
			return
		}
		pause, err := r.round()
		if err != nil {
			r.cfg.Log.Debug("cannot read the stored data; will retry", "error", err)
			pause = storeRetry
		}
		if !r.await(r.read, pause) {
			return
		}
	}
}

// round lists the shelves, and reads each of them for a while. It returns the pause until the next round.
func (r *reader) round() (pause time.Duration, err error) {
	r.mu.Lock()
	looks := r.looks // before the list: it shows all messages that these OPENs speak of
	r.looks = map[receiver.Shelf]*wire.Message{}
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(r.cfg.Context, storeTry)
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
			r.recv.Absent(r.cfg.Context, at, open) // all that there was has been handed over
		case !r.later[at].After(r.cfg.Clock.Now()):
			r.Look(at, open)
		}
		delete(looks, at)
	}
	for at, open := range looks {
		r.came = r.cfg.Clock.Now() // or is about to
		if len(v.Shelves) < mostLists || r.held.began(at) {
			r.recv.Absent(r.cfg.Context, at, open)
		}
	}
	if more {
		return 0, nil
	}
	return r.pause(shelves), nil
}

// lookAgain keeps OPENs for another round, after a failure to read their shelves.
func (r *reader) lookAgain(looks map[receiver.Shelf]*wire.Message) {
	for at, open := range looks {
		r.Look(at, open)
	}
}

// inTurn returns the shelves to read, in the order of their turns. Of each transfer it takes the newest epoch, and
// removes the others.
func (r *reader) inTurn(all []streams.Shelf) (turn []receiver.Shelf) {
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
func (r *reader) pause(shelves []receiver.Shelf) time.Duration {
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
func (r *reader) active() time.Duration { return min(max(storeActive, 10*r.looked), storeSeldom) }
