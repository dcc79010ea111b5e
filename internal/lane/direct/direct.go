// Package direct is the direct lane: chunk messages travel over TCP connections
// between the two agents, without a queue manager in between. Control messages
// and the audit stay on the queue manager; the lane carries nothing but data.
//
// A Hub is an agent's end of it. How two agents come together:
//
//	OPEN   carries how the source can be met (wire.Direct): mode, addresses, pin, token
//	ACCEPT carries the same of the destination; the source dials it
//
// Where the source gets no connection, because something between them lets
// connections pass in one direction only, it asks the destination in its next
// OPEN to dial. Connections are kept per pair of agents and carry all transfers
// between them; a group of several is one Path.
//
// Who may come in: with mode tls the connection is TLS 1.3. In a network with identities both
// sides show a certificate of the network, and each is of the agent that the other one means
// or that HELLO names. Without them the dialler accepts exactly the certificate whose hash the
// other side gave in OPEN, ACCEPT or RESYNC. The dialler then shows a token. A token belongs to one transfer and
// one peer; both came over the queue manager, which knows its users. A chunk
// message is taken only after the token of its transfer has been shown on the
// path, and the transfer is going on.
//
// # On the connection
//
// Integers are big-endian. Everything is a frame: 4 bytes length of the body,
// 1 byte type, the body.
//
//	1 HELLO    dialler, first   JSON {"v":1,"from":A,"to":B,"transfer":ID,"token":HEX,"group":HEX,"count":N}
//	2 WELCOME  listener         JSON {"v":1}
//	3 DENIED   listener         JSON {"v":1,"error":{…}}, and the connection is closed
//	4 ATTACH   sender of data   16 transfer ID, 32 token: its messages may follow
//	5 CHUNK    sender of data   a chunk message, as package wire has it
//	6 PING     either           8 bytes
//	7 PONG     the other        the same 8 bytes
//
// A group's connections begin with the same group (16 random bytes) and count,
// and are one path once all are there. The messages of a transfer go over
// whichever is free and are put back into their sequence at the other end.
//
// A path that breaks loses what was on it. The sender learns of it at once
// (Lane.Done) and opens the transfer again; an epoch never goes on over another
// path.
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

	"ferry/internal/clock"
	"ferry/internal/identity"
	"ferry/internal/quiet"
	"ferry/internal/tcp"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Times and limits of the lane.
const (
	dialTime    = 3 * time.Second  // to connect, and more where answers take long; see patience
	greetTime   = 8 * time.Second  // to be welcomed, behind what is under way on a slow line
	freshTime   = time.Second      // a path on which something came as lately is alive
	pingTime    = 3 * time.Second  // any other that is to be used again answers within this
	awaitTime   = 4 * time.Second  // for the connection that the other side dials, and more where answers take long
	idleTime    = 60 * time.Second // a path without a word is closed
	pingEvery   = 20 * time.Second // so that it is not without a word while it is wanted
	unusedTime  = 5 * time.Minute  // a path that carries no transfer is closed
	stuckTime   = 20 * time.Second // a write without progress; who waits for its acknowledgement notices sooner
	remember    = 30 * time.Second // that a peer cannot be reached, at first
	rememberMax = 10 * time.Minute // and at most
	strangers   = 256              // connections that have not said who they are
	maxAsked    = 32               // peers that are dialled at once because they ask for it
	maxPeers    = 4096             // that something is remembered of
	maxAttached = 4096             // transfers on a path
	maxHello    = 4 << 10          // bytes
	maxGroup    = 16               // connections of a path
	maxHeld     = 64 << 20         // bytes out of sequence, beyond which a gap is a gap
	maxBody     = wire.MaxMessage  // of a CHUNK frame
	queueDepth  = 4                // messages between Send and the connections
	tokenSize   = 32
)

// Config is what a Hub works with.
type Config struct {
	Agent  transfer.AgentName
	Mode   string // wire.DirectTLS or wire.DirectPlain
	Listen string // HOST:PORT, port 0 for any that is free; empty: this agent only dials
	// Addresses are what others are told to dial; empty: where Listen leads.
	Addresses   []string
	Connections int // of a path that this agent dials, 1 to 16; 0 is 1
	Strangers   int // connections that have not said who they are, at most and by default 256
	// Identity is who this agent is: with mode tls both sides show theirs and must be whom they say
	// they are. nil: nobody has one, and the hash of a certificate of this run is held against what OPEN or
	// ACCEPT has said.
	Identity *identity.Identity
	Options  tcp.Options
	Memory   *wire.Memory
	Clock    clock.Clock
	Log      *slog.Logger
	// Take is given every chunk message and its memory. It does not block.
	Take func(from transfer.AgentName, message []byte)
	// Live reports whether a transfer with that peer is going on here.
	Live func(id transfer.ID, peer transfer.AgentName) bool
	// Dial connects; nil is the network's own.
	Dial func(ctx context.Context, address string) (net.Conn, error)
}

// A Hub has the direct connections of one agent.
type Hub struct {
	cfg    Config
	key    []byte       // of tokens; a new one in every run
	cert   *certificate // nil: mode plain, or with Identity
	pin    string       // tells this run of the agent from others; with cert, its hash
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	quiet  *quiet.Log
	door   *tcp.Door     // where strangers wait
	asked  chan struct{} // a token for each peer that is dialled because it asked for it

	mu      sync.Mutex
	listen  net.Listener // nil: the hub only dials
	at      string       // where it was asked to listen
	told    []string     // where others are to dial
	paths   map[transfer.AgentName][]*path
	forming map[string]*forming
	waiting map[transfer.AgentName]chan struct{} // closed when a path comes up
	bad     map[transfer.AgentName]*unreached
	turns   map[transfer.AgentName]chan struct{} // who looks for a path to a peer; as many as there are peers
}

// unreached remembers that a peer could not be dialled.
type unreached struct {
	pin   string // as what it was tried; a restart changes it
	until time.Time
	pause time.Duration
	deaf  bool // it was asked to dial, and did not
	err   error
}

// New opens a hub and listens. Its errors are of kind Usage.
func New(cfg Config) (*Hub, error) {
	if cfg.Connections == 0 {
		cfg.Connections = 1
	}

	if cfg.Dial == nil {
		d := &net.Dialer{KeepAlive: 15 * time.Second}
		cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) { return d.DialContext(ctx, "tcp", address) }
	}

	h := &Hub{cfg: cfg, door: tcp.NewDoor(cmp.Or(cfg.Strangers, strangers)), quiet: quiet.New(cfg.Log, func() time.Time { return cfg.Clock.Now() }), key: make([]byte, 32), asked: make(chan struct{}, maxAsked), paths: map[transfer.AgentName][]*path{},
		forming: map[string]*forming{}, waiting: map[transfer.AgentName]chan struct{}{}, bad: map[transfer.AgentName]*unreached{}, turns: map[transfer.AgentName]chan struct{}{}}
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

	h.wg.Go(h.tend)
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

// Addresses is where the hub listens, as others are told.
func (h *Hub) Addresses() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.told
}

// Mode is tls or plain.
func (h *Hub) Mode() string { return h.cfg.Mode }

// token lets a connection of peer carry a transfer.
func (h *Hub) token(id transfer.ID, peer transfer.AgentName) []byte {
	mac := hmac.New(sha256.New, h.key)
	mac.Write(id[:])
	mac.Write([]byte(peer))
	return mac.Sum(nil)
}

// admits reports whether a token is the one that this hub has given out for a
// transfer that is going on.
func (h *Hub) admits(id transfer.ID, peer transfer.AgentName, token []byte) bool {
	return hmac.Equal(token, h.token(id, peer)) && h.cfg.Live(id, peer)
}

// Offer is what OPEN or ACCEPT says of this agent to a peer.
func (h *Hub) Offer(id transfer.ID, peer transfer.AgentName) *wire.Direct {
	d := &wire.Direct{Mode: h.cfg.Mode, Addresses: h.Addresses(), Token: hex.EncodeToString(h.token(id, peer))}
	d.Pin = h.pin
	return d
}

// tend closes paths that are not used, and forgets what was long ago.
func (h *Hub) tend() {
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
			p.tend(now)
		}
		t.Reset(pingEvery)
	}
}

// add takes a path in, once all its connections are there.
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

// remove lets go of a path that has ended.
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

// Came is how many bytes have come on the paths from a peer that are there.
func Came(h *Hub, peer transfer.AgentName) (n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range h.paths[peer] {
		for _, s := range p.strands {
			n += s.w.came.Load()
		}
	}
	return n
}

// comes is closed when a path to peer comes up.
func (h *Hub) comes(peer transfer.AgentName) <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.waiting[peer]
	if c == nil {
		c = make(chan struct{})
		h.waiting[peer] = c
	}
	return c
}

// some is a path to peer that was alive a moment ago.
func (h *Hub) some(peer transfer.AgentName) *path {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range slices.Backward(h.paths[peer]) {
		select {
		case <-p.done: // it has ended, and is about to be removed
		default:
			return p
		}
	}
	return nil
}
