package direct

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"net"
	"strings"
	"time"

	"ferry/internal/sys/tcp"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// accept accepts connections until the listener is closed.
func (h *Hub) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if h.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // probably no descriptor is left
			h.cfg.Log.Error("the direct lane cannot accept a connection", "error", err)
			if !h.pause(time.Second) {
				return
			}
			continue
		}
		h.door.Enter(c)
		h.wg.Go(func() {
			defer h.door.Leave(c)
			h.greet(c)
		})
	}
}

func (h *Hub) pause(d time.Duration) bool {
	t := h.cfg.Clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return true
	case <-h.ctx.Done():
		return false
	}
}

// greet greets an incoming connection.
func (h *Hub) greet(raw net.Conn) {
	raw.SetDeadline(time.Now().Add(greetTime))
	if err := h.cfg.Options.Apply(raw); err != nil {
		h.cfg.Log.Debug("socket options cannot be set", "error", err)
	}

	var secure func(net.Conn) (*tls.Conn, error)
	if cfg := h.listensWith(); cfg != nil {
		secure = func(c net.Conn) (*tls.Conn, error) {
			t := tls.Server(c, cfg)
			return t, t.HandshakeContext(h.ctx)
		}
	}

	w, err := newWireConn(raw, h.cfg.Options, secure)
	if err != nil {
		h.cfg.Log.Debug("a connection to the direct lane is no TLS", "from", raw.RemoteAddr(), "error", err)
		raw.Close()
		return
	}

	hi, err := w.readHello()
	if err != nil {
		h.cfg.Log.Debug("direct lane: connection failed before it was authenticated", "from", raw.RemoteAddr(), "error", err)
		raw.Close()
		return
	}
	if err := h.addConn(hi, w); err != nil {
		h.quiet.Dropped(tcp.HostOf(raw), "direct connection refused", "agent", hi.From, "error", err)
		w.writeJSON(frameDenied, denial{wire.Version, transfer.AsError(err)})
		raw.Close()
	}
}

// addConn adds a connection to its path. An error refuses the connection.
func (h *Hub) addConn(hi *hello, w *wireConn) error {
	token, err := hex.DecodeString(hi.Token)
	if err != nil || hi.To != h.cfg.Agent || !h.admits(hi.Transfer, hi.From, token) {
		return transfer.Errorf(transfer.KindUnreachable, "%s does not know the token", h.cfg.Agent)
	}
	if err := h.checkIdentity(w, hi.From); err != nil {
		return err
	}

	f := h.groupOf(hi)
	all, err := f.join(w, hi.Count)
	if err != nil {
		return err
	}

	// From now on the path closes the connection, or the function that gives the group up.
	welcome := func(w *wireConn) error {
		w.raw.SetDeadline(time.Time{})
		return w.writeJSON(frameWelcome, denial{V: wire.Version})
	}
	if all == nil {
		if welcome(w) != nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			f.end()
		}
		return nil
	}

	h.dropGroup(hi)
	p := h.newPath(hi.From, false, all)
	// The path knows its transfers before the dialler can send any message.
	if welcome(w) != nil || !p.start() {
		p.end(errClosed)
	} else if err := h.checkIdentity(w, hi.From); err != nil { // revoked before Recheck could know of the path
		p.end(err)
	}
	return nil
}

// A partialGroup is a group that still lacks connections.
type partialGroup struct {
	hub   *Hub
	key   string
	conns []*wireConn
	timer *time.Timer
	over  bool
}

func (h *Hub) groupOf(hi *hello) *partialGroup {
	key := string(hi.From) + " " + hi.Group
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.forming[key]
	if f == nil {
		f = &partialGroup{hub: h, key: key}
		if hi.Count > 1 {
			h.forming[key] = f
			f.timer = time.AfterFunc(2*greetTime, func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				if h.forming[key] == f { // it has not become a path meanwhile
					f.end()
				}
			})
		}
	}
	return f
}

func (h *Hub) dropGroup(hi *hello) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := string(hi.From) + " " + hi.Group
	if f := h.forming[key]; f != nil {
		f.timer.Stop()
		delete(h.forming, key)
	}
}

// join adds a connection. With the last one, it returns all of them.
func (f *partialGroup) join(w *wireConn, count int) ([]*wireConn, error) {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	if f.over || len(f.conns) >= count || len(f.hub.forming) > unidentified {
		return nil, transfer.Errorf(transfer.KindBusy, "the group of this connection is complete or given up")
	}
	f.conns = append(f.conns, w)
	if len(f.conns) < count {
		return nil, nil
	}
	return f.conns, nil
}

// end closes the connections of an incomplete group. The hub's lock is held.
func (f *partialGroup) end() {
	f.over = true
	for _, w := range f.conns {
		w.raw.Close()
	}
	delete(f.hub.forming, f.key)
}

// Open returns the lane of a transfer to a peer, and dials the peer if there is no path yet. The lane is valid until
// ctx ends. theirs is from the peer's ACCEPT, or from a later RESYNC. took is the duration of the peer's last answer:
// on a slow or full link, connecting may take four times as long. Its errors are of kind Unreachable, with a text that
// can be shown as the reason for another lane.
func (h *Hub) Open(ctx context.Context, id transfer.ID, peer transfer.AgentName, theirs *wire.Direct, took time.Duration) (*Lane, error) {
	token, err := hex.DecodeString(theirs.Token)
	if err != nil || len(token) != tokenSize {
		return nil, transfer.Errorf(transfer.KindUnreachable, "%s gave no token for the direct lane", peer)
	}

	if theirs.Mode != h.cfg.Mode {
		return nil, transfer.Errorf(transfer.KindUnreachable, "%s has the direct lane in mode %s, %s in mode %s", h.cfg.Agent, h.cfg.Mode, peer, theirs.Mode)
	}

	done, err := h.lockDial(ctx, peer)
	if err != nil {
		return nil, err
	}
	defer done()

	for p := h.latestPath(peer); p != nil && p.leadsTo(theirs, true); p = h.latestPath(peer) {
		if p.fresh() || p.alive(ctx) {
			return p.lane(ctx, id, token), nil
		}
		p.end(errSilent)
	}

	p, err := h.reach(ctx, id, peer, theirs, took)
	if err == nil {
		return p.lane(ctx, id, token), nil
	}

	// The peer has announced another address. If that cannot be reached, and the old path still answers, the peer has
	// not left the old address.
	if p := h.latestPath(peer); p != nil && ctx.Err() == nil && p.alive(ctx) {
		return p.lane(ctx, id, token), nil
	}
	return nil, err
}

// lane returns a transfer's use of the path, until ctx ends.
func (p *path) lane(ctx context.Context, id transfer.ID, token []byte) *Lane {
	p.touch(&p.used)
	return &Lane{p, id, token, ctx.Done()}
}

// lockDial waits until no other goroutine connects to the peer: transfers that begin together share one path.
func (h *Hub) lockDial(ctx context.Context, peer transfer.AgentName) (done func(), err error) {
	q := h.dialLockOf(peer)
	select {
	case q <- struct{}{}:
		return func() { <-q }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// dialLockOf returns the queue of the goroutines that connect to a peer. If there are implausibly many peers, it
// forgets them: two goroutines may then connect at once.
func (h *Hub) dialLockOf(peer transfer.AgentName) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.dialLocks[peer]
	if q == nil {
		if len(h.dialLocks) >= maxPeers {
			clear(h.dialLocks)
		}
		q = make(chan struct{}, 1)
		h.dialLocks[peer] = q
	}
	return q
}

// Meet is called at the destination when a transfer is opened: if the source cannot dial, this side does, in the
// background.
func (h *Hub) Meet(id transfer.ID, peer transfer.AgentName, theirs *wire.Direct) {
	if len(theirs.Addresses) == 0 || theirs.Mode != h.cfg.Mode || !theirs.Dial && len(h.Addresses()) > 0 || h.hasPath(peer, theirs) {
		return
	}

	done := h.tryLockDial(peer)
	if done == nil {
		return // another goroutine is connecting, and more OPENs may come
	}

	h.wg.Go(func() {
		defer done()
		if h.hasPath(peer, theirs) || h.known(peer, theirs) != nil {
			return
		}
		if _, err := h.dial(h.ctx, id, peer, theirs, greetTime); err != nil {
			h.cfg.Log.Info("a source cannot be dialled", "peer", peer, "error", err)
		}
	})
}

// hasPath reports whether there is a path to the peer's announced address.
func (h *Hub) hasPath(peer transfer.AgentName, theirs *wire.Direct) bool {
	p := h.latestPath(peer)
	return p != nil && p.leadsTo(theirs, false)
}

// tryLockDial is lockDial without waiting. It returns nil if another goroutine has the lock, or if the limit of peers
// that are dialled at their request is reached.
func (h *Hub) tryLockDial(peer transfer.AgentName) (done func()) {
	select {
	case h.asked <- struct{}{}:
	default:
		return nil
	}

	q := h.dialLockOf(peer)
	select {
	case q <- struct{}{}:
		return func() { <-q; <-h.asked }
	default:
		<-h.asked
		return nil
	}
}

// reach dials a peer, or waits for the peer to dial.
func (h *Hub) reach(ctx context.Context, id transfer.ID, peer transfer.AgentName, theirs *wire.Direct, took time.Duration) (*path, error) {
	comes := h.pathUp(peer)
	if len(theirs.Addresses) > 0 {
		known := h.known(peer, theirs)
		if known == nil {
			return h.dial(ctx, id, peer, theirs, patience(dialTime, took))
		}
		if len(h.Addresses()) == 0 || !h.expects(peer) {
			return nil, known
		}
	} else if len(h.Addresses()) == 0 {
		return nil, transfer.Errorf(transfer.KindUnreachable, "neither %s nor %s listens for the direct lane", h.cfg.Agent, peer)
	}

	t := h.cfg.Clock.NewTimer(patience(awaitTime, took))
	defer t.Stop()
	select {
	case <-comes:
		if p := h.latestPath(peer); p != nil {
			return p, nil
		}
	case <-t.C():
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	h.noteNotDialled(peer)
	return nil, transfer.Errorf(transfer.KindUnreachable, "%s has not dialled %s for the direct lane", peer, strings.Join(h.Addresses(), ", "))
}

// known returns the reason why a peer could not be reached recently.
func (h *Hub) known(peer transfer.AgentName, theirs *wire.Direct) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.bad[peer]
	if u == nil || u.pin != runKey(theirs) || !h.cfg.Clock.Now().Before(u.until) {
		return nil
	}
	return u.err
}

// runKey identifies one run of a peer and its addresses.
func runKey(d *wire.Direct) string { return d.Pin + " " + strings.Join(d.Addresses, " ") }

// Wants reports whether the peer must dial, because this side cannot.
func (h *Hub) Wants(peer transfer.AgentName) bool {
	return len(h.Addresses()) > 0 && h.expects(peer)
}

// expects reports whether the peer may be able to dial although this side cannot.
func (h *Hub) expects(peer transfer.AgentName) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.bad[peer]
	return u != nil && !u.didNotDial
}

func (h *Hub) noteNotDialled(peer transfer.AgentName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if u := h.bad[peer]; u != nil {
		u.didNotDial = true
	}
}

// noteUnreachable remembers that a peer cannot be reached, so that a network that drops packets costs one time-out, not
// one for each file (R30).
func (h *Hub) noteUnreachable(peer transfer.AgentName, theirs *wire.Direct, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	u := h.bad[peer]
	if u == nil || u.pin != runKey(theirs) {
		if len(h.bad) >= maxPeers {
			clear(h.bad)
		}
		u = &unreachablePeer{pin: runKey(theirs)}
		h.bad[peer] = u
	}
	u.pause = min(max(2*u.pause, remember), rememberMax)
	u.until, u.err = h.cfg.Clock.Now().Add(u.pause), err
}

// patience returns the time limit of a step: least on a fast link, and more if the last answer took a time.
func patience(least, took time.Duration) time.Duration { return min(least+4*took, greetTime) }

// dial makes a path to a peer with the configured number of connections. Each connection may take the time each, and
// all of them at most greetTime.
func (h *Hub) dial(ctx context.Context, id transfer.ID, peer transfer.AgentName, theirs *wire.Direct, each time.Duration) (*path, error) {
	ctx, cancel := context.WithTimeout(ctx, greetTime)
	defer cancel()
	group := make([]byte, 16)
	rand.Read(group)
	hi := hello{V: wire.Version, From: h.cfg.Agent, To: peer, Transfer: id, Token: theirs.Token,
		Group: hex.EncodeToString(group), Count: h.cfg.Connections}
	var conns []*wireConn
	var failed error
	for range h.cfg.Connections {
		w, err := h.connect(ctx, hi, theirs, each)
		if err != nil {
			failed = err
			break
		}
		conns = append(conns, w)
	}

	if failed != nil {
		for _, w := range conns {
			w.raw.Close()
		}
		err := transfer.Errorf(transfer.KindUnreachable, "%s cannot reach %s at %s: %w", h.cfg.Agent, peer, strings.Join(theirs.Addresses, ", "), failed)
		if ctx.Err() == nil || errors.Is(ctx.Err(), context.DeadlineExceeded) {
			h.noteUnreachable(peer, theirs, err)
		}
		return nil, err
	}

	p := h.newPath(peer, true, conns)
	p.runKey = runKey(theirs)
	if !p.start() {
		return nil, errClosed
	}
	if err := h.checkIdentity(conns[0], peer); err != nil {
		p.end(err)
		return nil, err
	}
	return p, nil
}

// connect makes one connection and waits for its WELCOME.
func (h *Hub) connect(ctx context.Context, hi hello, theirs *wire.Direct, each time.Duration) (w *wireConn, err error) {
	for _, address := range theirs.Addresses {
		if w, err = h.connectTo(ctx, address, hi, theirs.Pin, each); err == nil {
			return w, nil
		}
	}
	return nil, err
}

func (h *Hub) connectTo(ctx context.Context, address string, hi hello, pin string, dial time.Duration) (*wireConn, error) {
	dctx, cancel := context.WithTimeout(ctx, dial)
	raw, err := h.cfg.Dial(dctx, address)
	cancel()
	if err != nil {
		return nil, err
	}

	stop := context.AfterFunc(ctx, func() { raw.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := h.cfg.Options.Apply(raw); err != nil {
		h.cfg.Log.Debug("socket options cannot be set", "error", err)
	}

	var secure func(net.Conn) (*tls.Conn, error)
	if h.cfg.Mode == wire.DirectTLS {
		secure = func(c net.Conn) (*tls.Conn, error) {
			t := tls.Client(c, h.dialsWith(hi.To, pin))
			return t, t.HandshakeContext(ctx)
		}
	}

	w, err := newWireConn(raw, h.cfg.Options, secure)
	if err != nil {
		raw.Close()
		return nil, err
	}
	if err = w.writeJSON(frameHello, hi); err == nil {
		err = w.welcomed()
	}
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		raw.Close()
		return nil, err
	}

	raw.SetDeadline(time.Time{})
	return w, nil
}
