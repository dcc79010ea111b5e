package forward

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/quota"
	"ferry/internal/qmgr/registrations"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/turns"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Batch holds the messages, or the task, that a queue manager forwards at once.
type Batch struct {
	V             int                `json:"v"`
	Messages      []Forwarded        `json:"messages"`
	Store         *RemoteTask        `json:"store,omitempty"`  // instead of messages
	Registrations *registrationsTask `json:"places,omitempty"` // likewise
	// Proofs are identity.Registrations. They show that each author of a message, and the asker of Store, was at the sending queue manager.
	Proofs []json.RawMessage `json:"proofs,omitempty"`
}

// prove adds the proof of an identity to a batch. It reports whether the forwarder has one. A network without
// identities needs none.
func (f *Forwarder) prove(b *Batch, token string) bool {
	if f.Registry.Identity == nil {
		return true
	}
	proof := f.Registry.ProofOf(token)
	if proof != nil && !slices.ContainsFunc(b.Proofs, func(other json.RawMessage) bool { return string(other) == string(proof) }) {
		b.Proofs = append(b.Proofs, proof)
	}
	return proof != nil
}

type Forwarded struct {
	Subject string `json:"subject"`
	ID      string `json:"id,omitempty"` // Nats-Msg-Id
	Data    []byte `json:"data"`
	// First is streams.HeaderStored of a message that was a dead letter.
	First string `json:"first,omitempty"`
}

// A BatchResult is the number of messages of a batch that were stored. The others are those of Held, and all behind the
// last one of both. Error is the reason.
type BatchResult struct {
	V      int `json:"v"`
	Stored int `json:"stored"`
	// Held are the messages, by their places in the batch, that are not stored at present. Their author has no room or no registration.
	// Messages of other authors behind them are stored.
	Held  []int           `json:"held,omitempty"`
	Error *transfer.Error `json:"error,omitempty"`
}

// readBatch reads a batch from another queue manager.
func readBatch(data []byte) (b Batch, err error) {
	if err := json.Unmarshal(data, &b); err != nil || b.V != 1 {
		return b, transfer.Errorf(transfer.KindVersion, "a batch of messages that is handed on cannot be read")
	}
	if len(b.Messages) > ForwardMost {
		return b, transfer.Errorf(transfer.KindTooLarge, "%d messages are too many to hand on; the limit is %d", len(b.Messages), ForwardMost)
	}
	if len(b.Proofs) > ForwardMost {
		return b, transfer.Errorf(transfer.KindTooLarge, "%d proofs are too many; the limit is %d", len(b.Proofs), ForwardMost)
	}
	return b, nil
}

// check returns nil for a message that may be forwarded.
func (x *Forwarded) check() error {
	t := strings.Split(x.Subject, ".")
	tokens := map[string]int{"command": 4, "control": 4, "event": 3}
	if slices.ContainsFunc(append(t, x.ID), func(token string) bool { return len(token) > streams.MaxToken }) {
		return transfer.Errorf(transfer.KindMalformed, "a message that is handed on has a subject or an ID that is too long: %.80q", x.Subject)
	}
	if len(t) < 3 || t[0] != "ferry" || len(t) != tokens[t[1]] || t[2] == "" || t[len(t)-1] == "" || !streams.IsPrintable(x.Subject) || strings.ContainsAny(x.Subject, "*>") || !streams.IsPrintable(x.ID) {
		return transfer.Errorf(transfer.KindMalformed, "nothing with the subject %.200q is handed on", x.Subject)
	}
	if _, ok := streams.ParseStored(x.First); x.First != "" && !ok || len(x.First) > 64 {
		return transfer.Errorf(transfer.KindMalformed, "a message that is handed on has a first time that cannot be read: %.80q", x.First)
	}
	return nil
}

// idOf returns the ID of a message that keeps a stream from storing it twice. It returns "" for an ID that another
// queue manager could not read.
func idOf(h nats.Header) string {
	if id := h.Get(nats.MsgIdHdr); streams.IsPrintable(id) {
		return id
	}
	return ""
}

// store stores the messages of a batch in their order, and returns their number. The requests and commands of an author
// without room or without a registration are held; err is the reason.
func (f *Forwarder) store(b Batch, from string) (stored int, held []int, err error) {
	ctx, cancel := context.WithTimeout(f.ctx, streams.APITimeout)
	defer cancel()
	holds := map[string]bool{} // the subjects of messages that are held
	for n, x := range b.Messages {
		if holds[x.Subject] {
			held = append(held, n)
			continue
		}
		failed := f.storeOne(ctx, &x, b.Proofs, from)
		failed = streams.Explain(failed, "queue manager "+f.cfg.Name, x.Subject, len(x.Data), streams.MaxPayload)
		class, _ := wire.ClassOf(x.Subject)
		switch {
		case failed == nil:
			stored++
		case class != wire.ClassEvent && isHeld(failed):
			holds[x.Subject], held, err = true, append(held, n), failed
		default:
			return stored, held, failed
		}
	}
	return stored, held, err
}

// isHeld reports whether an error holds back the messages of its author alone.
func isHeld(err error) bool {
	switch transfer.KindOf(err) {
	case transfer.KindNoSpace, transfer.KindDenied, transfer.KindClock, transfer.KindUnknownAgent:
		return true
	}
	return false
}

// storeOne stores a message that another queue manager forwards.
func (f *Forwarder) storeOne(ctx context.Context, x *Forwarded, proofs []json.RawMessage, from string) error {
	if err := x.check(); err != nil {
		return err
	}
	author := wire.LastToken(x.Subject)
	if f.Registry.Identity != nil {
		var err error
		if author, err = f.Registry.Proves(proofs, author, from, registrations.ProofAge); err != nil {
			return err
		}
	}
	class, to := wire.ClassOf(x.Subject)
	if class != wire.ClassEvent && f.cfg.Limits != nil && !f.cfg.Limits.Knows(to) {
		return transfer.Errorf(transfer.KindUnknownAgent, "no agent %.80s is enrolled in this network", to)
	}
	if f.cfg.Limits != nil {
		if err := f.cfg.Limits.Admit(class, quota.Message{Subject: x.Subject, Member: author, Destination: to, Via: from, Size: len(x.Data)}); err != nil {
			return err
		}
	}
	m := &nats.Msg{Subject: x.Subject, Data: x.Data, Header: nats.Header{streams.HeaderFrom: {from}}}
	if x.ID != "" {
		// Another queue manager may have given the same ID to another message here.
		m.Header.Set(nats.MsgIdHdr, "forwarded."+from+"."+x.ID)
	}
	if x.First != "" {
		m.Header.Set(streams.HeaderStored, x.First)
	}
	_, err := f.Own.JS().PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
	if streams.IsMissing(err) {
		library := streams.Library{JS: f.Own.JS, AckWait: streams.AckWait, MaxStored: f.cfg.MaxStored}
		if _, err = library.Ensure(ctx); err == nil {
			_, err = f.Own.JS().PublishMsg(ctx, m, jetstream.WithRetryAttempts(0))
		}
	}
	return err
}

// A requestServer takes the questions of other queue managers: batches of messages, tasks with stored data, and lists of
// registrations. The queue managers take turns. In one queue for all, the questions of one queue manager had held up the
// requests that others forwarded.
type requestServer struct {
	*Forwarder
	turns *turns.Queue[*nats.Msg]
	lists *quota.Pace // of the lists of all registrations, by the queue manager that asks
}

func newRequestServer(f *Forwarder) *requestServer {
	return &requestServer{f, turns.New[*nats.Msg](), quota.NewPace(registrationLists)}
}

// enqueue has a question wait for the turn of its queue manager. A queue manager beyond its room gets no answer, and asks
// again.
func (d *requestServer) enqueue(m *nats.Msg) {
	from := wire.LastToken(m.Subject)
	if m.Reply != "" && !d.turns.Add(from, len(m.Data)+len(m.Subject), m) {
		d.quiet.Dropped(errands.Shortened(from, streams.MaxToken), "too many questions of a queue manager wait")
	}
}

// run takes questions, one at a time, until the forwarder stops.
func (d *requestServer) run() {
	for d.ctx.Err() == nil {
		if m, ok := d.turns.Take(); ok {
			d.take(m)
			continue
		}
		select {
		case <-d.turns.Wake():
		case <-d.ctx.Done():
		}
	}
}

// take answers a question. It stores the messages that another queue manager forwards.
func (d *requestServer) take(m *nats.Msg) {
	r := BatchResult{V: 1}
	from := wire.LastToken(m.Subject)
	b, err := readBatch(errands.Unpacked(m.Data))
	switch {
	case err != nil:
	case b.Store != nil:
		d.doRemoteTask(&b, from, func(answer []byte) { m.Respond(answer) })
		return
	case b.Registrations != nil:
		if b.Registrations.After == "" && !d.lists.Allow(from, 0, time.Now()) {
			d.quiet.Dropped(errands.Shortened(from, streams.MaxToken), "too many questions for all places")
			return // the asker repeats its question
		}
		if answer, err := json.Marshal(d.registrationsAfter(*b.Registrations)); err == nil {
			errands.AnswerInParts(d.Own.NATS(), m.Reply, answer) // likewise
		}
		return
	default:
		r.Stored, r.Held, err = d.store(b, from)
	}
	if err != nil {
		r.Error = transfer.AsError(err)
	}
	if answer, err := json.Marshal(r); err == nil {
		m.Respond(answer)
	}
}
