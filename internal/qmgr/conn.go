package qmgr

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/own"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/identity"
	"ferry/internal/sys/quiet"
	"ferry/internal/sys/sleep"
	"ferry/internal/sys/tcp"
	"ferry/internal/transfer"
)

const (
	defaultConnectTimeout = 5 * time.Second
	connectPause          = 200 * time.Millisecond // between two attempts at first
)

// ConnConfig names the queue manager to connect to, and the identity of the connection.
type ConnConfig struct {
	URL    string      // nats://HOST:PORT, or several with commas between for a cluster
	Server Local       // instead of URL: the queue manager of this process (bindings mode)
	Name   string      // shown to the queue manager's operator; default "ferry"
	Self   string      // the token for its questions and answers; default: that of Name
	TCP    tcp.Options // of the connections over TCP
	TLS    *tls.Config // the handshake comes before the queue manager's first byte (handshake_first); nil: as URL says
	// Identity is the identity that connects, where the queue manager has a Guard. It takes the place of TLS, and of
	// Self where it is not a queue manager's.
	Identity *identity.Identity
	// Ticket gives the JWTs that Identity shows in place of its own; nil: it shows its own. They are signed for the
	// token Self: Identity is a user, and Self a pipe of that user.
	Ticket  func() identity.JWTs
	Timeout time.Duration // how long Connect tries; default 5 s, and a minute to Server; negative for ever
	Log     *slog.Logger  // default: nothing is logged

	// Asks is for a client without data, such as an Identity that has no part in data: messages of both kinds go over
	// one connection.
	Asks bool
	// Early is for a client that connects to a member of a cluster before the member can store messages: Connect does
	// not wait for the queues there.
	Early bool

	// OnConnect is called after the first connect, and after a loss once both
	// connections are there again and the streams have been checked.
	// OnDisconnect is called when one of them is lost. They are called one at a
	// time, from a goroutine of their own.
	OnConnect    func()
	OnDisconnect func(error)
	// OnRefused is called when a queue manager that has proved its identity has refused Identity for refusedFor at
	// every attempt to connect again: it was revoked, or has expired. The attempts continue. OnRefused may be called
	// more than once, from any goroutine.
	OnRefused func(error)

	times times // tests make them short
}

// A Local is the queue manager of this process.
type Local interface {
	Name() string
	Host() string // its address for other hosts; "" for every address of the host
	InProcessConn() (net.Conn, error)
	About() errands.About
	// Quorum returns an error if messages can neither be stored nor delivered at present.
	Quorum() error
	// Notice has the queue manager called degraded for an hour.
	Notice(finding string)
}

// A Conn is the connection to a queue manager: a control and a data connection, and one
// for bulk data once it is needed. They come back by themselves for as long as the Conn is not closed.
// All methods may be called from any goroutine. Messages other than those of
// PublishData travel compressed where that makes them smaller (compress.Messages) and
// packRate allows, answers at any rate, and are handed out plain.
type Conn struct {
	cfg  ConnConfig
	base *link.Base

	control, data *link.Link
	bulk          bulk
	registering   registering
	amounts       amounts
	admin         streams.Admin

	ensuring   sync.Mutex // one Ensure at a time
	history    *streamHistory
	findings   streams.Findings
	unstored   atomic.Pointer[string] // why the last message was not stored
	passing    atomic.Pointer[string] // the present faults of the cluster
	rechecking atomic.Bool

	facts Facts // guarded by mu
}

// Connect connects to a queue manager and makes the streams that are missing.
// Its error is of KindNoManager, or of KindUsage if the URL is malformed.
func Connect(ctx context.Context, cfg ConnConfig) (*Conn, error) {
	cfg.Name = cmp.Or(cfg.Name, "ferry")
	if i := cfg.Identity; i != nil {
		if cfg.Ticket == nil && (i.Name().Role != identity.Manager || cfg.Self == "") { // a queue manager may speak as others
			cfg.Self = i.Name().Token()
		}
		cfg.TLS = i.Client(identity.OneOf(i.Name().Network, identity.Manager))
	}
	cfg.Self = cmp.Or(cfg.Self, transfer.Token(cfg.Name))
	if cfg.Server != nil {
		cfg.Timeout = cmp.Or(cfg.Timeout, own.Timeout)
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultConnectTimeout)
	cfg.times = cmp.Or(cfg.times, defaultTimes)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}

	where, err := cfg.address()
	if err != nil {
		return nil, err
	}
	cfg.URL = shuffled(cfg.URL)

	c := &Conn{cfg: cfg, history: newStreamHistory(), amounts: newAmounts(),
		base: link.NewBase(link.Config{Name: cfg.Name, Self: cfg.Self, URL: cfg.URL, Local: cfg.Server, TCP: cfg.TCP, TLS: cfg.TLS, Identity: cfg.Identity, JWTs: cfg.jwts,
			OnRefused: cfg.OnRefused, Log: cfg.Log}, where)}
	c.passing.Store(new(string))
	c.control, c.data = link.NewLink(c.base, link.RoleControl), link.NewLink(c.base, link.RoleData)
	c.bulk.c, c.bulk.link = c, link.NewLink(c.base, link.RoleBulk)
	c.registering = registering{identity: cfg.Identity, server: cfg.Server, control: c.control, log: cfg.Log}
	if cfg.Asks || cfg.Identity != nil && cfg.jwts().Data == "" {
		c.data = c.control
	}
	c.admin = streams.Library{JS: c.control.JS, AckWait: cfg.times.ackWait, Log: cfg.Log, Quiet: quiet.New(cfg.Log, nil)}
	if i := cfg.Identity; i != nil && i.Name().Role != identity.Manager {
		c.admin = remoteAdminOf(c)
	}
	c.base.Background(func() { follow(c) })
	if err := c.first(ctx); err != nil {
		c.Close()
		return nil, err
	}

	c.learn(ctx)
	c.base.Background(c.notify)
	if a, ok := c.admin.(remoteAdmin); ok {
		c.base.Background(func() { c.registering.keep(a) })
	}
	for _, l := range linksOf(c) {
		c.base.Background(func() { c.watch(l) })
	}
	return c, nil
}

// LocalHost returns the address of this host on the connection to the queue manager. For a queue manager in this
// process it returns the address of that queue manager; empty for every address of the host.
func (c *Conn) LocalHost() string {
	if c.cfg.Server != nil {
		return c.cfg.Server.Host()
	}
	if s := c.data.Socket.Load(); s != nil {
		if t, ok := s.LocalAddr().(*net.TCPAddr); ok {
			return t.IP.String()
		}
	}
	return "127.0.0.1"
}

// jwts returns the JWTs that are shown to the queue manager.
func (cfg *ConnConfig) jwts() identity.JWTs {
	if cfg.Ticket != nil {
		return cfg.Ticket()
	}
	return cfg.Identity.JWTs()
}

// linksOf returns the connections of a Conn.
func linksOf(c *Conn) []*link.Link {
	if c.data == c.control {
		return []*link.Link{c.control}
	}
	return []*link.Link{c.control, c.data}
}

// address checks the address of the configuration and describes it, without secrets.
func (cfg *ConnConfig) address() (string, error) {
	if cfg.Server != nil {
		return "queue manager " + cfg.Server.Name(), nil
	}

	var all []string
	for part := range strings.SplitSeq(cfg.URL, ",") {
		part = strings.TrimSpace(part)
		if part != "" && !strings.Contains(part, "://") {
			part = "nats://" + part
		}
		u, err := url.Parse(part)
		if err != nil || u.Hostname() == "" {
			// The parser's error would repeat the URL, and with it a password.
			return "", transfer.Errorf(transfer.KindUsage, "the queue manager's URL is malformed; write it as nats://HOST:PORT")
		}
		switch u.Scheme {
		case "nats", "tls", "ws", "wss":
		default:
			return "", transfer.Errorf(transfer.KindUsage, "the queue manager's URL has the scheme %q; write it as nats://HOST:PORT", u.Scheme)
		}
		all = append(all, u.Redacted())
	}
	return strings.Join(all, ", "), nil
}

// first tries until both links are up and the streams are there.
func (c *Conn) first(ctx context.Context) error {
	if c.cfg.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.cfg.Timeout)
		defer cancel()
	}

	var last error
	for bare := 0; ; {
		err := c.attempt(ctx)
		if err == nil {
			return nil
		}
		// A server that is shutting down has no JetStream either, but not for
		// long.
		if errors.Is(err, streams.ErrNoJetStream) {
			if bare++; bare > 1 {
				return transfer.Errorf(transfer.KindNoManager, "the queue manager at %s has no JetStream; Ferry's command queue needs it", c.base.Where).
					WithHint("start it with -js")
			}
		}
		if transfer.KindOf(err) == transfer.KindDenied {
			return err // the next attempt would show the same identity
		}
		for _, l := range linksOf(c) { // a connection that was made can be refused when it comes back
			if err := l.Refused(); err != nil {
				return err
			}
		}
		// The deadline cuts an attempt short, and its error says only that. The error of the attempt before it is more
		// useful.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		c.cfg.Log.Debug("no queue manager yet", slog.String("at", c.base.Where), slog.Any("error", err))
		if sleep.For(ctx, connectPause, nil) {
			return noManager(ctx, c.base.Where, last)
		}
	}
}

// attempt makes the missing connections and checks the streams.
func (c *Conn) attempt(ctx context.Context) error {
	var both sync.WaitGroup
	var failed [2]error
	for n, l := range linksOf(c) {
		if l.Now.Load() == nil {
			both.Go(func() { failed[n] = l.Dial(ctx) })
		}
	}
	both.Wait()
	if err := cmp.Or(failed[0], failed[1]); err != nil {
		return err
	}

	// The library waits as long as the context allows, also for the answer of a queue manager that has gone meanwhile.
	// Only a new question finds the next one.
	ctx, cancel := context.WithTimeout(ctx, streams.APITimeout)
	defer cancel()
	if s := c.cfg.Server; s != nil {
		if err := s.Quorum(); err != nil {
			if c.cfg.Early || c.cfg.Asks {
				return nil
			}
			return err
		}
	}
	err := c.Ensure(ctx)
	var a errands.About
	if err != nil && (c.cfg.Early || c.cfg.Asks) && askManager(c.base.Ctx, c, c.control.NATS(), &a) && a.NoQuorum {
		c.passing.Store(a.Present())
		return nil
	}
	return err
}

// shuffled puts the addresses of a URL in another order: those of an agent's two connections are the
// same, and agents are spread over a cluster.
func shuffled(urls string) string {
	all := strings.Split(urls, ",")
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return strings.Join(all, ",")
}

// noManager returns the error of Connect when its time is over.
func noManager(ctx context.Context, where string, last error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return context.Cause(ctx)
	}

	var ne net.Error
	cause := last.Error()
	switch {
	case transfer.KindOf(last) == transfer.KindNoManager:
		return last
	case errors.Is(last, syscall.ECONNREFUSED):
		cause = "connection refused"
	case errors.Is(last, nats.ErrAuthorization), errors.Is(last, nats.ErrAuthExpired):
		return transfer.Errorf(transfer.KindNoManager, "the queue manager at %s refuses this user: %w", where, last)
	case errors.Is(last, context.DeadlineExceeded), errors.As(last, &ne) && ne.Timeout():
		cause = "timed out"
	}

	return &transfer.Error{Kind: transfer.KindNoManager, Err: last,
		Text: "no queue manager answers at " + where + ": " + cause,
		Hint: "start one with `ferry up` or check --network"}
}

// Close ends all connections and waits until the Conn's own goroutines have
// ended. It must not be called from OnConnect or OnDisconnect.
func (c *Conn) Close() {
	c.base.Mu.Lock()
	c.base.End()
	c.base.Mu.Unlock()
	for range 2 { // a new session may have begun while the earlier ones were being closed
		c.control.Close()
		c.data.Close()
		c.bulk.link.Close()
		c.base.Tasks.Wait()
	}
}

// Facts returns the facts about the queue manager, as of the last connect. Degraded is as of now.
func (c *Conn) Facts() Facts {
	c.base.Mu.Lock()
	f := c.facts
	c.base.Mu.Unlock()
	f.Degraded = c.findings.Text(time.Now())
	if why := c.unstored.Load(); why != nil && *why != "" {
		f.Degraded = *why
	}
	if now := c.passing.Load(); now != nil && *now != "" && !strings.Contains(f.Degraded, *now) {
		f.Degraded = strings.TrimSuffix(*now+"; "+f.Degraded, "; ")
	}
	return f
}

// noticed takes a finding, the empty one too.
func (c *Conn) noticed(finding string) {
	if finding != "" && c.findings.Add(finding, time.Now()) {
		c.cfg.Log.Warn("the queue manager is degraded", slog.String("at", c.base.Where), slog.String("error", finding))
	}
}

// Publish sends a message on the control connection. It fails at once when that is down. A nil error does not mean that
// the message arrives.
func (c *Conn) Publish(subject string, data []byte) error {
	return c.control.Publish(subject, c.base.Packer.Pack(data))
}

// PublishPlain is Publish for receivers other than Ferry: the message is never compressed.
func PublishPlain(c *Conn, subject string, data []byte) error {
	return c.control.Publish(subject, data)
}

// PublishData sends a message on the data connection. It fails at once when that is down. While the link is full it
// blocks, for as long as the link carries anything: 8 s without a byte and it fails. When it returns it does not use
// the data any more.
func (c *Conn) PublishData(subject string, data []byte) error {
	return c.data.Publish(subject, data)
}

// DataAcknowledged returns how many bytes of the data connection the queue manager's host has acknowledged, and whether more
// wait behind those that are on the link; 0 and false if the system does not report it.
func DataAcknowledged(c *Conn) (acked uint64, waiting bool) {
	return tcp.Carried(c.data.Socket.Load().Conn)
}

// OnThisHost reports whether the queue manager of a connection is on this host.
func OnThisHost(c *Conn) bool {
	s := c.data.Socket.Load()
	return onThisHost(s.LocalAddr(), s.RemoteAddr())
}

// onThisHost reports whether a connection between two addresses stays on this host. One within the process is not by TCP.
func onThisHost(local, remote net.Addr) bool {
	here, tcp := local.(*net.TCPAddr)
	there, far := remote.(*net.TCPAddr)
	return !tcp || !far || there.IP.IsLoopback() || there.IP.Equal(here.IP)
}

// DataReceived returns how many bytes have come on the data connection.
func DataReceived(c *Conn) int64 { return c.data.Socket.Load().In.Load() }

// Subscribe has h called for every message on the subject (wildcards as in NATS) that arrives on the control
// connection: in order, one at a time. It lasts until stop, also when the connection is lost and comes back. A call of
// h may be under way when stop returns.
func (c *Conn) Subscribe(subject string, h func(link.Message)) (stop func(), err error) {
	return c.control.Subscribe(subject, func(m link.Message) {
		m.Data = errands.Unpacked(m.Data)
		h(m)
	})
}

// SubscribeData is Subscribe on the data connection. Its messages are never compressed.
func (c *Conn) SubscribeData(subject string, h func(link.Message)) (stop func(), err error) {
	return c.data.Subscribe(subject, h)
}

// Session returns how often the control connection has come up, from 1 on, and a channel that is closed when it comes
// up the next time.
func (c *Conn) Session() (number int64, over <-chan struct{}) {
	return c.control.CameUp()
}

// Request sends a question on a subject of wire.AskSubject or wire.InstanceSubject and waits for one answer. The
// timeout, if it is more than 0, is the answerer's time for each part of the answer. The time that the link needs is
// added to it (question). The kind of its error is KindUnreachable if the subject has no listener, KindTimeout if no
// answer comes, and KindNoManager if the connection is down.
func (c *Conn) Request(ctx context.Context, subject string, data []byte, timeout time.Duration) ([]byte, error) {
	began := time.Now()
	answer, err := c.control.Ask(ctx, subject, data, timeout, nil)
	if err == nil {
		c.amounts.heard.took(len(answer), began)
	}
	return answer, err
}

// Healthy makes a round trip on both connections. It waits at most 3 s, or until the deadline of ctx.
func (c *Conn) Healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, link.ProbeTimeout)
	defer cancel()
	for _, l := range linksOf(c) {
		if err := l.RoundTrip(ctx); err != nil {
			return c.base.Explain(err, l.Role, 0)
		}
	}
	return nil
}
