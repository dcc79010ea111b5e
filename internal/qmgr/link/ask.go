package link

import (
	"context"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/errands"
	"ferry/internal/wire"
)

// Ask sends a question and gathers its answer. some, if it is not nil, is called after each part. The answerer has the
// timeout for each part; 0: until ctx ends. The time that the links to and from the queue manager need is added.
func (l *Link) Ask(ctx context.Context, subject string, data []byte, timeout time.Duration, some func(*errands.AnswerAssembly) error) ([]byte, error) {
	c := l.Base
	if !l.Up.Load() {
		return nil, c.Away()
	}

	answer, err := l.exchange(ctx, subject, c.Packer.Pack(data), timeout, some)
	if err != nil {
		return nil, c.Explain(err, subject, len(data))
	}
	return errands.Unpacked(answer), nil
}

func (l *Link) exchange(ctx context.Context, subject string, data []byte, timeout time.Duration, some func(*errands.AnswerAssembly) error) ([]byte, error) {
	sub, err := l.inbox(subject)
	if err != nil {
		return nil, err
	}
	g := errands.AnswerAssembly{}
	if err = l.NATS().PublishRequest(subject, sub.Subject, data); err == nil {
		err = l.gather(ctx, sub, &g, timeout, some)
	}
	if err != nil || l.Role != RoleBulk {
		sub.Unsubscribe()
		return g.Data, err
	}
	l.inboxes.put(sub)
	return g.Data, nil
}

// gather gathers an answer.
func (l *Link) gather(ctx context.Context, sub *nats.Subscription, g *errands.AnswerAssembly, timeout time.Duration, some func(*errands.AnswerAssembly) error) error {
	for {
		m, err := l.part(ctx, sub, timeout)
		if err != nil {
			return err
		}
		whole := g.Add(m)
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
func (l *Link) inbox(subject string) (*nats.Subscription, error) {
	l.inboxes.mu.Lock()
	defer l.inboxes.mu.Unlock()
	for n := len(l.inboxes.all); n > 0; n-- {
		sub := l.inboxes.all[n-1]
		if l.inboxes.all = l.inboxes.all[:n-1]; sub.IsValid() {
			return sub, nil
		}
	}
	return l.NATS().SubscribeSync(l.Base.NewInbox(wire.Answerer(subject)))
}

func (l *Link) part(ctx context.Context, sub *nats.Subscription, timeout time.Duration) (*nats.Msg, error) {
	if timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = l.WithLinkTime(ctx, timeout)
		defer cancel()
	}
	m, err := sub.NextMsgWithContext(ctx)
	if err == nil && len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		err = nats.ErrNoResponders
	}
	return m, err
}
