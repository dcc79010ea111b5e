package gate

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"ferry/internal/sys/quiet"
	"ferry/internal/sys/tcp"
)

// Peers is the part of a Config for channels alone.
type Peers struct {
	// Sign signs the server's nonce with the key that the server trusts. A connection past this gate has no such signature.
	Sign func(nonce string) string
	// Over is called after the handshake, and returns the connection that carries the protocol.
	Over func(*tcp.Whole) net.Conn
	// Linked is called when a peer has been admitted. left is called when its connection has ended.
	Linked func(l *Link, c Connection) (left func())
}

// A Connection is one of a channel's, through a Link.
type Connection struct {
	Peer    string // the name of the queue manager at the other end, by its certificate
	Channel string // that dials; "" where the peer dials
	Remote  net.Addr
	Local   net.Addr // this end of the connection to the server
}

// run serves a connection that a peer has dialled.
func (p *Peers) run(client, server net.Conn, info []byte, admit func(string) (Caller, error)) func() error {
	l := newLink(bufio.NewReaderSize(client, maxLinkLine), bufio.NewWriterSize(server, outBuffer))
	left := func() {}
	first := l.accepted(func(jwt string) (Caller, error) {
		c, err := admit(jwt)
		if err == nil {
			l.begin(c.PeerFilter)
			left = p.Linked(l, Connection{Peer: c.Token, Remote: client.RemoteAddr(), Local: server.LocalAddr()})
		}
		return c, err
	}, p.Sign, info)
	return func() error {
		defer func() { left() }()
		return l.run(first)
	}
}

// A ChannelProxy leads a channel that a queue manager dials through Links. It listens on loopback, as a proxy that the
// server dials through, and refuses all other clients.
type ChannelProxy struct {
	cfg    ChannelProxyConfig
	l      net.Listener
	secret string
	quiet  *quiet.Log
	ctx    context.Context // ends with Close
	end    context.CancelFunc
	tasks  sync.WaitGroup
}

// ChannelProxyConfig is the configuration of a ChannelProxy.
type ChannelProxyConfig struct {
	Channel string // its name
	// Dial connects to an address, shakes hands, and returns the name of the queue manager there.
	Dial func(ctx context.Context, address string) (conn net.Conn, peer string, err error)
	// PeerFilter is that of a peer.
	PeerFilter func(peer string) PeerFilter
	Linked     func(l *Link, c Connection) (left func())
	Log        *slog.Logger
}

// OpenChannelProxy opens a ChannelProxy.
func OpenChannelProxy(cfg ChannelProxyConfig) (*ChannelProxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	w := &ChannelProxy{cfg: cfg, l: l, secret: rand.Text(), quiet: quiet.New(cfg.Log, nil)}
	w.ctx, w.end = context.WithCancel(context.Background())
	w.tasks.Go(w.accept)
	return w, nil
}

// Login returns the address of the proxy, with the name and the password that it asks for.
func (w *ChannelProxy) Login() (at, user, password string) {
	return "http://" + w.Addr(), wayUser, w.secret
}

// Addr returns the address of the listener.
func (w *ChannelProxy) Addr() string { return w.l.Addr().String() }

const wayUser = "queue-manager"

// Close ends all connections and returns when they have ended.
func (w *ChannelProxy) Close() {
	if w == nil {
		return
	}
	w.end()
	w.l.Close()
	w.tasks.Wait()
}

func (w *ChannelProxy) accept() {
	for {
		c, err := w.l.Accept()
		if w.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			w.quiet.Error("the queue manager cannot accept a connection", "error", err)
			select {
			case <-time.After(acceptPause):
			case <-w.ctx.Done():
			}
			continue
		}
		w.tasks.Go(func() { w.serve(c) })
	}
}

// serve serves a connection that the server makes through the proxy.
func (w *ChannelProxy) serve(server net.Conn) {
	defer server.Close()
	defer context.AfterFunc(w.ctx, func() { server.Close() })()
	server.SetDeadline(time.Now().Add(GreetTime))
	LimitBuffers(server)
	in := bufio.NewReader(server)
	q, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	if !w.admits(q) {
		io.WriteString(server, "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
		return
	}
	server.SetDeadline(time.Time{})
	conn, peer, err := w.cfg.Dial(w.ctx, q.Host)
	if err != nil { // which Dial has noted
		io.WriteString(server, "HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
		return
	}
	defer conn.Close()
	defer context.AfterFunc(w.ctx, func() { conn.Close() })()
	server.SetDeadline(time.Now().Add(GreetTime))
	if _, err := io.WriteString(server, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	server.SetDeadline(time.Time{})
	l := newLink(bufio.NewReaderSize(conn, maxLinkLine), bufio.NewWriterSize(server, outBuffer))
	p := w.cfg.PeerFilter(peer)
	left := w.cfg.Linked(l, Connection{Peer: peer, Channel: w.cfg.Channel, Remote: conn.RemoteAddr(), Local: server.LocalAddr()})
	defer left()
	w.tasks.Go(func() {
		defer conn.Close()
		defer server.Close()
		answer(conn, readAfter{server, in}, maxLinkBuffer)
	})
	err = l.run(l.dialled(peer, p))
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed), w.ctx.Err() != nil:
	default:
		w.quiet.Log(slog.LevelInfo, "a connection of a channel is cut off", "queue_manager", peer, "error", err)
	}
}

// LimitBuffers bounds the bytes that lie in a connection on loopback, where they would wait behind those of a slow link.
func LimitBuffers(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetReadBuffer(shallow) // or more bytes wait
	}
}

const (
	shallow       = 512 << 10
	maxLinkBuffer = 256 << 10 // bytes on their way to the other end of a channel
)

// readAfter is a connection with its first bytes in a buffer.
type readAfter struct {
	net.Conn
	in *bufio.Reader
}

func (r readAfter) Read(b []byte) (int, error) { return r.in.Read(b) }

// admits reports whether a request is the server's.
func (w *ChannelProxy) admits(q *http.Request) bool {
	q.Header.Set("Authorization", q.Header.Get("Proxy-Authorization"))
	user, password, ok := q.BasicAuth()
	return ok && q.Method == http.MethodConnect && user == wayUser && subtle.ConstantTimeCompare([]byte(password), []byte(w.secret)) == 1
}
