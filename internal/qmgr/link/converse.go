package link

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/errands"
	"ferry/internal/wire"
)

// Session counts how often the link has come up.
func (l *Link) Session() int64 {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.Ups
}

// A Conversation is a question to the queue manager that has several answers.
type Conversation struct {
	Subject string
	Self    string // token of the agent that asks
	Data    []byte
	Answers int   // that may come at most
	Bytes   int64 // that one answer may have at most
}

const (
	quietMost   = 10 * time.Second
	QuietLook   = 250 * time.Millisecond
	slowestLine = 64e3 / 8 // bytes a second, of the slowest link that must work
)

// Converse asks, and passes each answer to take until take reports the last one. The data of an answer belongs to take.
// converse gives up when the connection is lost, or when nothing has come for quietMost. An error of take ends it.
func (l *Link) Converse(ctx context.Context, q Conversation, take func(answer *nats.Msg) (last bool, err error)) error {
	if !l.Up.Load() {
		return l.Base.Away()
	}
	nc, lost := l.NATS(), l.ComesUp()
	came := make(chan *nats.Msg, q.Answers*(int(q.Bytes/errands.PartSize)+2)) // room for all parts of all answers
	inbox := wire.InboxSubject(q.Self, wire.Manager, errands.SecretFor(l.Base.secret, wire.Manager), l.Base.inboxes.Add(1))
	sub, err := nc.ChanSubscribe(inbox, came)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe()
	if err := nc.PublishRequest(q.Subject, inbox, q.Data); err != nil {
		return err
	}

	sock := l.Socket.Load()
	p := newAnswerWait(q.Bytes, sock.Traffic(), time.Now())
	var parts errands.AnswerAssembly
	look := time.NewTicker(QuietLook)
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
			p.answer(sock.Traffic(), time.Now())
		case now := <-look.C:
			if !l.Up.Load() {
				return l.Base.Away()
			}
			if p.over(sock.Traffic(), now) {
				return nats.ErrTimeout
			}
		case <-lost:
			return l.Base.Away()
		case <-ctx.Done():
			return ctx.Err()
		case <-l.Base.Ctx.Done():
			return ErrClosed
		}
	}
}

// An answerWait decides when to give up an answer. Any byte on the link is a sign of life.
type answerWait struct {
	pulse           Traffic
	heard, answered time.Time     // when the traffic changed last, and when the last answer came
	slow            time.Duration // that one answer may take on the slowest line
}

// newAnswerWait returns an answerWait for answers of so many bytes.
func newAnswerWait(bytes int64, p Traffic, now time.Time) answerWait {
	return answerWait{p, now, now, time.Duration(float64(bytes) / slowestLine * float64(time.Second))}
}

// answer takes in that an answer has come.
func (p *answerWait) answer(is Traffic, now time.Time) { p.pulse, p.heard, p.answered = is, now, now }

// over takes the traffic, and reports whether the wait is over.
func (p *answerWait) over(is Traffic, now time.Time) bool {
	if is != p.pulse {
		p.pulse, p.heard = is, now
	}
	return now.Sub(p.heard) > quietMost || now.Sub(p.answered) > quietMost+p.slow
}
