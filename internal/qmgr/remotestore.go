package qmgr

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Stored delivery between queue managers. Messages for an agent lie in the store of the queue manager to which the
// agent is connected, wherever their source is. Requests of the source to that store go through its own queue manager,
// as forwarded messages do (streams.StoreTask.At). The chunk messages go with the data, over the channel's other link, to the
// queue manager that has the store (storeForAgent). It has its own server store them. The server's receipt comes back as an
// answer does. So no third party forwards messages of stored delivery, and they never lie in two stores.

// receipts are the receipts that an agent expects from other queue managers.
type receipts struct {
	secret string // of the inboxes where they come

	mu      sync.Mutex
	listens map[string]bool // by the queue manager's token
	last    uint64
	waiting map[uint64]*remoteReceipt
	came    map[string]time.Time // of the newest receipt, by the queue manager's token
}

// A remoteReceipt is one of them.
type remoteReceipt struct {
	r     *receipts
	n     uint64
	at    string // token of the queue manager
	came  chan error
	since time.Time
}

// Once there are so many receipts, those that are older than oldReceipt and have no waiter are dropped.
const (
	manyReceipts = 4096
	oldReceipt   = 5 * time.Minute
)

// listen subscribes to the receipts of a queue manager, by its token.
func (s *StoreAt) listen(at string) error {
	r := s.receipts
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.listens[at] {
		return nil
	}
	all := wire.InboxesOf(s.of.Token()) + errands.StoreToken + at + "." + errands.SecretFor(r.secret, at) + ".*"
	if _, err := s.c.Subscribe(all, func(m link.Message) { r.take(at, m.Subject, m.Data) }); err != nil {
		return err
	}
	r.listens[at] = true
	return nil
}

// take gives a receipt of a queue manager to the message that waits for it.
func (r *receipts) take(at, inbox string, data []byte) {
	var ack struct {
		Stream string              `json:"stream"`
		Error  *jetstream.APIError `json:"error"`
	}
	n, err := strconv.ParseUint(wire.LastToken(inbox), 10, 64)
	if err != nil || json.Unmarshal(data, &ack) != nil || ack.Error == nil && ack.Stream != string(streams.StreamStore) {
		return // then there is none
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	w, ok := r.waiting[n]
	if !ok || w.at != at {
		return
	}
	delete(r.waiting, n)
	r.came[w.at] = time.Now()
	if ack.Error != nil {
		w.came <- ack.Error
		return
	}
	w.came <- nil
}

// next returns a new receipt to wait for from a queue manager.
func (r *receipts) next(at string) *remoteReceipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if len(r.waiting) >= manyReceipts {
		maps.DeleteFunc(r.waiting, func(_ uint64, w *remoteReceipt) bool { return now.Sub(w.since) > oldReceipt })
	}
	r.last++
	w := &remoteReceipt{r, r.last, at, make(chan error, 1), now}
	r.waiting[w.n] = w
	return w
}

// forget drops a receipt without a waiter.
func (w *remoteReceipt) forget() {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	delete(w.r.waiting, w.n)
}

// wait waits for the receipt. The receipt is overdue when no receipt of that queue manager has come for storeAckWait
// since the message was sent. Behind a slow channel the receipts come as slowly as the channel carries the messages.
func (w *remoteReceipt) wait(ctx context.Context) error {
	defer w.forget()
	look := time.NewTicker(link.QuietLook)
	defer look.Stop()
	for {
		select {
		case err := <-w.came:
			return err
		case <-ctx.Done():
			return context.Canceled
		case now := <-look.C:
			if now.Sub(w.r.newest(w)) <= storeAckWait {
				continue
			}
		}
		select {
		case err := <-w.came: // both were there
			return err
		default:
		}
		return transfer.Errorf(transfer.KindUnreachable, "queue manager %s does not say whether it has stored a message", w.at).
			WithHint("it goes on when `ferry channel ls` says that the channel runs")
	}
}

// newest returns the time of the newest receipt of the queue manager, or the time when the message was sent if that was
// later.
func (r *receipts) newest(w *remoteReceipt) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.came[w.at]; at.After(w.since) {
		return at
	}
	return w.since
}

// A Receipt is the queue manager's answer to a message that is to be stored.
type Receipt struct {
	c      *Conn
	of     string
	size   int
	link   *link.Link // that carried the message
	sent   time.Time
	ack    jetstream.PubAckFuture
	remote *remoteReceipt // instead of ack, for a message that is stored elsewhere
	err    error
}

// Put sends a message of stored delivery to the store of the agent's own queue manager, or of another one
// (StoreView.At). It does not wait until the message is stored. The data must not change until its receipt is there.
// Messages of one subject are stored in the order of the calls, if all are stored. Outgoing makes the connection; a
// lost one comes back by itself.
func (s *StoreAt) Put(at, subject string, data []byte) *Receipt {
	c := s.c
	r := &Receipt{c: c, of: subject, size: len(data), sent: time.Now()}
	switch {
	case at == "":
		if r.link, r.err = c.bulk.ready(c.base.Ctx); r.err == nil {
			r.ack, r.err = r.link.JS().PublishMsgAsync(&nats.Msg{Subject: subject, Data: data}, jetstream.WithRetryAttempts(0))
		}
	case !c.control.Up.Load():
		r.err = c.base.Away()
	case len(data) > streams.MaxStoredMessage:
		r.err = streams.TooLarge("the store", len(data), streams.MaxStoredMessage)
	default:
		r.remote = s.receipts.next(at)
		id, err := wire.ReadStore(subject)
		if err == nil {
			inbox := wire.InboxSubject(s.of.Token(), errands.StoreToken+at, errands.SecretFor(s.receipts.secret, at), r.remote.n)
			err = c.PublishData(wire.FarStoreSubject(at, s.of, id.ID), errands.RemoteMessage(subject, inbox, data))
		}
		if r.err = err; err != nil {
			r.remote.forget()
		}
	}
	return r
}

// Wait waits for the receipt. Its error is of KindNoSpace if the store is full, and of KindTooLarge if the store never
// takes the message. After any other error the message may or may not have been stored.
//
// The receipt is overdue when the queue manager has had the message for storeAckWait. On a slow link the queue manager
// gets the message late: a round trip that began after the message had been sent shows that it has arrived. If the
// connection is lost, the library ends the wait.
func (r *Receipt) Wait(ctx context.Context) error {
	if r.err != nil {
		return r.c.base.Explain(r.err, r.of, r.size)
	}
	if r.remote != nil {
		return explainStored(r.c, r.remote.wait(ctx), r.of, r.size)
	}
	look := time.NewTicker(link.QuietLook)
	defer look.Stop()
	for {
		select {
		case <-r.ack.Ok():
			return nil
		case err := <-r.ack.Err():
			return explainStored(r.c, err, r.of, r.size)
		case now := <-look.C:
			if r.link.Trip.HeldFor(r.sent, now) > storeAckWait {
				return r.c.base.Explain(errReceiptOverdue, r.of, r.size)
			}
		case <-ctx.Done():
			return r.c.base.Explain(ctx.Err(), r.of, r.size)
		}
	}
}
