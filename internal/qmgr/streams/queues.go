package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An application queue is a stream of its own, which a client has created by name. A reader of NATS that acknowledges a
// message removes it from the queue.

// Limits of application queues.
const (
	// QueueBatch is the number of messages that are stored at once, or not at all; the receipt is not counted.
	QueueBatch = 999
	// DefaultQueueBytes is the size of a queue that is created without a size.
	DefaultQueueBytes = 1 << 30

	QueuePrefix  = "APP_" // of the names of the streams
	maxQueues    = 1000
	QueueOnce    = 2048           // messages that are looked at in one errand
	QueueBytes   = 1 << 20        // of them at most; a longer message comes in pieces
	queueRoom    = 4 << 10        // bytes of an answer, at least
	QueueFrame   = 20             // bytes that a piece takes beside its data
	QueueStored  = 2<<20 - 64<<10 // bytes of a task that stores messages: one of the largest
	queueTime    = APITimeout / 8 // then an errand answers with a partial result; in a busy cluster each message may take ms
	queueAhead   = 16             // requests for messages in progress at once
	QueueGroups  = 512            // in one answer
	QueueGroup   = 150            // bytes of one in it
	ReceiptsOnce = 512
	receiptKept  = "720h" // in the server's format: receipts that were never removed
)

// Operations of a QueueTask.
const (
	QueueCreate  = "create"
	QueueList    = "list"
	QueueMarks   = "marks"
	QueueShow    = "show"
	QueueRemove  = "remove"
	QueuePut     = "put"
	QueuePublish = "publish"
	QueueOldest  = "oldest"
	QueueHold    = "hold"
	QueueRenew   = "renew"
	QueueRelease = "release"
	QueueClaim   = "claim"

	QueueRemoveHeld = "remove-held"

	QueueRead    = "read"
	QueueCount   = "count"
	QueueFind    = "groups"
	QueueTake    = "take"
	QueueReceipt = "receipt"
	QueueSettle  = "settle"
)

// A QueueTask is one operation on an application queue.
type QueueTask struct {
	Do       string         `json:"do"`
	Span     wire.QueueSpan `json:"span"`
	MaxBytes int64          `json:"max_bytes,omitempty"`
	Replicas int            `json:"replicas,omitempty"`
	Last     bool           `json:"last,omitempty"` // of a put: no more comes of its group
	Data     []byte         `json:"data,omitempty"`
	ID       transfer.ID    `json:"id,omitzero"` // of receipts
	Items    []uint64       `json:"items,omitempty"`
	After    string         `json:"after,omitempty"`  // of groups, and of holds to renew: the subject where an answer ended
	Offset   int            `json:"offset,omitempty"` // of a read: where it begins in the first message
	Room     int            `json:"room,omitempty"`   // of a read, or of groups: bytes that the answer may have, about

	// For messages of an item. Sizes are those of their data, which follow the task, one after the other. They are
	// stored behind the Before messages of the newest receipt, which has the number Number.
	Header map[string]string `json:"header,omitempty"`
	Sizes  []int             `json:"sizes,omitempty"`
	Before int               `json:"before,omitempty"`
	Number uint64            `json:"number,omitempty"`

	// For is the token of the principal of an agent's errand.
	For string `json:"for,omitempty"`

	Behind []byte `json:"-"` // data that follow the task
}

// Allowed reports whether the holder of a token may have it done. Agents read, and manage their own receipts.
// Coordination, which knows the rules, asks for all other tasks.
func (t *QueueTask) Allowed(asker string, agent bool) bool {
	switch t.Do {
	case QueueShow, QueueRead, QueueCount, QueueFind, QueueTake:
		return agent || asker == wire.Coordination
	case QueueReceipt, QueueSettle, QueuePublish, QueueHold, QueueRenew, QueueRelease:
		return agent
	}
	return asker == wire.Coordination
}

// Needs returns the authority for the queue that the principal of the task needs. It is AuthNone for the agent's own
// receipts and holds, and for the figures of a queue. A publish behind messages of the same item was allowed at the
// first one.
func (t *QueueTask) Needs() transfer.Authority {
	switch t.Do {
	case QueueRead, QueueCount, QueueFind, QueueHold:
		return transfer.AuthSource
	case QueueTake:
		return transfer.AuthDeleteSource
	case QueuePublish:
		if t.Before == 0 {
			return transfer.AuthDest
		}
	}
	return transfer.AuthNone
}

// OfHolds reports whether the task needs the stream of holds.
func (t *QueueTask) OfHolds() bool {
	switch t.Do {
	case QueueHold, QueueRenew, QueueRelease, QueueClaim, QueueRemoveHeld:
		return true
	}
	return false
}

// A QueueResult is the result of a QueueTask.
type QueueResult struct {
	Views   []wire.QueueView   `json:"views,omitempty"`
	Message *wire.QueueMessage `json:"message,omitempty"` // its data follow the result
	Pieces  [][2]uint64        `json:"pieces,omitempty"`  // number of a message, and bytes of it, which follow the result
	Groups  []wire.QueueGroup  `json:"groups,omitempty"`
	Count   uint64             `json:"count,omitempty"`
	Bytes   uint64             `json:"bytes,omitempty"`
	Next    uint64             `json:"next,omitempty"`   // where there may be more; 0: that was all
	Offset  int                `json:"offset,omitempty"` // in the message Next, where that has more
	After   string             `json:"after,omitempty"`  // of groups, and of renewed holds: there are more behind this subject
	Number  uint64             `json:"number,omitempty"`
	Receipt *wire.QueueReceipt `json:"receipt,omitempty"`

	Behind []byte `json:"-"` // data that follow the result
}

func QueueStream(q transfer.QueueName) string { return QueuePrefix + q.Token() }

// queueConfig returns the stream of an application queue.
func queueConfig(t *QueueTask) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:         QueueStream(t.Span.Queue),
		Description:  "Ferry: application queue " + string(t.Span.Queue),
		Subjects:     []string{(&wire.QueueSpan{Queue: t.Span.Queue}).Filter(), wire.QueueReceipts(t.Span.Queue)},
		Retention:    jetstream.WorkQueuePolicy,
		Storage:      jetstream.FileStorage,
		Replicas:     max(t.Replicas, 1),
		MaxConsumers: MaxConsumers,
		MaxMsgs:      -1,
		MaxBytes:     cmp.Or(t.MaxBytes, DefaultQueueBytes),
		MaxMsgSize:   MaxPayload,
		Discard:      jetstream.DiscardNew,
		Duplicates:   duplicateWindow,

		AllowAtomicPublish: true,
		AllowMsgTTL:        true,
	}
}

// Queue does a task for the holder of a token.
func (l Library) Queue(ctx context.Context, self string, t QueueTask, _ func(*QueueResult)) (res QueueResult, err error) {
	switch t.Do {
	case QueueCreate:
		return l.queueCreate(ctx, &t)
	case QueueList:
		return l.queueList(ctx)
	case QueueMarks:
		res.Views, err = l.queueMarks(ctx)
		return res, err
	}
	s, err := l.JS().Stream(ctx, QueueStream(t.Span.Queue))
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return res, noQueue(t.Span.Queue)
	}
	if err != nil {
		return res, err
	}
	mark := queueMark(s.CachedInfo())
	if t.Span.Mark != "" && t.Span.Mark != mark {
		return res, transfer.Errorf(transfer.KindConflict, "the queue %s was removed and made anew", t.Span.Queue)
	}
	t.Span.Mark = mark
	var h jetstream.Stream
	if t.OfHolds() {
		if err := l.withStreams(ctx, func() (err error) {
			h, err = l.JS().Stream(ctx, string(StreamHold))
			return err
		}); err != nil {
			return res, err
		}
	}
	switch t.Do {
	case QueueShow:
		v, err := queueView(ctx, s)
		return QueueResult{Views: []wire.QueueView{v}}, err
	case QueueRemove:
		return res, l.JS().DeleteStream(ctx, s.CachedInfo().Config.Name)
	case QueuePut:
		res.Number, err = l.queuePut(ctx, s, self, &t)
		err = FullQueue(err, t.Span.Queue)
	case QueuePublish:
		res.Receipt, err = l.queuePublish(ctx, self, &t)
		err = FullQueue(err, t.Span.Queue)
	case QueueHold:
		err = l.queueHold(ctx, s, h, self, &t)
	case QueueRenew:
		res.After, err = l.queueRenew(ctx, h, self, &t)
	case QueueRelease:
		err = h.Purge(ctx, jetstream.WithPurgeSubject(t.Span.HoldsOfTransfer(self, t.ID)))
	case QueueClaim:
		return l.queueClaim(ctx, s, h, &t)
	case QueueRemoveHeld:
		err = queueTakeHeld(ctx, s, h, &t)
	case QueueOldest:
		err = res.oldest(ctx, s, &t.Span)
	case QueueRead:
		err = res.read(ctx, s, l.Unfinished, &t)
	case QueueCount:
		err = res.CountPart(ctx, s, &t.Span)
	case QueueFind:
		err = res.FindGroups(ctx, s, &t)
	case QueueTake:
		err = res.TakePart(ctx, s, &t.Span)
	case QueueReceipt:
		res.Receipt, err = queueReceiptOf(ctx, s, self, &t)
	case QueueSettle:
		err = res.SettlePart(ctx, s, self, &t)
	default:
		err = transfer.Errorf(transfer.KindUsage, "nothing can be done with a queue that is called %.40q", t.Do)
	}
	return res, err
}

func noQueue(q transfer.QueueName) error {
	return transfer.Errorf(transfer.KindMissing, "there is no queue %s", q).WithHint(fmt.Sprintf("`ferry queue create %s` makes it", q))
}

// FullQueue returns the error of a queue that has reached its limit in place of the server's error. Other errors,
// those of a full disk among them, stay as they are: only the queue manager can tell them apart.
func FullQueue(err error, q transfer.QueueName) error {
	var api *jetstream.APIError
	if !errors.As(err, &api) || api.ErrorCode != CodeStoreMaxBytes || FailedCall(api.Description) != 0 {
		return err
	}
	return transfer.Errorf(transfer.KindNoSpace, "the queue %s is full", q).
		WithHint("it goes on as messages are taken out of it; `ferry queue show` has its limit")
}

func queueMark(info *jetstream.StreamInfo) string {
	return strconv.FormatInt(info.Created.UnixNano(), 36)
}

// queueCreate makes a queue; an existing one is an error.
func (l Library) queueCreate(ctx context.Context, t *QueueTask) (res QueueResult, err error) {
	names, err := l.queueNames(ctx)
	switch {
	case err != nil:
		return res, err
	case slices.Contains(names, t.Span.Queue):
		return res, transfer.Errorf(transfer.KindExists, "the queue %s is there already", t.Span.Queue)
	case len(names) >= maxQueues:
		return res, transfer.Errorf(transfer.KindTooLarge, "there are %d queues, as many as there may be", len(names))
	case t.MaxBytes < 0 || t.Replicas < 0 || t.Replicas > 5:
		return res, transfer.Errorf(transfer.KindUsage, "a queue of %d bytes and %d replicas cannot be", t.MaxBytes, t.Replicas)
	}
	cfg := queueConfig(t)
	s, err := l.JS().CreateStream(ctx, cfg)
	if api := (*jetstream.APIError)(nil); errors.As(err, &api) && IsFull(api) {
		return res, transfer.Errorf(transfer.KindNoSpace, "the store of the queue manager has no room for the queue %s of %s beside the limits of the other queues", t.Span.Queue, transfer.FormatBytes(cfg.MaxBytes)).
			WithHint("give a smaller --max-bytes, or remove a queue with `ferry queue rm`")
	}
	if TooFew(err) {
		return res, transfer.Errorf(transfer.KindUsage, "the queue %s cannot be kept %d times: the queue manager has fewer members", t.Span.Queue, t.Replicas)
	}
	if err != nil {
		return res, err
	}
	if !s.CachedInfo().Config.AllowAtomicPublish {
		return res, errors.Join(l.JS().DeleteStream(ctx, s.CachedInfo().Config.Name),
			transfer.Errorf(transfer.KindNotBuilt, "the queue manager cannot store several messages as one; queues need a server of NATS 2.12 or later"))
	}
	v, err := queueView(ctx, s)
	return QueueResult{Views: []wire.QueueView{v}}, err
}

// queueNames returns the names of all queues, in order.
func (l Library) queueNames(ctx context.Context) (all []transfer.QueueName, err error) {
	marks, err := l.queueMarks(ctx)
	for n := range marks {
		all = append(all, marks[n].Queue)
	}
	return all, err
}

// queueMarks returns all queues, by their names, with their positions: Last is the number of the newest message that
// there ever was, and Messages are counted with the receipts.
func (l Library) queueMarks(ctx context.Context) (all []wire.QueueView, err error) {
	streams := l.JS().ListStreams(ctx, jetstream.WithStreamListSubject("ferry.queue.>"))
	for info := range streams.Info() {
		token, ok := strings.CutPrefix(info.Config.Name, QueuePrefix)
		name, bad := wire.QueueOf(token)
		if ok && bad == nil {
			all = append(all, wire.QueueView{Queue: name, Mark: queueMark(info), Last: info.State.LastSeq, Messages: info.State.Msgs})
		}
	}
	slices.SortFunc(all, func(a, b wire.QueueView) int { return cmp.Compare(a.Queue, b.Queue) })
	return all, streams.Err()
}

func (l Library) queueList(ctx context.Context) (res QueueResult, err error) {
	names, err := l.queueNames(ctx)
	if err != nil {
		return res, err
	}
	for _, name := range names {
		s, err := l.JS().Stream(ctx, QueueStream(name))
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return res, err
		}
		v, err := queueView(ctx, s)
		if err != nil {
			return res, err
		}
		res.Views = append(res.Views, v)
	}
	return res, nil
}

// queueView returns the state of a queue. Receipts do not count as messages.
func queueView(ctx context.Context, s jetstream.Stream) (v wire.QueueView, err error) {
	info, err := s.Info(ctx)
	if err != nil {
		return v, err
	}
	token, _ := strings.CutPrefix(info.Config.Name, QueuePrefix)
	if v.Queue, err = wire.QueueOf(token); err != nil {
		return v, err
	}
	with, err := s.Info(ctx, jetstream.WithSubjectFilter((&wire.QueueSpan{Queue: v.Queue}).Filter()))
	if err != nil {
		return v, err
	}
	v.Mark, v.MaxBytes, v.Replicas = queueMark(info), info.Config.MaxBytes, info.Config.Replicas
	v.Bytes = with.State.Bytes
	for _, n := range with.State.Subjects {
		v.Messages += n
	}
	if v.Messages > 0 {
		v.First, v.Last = with.State.FirstSeq, with.State.LastSeq
	}
	return v, nil
}

// queuePut stores one message of the writer of the task's span.
func (l Library) queuePut(ctx context.Context, s jetstream.Stream, self string, t *QueueTask) (number uint64, err error) {
	writer, group := cmp.Or(t.Span.Writer, self), cmp.Or(t.Span.Group, wire.NoGroup)
	m := nats.NewMsg(wire.QueueSubject(t.Span.Queue, writer, group))
	m.Data = t.Data
	if len(t.Data) > wire.MaxQueueMessage {
		return 0, TooLarge("a queue", len(t.Data), wire.MaxQueueMessage)
	}
	opts := []jetstream.PublishOpt{jetstream.WithRetryAttempts(0)}
	if group != wire.NoGroup {
		if err := transfer.CheckGroup(group); err != nil {
			return 0, err
		}
		n, at := 1, uint64(0)
		before, err := s.GetLastMsgForSubject(ctx, m.Subject)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
		case err != nil:
			return 0, err
		default:
			have, last := readQueued(before).Sequence()
			if last {
				return 0, transfer.Errorf(transfer.KindConflict, "the group %s in the queue %s has its last message already", group, t.Span.Queue)
			}
			n, at = have+1, before.Sequence
		}
		m.Header.Set(wire.HeaderGroup, group)
		m.Header.Set(wire.HeaderSequence, strconv.Itoa(n))
		if t.Last {
			m.Header.Set(wire.HeaderLast, "true")
		}
		opts = append(opts, jetstream.WithExpectLastSequencePerSubject(at))
	}
	ack, err := l.JS().PublishMsg(ctx, m, opts...)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// readQueued converts a message of JetStream, without its data.
func readQueued(m *jetstream.RawStreamMsg) wire.QueueMessage {
	q := wire.QueueMessage{Number: m.Sequence, Size: len(m.Data), Header: map[string]string{}}
	if t := strings.Split(m.Subject, "."); len(t) == 5 {
		q.Writer = t[3]
		if q.Group = t[4]; q.Group == wire.NoGroup {
			q.Group = ""
		}
	}
	for _, name := range wire.QueueHeaders() {
		if v := m.Header.Get(name); v != "" && len(v) <= 8<<10 {
			q.Header[name] = v
		}
	}
	return q
}

// oldest gives the first message of a span.
func (res *QueueResult) oldest(ctx context.Context, s jetstream.Stream, of *wire.QueueSpan) error {
	some, err := getMessages(ctx, s, of.Filter(), max(of.First, 1), 1)
	if err != nil || len(some) == 0 || of.Last > 0 && some[0].Sequence > of.Last {
		return err
	}
	q := readQueued(some[0])
	res.Message, res.Behind = &q, some[0].Data
	return nil
}

// CountPart counts a part of the messages of a span, from its first number on.
func (res *QueueResult) CountPart(ctx context.Context, s jetstream.Stream, of *wire.QueueSpan) error {
	return res.look(ctx, s, of, nil, QueueBytes, func(m *jetstream.RawStreamMsg) (left int) {
		res.Count, res.Bytes = res.Count+1, res.Bytes+uint64(len(m.Data))
		return QueueBytes
	})
}

// read returns the data of messages of a span from an offset in its first one on, up to about the room. The last
// message may be a piece.
func (res *QueueResult) read(ctx context.Context, s jetstream.Stream, u *Unfinished, t *QueueTask) error {
	left := min(max(t.Room, queueRoom), QueueBytes)
	var first *jetstream.RawStreamMsg
	if t.Offset > 0 {
		first = u.get(keptOf(s, &t.Span, t.Span.First))
	}
	return res.look(ctx, s, &t.Span, first, left, func(m *jetstream.RawStreamMsg) int {
		from := 0
		if m.Sequence == t.Span.First {
			from = min(t.Offset, len(m.Data))
		}
		n := min(len(m.Data)-from, max(left-QueueFrame, 1))
		res.Pieces = append(res.Pieces, [2]uint64{m.Sequence, uint64(n)})
		res.Behind = append(res.Behind, m.Data[from:from+n]...)
		if from+n < len(m.Data) {
			res.Next, res.Offset = m.Sequence, from+n
			u.put(keptOf(s, &t.Span, m.Sequence), m)
		} else if from > 0 {
			u.drop(keptOf(s, &t.Span, m.Sequence))
		}
		left -= QueueFrame + n
		return left
	})
}

// look passes messages of a span to take from its first number on, until take has no more room. Next is the position
// after the last one. first is the message with the first number; nil: look gets it.
func (res *QueueResult) look(ctx context.Context, s jetstream.Stream, of *wire.QueueSpan, first *jetstream.RawStreamMsg, left int, take func(*jetstream.RawStreamMsg) (left int)) error {
	filter, began, seen := of.Filter(), time.Now(), 0
	for next, ahead := max(of.First, 1), 1; of.Last == 0 || next <= of.Last; {
		some := []*jetstream.RawStreamMsg{first}
		if first == nil {
			var err error
			if some, err = getMessages(ctx, s, filter, next, ahead); err != nil || len(some) == 0 {
				return err
			}
		}
		first = nil
		size := 0
		for _, m := range some {
			if of.Last > 0 && m.Sequence > of.Last {
				return nil
			}
			if seen > 0 && (seen >= QueueOnce || left <= 0 || time.Since(began) > queueTime) {
				res.Next = m.Sequence
				return nil
			}
			next, size = m.Sequence+1, size+len(m.Data)+QueueFrame
			left = take(m)
			if seen++; res.Next > 0 {
				return nil
			}
		}
		// One, where there are others between the messages; and no more than there is room for.
		ahead = min(2*len(some), queueAhead, 1+len(some)*max(left, 0)/size)
	}
	return nil
}

// getMessages returns, in order, the messages with so many numbers from one on, and the first one behind them. The
// requests are sent together: between the members of a cluster a request takes much longer than its work. No messages:
// there are no more.
func getMessages(ctx context.Context, s jetstream.Stream, filter string, from uint64, numbers int) (all []*jetstream.RawStreamMsg, err error) {
	got, errs := make([]*jetstream.RawStreamMsg, numbers), make([]error, numbers)
	var wg sync.WaitGroup
	for n := range got {
		wg.Go(func() {
			if got[n], errs[n] = s.GetMsg(ctx, from+uint64(n), jetstream.WithGetMsgSubject(filter)); errors.Is(errs[n], jetstream.ErrMsgNotFound) {
				errs[n] = nil
			}
		})
	}
	wg.Wait()
	for n, m := range got {
		if errs[n] != nil {
			return nil, errs[n]
		}
		if m != nil && m.Sequence >= from {
			all, from = append(all, m), m.Sequence+1
		}
	}
	return all, nil
}

// TakePart removes the messages of a span. A purge has no lower bound: if others are before the first one, take removes a
// part of the messages, one by one.
func (res *QueueResult) TakePart(ctx context.Context, s jetstream.Stream, of *wire.QueueSpan) error {
	if of.Last == 0 {
		return nil
	}
	filter := of.Filter()
	oldest, err := s.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(filter))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil
	case err != nil:
		return err
	case oldest.Sequence >= of.First:
		return s.Purge(ctx, jetstream.WithPurgeSubject(filter), jetstream.WithPurgeSequence(of.Last+1))
	}
	began := time.Now()
	for next := of.First; ; next++ {
		m, err := s.GetMsg(ctx, next, jetstream.WithGetMsgSubject(filter))
		if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && m.Sequence > of.Last {
			return nil
		}
		if err != nil {
			return err
		}
		next = m.Sequence
		if res.Count++; res.Count > QueueOnce/8 || res.Count > 1 && time.Since(began) > queueTime {
			res.Next = next
			return nil
		}
		if err := s.DeleteMsg(ctx, next); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
			return err
		}
	}
}

// FindGroups finds a part of the groups of a span, in the order of their subjects, and determines the complete ones.
func (res *QueueResult) FindGroups(ctx context.Context, s jetstream.Stream, t *QueueTask) error {
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(t.Span.Filter()))
	if err != nil {
		return err
	}
	began := time.Now()
	for _, subject := range slices.Sorted(maps.Keys(info.State.Subjects)) {
		tokens := strings.Split(subject, ".")
		if subject <= t.After || len(tokens) != 5 || tokens[4] == wire.NoGroup {
			continue
		}
		if n := len(res.Groups); n >= QueueGroups || n > 0 && (n*QueueGroup > max(t.Room, queueRoom) || time.Since(began) > queueTime) {
			return nil
		}
		m, err := s.GetLastMsgForSubject(ctx, subject)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		n := info.State.Subjects[subject]
		at, last := readQueued(m).Sequence()
		res.Groups = append(res.Groups, wire.QueueGroup{Writer: tokens[3], Group: tokens[4], Messages: n, Last: m.Sequence, Complete: last && uint64(at) == n})
		res.After = subject
	}
	res.After = ""
	return nil
}

// queueReceiptOf returns how much of an item of the writer is in a queue.
func queueReceiptOf(ctx context.Context, s jetstream.Stream, self string, t *QueueTask) (*wire.QueueReceipt, error) {
	if len(t.Items) != 1 {
		return nil, transfer.Errorf(transfer.KindUsage, "a receipt is of one item")
	}
	m, err := s.GetLastMsgForSubject(ctx, wire.ReceiptSubject(t.Span.Queue, self, t.ID, t.Items[0]))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return &wire.QueueReceipt{}, nil
	}
	if err != nil {
		return nil, err
	}
	n, last := readQueued(m).Sequence()
	return &wire.QueueReceipt{Messages: n, Last: last, Number: m.Sequence}, nil
}

// SettlePart removes receipts of the writer: a part of those of some items of a transfer, or of all items.
func (res *QueueResult) SettlePart(ctx context.Context, s jetstream.Stream, self string, t *QueueTask) error {
	if len(t.Items) == 0 {
		return s.Purge(ctx, jetstream.WithPurgeSubject(wire.ReceiptsOf(t.Span.Queue, self, t.ID)))
	}
	began := time.Now()
	for n, item := range t.Items[:min(len(t.Items), ReceiptsOnce)] {
		if n > 0 && time.Since(began) > queueTime {
			return nil
		}
		if err := s.Purge(ctx, jetstream.WithPurgeSubject(wire.ReceiptSubject(t.Span.Queue, self, t.ID, item))); err != nil {
			return err
		}
		res.Count++
	}
	return nil
}
