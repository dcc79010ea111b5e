package forward

import (
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/wire"
)

// eventsReader is the durable that forwards audit batches. It exists only while coordination is connected to another
// queue manager.
const eventsReader = "forward"

// events forwards audit batches to the queue manager of coordination, until stop. Agents keep their records until
// coordination has them. Agents send lost batches again.
func (f *Forwarder) events() {
	for {
		to := f.Announcer.coordinationAt()
		if to == "" || to == f.self || !f.leads(streams.StreamEvent) {
			if !f.pause(forwardAgain) {
				return
			}
			continue
		}
		if err := f.forwardEvents(to); err != nil {
			if f.ctx.Err() != nil {
				return
			}
			f.quiet.Log(slog.LevelInfo, "audit records wait for coordination", "queue_manager", to, "error", err)
			if !f.pause(forwardAgain) {
				return
			}
		}
	}
}

// forwardEvents forwards the batches that are stored, and waits a moment for more.
func (f *Forwarder) forwardEvents(to string) error {
	policy := jetstream.DeliverAllPolicy
	if _, err := f.Own.JS().Consumer(f.ctx, string(streams.StreamEvent), roles.DurableCoordination); err == nil {
		policy = jetstream.DeliverNewPolicy // coordination was here, and has read all earlier batches
	}
	cons, err := f.Own.JS().Consumer(f.ctx, string(streams.StreamEvent), eventsReader)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		cons, err = f.Own.JS().CreateOrUpdateConsumer(f.ctx, string(streams.StreamEvent), jetstream.ConsumerConfig{Durable: eventsReader, DeliverPolicy: policy,
			AckPolicy: jetstream.AckExplicitPolicy, AckWait: 2 * (forwardWait + errands.Slowest(forwardBytes)), MaxDeliver: -1, MaxAckPending: 2 * ForwardMost, InactiveThreshold: streams.DurableIdle})
	}
	if streams.IsMissing(err) {
		f.pause(forwardAgain) // no agent has sent a batch yet
		return nil
	}
	if err != nil {
		return err
	}
	// It waits for the first batch only. The other stored batches go with it.
	first, err := cons.Fetch(1, jetstream.FetchMaxWait(2*time.Second))
	if err != nil {
		return err
	}
	var all []jetstream.Msg
	for m := range first.Messages() {
		all = append(all, m)
	}
	if len(all) > 0 {
		more, err := cons.FetchNoWait(ForwardMost - 1)
		if err != nil {
			return err
		}
		for m := range more.Messages() {
			all = append(all, m)
		}
	}
	for len(all) > 0 {
		b := Batch{V: 1}
		n, bytes := 0, 0
		for ; n < len(all) && (n == 0 || bytes+len(all[n].Data()) <= forwardBytes) && f.prove(&b, wire.LastToken(all[n].Subject())); n++ {
			bytes += len(all[n].Data())
			b.Messages = append(b.Messages, Forwarded{all[n].Subject(), idOf(all[n].Headers()), all[n].Data(), ""})
		}
		if n == 0 { // its agent sends it again, until coordination has it
			if err := all[0].Ack(); err != nil {
				return err
			}
			f.quiet.Warn("hand on audit records failed: their agent has no registration here", "subject", all[0].Subject())
			all = all[1:]
			continue
		}
		stored, _, err := f.send(to, b)
		if err != nil && stored < n && never(err) { // its agent keeps it
			f.quiet.Warn("no queue manager takes some audit records", "subject", all[stored].Subject(), "error", err)
			n, err = stored+1, nil
		}
		if err != nil {
			for _, m := range all {
				m.Nak() // or it comes again by itself, later
			}
			return err
		}
		for _, m := range all[:n] {
			if err := m.Ack(); err != nil {
				return err
			}
		}
		all = all[n:]
	}
	return first.Error()
}
