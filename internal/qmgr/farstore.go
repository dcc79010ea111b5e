package qmgr

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/quota"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Stored delivery between queue managers. Messages for an agent lie in the store of the queue manager to which the
// agent is connected, wherever their source is. Requests of the source to that store go through its own queue manager,
// as forwarded messages do (streams.StoreTask.At). The chunk messages go with the data, over the channel's other link, to the
// queue manager that has the store (shelve). It has its own server store them. The server's receipt comes back as an
// answer does. So no third party forwards messages of stored delivery, and they never lie in two stores.

// A farTask is a task of an agent at another queue manager on its part of StreamStore here.
type farTask struct {
	Asker string            `json:"asker"` // the agent's token
	Task  streams.StoreTask `json:"task"`
}

// clearers may ask for streams.StoreClear.
var clearers = []string{wire.Coordination, wire.Authority}

// check returns nil for a task that another queue manager may ask for.
func (t *farTask) check() error {
	if name, err := wire.AgentOf(t.Asker); (err != nil || name.Token() != t.Asker) && t.Task.Do != streams.StoreClear {
		return transfer.Errorf(transfer.KindMalformed, "another queue manager asks for %.80q, which is no agent", t.Asker)
	}
	if !slices.Contains(errands.FarTasks, t.Task.Do) && t.Task.Do != streams.StoreClear {
		return transfer.Errorf(transfer.KindDenied, "nobody at another queue manager has done %.40q here with what is stored", t.Task.Do)
	}
	return nil
}

// doFar does a task for an agent of another queue manager, in its turn, as for those that are here.
func (f *forwarder) doFar(b *batch, from string, answer func([]byte)) {
	t := b.Store
	err := t.check()
	if err == nil && f.places.Identity != nil {
		of := []string{t.Asker}
		if t.Task.Do == streams.StoreClear {
			of = clearers
		}
		for _, token := range of {
			if _, err = f.places.Proves(b.Proofs, token, from, errands.PlaceLife); err == nil {
				break
			}
		}
	}
	if err == nil && t.Task.Do != streams.StoreClear && f.whereIs(t.Asker) == f.self {
		err = transfer.Errorf(transfer.KindBusy, "%s is at queue manager %s, and asks there itself", t.Asker, f.cfg.Name)
	}
	var body []byte
	if err == nil {
		t.Task.At = f.self
		body, err = json.Marshal(errands.Errand{V: 1, Op: errands.OpStore, Store: &t.Task})
	}
	if err != nil {
		answer(errands.ResultOf(errands.Result{}, err))
		return
	}
	f.cfg.Take(t.Asker, body, answer)
}

// whereIs returns the token of the queue manager in the latest place of an agent; empty if it is not known.
func (f *forwarder) whereIs(agent string) string {
	at := f.places.Where(agent)
	if at != "" && f.places.Identity == nil {
		return at // agents say the cluster's name themselves
	}
	if at != "" {
		at = f.places.DomainOf(at)
	}
	return at
}

// StoredAt returns the token of the queue manager that does a task; empty: this one.
func (f *forwarder) StoredAt(t streams.StoreTask) string {
	at := t.At
	if at == "" && t.Do == streams.StoreOutgoing && t.Peer != "" {
		at = f.whereIs(t.Peer)
	}
	if at == f.self {
		return ""
	}
	return at
}

// Others returns the tokens of the other queue managers that can be reached, and of the one that an identity is at.
func (f *forwarder) Others(token string) []string {
	all := f.domains()
	if at := f.whereIs(token); at != "" && at != f.self && !slices.Contains(all, at) {
		all = append(all, at) // it may not have been heard yet
	}
	return all
}

// AskStore has another queue manager do a task.
func (f *forwarder) AskStore(ctx context.Context, at, asker string, t streams.StoreTask) (streams.StoreResult, error) {
	f.mu.Lock()
	blocked := time.Now().Before(f.blocked[at])
	f.mu.Unlock()
	if blocked { // requests to a blocked queue manager fail at once, and do not delay requests to this one
		return streams.StoreResult{}, noChannel(at)
	}
	b := batch{V: 1, Store: &farTask{asker, t}}
	if t.Do == streams.StoreClear {
		for _, token := range clearers {
			f.prove(&b, token)
		}
	} else {
		f.prove(&b, asker)
	}
	data, err := json.Marshal(b)
	if err != nil {
		return streams.StoreResult{}, err
	}
	answer, err := errands.Request(ctx, f.own.NATS(), wire.ForwardSubject(at, f.places.Self), f.inbox(at), data)
	if err != nil && f.ctx.Err() == nil {
		f.mu.Lock()
		f.blocked[at] = time.Now().Add(forwardAgain)
		f.mu.Unlock()
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return streams.StoreResult{}, noChannel(at)
	case err != nil:
		return streams.StoreResult{}, err
	}
	var res errands.Result
	switch err := json.Unmarshal(answer, &res); {
	case err != nil || res.V != 1 || res.Error == nil && res.Store == nil:
		return streams.StoreResult{}, transfer.Errorf(transfer.KindVersion, "the answer of queue manager %s cannot be read", at)
	case res.Error != nil:
		return streams.StoreResult{}, res.Error
	}
	return *res.Store, nil
}

func noChannel(to string) error {
	return transfer.Errorf(transfer.KindUnreachable, "no channel leads to queue manager %s at present", to).
		WithHint("it goes on when `ferry channel ls` says that the channel runs again")
}

// shelve has the server store the messages of an agent at another queue manager for an agent that is here. The server's
// receipt goes to the inbox that the message names. Without a receipt the source sends the message again.
func (f *forwarder) shelve(m *nats.Msg) {
	from, ok := wire.ReadShelf(m.Subject)
	subject, inbox, data, err := errands.ReadFar(m.Data)
	if err == nil && ok {
		asker, answerer, named := wire.ReadInbox(inbox)
		var at wire.StoredAt
		at, err = wire.ReadStore(subject)
		ok = named && asker == from && answerer == errands.StoreToken+f.self && at.From.Token() == from && !wire.TooLong(subject)
	}
	if err != nil || !ok {
		f.quiet.Dropped(errands.Shortened(from, streams.MaxToken), "what is to be stored for an agent cannot be read", "error", err)
		return
	}
	class, to := wire.ClassOf(subject)
	if !f.cfg.Limits.knows(to) {
		f.own.NATS().Publish(inbox, streamError(notEnrolled(to)))
		return
	}
	via := f.whereIs(from)
	if via == f.self {
		via = ""
	}
	if err := f.cfg.Limits.admit(class, quota.Message{Subject: subject, Member: from, Destination: to, Via: via, Size: len(data)}); err != nil {
		f.own.NATS().Publish(inbox, streamError(noShare(err)))
		return
	}
	f.own.NATS().PublishMsg(&nats.Msg{Subject: subject, Reply: inbox, Data: data})
}

// receipts are the receipts that an agent expects from other queue managers.
type receipts struct {
	secret string // of the inboxes where they come

	mu      sync.Mutex
	listens map[string]bool // by the queue manager's token
	last    uint64
	waiting map[uint64]*farReceipt
	came    map[string]time.Time // of the newest receipt, by the queue manager's token
}

// A farReceipt is one of them.
type farReceipt struct {
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
	if _, err := s.c.Subscribe(all, func(m Message) { r.take(at, m.Subject, m.Data) }); err != nil {
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
func (r *receipts) next(at string) *farReceipt {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if len(r.waiting) >= manyReceipts {
		maps.DeleteFunc(r.waiting, func(_ uint64, w *farReceipt) bool { return now.Sub(w.since) > oldReceipt })
	}
	r.last++
	w := &farReceipt{r, r.last, at, make(chan error, 1), now}
	r.waiting[w.n] = w
	return w
}

// forget drops a receipt without a waiter.
func (w *farReceipt) forget() {
	w.r.mu.Lock()
	defer w.r.mu.Unlock()
	delete(w.r.waiting, w.n)
}

// wait waits for the receipt. The receipt is overdue when no receipt of that queue manager has come for storeAckWait
// since the message was sent. Behind a slow channel the receipts come as slowly as the channel carries the messages.
func (w *farReceipt) wait(ctx context.Context) error {
	defer w.forget()
	look := time.NewTicker(quietLook)
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
func (r *receipts) newest(w *farReceipt) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at := r.came[w.at]; at.After(w.since) {
		return at
	}
	return w.since
}

// A Receipt is the queue manager's answer to a message that is to be stored.
type Receipt struct {
	c    *Conn
	of   string
	size int
	link *link // that carried the message
	sent time.Time
	ack  jetstream.PubAckFuture
	far  *farReceipt // instead of ack, for a message that is stored elsewhere
	err  error
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
		if r.link, r.err = c.bulk.ready(c.ctx); r.err == nil {
			r.ack, r.err = r.link.js().PublishMsgAsync(&nats.Msg{Subject: subject, Data: data}, jetstream.WithRetryAttempts(0))
		}
	case !c.control.up.Load():
		r.err = c.away()
	case len(data) > streams.MaxStoredMessage:
		r.err = streams.TooLarge("the store", len(data), streams.MaxStoredMessage)
	default:
		r.far = s.receipts.next(at)
		id, err := wire.ReadStore(subject)
		if err == nil {
			inbox := wire.InboxSubject(s.of.Token(), errands.StoreToken+at, errands.SecretFor(s.receipts.secret, at), r.far.n)
			err = c.PublishData(wire.ShelfSubject(at, s.of, id.Transfer), errands.FarMessage(subject, inbox, data))
		}
		if r.err = err; err != nil {
			r.far.forget()
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
		return r.c.explain(r.err, r.of, r.size)
	}
	if r.far != nil {
		return explainStored(r.c, r.far.wait(ctx), r.of, r.size)
	}
	look := time.NewTicker(quietLook)
	defer look.Stop()
	for {
		select {
		case <-r.ack.Ok():
			return nil
		case err := <-r.ack.Err():
			return explainStored(r.c, err, r.of, r.size)
		case now := <-look.C:
			if r.link.trip.had(r.sent, now) > storeAckWait {
				return r.c.explain(errNoReceipt, r.of, r.size)
			}
		case <-ctx.Done():
			return r.c.explain(ctx.Err(), r.of, r.size)
		}
	}
}
