package qmgr

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Stored is a message of a stored epoch.
type Stored struct {
	Number uint64 // in the stream
	Data   []byte
}

// A storeCursor is the position of an agent's reader. The zero value is none.
type storeCursor struct {
	epoch   wire.StoredEpoch
	next    uint64 // number in the stream where it reads on
	got     uint64 // messages that it was handed
	session int64  // of the link
}

// A Reading asks for Most bytes of an epoch, from the byte Begin of the message From on, in answers of Piece bytes at
// most.
type Reading struct {
	wire.StoredEpoch
	From        uint64 // number in the stream; 0: the first message
	Begin       int
	Rest        int // bytes that the message From has behind Begin, where that is not 0
	Most, Piece int
}

// A Part holds bytes of a message of an epoch.
type Part struct {
	Number uint64 // of the message in the stream
	Size   int    // of the message
	Begin  int    // where the bytes belong
	Data   []byte
}

// Read reads an epoch and passes each part to take, in order. spent reports that nothing is stored behind the last part.
// An error means that some parts did not come. The parts that take has got are valid, and the caller reads on behind
// them.
func (s *StoreAt) Read(ctx context.Context, r Reading, take func(Part)) (spent bool, err error) {
	l, err := s.c.bulk.ready(ctx)
	if err != nil {
		return false, err
	}
	if r.Most >= wholeFrom && r.Begin == 0 {
		spent, err = s.pull(ctx, l, r, take)
		return spent, s.c.base.Explain(err, "ferry.store", 0)
	}
	if r.Most >= wholeFrom {
		r.Most = max(r.Rest, 1) // the next reading is one of whole messages
	}
	t := streams.StoreTask{Do: streams.StoreRead, Peer: r.StoredEpoch.From.Token(), ID: r.ID, Epoch: r.Epoch, From: r.From, Begin: r.Begin, Most: r.Most, Piece: r.Piece}
	got := func(res streams.StoreResult, data []byte) error {
		for _, p := range res.Parts {
			if p.Len < 0 || p.Len > len(data) || p.Begin < 0 || p.Size < p.Begin+p.Len || p.Size > streams.MaxStoredMessage+streams.StoredOverhead {
				return transfer.Errorf(transfer.KindVersion, "the queue manager's answer does not have the bytes of its parts")
			}
			take(Part{p.Number, p.Size, p.Begin, data[:p.Len:p.Len]})
			data = data[p.Len:]
		}
		spent = spent || res.Spent
		return nil
	}
	err = storeErrand(ctx, l, s.of.Token(), t, r.Most/max(r.Piece, 1)+2, int64(r.Piece), got)
	if errors.Is(err, nats.ErrNoResponders) && s.c.cfg.Identity == nil { // the server is not Ferry's, and every client has all rights there
		var res streams.StoreResult
		own := streams.Library{JS: l.JS, AckWait: s.c.cfg.times.ackWait}
		if res, err = own.Store(ctx, s.of.Token(), t); err == nil {
			err = res.Read(ctx, func(res streams.StoreResult, data []byte) { got(res, data) })
		}
	}
	return spent, s.c.base.Explain(err, "ferry.store", 0)
}

// wholeFrom is the least number of requested bytes with which the reader gives whole messages: one is a quarter of a
// second on such a link at most. The server gives them itself then, without a copy.
const wholeFrom = 4 * streams.MaxStoredMessage

// Limits of a pull.
const (
	pullMost = 512                    // messages
	pullWait = 300 * time.Millisecond // for messages that are on their way from the source
)

// pull reads whole messages, as Read does.
func (s *StoreAt) pull(ctx context.Context, l *link.Link, r Reading, take func(Part)) (spent bool, err error) {
	cur := &s.reader
	session, epoch := l.Session(), r.StoredEpoch
	epoch.To = s.of
	if cur.epoch != epoch || cur.next != max(r.From, 1) || cur.session != session {
		*cur = storeCursor{}
		if _, err := s.task(ctx, streams.StoreTask{Do: streams.StoreReader, Peer: epoch.From.Token(), ID: r.ID, Epoch: r.Epoch, From: r.From}); err != nil {
			return false, err
		}
		*cur = storeCursor{epoch, max(r.From, 1), 0, session}
	}
	body, err := json.Marshal(map[string]any{"batch": pullMost, "max_bytes": min(r.Most, streams.MaxPull), "expires": pullWait})
	if err != nil {
		return false, err
	}
	q := link.Conversation{Subject: "$JS.API.CONSUMER.MSG.NEXT." + string(streams.StreamStore) + "." + roles.DurableStore + s.of.Token(), Self: s.of.Token(), Data: body, Answers: pullMost, Bytes: streams.MaxStoredMessage}
	n := 0
	err = l.Converse(ctx, q, func(m *nats.Msg) (last bool, err error) {
		if status := m.Header.Get("Status"); status != "" {
			spent = status == "408" && n == 0
			if status != "408" && status != "409" {
				return true, fmt.Errorf("the reader of the store says %s %s", status, m.Header.Get("Description"))
			}
			return true, nil
		}
		meta, err := m.Metadata()
		if err != nil {
			return true, err
		}
		if meta.Sequence.Consumer != cur.got+1 {
			return true, errMessageMissed
		}
		cur.got, cur.next = cur.got+1, meta.Sequence.Stream+1
		take(Part{meta.Sequence.Stream, len(m.Data), 0, m.Data})
		n++
		return n == pullMost, nil
	})
	if err == nil && spent { // on a busy host the answer may only be slow
		cons, failed := l.JS().Consumer(ctx, string(streams.StreamStore), roles.DurableStore+s.of.Token())
		if err = failed; err == nil {
			info := cons.CachedInfo()
			if spent = info.NumPending == 0; info.Delivered.Consumer != cur.got {
				err = errMessageMissed
			}
		}
	}
	if err != nil {
		spent, *cur = false, storeCursor{}
	}
	return spent, err
}

// errMessageMissed is the error of a reader that has missed a message of the server.
var errMessageMissed = errors.New("a stored message did not come; it is read again")

// An Assembly assembles the messages of an epoch from their parts. The zero value is ready.
type Assembly struct {
	of   uint64 // number of the message that the last part belongs to; 0: there was none
	part []byte // bytes of it that have come; nil: all
	size int
}

// Position returns the position of the next reading; began is false if nothing was read.
func (a *Assembly) Position() (number uint64, begin int, began bool) {
	if a.part == nil {
		return a.of + 1, 0, a.of > 0
	}
	return a.of, len(a.part), true
}

// Rest returns the number of missing bytes of the incomplete message.
func (a *Assembly) Rest() int {
	if a.part == nil {
		return 0
	}
	return a.size - len(a.part)
}

// Memory returns the memory of the incomplete message, in bytes.
func (a *Assembly) Memory() int { return cap(a.part) }

// Add adds a part, and returns the message that is complete with it.
func (a *Assembly) Add(p Part) (m Stored, whole bool) {
	if p.Number != a.of || p.Size != a.size || p.Begin != len(a.part) {
		*a = Assembly{of: p.Number, size: p.Size}
		if p.Begin > 0 { // another message has its number: it is read from its beginning
			a.part = []byte{}
			return m, false
		}
	}
	switch {
	case a.part == nil && len(p.Data) == p.Size: // nothing is to be put together
		return Stored{p.Number, p.Data}, true
	case a.part == nil:
		a.part = make([]byte, 0, p.Size)
	}
	if a.part = append(a.part, p.Data...); len(a.part) < a.size {
		return m, false
	}
	m, a.part = Stored{a.of, a.part}, nil
	return m, true
}
