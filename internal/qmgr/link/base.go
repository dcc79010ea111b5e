package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/time/rate"

	"ferry/internal/content/compress"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/identity"
	"ferry/internal/sys/tcp"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Base has the settings and the state that the links of one connection share.
type Base struct {
	Where            string // names the queue manager in sentences
	cfg              Config
	secret           string // of the inboxes; no two connections share one
	inboxes          atomic.Uint64
	Packer           packer
	otherNetworkSeen atomic.Pointer[transfer.Error] // the queue manager at the address is of another network; nil: it is not
	MaxPayload       atomic.Int64                   // bytes of one message; 0: not known

	Ctx   context.Context // ends when the connection is closed
	End   context.CancelFunc
	Tasks sync.WaitGroup

	Mu    sync.Mutex
	Links connectionChanges
	Wake  chan struct{} // has one when links has changed
}

// connectionChanges count how often the control and the data connection came up, and were lost.
type connectionChanges struct {
	Ups, Downs int
	Why        error // of the last loss
}

// A Config has the settings of the links of one connection.
type Config struct {
	Name, Self string // of the client, and its token
	URL        string
	Local      nats.InProcessConnProvider // instead of url: the queue manager of this process
	TCP        tcp.Options
	TLS        *tls.Config
	Identity   *identity.Identity
	JWTs       func() identity.JWTs
	OnRefused  func(error)
	Log        *slog.Logger
}

func NewBase(cfg Config, where string) *Base {
	c := &Base{cfg: cfg, Where: where, secret: errands.NewSecret(), Wake: make(chan struct{}, 1), Packer: packer{rate.NewLimiter(packRate, packRate)}}
	c.Ctx, c.End = context.WithCancel(context.Background())
	return c
}

// Background runs f in a goroutine that the end of the connection waits for.
func (c *Base) Background(f func()) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if c.Ctx.Err() == nil {
		c.Tasks.Go(f)
	}
}

// changed notifies that the control or the data link came up or was lost.
func (c *Base) changed(up bool, why error) {
	c.Mu.Lock()
	if up {
		c.Links.Ups++
	} else {
		c.Links.Downs, c.Links.Why = c.Links.Downs+1, why
	}
	c.Mu.Unlock()
	select {
	case c.Wake <- struct{}{}:
	default:
	}
}

// NewInbox returns a subject for the answers of the holder of a token. No other party uses that subject.
func (c *Base) NewInbox(of string) string {
	return wire.InboxSubject(c.cfg.Self, of, errands.SecretFor(c.secret, of), c.inboxes.Add(1))
}

// A packer compresses messages, of up to a number of bytes in a second.
type packer struct{ bytes *rate.Limiter }

func (p packer) Pack(message []byte) []byte {
	if !p.bytes.AllowN(time.Now(), min(len(message), packRate)) {
		return message
	}
	return compress.Messages.Pack(message)
}

// packRate is the number of bytes of messages, answers apart, that a Conn compresses in a second; a message counts as a
// second's worth at most. Compressing is for slow links, and takes 40 µs for an acknowledgement. A link that carries
// more messages than this beside its data is not slow: the slowest one carries 8 KB of all in a second.
const packRate = 32 << 10

// Away returns the error of an operation without a connection.
func (c *Base) Away() error {
	if c.Ctx.Err() != nil {
		return ErrClosed
	}
	if e := c.otherNetworkSeen.Load(); e != nil {
		return &transfer.Error{Kind: transfer.KindNoManager, Text: e.Text, Hint: e.Hint, Err: e}
	}
	return transfer.Errorf(transfer.KindNoManager, "the queue manager at %s is not connected", c.Where)
}

// Explain translates an error of the library. Size is that of the message in bytes.
func (c *Base) Explain(err error, subject string, size int) error {
	switch {
	case errors.Is(err, nats.ErrReconnectBufExceeded), errors.Is(err, nats.ErrDisconnected),
		errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrConnectionReconnecting),
		errors.Is(err, jetstream.ErrConnectionClosed):
		return c.Away()
	}
	return streams.Explain(err, "the queue manager at "+c.Where, subject, size, c.MaxPayload.Load())
}

// otherNetwork takes the result of a handshake. If a queue manager of another network answers, a Conn that was connected
// before logs that once and keeps trying: the address may lead to its own network again.
func otherNetwork(c *Base, err error) {
	var e *transfer.Error
	if err == nil {
		c.otherNetworkSeen.Store(nil)
	} else if errors.As(err, &e) && errors.As(err, new(*identity.OtherNetwork)) {
		before := c.otherNetworkSeen.Swap(e)
		c.Mu.Lock()
		known := c.Links.Ups > 0
		c.Mu.Unlock()
		if known && (before == nil || before.Text != e.Text) {
			c.cfg.Log.Error("the queue manager connection does not come back", slog.String("at", c.Where), slog.Any("error", err))
		}
	}
}

// isRefusal reports whether a server has refused an identity.
func isRefusal(err error) bool {
	return errors.Is(err, nats.ErrAuthorization) || errors.Is(err, nats.ErrAuthExpired) || errors.Is(err, nats.ErrAuthRevoked)
}

// refused explains the failure of a connection between a queue manager and an identity.
func refused(c *Base, err error) error {
	if c.cfg.Identity == nil {
		return err
	}
	header, op := tls.RecordHeaderError{}, (*net.OpError)(nil)
	who, other := c.cfg.Identity.Name(), (*identity.OtherNetwork)(nil)
	switch e := (*transfer.Error)(nil); {
	case errors.As(err, &other):
		return &transfer.Error{Kind: transfer.KindDenied, Err: other,
			Text: fmt.Sprintf("the queue manager at %s belongs to another network: to %s, and not to %s", c.Where, other.Network, who.Network),
			Hint: "check the address; where its directory was lost, restore that from its backup; to join its network, have a token made there with `ferry token create`"}
	case errors.As(err, &e) && e.Kind == transfer.KindDenied:
		return transfer.Errorf(transfer.KindDenied, "the server at %s is no queue manager of the network %s: %w", c.Where, who.Network, err)
	case errors.As(err, &header):
		return transfer.Errorf(transfer.KindDenied, "the server at %s speaks without TLS: it is no queue manager of the network %s", c.Where, who.Network)
	case errors.As(err, &op) && op.Op == "remote error", isRefusal(err):
		return transfer.Errorf(transfer.KindDenied, "the queue manager at %s refuses the identity %s: %w", c.Where, who, err).
			WithHint("it may have been revoked or have ended; a new one comes with a token of `ferry token create`")
	}
	return err
}

var ErrClosed = transfer.Errorf(transfer.KindNoManager, "the connection to the queue manager has been closed")
