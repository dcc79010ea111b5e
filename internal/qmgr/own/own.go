package own

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/streams"
	"ferry/internal/security/identity"
	"ferry/internal/sys/sleep"
)

const Name = "ferry queue manager"

// Timeout is the time for which a queue manager that connects to itself waits for its answer. Silence within one
// process means only that the host is busy.
const Timeout = time.Minute

// ownWait is the time between two attempts to connect.
const ownWait = 200 * time.Millisecond

// Connect connects a queue manager to the library's server within its process.
func Connect(to nats.InProcessConnProvider, opts ...nats.Option) (*nats.Conn, error) {
	return nats.Connect("", append(opts, nats.InProcessServer(to), nats.Timeout(Timeout))...)
}

// An Conn is a queue manager's connection to itself. The queue manager uses it for its answers and for all its own
// work. The server ends each connection when the JWT of that connection expires. The library closes a connection for
// good on errors that it does not know. In both cases the Conn connects and subscribes again.
type Conn struct {
	to       nats.InProcessConnProvider
	identity *identity.Identity // nil: the queue manager asks for none
	data     bool               // in the account for data
	log      *slog.Logger
	now      atomic.Pointer[ownSession]
	ctx      context.Context // ends with stop
	end      context.CancelFunc
	tasks    sync.WaitGroup

	mu   sync.Mutex
	subs []ownSub
}

type ownSub struct {
	subject, group string
	h              nats.MsgHandler
}

// An ownSession is the library's connection.
type ownSession struct {
	nc *nats.Conn
	js jetstream.JetStream
}

// Dial connects a queue manager to itself, in the account for data or in the other one.
func Dial(to nats.InProcessConnProvider, i *identity.Identity, data bool, log *slog.Logger) (*Conn, error) {
	o := &Conn{to: to, identity: i, data: data, log: log}
	o.ctx, o.end = context.WithCancel(context.Background())
	if err := o.dial(); err != nil {
		o.end()
		return nil, err
	}
	return o, nil
}

// NATS returns the library's present connection. It may be closed later; do not keep it.
func (o *Conn) NATS() *nats.Conn        { return o.now.Load().nc }
func (o *Conn) JS() jetstream.JetStream { return o.now.Load().js }

// Subscribe has messages of a subject handled until stop. With a group name, one member of the group handles each
// message.
func (o *Conn) Subscribe(subject, group string, h nats.MsgHandler) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, err := o.NATS().QueueSubscribe(subject, group, h)
	if err == nil {
		o.subs = append(o.subs, ownSub{subject, group, h})
	}
	return err
}

// dial makes the connection, with the subscriptions that there are.
func (o *Conn) dial() error {
	nc, err := Connect(o.to, nats.Name(Name), nats.MaxReconnects(-1), nats.ReconnectWait(ownWait),
		nats.IgnoreAuthErrorAbort(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}), nats.ClosedHandler(o.lost), Credentials(o.identity, o.data))
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(streams.APITimeout))
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		err = o.ctx.Err()
	}
	for _, s := range o.subs {
		if err == nil {
			_, err = nc.QueueSubscribe(s.subject, s.group, s.h)
		}
	}
	if err != nil {
		nc.Close()
		return err
	}
	o.now.Store(&ownSession{nc, js})
	return nil
}

// lost replaces a connection that the library has given up.
func (o *Conn) lost(nc *nats.Conn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if now := o.now.Load(); o.ctx.Err() != nil || now == nil || now.nc != nc {
		return
	}
	o.log.Error("the queue manager's connection to itself was closed; connecting anew", slog.Any("error", nc.LastError()))
	o.tasks.Go(func() {
		for o.dial() != nil {
			if sleep.For(o.ctx, ownWait, nil) {
				return
			}
		}
	})
}

func (o *Conn) Stop() {
	if o == nil {
		return
	}
	o.mu.Lock()
	o.end()
	o.mu.Unlock()
	o.tasks.Wait()
	o.NATS().Close()
}
