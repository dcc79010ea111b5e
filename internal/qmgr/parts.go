package qmgr

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A long answer goes out in parts. Each part that arrives is a sign of life of the answerer, however slow its link is,
// and other messages pass between them.
const (
	headerPart = "Ferry-Part" // ID OFFSET TOTAL
	// partSize is the size of a part: a second of the slowest link. An answer has at most partsMost of them, and each
	// takes less than streams.APITimeout on such a link.
	partSize  = 8 << 10
	partsMost = 128
	// maxAnswer is the most that an answer may have.
	maxAnswer = 4 << 20
)

// inParts makes the messages of an answer.
func inParts(subject string, data []byte) (all []*nats.Msg) {
	size := max(partSize, (len(data)+partsMost-1)/partsMost)
	if len(data) <= size {
		return []*nats.Msg{{Subject: subject, Data: data}}
	}
	id := rand.Text()
	for at := 0; at < len(data); at += size {
		m := nats.NewMsg(subject)
		m.Data = data[at:min(at+size, len(data))]
		m.Header.Set(headerPart, fmt.Sprintf("%s %d %d", id, at, len(data)))
		all = append(all, m)
	}
	return all
}

// A gathering puts the parts of an answer together. The zero value is ready. One without parts is whole.
type gathering struct {
	id    string
	total int
	data  []byte
}

// add takes a message and reports whether the answer is whole. A part that does not continue the answer, since
// one before it was lost, begins nothing.
func (g *gathering) add(m *nats.Msg) (whole bool) {
	text := m.Header.Get(headerPart)
	if text == "" {
		g.data, g.total = m.Data, len(m.Data)
		return true
	}
	var id string
	var at, total int
	if n, err := fmt.Sscanf(text, "%s %d %d", &id, &at, &total); n != 3 || err != nil || total > maxAnswer {
		return false
	}
	if at == 0 {
		*g = gathering{id: id, total: total}
	}
	if id != g.id || total != g.total || at != len(g.data) || at+len(m.Data) > total {
		return false
	}
	g.data = append(g.data, m.Data...)
	return len(g.data) == total
}

// ask sends a question and gathers its answer. some, if it is not nil, is called after each part. The answerer has the
// timeout for each part; 0: until ctx ends. The time that the links to and from the queue manager need is added.
func (l *link) ask(ctx context.Context, subject string, data []byte, timeout time.Duration, some func(*gathering) error) ([]byte, error) {
	c := l.c
	if !l.up.Load() {
		return nil, c.away()
	}

	answer, err := l.exchange(ctx, subject, c.packer.pack(data), timeout, some)
	if err != nil {
		return nil, c.explain(err, subject, len(data))
	}
	return unpacked(answer), nil
}

func (l *link) exchange(ctx context.Context, subject string, data []byte, timeout time.Duration, some func(*gathering) error) ([]byte, error) {
	sub, err := l.inbox(subject)
	if err != nil {
		return nil, err
	}
	g := gathering{}
	if err = l.conn().PublishRequest(subject, sub.Subject, data); err == nil {
		err = l.gather(ctx, sub, &g, timeout, some)
	}
	if err != nil || l.role != roleBulk {
		sub.Unsubscribe()
		return g.data, err
	}
	l.inboxes.put(sub)
	return g.data, nil
}

// gather gathers an answer.
func (l *link) gather(ctx context.Context, sub *nats.Subscription, g *gathering, timeout time.Duration, some func(*gathering) error) error {
	for {
		m, err := l.part(ctx, sub, timeout)
		if err != nil {
			return err
		}
		whole := g.add(m)
		if some != nil {
			if err := some(g); err != nil {
				return err
			}
		}
		if whole {
			return nil
		}
	}
}

// inboxes are subscriptions without a question, for the next question of the bulk connection: a new one for each would
// take a tenth of a slow link.
type inboxes struct {
	mu  sync.Mutex
	all []*nats.Subscription
}

func (i *inboxes) put(sub *nats.Subscription) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.all = append(i.all, sub)
}

// inbox returns a subscription for the answers to a question.
func (l *link) inbox(subject string) (*nats.Subscription, error) {
	l.inboxes.mu.Lock()
	defer l.inboxes.mu.Unlock()
	for n := len(l.inboxes.all); n > 0; n-- {
		sub := l.inboxes.all[n-1]
		if l.inboxes.all = l.inboxes.all[:n-1]; sub.IsValid() {
			return sub, nil
		}
	}
	return l.conn().SubscribeSync(l.c.NewInbox(wire.Answerer(subject)))
}

func (l *link) part(ctx context.Context, sub *nats.Subscription, timeout time.Duration) (*nats.Msg, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = l.patient(ctx, timeout)
		defer cancel()
	}
	m, err := sub.NextMsgWithContext(ctx)
	if err == nil && len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		err = nats.ErrNoResponders
	}
	return m, err
}

// answerInParts sends an answer.
func answerInParts(nc *nats.Conn, inbox string, data []byte) error {
	if len(data) > maxAnswer {
		return transfer.Errorf(transfer.KindTooLarge, "an answer of %d bytes is too large; the limit is %d", len(data), maxAnswer)
	}
	for _, m := range inParts(inbox, data) {
		if err := nc.PublishMsg(m); err != nil {
			return err
		}
	}
	return nil
}
