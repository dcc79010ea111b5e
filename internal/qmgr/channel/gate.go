package channel

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"net"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"

	"ferry/internal/content/compress"
	"ferry/internal/qmgr/claims"
	"ferry/internal/qmgr/gate"
	"ferry/internal/qmgr/listen"
	"ferry/internal/qmgr/registrations"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/sys/tcp"
	"ferry/internal/transfer"
)

// In a network with identities the library's leafnodes see loopback alone. The gate takes the connections of other queue
// managers and hands them to the library's listener there. The library dials through a gate.ChannelProxy for each channel. The gate and the
// ways shake hands, and filter the messages of the other end by its PeerFilter. Each end of a channel filters the other end.

// openWays has the library's leafnodes come through the gate and the proxies alone.
func (c *Channels) openWays(opts *server.Options) error {
	if c.cfg.Identity == nil {
		return nil
	}
	var err error
	if c.key, err = nkeys.CreateUser(); err != nil {
		return err
	}
	public, err := c.key.PublicKey()
	if err != nil {
		return err
	}
	opts.Proxies = &server.ProxiesConfig{Trusted: []*server.ProxyConfig{{Key: public}}}
	for _, ch := range c.all {
		w, err := gate.OpenChannelProxy(gate.ChannelProxyConfig{Channel: ch.Name, Log: c.cfg.Log, Linked: c.Registry.Linked,
			Dial:       func(ctx context.Context, address string) (net.Conn, string, error) { return c.dial(ctx, &ch, address) },
			PeerFilter: func(peer string) gate.PeerFilter { return registrations.NewPeerFilter(c.Registry, peer) }})
		if err != nil {
			return transfer.Errorf(transfer.KindNoManager, "the channels of queue manager %s cannot be opened: %w", c.cfg.Name, err)
		}
		c.ways[ch.Name] = w
	}
	return nil
}

// Listens takes the address for the channels of other queue managers, which the gate opens later.
func (c *Channels) Listens() (err error) {
	if c.cfg.Identity == nil || c.cfg.Listen == "" || c.cfg.Alone {
		return nil
	}
	if c.listen, err = net.Listen("tcp", c.cfg.Listen); err != nil {
		return listen.Error("--channel-listen", c.cfg.Listen, err)
	}
	return nil
}

// MaxLinks is the number of connections that one queue manager may dial here at once. A channel has two. After a
// failure of the peer's link, its old connections end only after some minutes.
const MaxLinks = 16

// Open lets other queue managers in.
func (c *Channels) Open() error {
	if c.listen == nil {
		return nil
	}
	v, err := c.NS.Varz(nil)
	if err != nil {
		return err
	}
	self, at := c.cfg.Identity, net.JoinHostPort("127.0.0.1", strconv.Itoa(v.LeafNode.Port))
	shake := self.Server(identity.OneOf(self.Name().Network, identity.Manager))
	shake.NextProtos = []string{protocolPacked}
	c.gate = gate.Open(c.listen, gate.Config{TLS: shake, Log: c.cfg.Log, Unauthenticated: c.cfg.Unauthenticated, Most: MaxLinks,
		Name: func(state tls.ConnectionState) string {
			name, err := self.Peer(state)
			if err != nil {
				return "" // Admit refuses it
			}
			return name.String()
		},
		Dial: func() (net.Conn, error) {
			conn, err := net.DialTimeout("tcp", at, channelDial)
			if err == nil {
				gate.LimitBuffers(conn)
			}
			return conn, err
		},
		Admit: func(state tls.ConnectionState, token string) (gate.Caller, error) {
			name, err := self.Peer(state)
			if err != nil {
				return gate.Caller{}, err
			}
			shown, err := claims.Caller(name, token, c.cfg.Admission())
			if err == nil {
				err = c.Registry.CheckSpelling(name.Name)
			}
			if err == nil && roles.Role(shown.Role) != roles.Channel {
				err = transfer.Errorf(transfer.KindDenied, "%s shows a JWT that is not for channels", name)
			}
			return gate.Caller{Token: name.Name, Role: shown.Role, PeerFilter: registrations.NewPeerFilter(c.Registry, name.Name)}, err
		},
		Peers: &gate.Peers{Over: packed, Linked: c.Registry.Linked, Sign: func(nonce string) string {
			sig, err := c.key.Sign([]byte(nonce))
			if err != nil {
				return "" // which the server refuses
			}
			return base64.RawURLEncoding.EncodeToString(sig)
		}}})
	return nil
}

// Close ends all connections through the gate and the proxies.
func (c *Channels) Close() {
	if c == nil {
		return
	}
	switch {
	case c.gate != nil:
		c.gate.Close()
	case c.listen != nil:
		c.listen.Close()
	}
	for _, w := range c.ways {
		w.Close()
	}
}

// dial connects a channel to an address. It notes the queue manager that answers, or the error.
func (c *Channels) dial(ctx context.Context, ch *Channel, address string) (net.Conn, string, error) {
	ctx, cancel := context.WithTimeout(ctx, channelDial+channelGreet)
	defer cancel()
	d := net.Dialer{Timeout: channelDial}
	raw, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		c.Notes.put(address, "no queue manager answers there: "+err.Error())
		return nil, "", err
	}
	self := c.cfg.Identity
	shake := self.Client(identity.OneOf(self.Name().Network, identity.Manager))
	if ch.Compress {
		shake.NextProtos = []string{protocolPacked}
	}
	conn := tcp.NewWhole(raw, func(raw net.Conn) *tls.Conn { return tls.Client(raw, shake) })
	raw.SetDeadline(time.Now().Add(channelGreet))
	if err := conn.HandshakeContext(ctx); err != nil {
		raw.Close()
		c.Notes.put(address, "the handshake failed: "+err.Error())
		return nil, "", err
	}
	raw.SetDeadline(time.Time{})
	name, err := self.Peer(conn.ConnectionState())
	if err == nil {
		err = c.Registry.CheckSpelling(name.Name)
	}
	if err != nil {
		raw.Close()
		return nil, "", err
	}
	c.mu.Lock()
	c.peers[ch.Name] = name.Name
	c.made[ch.Name]++
	c.mu.Unlock()
	return packed(conn), name.Name, nil
}

// protocolPacked is the protocol (ALPN) of a compressed channel.
const protocolPacked = "ferry-s2"

// packed compresses a connection where both sides have agreed on that in the handshake.
func packed(c *tcp.Whole) net.Conn {
	if c.ConnectionState().NegotiatedProtocol != protocolPacked {
		return c
	}
	return compress.Conn(c)
}

// way returns the address of the gate.ChannelProxy of a channel; "" if the library dials itself.
func (c *Channels) way(channel string) string {
	if w := c.ways[channel]; w != nil {
		return w.Addr()
	}
	return ""
}

// gated adds the address and the counts of a channel's connections to its state.
func (c *Channels) gated(st *ChannelState, of func(gate.Connection) bool) {
	for l, g := range c.Registry.Connections() {
		if of(g) {
			st.Address = g.Remote.String()
			messages, subjects := l.Refused()
			st.Refused += messages
			st.Unheard += subjects
		}
	}
}
