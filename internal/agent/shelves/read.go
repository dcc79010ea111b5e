package shelves

import (
	"cmp"
	"context"
	"maps"
	"sync/atomic"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/receiver"
	"ferry/internal/sys/wake"
)

// Reading a shelf. The reader asks the queue manager for as many bytes as the link carries in about a second, in two
// pieces, and hands complete messages over. The bytes that have come stay when the connection is lost, when other
// shelves have their turn, and when the transfer cannot take them yet. The next reading begins behind them.

// Limits of reading.
const (
	readMost  = 4 << 20               // bytes of one reading
	pieceMost = 256 << 10             // bytes of one piece
	readAhead = 8                     // messages that wait for their transfer while more is read
	heldMost  = 16 << 20              // bytes that are held of all shelves
	drainLook = 10 * time.Millisecond // until a shelf without more messages is read again; doubling
	drainWait = 300 * time.Millisecond
	aliveLook = time.Second // between two signs that shelves are being read
)

// A holding is the position in a shelf up to which it was read.
type holding struct {
	next  uint64        // number in the store of the first message that was not taken; 0: the first of the shelf
	ready []qmgr.Stored // messages that have come and were not taken
	over  bool          // the shelf is not needed any more
	qmgr.Assembly
}

// at returns the position of the next reading.
func (h *holding) at() (number uint64, begin int) {
	if number, begin, began := h.Position(); began {
		return number, begin
	}
	if n := len(h.ready); n > 0 {
		return h.ready[n-1].Number + 1, 0
	}
	return h.next, 0
}

func (h *holding) bytes() (n int) {
	for _, m := range h.ready {
		n += len(m.Data)
	}
	return n + h.Memory()
}

// holdings are those of all shelves.
type holdings struct{ of map[receiver.Shelf]*holding }

func newHoldings() *holdings { return &holdings{map[receiver.Shelf]*holding{}} }

func (hs *holdings) shelf(at receiver.Shelf) *holding {
	h := hs.of[at]
	if h == nil {
		h = &holding{}
		hs.of[at] = h
	}
	return h
}

// began reports whether any message of a shelf was taken.
func (hs *holdings) began(at receiver.Shelf) bool { return hs.of[at] != nil && hs.of[at].next > 0 }

// rewind makes the next reading of a shelf begin at its start.
func (hs *holdings) rewind(at receiver.Shelf) { delete(hs.of, at) }

func (hs *holdings) forget(gone func(receiver.Shelf) bool) {
	maps.DeleteFunc(hs.of, func(at receiver.Shelf, _ *holding) bool { return gone(at) })
}

// bound drops the bytes of other shelves, where all shelves hold more than heldMost. They are read again.
func (hs *holdings) bound(but receiver.Shelf) {
	all := 0
	for _, h := range hs.of {
		all += h.bytes()
	}
	for at, h := range hs.of {
		if all <= heldMost {
			return
		}
		if at != but {
			all -= h.bytes()
			h.ready, h.Assembly = nil, qmgr.Assembly{}
		}
	}
}

// shelf reads one of the shelves that have their turn; where there are others, for a while only. Its result is that of
// its last run, which is not rewound.
func (r *reader) shelf(at receiver.Shelf, turn []receiver.Shelf) (end runEnd, err error) {
	r.last = at
	defer r.held.bound(at)
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
		end, err = r.run(&running{at: at, turn: turn, may: may})
		if err != nil || end == left {
			return left, err
		}
		if r.came != before {
			came, pause = r.came, drainLook
		}
		if end != drained {
			continue
		}
		if r.cfg.Clock.Now().Sub(came) >= drainWait { // something may be on its way from the source
			return drained, nil
		}
		r.await(nil, pause)
		pause *= 2
	}
	return turned, nil
}

// A runEnd is the reason for the end of a run along a shelf.
type runEnd int

const (
	left    runEnd = iota // the transfer takes nothing more at present
	turned                // others have their turn
	drained               // everything was handed over
	rewound               // it is to be read from its start
)

// A running is one run along a shelf.
type running struct {
	at   receiver.Shelf
	turn []receiver.Shelf
	may  func() bool // reports whether more may be asked for

	messages chan qmgr.Stored // that have come
	stop     atomic.Bool      // no more is to be asked for
	alive    time.Time        // when the transfers were notified last that their shelves are being read
}

// run continues to read a shelf, and hands the messages over while the next ones come. It waits for all bytes that it
// has asked for. It holds the messages that the transfer does not take.
func (r *reader) run(x *running) (end runEnd, err error) {
	ctx, cancel := context.WithCancel(r.cfg.Context)
	defer cancel()
	h := r.held.shelf(x.at)
	number, begin := h.at()
	queue := h.ready
	h.ready, x.messages = nil, make(chan qmgr.Stored, readAhead)
	var spent bool
	var failed error
	go func() {
		defer close(x.messages)
		for {
			if spent, failed = r.ask(ctx, x, &h.Assembly, number, begin); spent || failed != nil || x.stop.Load() || !x.may() {
				return
			}
			number, begin, _ = h.Position()
		}
	}()

	over := false
	take := func(m qmgr.Stored) {
		if over {
			h.ready = append(h.ready, m)
			return
		}
		if end, over, err = r.hand(x.at, h, m); !over && !x.may() {
			end, over = turned, true
		}
		if over {
			x.stop.Store(true)
		}
		if over && (end == rewound || h.over) {
			cancel() // the rest is of no use
		}
	}
	for _, m := range queue {
		take(m)
	}
	for m := range x.messages {
		take(m)
	}
	switch {
	case r.cfg.Context.Err() != nil:
		return left, nil
	case h.over || end == rewound:
		r.held.rewind(x.at)
		return end, err
	case over || err != nil || failed != nil:
		return end, cmp.Or(err, failed)
	case spent:
		return drained, nil
	}
	return turned, nil
}

// ask reads from a shelf as much data as the link carries in about a second.
func (r *reader) ask(ctx context.Context, x *running, into *qmgr.Assembly, number uint64, begin int) (spent bool, err error) {
	if err := r.at.Ready(ctx); err != nil {
		return false, err
	}
	now := r.cfg.Clock.Now()
	portion := r.share.Portion(r.got, r.at.DataReceived(), now)
	most := min(int64(portion*float64(4*r.line.Pace())), readMost)
	piece := min(most/2, pieceMost)
	flight := r.line.Join(func() {})
	defer flight.Leave()
	for k := range most / piece {
		flight.Send(uint64(k+1), piece, now)
	}
	q := qmgr.Reading{Shelf: shelfOf(x.at), From: number, Begin: begin, Rest: into.Rest(), Most: int(most), Piece: int(piece)}
	got := int64(0)
	return r.at.Read(ctx, q, func(p qmgr.Part) {
		now := r.cfg.Clock.Now()
		got += int64(len(p.Data))
		r.got += int64(len(p.Data))
		flight.Acked(uint64(got/piece), time.Time{}, now)
		if now.Sub(x.alive) >= aliveLook {
			x.alive = now
			r.recv.Comes(x.turn)
		}
		if m, whole := into.Add(p); whole {
			select {
			case x.messages <- m:
			case <-ctx.Done():
			}
		}
	})
}

// hand passes a message to the receiver. over reports that the transfer takes no more in this run.
func (r *reader) hand(at receiver.Shelf, h *holding, m qmgr.Stored) (end runEnd, over bool, err error) {
	ctx, cancel := context.WithTimeout(r.cfg.Context, storeTake)
	defer cancel()
	t := r.recv.Take(ctx, receiver.StoredMessage{Shelf: at, Number: m.Number, Data: m.Data})
	switch t.Verdict {
	case receiver.Took:
		h.next, r.came = m.Number+1, r.cfg.Clock.Now()
		return left, false, nil
	case receiver.Rewind:
		return rewound, true, nil
	case receiver.Spent:
		h.over = true
		return left, true, r.trimNow(at, 0)
	}
	if t.Why != nil {
		r.cfg.Log.Debug("cannot take stored message yet", "transfer", at.ID, "from", at.From, "error", t.Why)
	}
	r.later[at] = r.cfg.Clock.Now().Add(storeLater)
	h.ready = append(h.ready, m)
	return left, true, nil
}
