package qmgr

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/sleep"
	"ferry/internal/transfer"
)

const (
	publishPause = 250 * time.Millisecond
)

// Ensure makes the streams that are missing.
func (c *Conn) Ensure(ctx context.Context) error {
	c.ensuring.Lock()
	defer c.ensuring.Unlock()
	if !c.control.Up.Load() {
		return c.base.Away()
	}

	before := map[string]streams.Mark{}
	for _, cfg := range streams.All {
		before[cfg.Name] = c.history.before(cfg.Name)
	}
	now, err := c.admin.Ensure(ctx)
	for name, m := range now {
		c.noticed(c.history.compare(name, before[name], m))
	}
	recheckStreams(c)
	return c.base.Explain(err, "the streams", 0)
}

// Enqueue stores a message durably on a subject of one of the streams and returns when the queue manager has it. It
// tries until ctx ends, through lost connections and lost streams; then its error is of KindNoManager, or of
// KindNoSpace if the stream is full. Two messages with one msgID within two minutes are stored once. A message without
// one ("") may be stored twice if its acknowledgement gets lost.
func (c *Conn) Enqueue(ctx context.Context, subject, msgID string, data []byte) error {
	packed := c.base.Packer.Pack(data)
	_, err := c.enqueue(ctx, subject, msgID, func() []byte { return packed })
	return err
}

// A Storing is the outcome of an attempt to store a message.
type Storing struct {
	Seq   uint64 // its number in the stream; 0: it was not acknowledged
	Doubt bool   // a try that was not acknowledged may have stored it, under another number
}

// EnqueueFresh is Enqueue for a message that depends on the time of storing: it is made again for each try.
func (c *Conn) EnqueueFresh(ctx context.Context, subject string, message func() []byte) (Storing, error) {
	return c.enqueue(ctx, subject, "", func() []byte { return c.base.Packer.Pack(message()) })
}

func (c *Conn) enqueue(ctx context.Context, subject, msgID string, packed func() []byte) (s Storing, err error) {
	m := nats.NewMsg(subject)
	if msgID != "" {
		m.Header.Set(nats.MsgIdHdr, msgID)
	}

	for {
		again := c.control.ComesUp()
		if s.Seq, err = c.store(ctx, m, packed); err == nil {
			return s, nil
		}
		kind := transfer.KindOf(err)
		s.Doubt = s.Doubt || !errors.Is(err, errNotSent) && kind != transfer.KindNoSpace && kind != transfer.KindTooLarge && kind != transfer.KindInternal && kind != transfer.KindUnknownAgent
		if kind == transfer.KindTooLarge || kind == transfer.KindInternal || kind == transfer.KindUnknownAgent || c.base.Ctx.Err() != nil {
			return s, err
		}
		if sleep.For(ctx, publishPause, again) {
			if errors.Is(ctx.Err(), context.Canceled) {
				return s, ctx.Err()
			}
			if kind == transfer.KindNoSpace {
				return s, err
			}
			return s, notTaken(c, subject, err)
		}
	}
}

// notTaken returns the error of a message that was not stored in time. A queue manager that cannot store does not
// answer; it gives the reason when it is asked.
func notTaken(c *Conn, subject string, err error) error {
	ctx, cancel := context.WithTimeout(c.base.Ctx, time.Second)
	defer cancel()
	var a errands.About
	why := ""
	if nc := c.control.NATS(); c.control.Up.Load() && nc != nil && askManager(ctx, c, nc, &a) {
		why = a.Degraded
	}
	c.unstored.Store(&why)
	if why != "" {
		return transfer.Errorf(transfer.KindNoManager, "the queue manager at %s does not take messages for %s: %s", c.base.Where, subject, why)
	}
	return transfer.Errorf(transfer.KindNoManager, "the queue manager at %s did not take the message for %s in time: %w", c.base.Where, subject, err)
}

// errNotSent is the cause for a message that certainly was not stored: it was not sent, or no stream took it.
var errNotSent = errors.New("the message was not taken")

// store tries once, and gives the message's number.
func (c *Conn) store(ctx context.Context, m *nats.Msg, packed func() []byte) (uint64, error) {
	if !c.control.Up.Load() {
		return 0, &transfer.Error{Kind: transfer.KindNoManager, Text: c.base.Away().Error(), Err: errNotSent}
	}

	try, cancel := c.control.WithLinkTime(ctx, link.ProbeTimeout)
	defer cancel()
	m.Data = packed()
	began := time.Now()
	ack, err := c.control.JS().PublishMsg(try, m, jetstream.WithRetryAttempts(0))
	if err == nil {
		c.amounts.stored.took(len(m.Data), began)
	}
	if err != nil && streams.IsMissing(err) {
		if err := c.Ensure(try); err != nil { // no stream was there to store it
			err = c.base.Explain(err, m.Subject, len(m.Data))
			return 0, &transfer.Error{Kind: transfer.KindOf(err), Text: err.Error(), Err: errNotSent}
		}
		m.Data = packed()
		ack, err = c.control.JS().PublishMsg(try, m, jetstream.WithRetryAttempts(0))
	}
	if err != nil {
		return 0, c.base.Explain(err, m.Subject, len(m.Data))
	}
	c.unstored.Store(nil)
	c.history.saw(ack.Stream, ack.Sequence)
	return ack.Sequence, nil
}
