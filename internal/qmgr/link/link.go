package link

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/own"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/sleep"
	"ferry/internal/sys/tcp"
	"ferry/internal/wire"
)

const (
	DialTimeout   = 4 * time.Second // to connect, and again without a byte during the handshake
	ReconnectWait = 200 * time.Millisecond
	refusedFor    = 3 * time.Second
)

// smallFrames has a queue manager behind a web socket send frames of 4 KiB, as it does to a browser. Otherwise it sends
// all data that waits for a connection in one frame. The library closes the connection on a frame larger than eight of
// the largest messages.
var smallFrames = http.Header{"User-Agent": {"Mozilla/5.0 (compatible; Ferry)"}}

// A Message is passed to a subscriber. Its data belongs to the handler.
type Message struct {
	Subject string
	Reply   string // where an answer is expected; "" if none is
	Data    []byte
}

// Roles of links.
const (
	RoleControl = "control"
	RoleData    = "data"
	RoleBulk    = "bulk"
)

// A Link is one of a Conn's connections. It comes back by itself when it is
// lost, with its subscriptions.
type Link struct {
	Base *Base
	Role string // RoleControl, RoleData or RoleBulk

	Up      atomic.Bool
	Now     atomic.Pointer[session]
	Socket  atomic.Pointer[Socket]
	Peer    atomic.Pointer[string] // the name of the queue manager, by its certificate
	Trip    trip
	inboxes inboxes

	Mu    sync.Mutex
	subs  map[*subscription]struct{}
	Again chan struct{} // closed and replaced each time the link comes up
	Ups   int64         // how often it has come up

	refusing sync.Mutex
	no       time.Time // time of the first refusal; zero: it is not refused
	refusal  error     // the last refusal since then
}

// A session is the library's connection, which itself survives reconnects. It
// is replaced only when the library has given it up for good.
type session struct {
	NC *nats.Conn
	JS jetstream.JetStream
}

type subscription struct {
	subject string
	h       func(Message)
	sub     *nats.Subscription // of the present session; guarded by Link.Mu

	group string // each message goes to one subscription of the group; "": to all

	waiting, bytes int // messages that may wait for h; -1: any number
}

// Limits of the messages that wait for the handler of a subscription on the control connection.
const (
	maxWaiting      = 1 << 16
	maxWaitingBytes = 64 << 20
)

func NewLink(c *Base, role string) *Link {
	return &Link{Base: c, Role: role, subs: map[*subscription]struct{}{}, Again: make(chan struct{})}
}

func (l *Link) NATS() *nats.Conn        { return l.Now.Load().NC }
func (l *Link) JS() jetstream.JetStream { return l.Now.Load().JS }

// Dial connects once and returns when the link is up.
func (l *Link) Dial(ctx context.Context) error {
	up := make(chan struct{})
	d := &dialer{link: l, ctx: ctx}
	opts := []nats.Option{
		nats.Name(l.Base.cfg.Name + " " + l.Role),
		nats.Timeout(DialTimeout),
		nats.SetCustomDialer(d),
		nats.CustomInboxPrefix(libraryInbox(l.Base.cfg.Self, l.Base.secret)),
		nats.MaxReconnects(-1),
		nats.DontRandomize(), // ConnConfig.URL has been shuffled
		nats.ReconnectWait(ReconnectWait),
		nats.ReconnectJitter(ReconnectWait/2, ReconnectWait/2),
		// A publish while the link is down fails at once: the library might silently lose messages that it kept for
		// later.
		nats.ReconnectBufSize(-1),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectOnFlusherError(),
		// The watchdog judges whether the link lives. The library's own pings would cut a slow link, where the answer
		// waits behind megabytes of data.
		nats.PingInterval(-1),
		nats.FlusherTimeout(0), // the socket has its own
		nats.ConnectHandler(func(*nats.Conn) { l.markUp(); close(up) }),
		nats.ReconnectHandler(func(*nats.Conn) { l.markUp() }),
		nats.ReconnectErrHandler(func(*nats.Conn, error) { l.failed(nil) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) { l.markDown(err) }),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) { l.complain(sub, err) }),
		nats.ClosedHandler(func(nc *nats.Conn) { l.lost(nc) }),
		nats.WebSocketConnectionHeaders(smallFrames),
		own.SignedIn(l.Base.cfg.Identity, l.Base.cfg.JWTs, l.Role == RoleData),
	}
	if l.Base.cfg.Identity != nil {
		// A server advertises addresses of the library's listeners. There may be no gate before them.
		opts = append(opts, nats.IgnoreDiscoveredServers())
	}
	if l.Base.cfg.Local != nil {
		opts = append(opts, nats.InProcessServer(d))
	}

	// While this first attempt runs, the end of ctx ends it.
	release := context.AfterFunc(ctx, d.cut)
	nc, err := nats.Connect(l.Base.cfg.URL, opts...)
	release()
	if err != nil {
		return d.explain(err)
	}

	d.outlive()
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(streams.APITimeout))
	if err != nil {
		nc.Close()
		return err
	}

	l.Now.Store(&session{NC: nc, JS: js})
	<-up
	return nil
}

func (l *Link) markUp() {
	l.Mu.Lock()
	l.Up.Store(true)
	l.Ups++
	close(l.Again)
	l.Again = make(chan struct{})
	l.Mu.Unlock()
	l.failed(nil)
	l.Trip.Forget()
	if l.Role != RoleBulk {
		l.Base.changed(true, nil)
	}
}

// failed takes the end of an attempt to connect: the refusal of the identity by the queue manager, or nil if no queue
// manager was reached.
//
// The library calls it with its own lock held. Holders of l.mu wait for that lock.
func (l *Link) failed(refusal error) {
	l.refusing.Lock()
	defer l.refusing.Unlock()
	l.refusal = refusal
	switch cfg := &l.Base.cfg; {
	case refusal == nil:
		l.no = time.Time{}
	case l.no.IsZero():
		l.no = time.Now()
	case time.Since(l.no) > refusedFor && cfg.OnRefused != nil && l.Base.Ctx.Err() == nil:
		go cfg.OnRefused(refused(l.Base, refusal))
	}
}

// Refused returns the error of kind Denied of an identity that the queue manager has refused for some seconds, and nil
// otherwise.
func (l *Link) Refused() error {
	l.refusing.Lock()
	defer l.refusing.Unlock()
	if l.no.IsZero() || time.Since(l.no) <= refusedFor {
		return nil
	}
	return refused(l.Base, l.refusal)
}

// A proved is a connection to a queue manager that has proved its identity. It reports to refused when the queue
// manager ends it with an alert. An alert before the proof may come from any party on the way.
type proved struct {
	*tcp.Whole
	refused func(error)
}

func (p *proved) Read(b []byte) (int, error) {
	n, err := p.Whole.Read(b)
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "remote error" && p.ConnectionState().HandshakeComplete {
		p.refused(err)
	}
	return n, err
}

func (l *Link) markDown(err error) {
	if l.Up.Swap(false) && l.Role != RoleBulk {
		l.Base.changed(false, err)
	}
}

// ComesUp returns a channel that is closed when the link comes up the next time.
func (l *Link) ComesUp() <-chan struct{} {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.Again
}

// CameUp returns how often the link has come up, from 1 on, and the channel of ComesUp.
func (l *Link) CameUp() (times int64, again <-chan struct{}) {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	return l.Ups, l.Again
}

func (l *Link) complain(sub *nats.Subscription, err error) {
	attrs := []any{slog.String("connection", l.Role), slog.Any("error", err)}
	if sub != nil {
		attrs = append(attrs, slog.String("subject", sub.Subject))
	}
	level := slog.LevelWarn
	if l.Base.cfg.Identity != nil && isRefusal(err) { // the queue manager has proved its identity with TLS
		l.refusing.Lock()
		if !l.no.IsZero() {
			level = slog.LevelDebug // it was logged already, and comes with every attempt
		}
		l.refusing.Unlock()
		l.failed(err)
	}
	if errors.Is(err, nats.ErrSlowConsumer) && sub != nil && strings.HasPrefix(sub.Subject, "ferry.inbox.") {
		// The library's pulls have room for one message: a status that comes
		// while a message is being handled is dropped, and is not missed.
		level = slog.LevelDebug
	}
	l.Base.cfg.Log.Log(context.Background(), level, "the queue manager connection reports an error", attrs...)
}

// lost begins a new session when the library has given up the present one, as it does on errors that it does not know.
func (l *Link) lost(nc *nats.Conn) {
	if l.Base.Ctx.Err() != nil {
		return
	}

	err := nc.LastError()
	l.markDown(err)
	l.Base.cfg.Log.Error("the queue manager closed the connection; connecting anew",
		slog.String("connection", l.Role), slog.Any("error", err))
	l.Base.Background(func() {
		for !sleep.For(l.Base.Ctx, time.Second, nil) {
			if l.Dial(l.Base.Ctx) == nil {
				l.resubscribe()
				return
			}
		}
	})
}

func (l *Link) resubscribe() {
	l.Mu.Lock()
	defer l.Mu.Unlock()
	for _, s := range slices.Collect(maps.Keys(l.subs)) {
		if err := s.bind(l.NATS()); err != nil {
			l.complain(nil, err)
		}
	}
}

func (l *Link) Close() {
	if s := l.Now.Load(); s != nil {
		s.NC.Close()
	}
	l.Up.Store(false)
}

func (l *Link) Publish(subject string, data []byte) error {
	if !l.Up.Load() {
		return l.Base.Away()
	}
	if err := l.NATS().Publish(subject, data); err != nil {
		return l.Base.Explain(err, subject, len(data))
	}
	return nil
}

func (l *Link) Subscribe(subject string, h func(Message)) (func(), error) {
	return l.SubscribeGroup(subject, "", h)
}

func (l *Link) SubscribeGroup(subject, group string, h func(Message)) (func(), error) {
	s := &subscription{subject: subject, group: group, h: h, waiting: -1, bytes: -1}
	if l.Role == RoleControl {
		s.waiting, s.bytes = maxWaiting, maxWaitingBytes
	}

	l.Mu.Lock()
	err := s.bind(l.NATS())
	if err == nil {
		l.subs[s] = struct{}{}
	}
	l.Mu.Unlock()
	if err != nil {
		return nil, l.Base.Explain(err, subject, 0)
	}

	// Once this has been answered the queue manager knows of the subscription.
	// If it is not, the subscription is made when the link comes up.
	ctx, cancel := context.WithTimeout(l.Base.Ctx, ProbeTimeout)
	defer cancel()
	l.RoundTrip(ctx)
	return func() {
		l.Mu.Lock()
		defer l.Mu.Unlock()
		delete(l.subs, s)
		s.sub.Unsubscribe()
	}, nil
}

func (s *subscription) bind(nc *nats.Conn) error {
	var g errands.AnswerAssembly
	sub, err := nc.QueueSubscribe(s.subject, s.group, func(m *nats.Msg) {
		if g.Add(m) {
			s.h(Message{Subject: m.Subject, Reply: m.Reply, Data: g.Data})
		}
	})
	if err != nil {
		return err
	}
	s.sub = sub
	// The credit that agents grant bounds outstanding data, so the library is to drop none of it. Nothing bounds the
	// other messages. The library drops those without room; any message may be lost.
	return sub.SetPendingLimits(s.waiting, s.bytes)
}

// RoundTrip waits for a sign of life of the queue manager, until ctx ends.
func (l *Link) RoundTrip(ctx context.Context) error {
	if !l.Up.Load() {
		return l.Base.Away()
	}

	// In a goroutine, because the library waits for its own lock without a
	// limit, and a write that is stuck holds that lock.
	done := make(chan error, 1)
	began := l.Trip.Begin()
	go func() { done <- l.NATS().FlushWithContext(ctx) }()
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	}

	l.Trip.End(began, err == nil)
	return err
}

// A dialer makes the sockets of a link and remembers the cause of a failure.
type dialer struct {
	link *Link

	mu   sync.Mutex
	ctx  context.Context // ends attempts: the caller's for the first, then the Conn's
	sock *Socket         // the newest
	err  error           // of the last attempt
}

// Dial makes connections over TCP.
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	d.mu.Lock()
	ctx := d.ctx
	d.mu.Unlock()
	nd := net.Dialer{Timeout: DialTimeout, KeepAlive: 15 * time.Second}
	conn, err := nd.DialContext(ctx, network, address)
	if err == nil {
		if oerr := d.link.Base.cfg.TCP.Apply(conn); oerr != nil {
			d.link.Base.cfg.Log.Debug("socket options cannot be set", slog.Any("error", oerr))
		}
	}
	return d.made(conn, err, false)
}

// InProcessConn makes connections to a server in this process.
func (d *dialer) InProcessConn() (net.Conn, error) {
	conn, err := d.link.Base.cfg.Local.InProcessConn()
	return d.made(conn, err, true)
}

// made returns the connection that the library uses. Local connections do not leave this process.
func (d *dialer) made(conn net.Conn, err error, local bool) (net.Conn, error) {
	d.mu.Lock()
	d.err = err
	if err != nil {
		d.mu.Unlock()
		return nil, err
	}
	sock := &Socket{Conn: conn, opt: d.link.Base.cfg.TCP}
	d.sock = sock
	d.mu.Unlock()

	var under net.Conn = sock
	if cfg := d.link.Base.cfg.TLS; cfg != nil && !local {
		whole := tcp.NewWhole(sock, func(c net.Conn) *tls.Conn { return tls.Client(c, cfg) })
		if err := d.greet(sock, whole.Conn); err != nil {
			sock.Close()
			return nil, err
		}
		under = &proved{whole, d.link.failed}
		if i := d.link.Base.cfg.Identity; i != nil {
			if name, err := i.Peer(whole.ConnectionState()); err == nil {
				d.link.Peer.Store(&name.Name)
			}
		}
	}

	d.link.Socket.Store(sock)
	return under, nil
}

// greetings are the handshakes of this process in progress. When hundreds of agents in it come back at once, each would
// otherwise take as long as all of them, and give up.
var greetings = make(chan struct{}, 16)

// greet makes the handshake. It has as long as bytes move on the connection.
func (d *dialer) greet(sock *Socket, c *tls.Conn) error {
	d.mu.Lock()
	ctx := d.ctx
	d.mu.Unlock()
	select {
	case greetings <- struct{}{}:
		defer func() { <-greetings }()
	case <-ctx.Done():
		return ctx.Err()
	}
	ctx, cancel := sock.Moving(ctx, DialTimeout)
	defer cancel()
	err := c.HandshakeContext(ctx)
	if ne := net.Error(nil); errors.Is(err, net.ErrClosed) || errors.As(err, &ne) && ne.Timeout() || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		err = errSilent
	} else if err != nil {
		err = refused(d.link.Base, err)
	}
	otherNetwork(d.link.Base, err)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
	return err
}

// SkipTLSHandshake reports whether the dialer makes TLS: from a Config and not by a URL.
func (d *dialer) SkipTLSHandshake() bool { return d.link.Base.cfg.TLS != nil }

// cut ends the attempt that is under way.
func (d *dialer) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sock != nil {
		d.sock.Close()
	}
}

// outlive lets the dialer continue when the context of the first attempt ends.
func (d *dialer) outlive() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ctx = d.link.Base.Ctx
}

// errSilent is the error of a connection to a peer that sends nothing.
var errSilent = errors.New("it accepts connections and says nothing")

// explain returns the reason why connecting failed. The library itself reports only that no server is available.
func (d *dialer) explain(err error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ne net.Error
	switch {
	case d.err != nil:
		return d.err
	case errors.Is(err, net.ErrClosed), errors.As(err, &ne) && ne.Timeout():
		return errSilent
	}
	return refused(d.link.Base, err)
}

// libraryInbox begins the inboxes of the library, for the answers of JetStream: the queue
// manager's own.
func libraryInbox(self, secret string) string {
	return "ferry.inbox." + self + "." + wire.Manager + "." + secret
}

const (
	ProbeTimeout = 3 * time.Second
)
