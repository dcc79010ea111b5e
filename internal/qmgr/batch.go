package qmgr

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/transfer"
)

// A batch is what is handed on at once.
type batch struct {
	V        int         `json:"v"`
	From     string      `json:"from"` // the queue manager's token
	Messages []forwarded `json:"messages"`
	Store    *farTask    `json:"store,omitempty"` // instead of messages
}

type forwarded struct {
	Subject string `json:"subject"`
	ID      string `json:"id,omitempty"` // Nats-Msg-Id
	Data    []byte `json:"data"`
}

// A batchResult says how many messages of a batch were stored, from its beginning on, and why not all.
type batchResult struct {
	V      int             `json:"v"`
	Stored int             `json:"stored"`
	Error  *transfer.Error `json:"error,omitempty"`
}

// take stores what another queue manager hands on.
func (f *forwarder) take(m *nats.Msg) {
	if m.Reply == "" {
		return
	}
	r := batchResult{V: 1}
	b, err := readBatch(unpacked(m.Data))
	if err == nil && b.Store != nil {
		f.doFar(b.Store, func(answer []byte) { m.Respond(answer) })
		return
	}
	if err == nil {
		r.Stored, err = f.store(b)
	}
	if err != nil {
		r.Error = transfer.AsError(explain(err, "queue manager "+f.s.cfg.Name, "the streams", len(m.Data), serverMaxPayload))
	}
	if answer, err := json.Marshal(r); err == nil {
		m.Respond(answer)
	}
}

// readBatch reads what another queue manager hands on.
func readBatch(data []byte) (b batch, err error) {
	if err := json.Unmarshal(data, &b); err != nil || b.V != 1 {
		return b, transfer.Errorf(transfer.KindVersion, "a batch of messages that is handed on cannot be read")
	}
	if len(b.Messages) > forwardMost {
		return b, transfer.Errorf(transfer.KindTooLarge, "%d messages are too many to hand on; the limit is %d", len(b.Messages), forwardMost)
	}
	if b.From == "" || len(b.From) > maxToken || !isPrintable(b.From) {
		return b, transfer.Errorf(transfer.KindMalformed, "a batch of messages that is handed on does not say from where")
	}
	return b, nil
}

// check is nil for a message that may be handed on.
func (x *forwarded) check() error {
	t := strings.Split(x.Subject, ".")
	tokens := map[string]int{"command": 4, "control": 4, "event": 3}
	if slices.ContainsFunc(append(t, x.ID), func(token string) bool { return len(token) > maxToken }) {
		return transfer.Errorf(transfer.KindMalformed, "a message that is handed on has a subject or an ID that is too long: %.80q", x.Subject)
	}
	if len(t) < 3 || t[0] != "ferry" || len(t) != tokens[t[1]] || t[2] == "" || t[len(t)-1] == "" || !isPrintable(x.Subject) || strings.ContainsAny(x.Subject, "*>") || !isPrintable(x.ID) {
		return transfer.Errorf(transfer.KindMalformed, "nothing with the subject %.200q is handed on", x.Subject)
	}
	return nil
}

// idOf is the ID by which a stream tells what it has stored already; none where another could not read it.
func idOf(h nats.Header) string {
	if id := h.Get(nats.MsgIdHdr); isPrintable(id) {
		return id
	}
	return ""
}

// headerFrom is the header of a stored message that has come through a channel: the queue manager that handed it on.
const headerFrom = "Ferry-From"

// isPrintable reports whether a text is of printable ASCII characters without blanks.
func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' })
}

// store stores what another queue manager hands on, in its order, and says how many.
func (f *forwarder) store(b batch) (stored int, err error) {
	ctx, cancel := context.WithTimeout(f.ctx, apiTimeout)
	defer cancel()
	for _, x := range b.Messages {
		if err := x.check(); err != nil {
			return stored, err
		}
		m := &nats.Msg{Subject: x.Subject, Data: x.Data, Header: nats.Header{headerFrom: {b.From}}}
		if x.ID != "" {
			// Somebody else may have given the same ID to another message here.
			m.Header.Set(nats.MsgIdHdr, "forwarded."+b.From+"."+x.ID)
		}
		if _, err := f.own.js().PublishMsg(ctx, m, jetstream.WithRetryAttempts(0)); missing(err) {
			library := library{js: f.own.js, ackWait: defaultTimes.ackWait, maxStored: f.s.cfg.MaxStored}
			if _, err := library.ensure(ctx); err != nil {
				return stored, err
			}
			if _, err := f.own.js().PublishMsg(ctx, m, jetstream.WithRetryAttempts(0)); err != nil {
				return stored, err
			}
		} else if err != nil {
			return stored, err
		}
		stored++
	}
	return stored, nil
}
