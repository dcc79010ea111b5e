// Package gate stands before a queue manager with identities. It admits, over TLS alone, the identities of the network.
// It bounds the cost of strangers, and holds clients to a rule that servers of NATS do not have: a message may name a
// reply only where its sender hears answers.
//
// A server checks the subjects on its clients' messages, and not the replies that the messages name. The server's own
// answers (an acknowledgement of a stored message, a message of a queue, a refusal) go to that reply without a check of
// rights. So a client could have the server publish for it on every subject, those of the server's own interface among
// them.
package gate

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"ferry/internal/sys/quiet"
	"ferry/internal/sys/tcp"
)

// Refused begins the subjects of refusals. No client may publish there. The gate replaces a message that it keeps back by an
// empty one with such a subject. The server refuses that message, so the client learns the reason.
const Refused = "ferry.refused."

// The subjects of refusals.
const (
	RefusedReply   = Refused + "reply." // the reply follows, which is not one of the client's own
	RefusedSubject = Refused + "subject"
	RefusedSize    = Refused + "size"
	RefusedHeaders = Refused + "headers"
	RefusedQuota   = Refused + "quota"
	RefusedTicket  = Refused + "ticket" // also for a subscription: the ticket of the client is for another peer or transfer
)

// A Replacement is published in the place of a message that is kept back. The server handles it as it would the message:
// after all earlier commands of the client, such as a subscription to its answers.
type Replacement struct {
	Subject string // a subject of refusals, or one that the client may use
	Reply   string
	Body    []byte
}

// GreetTime is the limit for a client to prove its identity, over the worst link.
const GreetTime = 10 * time.Second

const (
	maxUnauthenticated = 1024                   // connections without a proved identity, where Config has no limit
	writeTime          = time.Minute            // to write the data of one read to a client, at most maxBuffer bytes
	inBuffer           = 2 * maxLine            // bytes of the client that the filter has not read
	outBuffer          = 16 << 10               // bytes that it has passed on and the server has not read
	minBuffer          = 1 << 10                // bytes on their way from the server to a client,
	maxBuffer          = 64 << 10               // and at most
	acceptPause        = 100 * time.Millisecond // where no connection can be accepted
)

// Config is the configuration of a Gate.
type Config struct {
	TLS *tls.Config
	// Dial reaches the server, which speaks first: its protocol begins with INFO.
	Dial func() (net.Conn, error)
	// Admit compares the certificate of a connection with the JWT that the client shows, and returns the
	// client. The server checks the JWT itself, later.
	Admit func(s tls.ConnectionState, jwt string) (Caller, error)
	// Publish decides on a message of an admitted client before its body is passed on. The message is passed on after
	// wait, or kept back if instead is not nil. nil: the server decides alone.
	Publish func(from Caller, m Message) (wait time.Duration, instead *Replacement)
	// Name returns the name of a connection's client. Each name has Most connections at once, and "" any number.
	Name func(tls.ConnectionState) string
	Most int
	// Unauthenticated is the limit of connections without a proved identity; 0: 1,024.
	Unauthenticated int
	Log             *slog.Logger
	// Peers makes the gate one for the channels of other queue managers, and not for clients.
	Peers *Peers
}

// A Message is the first line of a message.
type Message struct {
	Subject string // without wildcards
	Reply   string // one of the client's own; "" for none
	Headers bool
	Size    int // of the body and the headers, in bytes
}

// A Caller is a client that has been admitted.
type Caller struct {
	Token   string // the name of the client in subjects, such as "ALPHA" or "alice"
	Member  string // the name of the member that the limits are for: Token, or the user of a pipe
	Role    string // the role of the client's JWT
	Replies string // the prefix of each reply that the client may name; "" for a client that may name any reply
	// Publish and Subscribe report whether the client may use a subject. They narrow the rights of its JWT; nil: they do
	// not.
	Publish, Subscribe func(subject string) bool
	PeerFilter         PeerFilter // of a queue manager at the other end of a channel
}

// A Gate admits clients until it is closed.
type Gate struct {
	cfg   Config
	l     net.Listener
	door  *tcp.PendingConns
	quiet *quiet.Log
	ctx   context.Context // ends with Close
	end   context.CancelFunc
	tasks sync.WaitGroup

	mu sync.Mutex
	by map[string]int // connections, by Name
}

// Open admits clients that connect to a listener. The Gate closes the listener in the end.
func Open(l net.Listener, cfg Config) *Gate {
	g := &Gate{cfg: cfg, l: l, door: tcp.NewPendingConns(cmp.Or(cfg.Unauthenticated, maxUnauthenticated)), quiet: quiet.New(cfg.Log, nil), by: map[string]int{}}
	g.ctx, g.end = context.WithCancel(context.Background())
	g.tasks.Go(g.accept)
	return g
}

// Addr returns the address for clients.
func (g *Gate) Addr() net.Addr { return g.l.Addr() }

// Close ends all connections and returns when they have ended.
func (g *Gate) Close() {
	g.end()
	g.l.Close()
	g.tasks.Wait()
}

func (g *Gate) accept() {
	for {
		c, err := g.l.Accept()
		if g.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, most likely
			g.quiet.Error("the queue manager cannot accept a connection", "error", err)
			select {
			case <-time.After(acceptPause):
			case <-g.ctx.Done():
			}
			continue
		}
		g.door.Enter(c)
		g.tasks.Go(func() { g.serve(c) })
	}
}

// serve serves a client's connection from its first byte to its last.
func (g *Gate) serve(raw net.Conn) {
	defer raw.Close()
	defer context.AfterFunc(g.ctx, func() { raw.Close() })()
	defer g.door.Leave(raw)
	raw.SetDeadline(time.Now().Add(GreetTime))
	client := tcp.NewWhole(raw, func(c net.Conn) *tls.Conn { return tls.Server(c, g.cfg.TLS) })
	if err := client.HandshakeContext(g.ctx); err != nil {
		if op := (*net.OpError)(nil); errors.Is(err, io.EOF) || errors.As(err, &op) && op.Op == "remote error" {
			g.cfg.Log.Debug("a client of the queue manager has ended the handshake", "client", raw.RemoteAddr(), "error", err) // such as a probe for the network
			return
		}
		g.refuse(raw, err)
		return
	}

	said, most := net.Conn(client), maxBuffer
	if g.cfg.Peers != nil {
		most = maxLinkBuffer
		said = g.cfg.Peers.Over(client)
	}
	server, err := g.cfg.Dial()
	if err != nil {
		g.quiet.Error("a client cannot be connected to the queue manager", "client", raw.RemoteAddr(), "error", err)
		return
	}
	defer server.Close()

	info, err := greeting(server)
	if err == nil {
		_, err = said.Write(info)
	}
	if err != nil {
		g.refuse(raw, err)
		return
	}

	known, leave := false, func() {}
	defer func() { leave() }()
	f := &filter{in: bufio.NewReaderSize(client, inBuffer), out: bufio.NewWriterSize(server, outBuffer), publish: g.cfg.Publish, pause: g.pause}
	run := f.run
	if g.cfg.Peers != nil {
		run = g.cfg.Peers.run(said, server, info, func(jwt string) (Caller, error) { return f.admit(jwt) })
	}
	f.admit = func(jwt string) (Caller, error) {
		caller, err := g.cfg.Admit(client.ConnectionState(), jwt)
		if err == nil {
			leave, err = g.enter(client.ConnectionState())
		}
		if err == nil {
			known = true
			g.door.Leave(raw)
			err = raw.SetDeadline(time.Time{})
		}
		return caller, err
	}

	g.tasks.Go(func() {
		// Whichever direction ends first ends the other.
		defer raw.Close()
		defer server.Close()
		answer(said, server, most)
	})
	err = run()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), errors.Is(err, io.ErrClosedPipe):
	case !known:
		g.refuse(raw, err)
	default:
		g.quiet.Log(slog.LevelInfo, "a client of the queue manager is cut off", "client", raw.RemoteAddr(), "error", err)
	}
}

// pause waits, unless the Gate is closed meanwhile.
func (g *Gate) pause(d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-g.ctx.Done():
	}
}

// enter counts a connection of a client, until leave.
func (g *Gate) enter(s tls.ConnectionState) (leave func(), err error) {
	if g.cfg.Name == nil {
		return func() {}, nil
	}
	name := g.cfg.Name(s)
	if name == "" {
		return func() {}, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.by[name] >= g.cfg.Most {
		return func() {}, fmt.Errorf("%s has %d connections, the most that one may have", name, g.cfg.Most)
	}
	g.by[name]++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.by[name]--; g.by[name] == 0 {
			delete(g.by, name)
		}
	}, nil
}

func (g *Gate) refuse(c net.Conn, why error) {
	if g.ctx.Err() == nil {
		g.quiet.Log(slog.LevelInfo, "a connection to the queue manager is refused", "from", c.RemoteAddr(), "error", why)
	}
}

// answer passes on the server's output.
func answer(client net.Conn, server net.Conn, most int) error {
	// The buffer grows with the traffic: most clients hear little, and there may be thousands.
	buf := make([]byte, minBuffer)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return err
		}
		// A client that takes no bytes any more is cut: the server has its own deadlines, but cannot end a write that
		// is in progress here.
		client.SetWriteDeadline(time.Now().Add(writeTime))
		if _, err := client.Write(buf[:n]); err != nil {
			return err
		}
		switch {
		case n == len(buf) && n < most:
			buf = make([]byte, min(2*len(buf), most))
		case n < len(buf)/8 && len(buf) > minBuffer:
			buf = make([]byte, len(buf)/2)
		}
	}
}

// greeting returns the server's first line, its INFO, with the field that demands TLS added. Client libraries that
// shake hands first look for that field.
func greeting(server net.Conn) ([]byte, error) {
	in := bufio.NewReaderSize(server, maxBuffer)
	line, err := in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	text, ok := bytes.CutPrefix(line, []byte("INFO "))
	if !ok {
		return bytes.Clone(line), nil // such as -ERR, before it hangs up
	}
	more, _ := in.Peek(in.Buffered()) // sent by the server unasked
	var info map[string]json.RawMessage
	if err := json.Unmarshal(text, &info); err != nil {
		return nil, fmt.Errorf("INFO of the server: %w", err)
	}
	info["tls_required"], info["tls_verify"] = json.RawMessage("true"), json.RawMessage("true")
	if text, err = json.Marshal(info); err != nil {
		return nil, err
	}
	return slices.Concat([]byte("INFO "), text, []byte("\r\n"), more), nil
}
