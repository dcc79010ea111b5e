package store

import (
	"context"
	"maps"
	"slices"
	"time"

	"ferry/internal/lane/stored"
	"ferry/internal/qmgr"
	"ferry/internal/receiver"
	"ferry/internal/sys/wake"
	"ferry/internal/wire"
)

// Until an epoch without more messages is read again; doubling, for drainWait.
const (
	drainLook = 10 * time.Millisecond
	drainWait = 300 * time.Millisecond
)

// A reader reads the data that is stored for the agent.
type reader struct {
	*Client
	may  func() bool // waits until data may be read; false: the agent ends
	recv receiver.StoredInput
	lane *stored.Reader

	looked time.Duration                  // that the last look took
	later  map[wire.StoredEpoch]time.Time // not before
	last   wire.StoredEpoch               // that was read last
	came   time.Time                      // when something came last
}

func newReader(s *Client, recv *receiver.Receiver, may func() bool) *reader {
	r := &reader{Client: s, may: may, recv: receiver.StoredInput{Receiver: recv}, later: map[wire.StoredEpoch]time.Time{}}
	r.lane = stored.NewReader(stored.ReaderConfig{Store: s.at, Clock: s.cfg.Clock, Context: s.cfg.Context, Take: r.take})
	return r
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

// round lists the stored epochs, and reads each of them for a while. It returns the pause until the next round.
func (r *reader) round() (pause time.Duration, err error) {
	r.mu.Lock()
	looks := r.looks // before the list: it shows all messages that these OPENs speak of
	r.looks = map[wire.StoredEpoch]*wire.Message{}
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

	epochs, more := r.inTurn(v.Epochs), false
	for _, at := range epochs {
		if r.later[at].After(r.cfg.Clock.Now()) {
			delete(looks, at)
			continue
		}
		end, err := r.epoch(at, epochs)
		if err != nil {
			r.lookAgain(looks)
			return 0, err
		}
		more = more || end == stored.Turned
		switch open := looks[at]; {
		case open == nil:
		case end == stored.Drained:
			r.recv.Absent(r.cfg.Context, at, open) // all that there was has been handed over
		case !r.later[at].After(r.cfg.Clock.Now()):
			r.Look(at, open)
		}
		delete(looks, at)
	}
	for at, open := range looks {
		r.came = r.cfg.Clock.Now() // or is about to
		if len(v.Epochs) < mostLists || r.lane.Began(at) {
			r.recv.Absent(r.cfg.Context, at, open)
		}
	}
	if more {
		return 0, nil
	}
	return r.pause(epochs), nil
}

// epoch reads one of the epochs that have their turn; where there are others, for a while only. Its result is that of
// its last reading, which is not rewound.
func (r *reader) epoch(at wire.StoredEpoch, turn []wire.StoredEpoch) (end stored.End, err error) {
	r.last = at
	began := r.cfg.Clock.Now()
	may := func() bool {
		if len(turn) > 1 {
			return r.cfg.Clock.Now().Sub(began) < storeSlice
		}
		select {
		case <-r.read: // there may be others
			wake.Up(r.read)
			return false
		default:
			return r.cfg.Context.Err() == nil
		}
	}
	came, pause := time.Time{}, drainLook
	for first := true; first || may(); first = false {
		before := r.came
		end, err = r.lane.Read(at, may, func() { r.recv.Comes(turn) })
		if err != nil || end == stored.Left {
			return stored.Left, err
		}
		if r.came != before {
			came, pause = r.came, drainLook
		}
		if end != stored.Drained {
			continue
		}
		if r.cfg.Clock.Now().Sub(came) >= drainWait { // something may be on its way from the source
			return end, nil
		}
		r.await(nil, pause)
		pause *= 2
	}
	return stored.Turned, nil
}

// take passes a message to the receiver.
func (r *reader) take(at wire.StoredEpoch, m qmgr.Stored) (stored.Answer, error) {
	ctx, cancel := context.WithTimeout(r.cfg.Context, storeTake)
	defer cancel()
	t := r.recv.Take(ctx, receiver.StoredMessage{StoredEpoch: at, Number: m.Number, Data: m.Data})
	switch t.Verdict {
	case receiver.Took:
		r.came = r.cfg.Clock.Now()
		return stored.Next, nil
	case receiver.Rewind:
		return stored.Again, nil
	case receiver.Spent:
		return stored.Drop, r.trimNow(at, 0)
	}
	if t.Why != nil {
		r.cfg.Log.Debug("cannot take stored message yet", "transfer", at.ID, "from", at.From, "error", t.Why)
	}
	r.later[at] = r.cfg.Clock.Now().Add(storeLater)
	return stored.Keep, nil
}

// lookAgain keeps OPENs for another round, after a failure to read their epochs.
func (r *reader) lookAgain(looks map[wire.StoredEpoch]*wire.Message) {
	for at, open := range looks {
		r.Look(at, open)
	}
}

// inTurn returns the epochs to read, in the order of their turns. Of each transfer it takes the newest epoch, and
// removes the others.
func (r *reader) inTurn(all []qmgr.StoredEpoch) (turn []wire.StoredEpoch) {
	newest := map[wire.StoredEpoch]uint32{} // by transfer
	of := func(e wire.StoredEpoch) wire.StoredEpoch { e.Epoch = 0; return e }
	for _, e := range all {
		newest[of(e.StoredEpoch)] = max(newest[of(e.StoredEpoch)], e.Epoch)
	}
	for _, e := range all {
		if newest[of(e.StoredEpoch)] > e.Epoch {
			r.Trim(e.StoredEpoch, 0)
			continue
		}
		turn = append(turn, e.StoredEpoch)
	}
	gone := func(at wire.StoredEpoch) bool { return !slices.Contains(turn, at) }
	r.lane.Forget(gone)
	maps.DeleteFunc(r.later, func(at wire.StoredEpoch, _ time.Time) bool { return gone(at) })
	if n := slices.Index(turn, r.last); n >= 0 {
		turn = slices.Concat(turn[n+1:], turn[:n+1])
	}
	return turn
}

// pause returns the time until the next look.
func (r *reader) pause(epochs []wire.StoredEpoch) time.Duration {
	now, pause, active := r.cfg.Clock.Now(), storeLooks, r.active()
	if !r.came.IsZero() && now.Sub(r.came) < storeIdle {
		pause = active
	}
	for _, at := range epochs {
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
