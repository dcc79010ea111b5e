package stored

import (
	"cmp"
	"context"
	"maps"
	"sync/atomic"
	"time"

	"ferry/internal/flow"
	"ferry/internal/qmgr"
	"ferry/internal/sys/clock"
	"ferry/internal/wire"
)

// Limits of reading.
const (
	readMost  = 4 << 20     // bytes of one reading
	pieceMost = 256 << 10   // bytes of one piece
	readAhead = 8           // messages that wait for their transfer while more is read
	heldMost  = 16 << 20    // bytes that are held of all epochs
	aliveLook = time.Second // between two signs that an epoch is being read
)

// An Answer is the result of a message that was handed over.
type Answer int

const (
	Next  Answer = iota // the message was taken, and the next one may come
	Keep                // the transfer cannot take it at present: it is kept for a later reading
	Again               // the epoch is to be read again from its first message
	Drop                // the epoch is not needed any more
)

// An End is the reason for the end of a reading.
type End int

const (
	Left    End = iota // the transfer takes nothing more at present
	Turned             // others have their turn
	Drained            // everything was handed over
	Rewound            // the epoch is to be read from its start
)

// ReaderConfig has the parameters of a Reader.
type ReaderConfig struct {
	Store   *qmgr.StoreAt
	Clock   clock.Clock
	Context context.Context
	// Take takes the messages of an epoch, in the order of the store.
	Take func(of wire.StoredEpoch, m qmgr.Stored) (Answer, error)
}

// A Reader is the receiving end of the lane. It asks the queue manager for as many bytes of an epoch as the link
// carries in about a second, in two pieces, and hands complete messages over. The bytes that have come stay when the
// connection is lost, when other epochs have their turn, and when the transfer cannot take them yet. The next reading
// begins behind them. Only one goroutine at a time may use it.
type Reader struct {
	cfg   ReaderConfig
	line  *flow.Controller // from the store
	share flow.Share       // of that, beside other data
	got   int64            // bytes that have come
	held  map[wire.StoredEpoch]*holding
}

// NewReader returns a Reader that has read nothing.
func NewReader(cfg ReaderConfig) *Reader {
	return &Reader{cfg: cfg, line: new(flow.Controller), held: map[wire.StoredEpoch]*holding{}}
}

// A holding is the position of the next reading in an epoch, with the bytes before it that were not taken.
type holding struct {
	next  uint64        // number in the store of the first message that was not taken; 0: the first of the epoch
	ready []qmgr.Stored // messages that have come and were not taken
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

// Began reports whether any message of an epoch was taken.
func (r *Reader) Began(of wire.StoredEpoch) bool { return r.held[of] != nil && r.held[of].next > 0 }

// Forget drops the bytes and positions of epochs that are gone.
func (r *Reader) Forget(gone func(wire.StoredEpoch) bool) {
	maps.DeleteFunc(r.held, func(of wire.StoredEpoch, _ *holding) bool { return gone(of) })
}

// bound drops the bytes of other epochs, where all epochs hold more than heldMost. They are read again.
func (r *Reader) bound(but wire.StoredEpoch) {
	all := 0
	for _, h := range r.held {
		all += h.bytes()
	}
	for of, h := range r.held {
		if all <= heldMost {
			return
		}
		if of != but {
			all -= h.bytes()
			h.ready, h.Assembly = nil, qmgr.Assembly{}
		}
	}
}

// Read continues to read an epoch, and hands the messages over while the next ones come. may reports whether more may
// be asked for; alive is called now and then while bytes come. Read waits for all bytes that it has asked for. It holds
// the messages that the transfer does not take.
func (r *Reader) Read(of wire.StoredEpoch, may func() bool, alive func()) (end End, err error) {
	defer r.bound(of)
	ctx, cancel := context.WithCancel(r.cfg.Context)
	defer cancel()
	h := r.held[of]
	if h == nil {
		h = &holding{}
		r.held[of] = h
	}
	number, begin := h.at()
	queue := h.ready
	h.ready = nil
	x := &reading{of: of, alive: alive, messages: make(chan qmgr.Stored, readAhead)}
	var stop atomic.Bool // no more is to be asked for
	var spent bool
	var failed error
	go func() {
		defer close(x.messages)
		for {
			if spent, failed = r.ask(ctx, x, &h.Assembly, number, begin); spent || failed != nil || stop.Load() || !may() {
				return
			}
			number, begin, _ = h.Position()
		}
	}()

	over, answer := false, Next
	take := func(m qmgr.Stored) {
		if over {
			h.ready = append(h.ready, m)
			return
		}
		switch answer, err = r.cfg.Take(of, m); answer {
		case Next:
			h.next = m.Number + 1
			if over = !may(); over {
				end = Turned
			}
		case Keep:
			h.ready = append(h.ready, m)
			over = true
		default:
			over = true
			cancel() // the rest is of no use
		}
		if over {
			stop.Store(true)
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
		return Left, nil
	case answer == Again:
		delete(r.held, of)
		return Rewound, err
	case answer == Drop:
		delete(r.held, of)
		return Left, err
	case over || err != nil || failed != nil:
		return end, cmp.Or(err, failed)
	case spent:
		return Drained, nil
	}
	return Turned, nil
}

// A reading is the state of one Read.
type reading struct {
	of       wire.StoredEpoch
	messages chan qmgr.Stored // that have come
	alive    func()
	told     time.Time // when alive was called last
}

// ask reads as much data of an epoch as the link carries in about a second.
func (r *Reader) ask(ctx context.Context, x *reading, into *qmgr.Assembly, number uint64, begin int) (spent bool, err error) {
	if err := r.cfg.Store.Ready(ctx); err != nil {
		return false, err
	}
	now := r.cfg.Clock.Now()
	portion := r.share.Portion(r.got, r.cfg.Store.DataReceived(), now)
	most := min(int64(portion*float64(4*r.line.Pace())), readMost)
	piece := min(most/2, pieceMost)
	flight := r.line.Join(func() {})
	defer flight.Leave()
	for k := range most / piece {
		flight.Send(uint64(k+1), piece, now)
	}
	q := qmgr.Reading{StoredEpoch: x.of, From: number, Begin: begin, Rest: into.Rest(), Most: int(most), Piece: int(piece)}
	got := int64(0)
	return r.cfg.Store.Read(ctx, q, func(p qmgr.Part) {
		now := r.cfg.Clock.Now()
		got += int64(len(p.Data))
		r.got += int64(len(p.Data))
		flight.Acked(uint64(got/piece), time.Time{}, now)
		if now.Sub(x.told) >= aliveLook {
			x.told = now
			x.alive()
		}
		if m, whole := into.Add(p); whole {
			select {
			case x.messages <- m:
			case <-ctx.Done():
			}
		}
	})
}
