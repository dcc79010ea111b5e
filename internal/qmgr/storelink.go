package qmgr

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Ready makes the connection for bulk data, where there is none.
func (s *StoreAt) Ready(ctx context.Context) error {
	_, err := s.c.bulk.ready(ctx)
	return err
}

// Beside returns how many bytes have come on the data connection, which shares the link with the one for stored data.
func (s *StoreAt) Beside() int64 {
	if sock := s.c.data.socket.Load(); sock != nil {
		return sock.in.Load()
	}
	return 0
}

// session counts how often the link has come up.
func (l *link) session() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ups
}

// A conversation is a question to the queue manager that has several answers.
type conversation struct {
	subject string
	self    string // token of the agent that asks
	data    []byte
	answers int   // that may come at most
	bytes   int64 // that one answer may have at most
}

// Times of a conversation. Any byte on the link is a sign of life. slowestLine bounds the time of one answer while
// other bytes come.
const (
	quietMost   = 10 * time.Second
	quietLook   = 250 * time.Millisecond
	slowestLine = 64e3 / 8 // bytes a second, of the slowest link that must work
)

// converse asks, and passes each answer to take until take reports the last one. The data of an answer belongs to take.
// converse gives up when the connection is lost, or when nothing has come for quietMost. An error of take ends it.
func (l *link) converse(ctx context.Context, q conversation, take func(answer *nats.Msg) (last bool, err error)) error {
	if !l.up.Load() {
		return l.c.away()
	}
	nc, lost := l.conn(), l.comesUp()
	came := make(chan *nats.Msg, q.answers*(int(q.bytes/errands.PartSize)+2)) // room for all parts of all answers
	inbox := wire.InboxSubject(q.self, wire.Manager, errands.SecretFor(l.c.secret, wire.Manager), l.c.inboxes.Add(1))
	sub, err := nc.ChanSubscribe(inbox, came)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	if err := nc.PublishRequest(q.subject, inbox, q.data); err != nil {
		return err
	}

	sock := l.socket.Load()
	p := newAnswerWait(q.bytes, sock.pulse(), time.Now())
	var parts errands.Gathering
	look := time.NewTicker(quietLook)
	defer look.Stop()
	for {
		select {
		case m := <-came:
			if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
				return nats.ErrNoResponders
			}
			if !parts.Add(m) {
				continue
			}
			m.Data = parts.Data
			last, err := take(m)
			if last || err != nil {
				return err
			}
			p.answer(sock.pulse(), time.Now())
		case now := <-look.C:
			if !l.up.Load() {
				return l.c.away()
			}
			if p.over(sock.pulse(), now) {
				return nats.ErrTimeout
			}
		case <-lost:
			return l.c.away()
		case <-ctx.Done():
			return ctx.Err()
		case <-l.c.ctx.Done():
			return errClosed
		}
	}
}

// An answerWait decides when to give up an answer. Any byte on the link is a sign of life.
type answerWait struct {
	pulse           pulse
	heard, answered time.Time     // when the pulse changed last, and when the last answer came
	slow            time.Duration // that one answer may take on the slowest line
}

// newAnswerWait returns an answerWait for answers of so many bytes.
func newAnswerWait(bytes int64, p pulse, now time.Time) answerWait {
	return answerWait{p, now, now, time.Duration(float64(bytes) / slowestLine * float64(time.Second))}
}

// answer takes in that an answer has come.
func (p *answerWait) answer(is pulse, now time.Time) { p.pulse, p.heard, p.answered = is, now, now }

// over takes the pulse, and reports whether the wait is over.
func (p *answerWait) over(is pulse, now time.Time) bool {
	if is != p.pulse {
		p.pulse, p.heard = is, now
	}
	return now.Sub(p.heard) > quietMost || now.Sub(p.answered) > quietMost+p.slow
}

// storeErrand has the queue manager do a task with the store, and passes each of its answers to take.
func (l *link) storeErrand(ctx context.Context, self string, t streams.StoreTask, answers int, size int64, take func(res streams.StoreResult, data []byte) error) error {
	body, err := json.Marshal(errands.Errand{V: 1, Op: errands.OpStore, Store: &t})
	if err != nil {
		return err
	}
	q := conversation{wire.AskSubject(wire.Manager, self), self, l.c.packer.pack(body), answers, size}
	return l.converse(ctx, q, func(answer *nats.Msg) (last bool, err error) {
		res, data, err := readStoreAnswer(errands.Unpacked(answer.Data))
		if err != nil {
			return true, err
		}
		return !res.More, take(res, data)
	})
}

// readStoreAnswer reads an answer of storeErrand.
func readStoreAnswer(answer []byte) (streams.StoreResult, []byte, error) {
	var res errands.Result
	head, data := errands.CutLine(answer)
	if err := json.Unmarshal(head, &res); err != nil || res.V != 1 || res.Error == nil && res.Store == nil {
		return streams.StoreResult{}, nil, transfer.Errorf(transfer.KindVersion, "the queue manager's answer about its store cannot be read")
	}
	if res.Error != nil {
		return streams.StoreResult{}, nil, res.Error
	}
	return *res.Store, data, nil
}

// errNoReceipt is the error of a wait for a receipt that has lasted too long.
var errNoReceipt = errors.New("it does not say whether it has stored a message")
