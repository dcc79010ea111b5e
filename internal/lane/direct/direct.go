// Package direct implements the direct lane: chunk messages travel over TCP connections between the two agents, without
// a queue manager in between. Control messages and the audit stay on the queue manager; the lane carries only data.
//
// A Hub is an agent's end of the lane. Two agents connect as follows:
//
//	OPEN   carries how to connect to the source (wire.Direct): mode, addresses, pin, token
//	ACCEPT carries the same of the destination; the source dials it
//
// If the source cannot connect, because the network allows connections in one direction only, it asks the destination
// in its next OPEN to dial. Connections are kept for each pair of agents and carry all transfers between them. A group
// of several connections is one path.
//
// Authentication: with mode tls the connection is TLS 1.3. In a network with identities both sides present a
// certificate of the network. Each certificate must be that of the expected agent or of the agent named in HELLO.
// Without identities, the dialler accepts only the certificate with the hash that the other side gave in OPEN, ACCEPT
// or RESYNC. The dialler then presents a token. A token belongs to one transfer and one peer. Hash and token came over
// the queue manager, which knows its users. A chunk message is accepted only after the token of its transfer has been
// presented on the path, and only while the transfer is running.
//
// # On the connection
//
// Integers are big-endian. The connection carries frames: 4 bytes length of the body, 1 byte type, the body.
//
//	1 HELLO    dialler, first   JSON {"v":1,"from":A,"to":B,"transfer":ID,"token":HEX,"group":HEX,"count":N}
//	2 WELCOME  listener         JSON {"v":1}
//	3 DENIED   listener         JSON {"v":1,"error":{…}}, and the connection is closed
//	4 ATTACH   sender of data   16 transfer ID, 32 token: its messages may follow
//	5 CHUNK    sender of data   a chunk message, as package wire has it
//	6 PING     either           8 bytes
//	7 PONG     the other        the same 8 bytes
//
// A group's connections begin with the same group (16 random bytes) and count, and are one path once all are there. The
// messages of a transfer use any free connection and are put back into their sequence at the other end.
//
// A path that breaks loses the messages that are on it. The sender notices it at once (Lane.Done) and opens the
// transfer again; an epoch never continues over another path.
package direct

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"ferry/internal/security/identity"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/quiet"
	"ferry/internal/sys/tcp"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Times and limits of the lane.
const (
	dialTime     = 3 * time.Second  // to connect, and more if answers take long; see patience
	greetTime    = 8 * time.Second  // for WELCOME, behind other data on a slow link
	freshTime    = time.Second      // a path that received data so recently is alive
	pingTime     = 3 * time.Second  // any other path must answer within this before it is used again
	awaitTime    = 4 * time.Second  // for the connection that the other side dials, and more if answers take long
	idleTime     = 60 * time.Second // a silent path is closed
	pingEvery    = 20 * time.Second // so that a used path is not silent
	unusedTime   = 5 * time.Minute  // a path without transfers is closed
	stuckTime    = 20 * time.Second // a write without progress; a sender that waits for an acknowledgement notices sooner
	remember     = 30 * time.Second // that a peer cannot be reached, at first
	rememberMax  = 10 * time.Minute // at most
	unidentified = 256              // connections without a HELLO
	maxAsked     = 32               // peers that are dialled at once at their request
	maxPeers     = 4096             // peers with remembered state
	maxAttached  = 4096             // transfers on a path
	maxHello     = 4 << 10          // bytes
	maxGroup     = 16               // connections of a path
	maxHeld      = 64 << 20         // bytes out of sequence; for more, the gap is reported
	maxBody      = wire.MaxMessage  // of a CHUNK frame
	queueDepth   = 4                // messages between Send and the connections
	tokenSize    = 32
)

// Config has the parameters of a Hub.
type Config struct {
	Agent  transfer.AgentName
	Mode   string // wire.DirectTLS or wire.DirectPlain
	Listen string // HOST:PORT, port 0 for any that is free; empty: this agent only dials
	// Addresses are the addresses for others to dial; empty: the address of Listen.
	Addresses    []string
	Connections  int // of a path that this agent dials, 1 to 16; 0 is 1
	Unidentified int // connections without a HELLO, at most and by default 256
	// Identity is the identity of this agent. With mode tls both sides present theirs and check the other's name. nil:
	// the agents have no identities, and the dialler compares the certificate of this run with the hash in OPEN or
	// ACCEPT.
	Identity *identity.Identity
	Options  tcp.Options
	Memory   *wire.Memory
	Clock    clock.Clock
	Log      *slog.Logger
	// Take is called with every chunk message and takes over its memory. It must not block.
	Take func(from transfer.AgentName, message []byte)
	// Live reports whether a transfer with that peer is running here.
	Live func(id transfer.ID, peer transfer.AgentName) bool
	// Dial connects; nil is the network's own.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// A Hub has the direct connections of one agent.
type Hub struct {
	cfg    Config
	key    []byte       // of tokens; new in every run
	cert   *certificate // nil: mode plain, or with Identity
	pin    string       // identifies this run of the agent; with cert, its hash
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	quiet  *quiet.Log
	door   *tcp.PendingConns // limits connections without a HELLO
	asked  chan struct{}     // a token for each peer that is dialled at its request

	mu        sync.Mutex
	listen    net.Listener // nil: the hub only dials
	at        string       // the requested address
	told      []string     // addresses for others to dial
	paths     map[transfer.AgentName][]*path
	forming   map[string]*partialGroup
	waiting   map[transfer.AgentName]chan struct{} // closed when a path comes up
	bad       map[transfer.AgentName]*unreachablePeer
	dialLocks map[transfer.AgentName]chan struct{} // held by the goroutine that connects to a peer; one for each peer
}

// unreachablePeer remembers that a peer could not be dialled.
type unreachablePeer struct {
	pin        string // the run and the addresses that were tried; a restart changes them
	until      time.Time
	pause      time.Duration
	didNotDial bool // it was asked to dial, and did not
	err        error
}

// New makes a hub and listens. Its errors are of kind Usage.
func New(cfg Config) (*Hub, error) {
	if cfg.Connections == 0 {
		cfg.Connections = 1
	}

	if cfg.Dial == nil {
		d := &net.Dialer{KeepAlive: 15 * time.Second}
		cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
	}

	h := &Hub{cfg: cfg, door: tcp.NewPendingConns(cmp.Or(cfg.Unidentified, unidentified)), quiet: quiet.New(cfg.Log, func() time.Time { return cfg.Clock.Now() }), key: make([]byte, 32), asked: make(chan struct{}, maxAsked), paths: map[transfer.AgentName][]*path{},
		forming: map[string]*partialGroup{}, waiting: map[transfer.AgentName]chan struct{}{}, bad: map[transfer.AgentName]*unreachablePeer{}, dialLocks: map[transfer.AgentName]chan struct{}{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	rand.Read(h.key)
	if cfg.Connections < 1 || cfg.Connections > maxGroup {
		return nil, transfer.Errorf(transfer.KindUsage, "%d direct connections are out of range; it goes from 1 to %d", cfg.Connections, maxGroup)
	}
	if err := cfg.Options.Check(); err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "direct lane: %w", err)
	}

	var err error
	switch cfg.Mode {
	case wire.DirectTLS:
		h.cert, h.pin, err = newRun(&cfg)
	case wire.DirectPlain:
	default:
		err = transfer.Errorf(transfer.KindUsage, "direct mode %q is unknown; it is tls or plain", cfg.Mode)
	}
	if err == nil && cfg.Listen != "" {
		_, err = h.Move(cfg.Listen, cfg.Addresses)
	} else if err == nil {
		err = wire.CheckAddresses(cfg.Addresses)
	}
	if err != nil {
		h.cancel()
		return nil, err
	}

	h.wg.Go(h.maintain)
	return h, nil
}

// Close ends all connections and waits for their goroutines.
func (h *Hub) Close() {
	h.cancel()
	h.mu.Lock()
	if h.listen != nil {
		h.listen.Close()
	}

	var all []*path
	for _, ps := range h.paths {
		all = append(all, ps...)
	}

	for _, f := range h.forming {
		f.end()
	}
	h.mu.Unlock()
	for _, p := range all {
		p.end(net.ErrClosed)
	}

	h.wg.Wait()
}

// Addresses returns the addresses for others to dial.
func (h *Hub) Addresses() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

// Mode returns tls or plain.
func (h *Hub) Mode() string { return h.cfg.Mode }

// token returns the token that lets a connection of peer carry a transfer.
func (h *Hub) token(id transfer.ID, peer transfer.AgentName) []byte {
	mac := hmac.New(sha256.New, h.key)
	mac.Write(id[:])
	mac.Write([]byte(peer))
	return mac.Sum(nil)
}

// admits reports whether a token is the one that this hub has given out for a transfer, and whether the transfer is
// running.
func (h *Hub) admits(id transfer.ID, peer transfer.AgentName, token []byte) bool {
	return hmac.Equal(token, h.token(id, peer)) && h.cfg.Live(id, peer)
}

// Offer returns this agent's part of OPEN or ACCEPT for a peer.
func (h *Hub) Offer(id transfer.ID, peer transfer.AgentName) *wire.Direct {
	d := &wire.Direct{Mode: h.cfg.Mode, Addresses: h.Addresses(), Token: hex.EncodeToString(h.token(id, peer))}
	d.Pin = h.pin
	return d
}

// maintain closes unused paths, and forgets old failures.
func (h *Hub) maintain() {
	t := h.cfg.Clock.NewTimer(pingEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C():
		case <-h.ctx.Done():
			return
		}
		now := h.cfg.Clock.Now()
		h.mu.Lock()
		var all []*path
		for _, ps := range h.paths {
			all = append(all, ps...)
		}
		for peer, u := range h.bad {
			if now.Sub(u.until) > rememberMax {
				delete(h.bad, peer)
			}
		}
		h.mu.Unlock()
		for _, p := range all {
			p.maintain(now)
		}
		t.Reset(pingEvery)
	}
}

// add adds a path, once all its connections are there.
func (h *Hub) add(p *path) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil {
		return false
	}

	h.paths[p.peer] = append(h.paths[p.peer], p)
	if p.dialled {
		delete(h.bad, p.peer)
	}

	if c := h.waiting[p.peer]; c != nil {
		close(c)
		delete(h.waiting, p.peer)
	}
	return true
}

// remove removes a path that has ended.
func (h *Hub) remove(p *path) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := h.paths[p.peer][:0]
	for _, q := range h.paths[p.peer] {
		if q != p {
			kept = append(kept, q)
		}
	}
	if h.paths[p.peer] = kept; len(kept) == 0 {
		delete(h.paths, p.peer)
	}
}

// Received returns the number of bytes that have arrived on the present paths from a peer.
func Received(h *Hub, peer transfer.AgentName) (n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.paths[peer] {
		for _, s := range p.conns {
			n += s.w.came.Load()
		}
	}
	return n
}

// pathUp returns a channel that closes when a path to peer comes up.
func (h *Hub) pathUp(peer transfer.AgentName) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.waiting[peer]
	if c == nil {
		c = make(chan struct{})
		h.waiting[peer] = c
	}
	return c
}

// latestPath returns the latest path to peer that has not ended.
func (h *Hub) latestPath(peer transfer.AgentName) *path {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range slices.Backward(h.paths[peer]) {
		select {
		case <-p.done: // it has ended, and will be removed
		default:
			return p
		}
	}
	return nil
}
