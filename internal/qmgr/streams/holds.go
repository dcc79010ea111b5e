package streams

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

const (
	// holdOne is the time for which one message is held, beside the time that it needs on a link of holdRate bytes a
	// second.
	holdOne  = time.Minute
	holdRate = 4 << 10
	// HoldSpan is the time for which the messages of a transfer are held without a renewal.
	HoldSpan = 48 * time.Hour
)

// holds are the holds of a queue, without those of one transfer, or of one message.
type holds struct {
	single map[uint64]uint64 // number of a message, and of its hold
	spans  []heldSpan
}

type heldSpan struct {
	wire.QueueSpan
	Number uint64 `json:"number,omitempty"` // of the hold before its first renewal; 0: it was not renewed
}

// HoldsOf looks at the holds of the queue of a span, except those that a filter of subjects matches.
func HoldsOf(ctx context.Context, s jetstream.Stream, of *wire.QueueSpan, except string) (h holds, err error) {
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(of.Holds()))
	if err != nil {
		return h, err
	}
	h.single = map[uint64]uint64{}
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		if matches(except, subject) {
			continue
		}
		m, err := s.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return h, err
		}
		if n, err := strconv.ParseUint(wire.LastToken(subject), 10, 64); err == nil && subject == of.HoldSubject(n) {
			h.single[n] = m.Sequence
			continue
		}
		span := heldSpan{}
		if json.Unmarshal(m.Data, &span) == nil {
			span.Number = cmp.Or(span.Number, m.Sequence)
			h.spans = append(h.spans, span)
		}
	}
	return h, nil
}

// covers reports whether a message is held for a transfer.
func (h *holds) covers(m *jetstream.RawStreamMsg) bool {
	return slices.ContainsFunc(h.spans, func(s heldSpan) bool {
		return m.Sequence >= s.First && m.Sequence <= s.Last && (s.Group == "" || matches(s.Filter(), m.Subject))
	})
}

// matches reports whether a subject matches one of some filters.
func matches(filter, subject string) bool {
	f, t := strings.Split(filter, "."), strings.Split(subject, ".")
	return slices.EqualFunc(f, t, func(f, t string) bool { return f == "*" || f == t })
}

// Meets returns an error if messages of a span are held already, by a hold that is older than one with a number.
func (h *holds) Meets(of *wire.QueueSpan, number uint64) error {
	for _, s := range h.spans {
		apart := s.Group != "" && of.Group != "" && (s.Group != of.Group || s.Writer != "" && of.Writer != "" && s.Writer != of.Writer)
		if s.Number < number && s.First <= of.Last && of.First <= s.Last && !apart {
			return transfer.Errorf(transfer.KindBusy, "another transfer takes messages %d to %d of the queue %s", s.First, s.Last, of.Queue).
				WithHint("it goes on when that one has ended")
		}
	}
	for n, hold := range h.single {
		if hold < number && n >= of.First && n <= of.Last {
			return transfer.Errorf(transfer.KindBusy, "message %d of the queue %s is being taken by hand", n, of.Queue)
		}
	}
	return nil
}

// queueHold holds the messages of a span for a transfer of the task's ID.
func (l Library) queueHold(ctx context.Context, s, h jetstream.Stream, self string, t *QueueTask) error {
	if t.Span.Last == 0 || t.ID.IsZero() {
		return transfer.Errorf(transfer.KindUsage, "which messages of the queue %s are held is not said", t.Span.Queue)
	}
	// Messages that are gone are not held: a hold that outlives its transfer hinders no later one.
	some, err := getMessages(ctx, s, t.Span.Filter(), max(t.Span.First, 1), 1)
	if err != nil {
		return err
	}
	if len(some) > 0 {
		t.Span.First = max(t.Span.First, some[0].Sequence)
	}
	data, err := json.Marshal(t.Span)
	if err != nil {
		return err
	}
	m := nats.NewMsg(t.Span.HoldOf(self, t.ID))
	m.Data = data
	number, err := l.Hold(ctx, m, HoldSpan)
	if err != nil {
		return err
	}
	// A transfer that walks again picks other messages: its own earlier hold does not hinder it.
	all, err := HoldsOf(ctx, h, &t.Span, t.Span.HoldsOfTransfer(self, t.ID))
	if err == nil {
		err = all.Meets(&t.Span, number)
	}
	if err != nil {
		return errors.Join(h.Purge(ctx, jetstream.WithPurgeSubject(m.Subject)), err)
	}
	return nil
}

// queueRenew extends a part of a transfer's holds on a queue by another HoldSpan. A hold keeps its age. A hold that
// ends meanwhile is not made again. After is the subject where the part has ended; "": that was all.
func (l Library) queueRenew(ctx context.Context, h jetstream.Stream, self string, t *QueueTask) (after string, err error) {
	info, err := h.Info(ctx, jetstream.WithSubjectFilter(t.Span.HoldsOfTransfer(self, t.ID)))
	if err != nil {
		return "", err
	}
	began := time.Now()
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		if subject <= t.After {
			continue
		}
		if after != "" && time.Since(began) > queueTime {
			return after, nil
		}
		after = subject
		now, err := h.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return "", err
		}
		var span heldSpan
		if err := json.Unmarshal(now.Data, &span); err != nil {
			return "", err
		}
		span.Number = cmp.Or(span.Number, now.Sequence)
		m := nats.NewMsg(subject)
		if m.Data, err = json.Marshal(span); err != nil {
			return "", err
		}
		if _, err := l.Hold(ctx, m, HoldSpan, jetstream.WithExpectLastSequencePerSubject(now.Sequence)); err != nil && !WrongSequence(err) {
			return "", err
		}
	}
	return "", nil
}

// Hold stores a hold for a time.
func (l Library) Hold(ctx context.Context, m *nats.Msg, d time.Duration, opts ...jetstream.PublishOpt) (uint64, error) {
	m.Header.Set(jetstream.MsgTTLHeader, fmt.Sprintf("%ds", int(d.Seconds())))
	ack, err := l.JS().PublishMsg(ctx, m, append(opts, jetstream.WithRetryAttempts(0))...)
	if api := (*jetstream.APIError)(nil); errors.As(err, &api) && IsFull(api) {
		return 0, transfer.Errorf(transfer.KindBusy, "the queue manager holds messages for as many readers as it may: %s", api.Description)
	}
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// queueClaim finds the oldest message of a span that is not held, and holds it. Number is that of the hold. A message
// that is too large for Claim is not held: the hold would only keep others from sending it as a file for a minute.
func (l Library) queueClaim(ctx context.Context, s, h jetstream.Stream, t *QueueTask) (res QueueResult, err error) {
	filter := t.Span.Filter()
	all, err := HoldsOf(ctx, h, &t.Span, "")
	if err != nil {
		return res, err
	}
	for next, seen := max(t.Span.First, 1), 0; seen < QueueOnce; seen++ {
		some, err := getMessages(ctx, s, filter, next, 1)
		if err != nil || len(some) == 0 {
			return res, err
		}
		m := some[0]
		next = m.Sequence + 1
		if all.single[m.Sequence] > 0 || all.covers(m) {
			continue
		}
		if len(m.Data) > wire.MaxQueuePeek {
			q := readQueued(m)
			return QueueResult{Message: &q}, nil
		}
		subject := t.Span.HoldSubject(m.Sequence)
		number, err := l.Hold(ctx, nats.NewMsg(subject), holdOne+time.Duration(len(m.Data)/holdRate)*time.Second, jetstream.WithExpectLastSequencePerSubject(0))
		if WrongSequence(err) {
			continue
		}
		if err != nil {
			return res, err
		}
		// Holds and removals that came before this hold show now.
		if all, err = HoldsOf(ctx, h, &t.Span, subject); err == nil {
			some, err = getMessages(ctx, s, filter, m.Sequence, 1)
		}
		if err == nil && len(some) > 0 && some[0].Sequence == m.Sequence && !all.covers(m) {
			q := readQueued(m)
			return QueueResult{Message: &q, Number: number, Behind: m.Data}, nil
		}
		if err = errors.Join(err, h.Purge(ctx, jetstream.WithPurgeSubject(subject))); err != nil {
			return res, err
		}
	}
	return res, nil
}

// WrongSequence reports whether a message was not stored because another one is the newest of its subject.
func WrongSequence(err error) bool {
	api := (*jetstream.APIError)(nil)
	return errors.As(err, &api) && (api.ErrorCode == codeWrongSequence || api.ErrorCode == codeWrongSequenceOf)
}

// queueTakeHeld removes a message that was claimed, if its hold is still the one of the task's Number.
func queueTakeHeld(ctx context.Context, s, h jetstream.Stream, t *QueueTask) error {
	subject := t.Span.HoldSubject(t.Span.Last)
	hold, err := h.GetLastMsgForSubject(ctx, subject)
	if err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	if err != nil || hold.Sequence != t.Number {
		return transfer.Errorf(transfer.KindConflict, "message %d of the queue %s was not taken in time, and others may have it", t.Span.Last, t.Span.Queue)
	}
	if err := s.DeleteMsg(ctx, t.Span.Last); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return err
	}
	return h.Purge(ctx, jetstream.WithPurgeSubject(subject))
}
