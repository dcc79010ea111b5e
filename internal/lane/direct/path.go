package direct

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"ferry/internal/sys/tcp"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A path is one connection to a peer, or a group that acts as one. When one of the connections breaks, the path has
// ended.
type path struct {
	h       *Hub
	peer    transfer.AgentName
	dialled bool
	conns   []*pathConn
	out     chan outgoing
	done    chan struct{}
	heard   atomic.Int64 // times of the last received frame and of the last
	used    atomic.Int64 // use by a transfer; Unix nanoseconds of the hub's clock

	mu       sync.Mutex
	err      error
	runKey   string // the peer's announced run and addresses at the first use by this side; "": not used
	attached map[transfer.ID]bool
	order    map[transfer.ID]*reorderBuffer // nil for a single connection
	pongs    map[uint64]func()
	pinged   uint64
}

// An outgoing is a chunk message to be sent, and its lane.
type outgoing struct {
	lane *Lane
	body []byte
}

// A pathConn is one connection of a path.
type pathConn struct {
	w   *wireConn
	ctl chan controlFrame // pings and pongs; they are dropped if it is full
}

type controlFrame struct {
	kind byte
	body []byte
}

func (h *Hub) newPath(peer transfer.AgentName, dialled bool, conns []*wireConn) *path {
	p := &path{h: h, peer: peer, dialled: dialled, out: make(chan outgoing, queueDepth), done: make(chan struct{}),
		attached: map[transfer.ID]bool{}, pongs: map[uint64]func(){}}
	if len(conns) > 1 {
		p.order = map[transfer.ID]*reorderBuffer{}
	}
	for _, w := range conns {
		p.conns = append(p.conns, &pathConn{w, make(chan controlFrame, 8)})
	}
	p.touch(&p.heard)
	p.touch(&p.used)
	return p
}

// start lets the path carry messages. It reports false if the hub is closed.
func (p *path) start() bool {
	if !p.h.add(p) {
		p.end(errClosed)
		return false
	}

	for _, s := range p.conns {
		if s.w.tls != nil {
			s.w.tls.Start()
		}
		p.h.wg.Go(func() { p.end(p.readAll(s)) })
		p.h.wg.Go(func() { p.end(p.writeAll(s)) })
	}

	p.h.cfg.Log.Debug("a direct path is up", "peer", p.peer, "dialled", p.dialled, "connections", len(p.conns),
		"address", p.conns[0].w.RemoteAddr())
	return true
}

var (
	errClosed = errors.New("the direct lane is closed")
	errUnused = errors.New("it is not in use")
	errSilent = errors.New("it does not answer")
	errOver   = errors.New("the epoch is given up")
	errMoved  = errors.New("its address is no longer one of this host")
)

// end closes the path and keeps the first reason.
func (p *path) end(why error) {
	p.mu.Lock()
	if p.err != nil {
		p.mu.Unlock()
		return
	}

	if why == nil {
		why = errClosed
	}

	p.err = why
	close(p.done)
	p.mu.Unlock()
	for _, s := range p.conns {
		s.w.raw.Close()
	}

	p.h.remove(p)
	p.h.cfg.Log.Debug("a direct path has ended", "peer", p.peer, "error", why)
}

func (p *path) ended() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return transfer.Errorf(transfer.KindUnreachable, "the direct connection to %s broke: %w", p.peer, p.err)
}

func (p *path) touch(at *atomic.Int64) { at.Store(p.h.cfg.Clock.Now().UnixNano()) }

func (p *path) since(at *atomic.Int64, now time.Time) time.Duration {
	return time.Duration(now.UnixNano() - at.Load())
}

// maintain keeps the path alive while it is used.
func (p *path) maintain(now time.Time) {
	if p.since(&p.used, now) > unusedTime {
		p.end(errUnused)
		return
	}
	for _, s := range p.conns {
		s.say(framePing, make([]byte, pingSize))
	}
}

func (s *pathConn) say(kind byte, body []byte) {
	select {
	case s.ctl <- controlFrame{kind, body}:
	default:
	}
}

// leadsTo reports whether the path leads to the peer's announced address. For a path that this side has not used yet,
// it reports true; with use set, it records the address.
func (p *path) leadsTo(theirs *wire.Direct, use bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runKey == "" && use {
		p.runKey = runKey(theirs)
	}
	return p.runKey == "" || p.runKey == runKey(theirs)
}

// fresh reports whether data was received recently.
func (p *path) fresh() bool { return p.since(&p.heard, p.h.cfg.Clock.Now()) < freshTime }

// alive checks that every connection of the path answers. If the other host acknowledges bytes while more wait, that
// counts as an answer, too: on a slow link the ping may be behind them. If the other host acknowledges no bytes for as
// long as an answer may take, the path is dead.
func (p *path) alive(ctx context.Context) bool {
	for _, s := range p.conns {
		if tcp.Stalled(s.w.raw) > pingTime {
			return false
		}
	}

	all := make(chan struct{}, len(p.conns))
	before, _ := p.acked()
	for _, s := range p.conns {
		p.mu.Lock()
		p.pinged++
		n := p.pinged
		p.pongs[n] = func() { all <- struct{}{} }
		p.mu.Unlock()
		s.say(framePing, binary.BigEndian.AppendUint64(nil, n))
	}

	t := p.h.cfg.Clock.NewTimer(pingTime)
	defer t.Stop()
	for range p.conns {
		select {
		case <-all:
		case <-t.C():
			now, more := p.acked()
			return more && now > before
		case <-p.done:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// acked returns the number of bytes that the other host has acknowledged on all connections, and whether any has more.
func (p *path) acked() (n uint64, more bool) {
	for _, s := range p.conns {
		k, m := tcp.Acked(s.w.raw)
		n, more = n+k, more || m
	}
	return n, more
}

// carried returns the number of bytes that the other host has acknowledged on all connections, and whether some wait
// behind those that are on the link.
func (p *path) carried() (n uint64, waiting bool) {
	for _, s := range p.conns {
		k, w := tcp.Carried(s.w.raw)
		n, waiting = n+k, waiting || w
	}
	return n, waiting
}

// hasAddress reports whether the host still has the addresses at this end.
func (p *path) hasAddress() bool {
	for _, s := range p.conns {
		if !tcp.AddressIsLocal(s.w.raw) {
			return false
		}
	}
	return true
}

// readAll handles the frames of one connection, until it breaks.
func (p *path) readAll(s *pathConn) error {
	for {
		s.w.raw.SetReadDeadline(time.Now().Add(idleTime))
		kind, body, err := s.w.read(p.h.cfg.Memory)
		if err != nil {
			return err
		}
		p.touch(&p.heard)
		switch kind {
		case frameChunk:
			p.chunk(body)
		case frameAttach:
			if len(body) != attachSize {
				return errors.New("an ATTACH of the wrong size")
			}
			p.attach(transfer.ID(body[:16]), body[16:])
		case framePing:
			s.say(framePong, body)
		case framePong:
			p.pong(body)
		default:
			return errors.New("a frame that has no place after the greeting")
		}
	}
}

func (p *path) pong(body []byte) {
	if len(body) != pingSize {
		return
	}

	n := binary.BigEndian.Uint64(body)
	p.mu.Lock()
	f := p.pongs[n]
	delete(p.pongs, n)
	if len(p.pongs) > maxAttached {
		clear(p.pongs) // of pings without a waiter
	}
	p.mu.Unlock()
	if f != nil {
		f()
	}
}

// attach admits the messages of a transfer, if its token is right.
func (p *path) attach(id transfer.ID, token []byte) {
	if !p.h.admits(id, p.peer, token) {
		p.h.quiet.Dropped(string(p.peer), "no token was presented for this transfer on this path", "transfer", id)
		return
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.attached) >= maxAttached {
		for old := range p.attached {
			if !p.h.cfg.Live(old, p.peer) {
				delete(p.attached, old)
				delete(p.order, old)
			}
		}
		if len(p.attached) >= maxAttached {
			return // the receiver sees a gap and opens the transfer again
		}
	}

	p.attached[id] = true
	if p.order != nil && p.order[id] == nil {
		p.order[id] = &reorderBuffer{}
	}
}

// chunk handles one received chunk message.
func (p *path) chunk(body []byte) {
	hd, err := wire.PeekHeader(body)
	p.mu.Lock()
	ok := err == nil && p.attached[hd.Transfer]
	o := p.order[hd.Transfer]
	p.mu.Unlock()
	if !ok {
		p.h.cfg.Memory.Put(body)
		return
	}

	p.touch(&p.used)
	if o == nil {
		p.h.cfg.Take(p.peer, body)
		return
	}

	o.take(hd, body, func(m []byte) { p.h.cfg.Take(p.peer, m) })
}

// writeAll sends the next frames over one connection, until it breaks.
func (p *path) writeAll(s *pathConn) error {
	attached := map[transfer.ID]*Lane{}
	for {
		var err error
		select {
		case c := <-s.ctl:
			err = s.w.write(c.kind, c.body, false)
		case o := <-p.out:
			err = p.writeChunk(s, o, attached)
		case <-p.done:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// writeChunk sends one message. Before the first message of a lane on this connection, it sends an ATTACH. The ATTACH
// of an earlier lane of the same transfer may have been refused: its token was from the peer's last run, or the
// transfer was not running then.
func (p *path) writeChunk(s *pathConn, o outgoing, attached map[transfer.ID]*Lane) error {
	if id := o.lane.id; attached[id] != o.lane {
		if len(attached) >= maxAttached {
			clear(attached)
		}
		attached[id] = o.lane
		if err := s.w.write(frameAttach, append(id[:], o.lane.token...), true); err != nil {
			return err
		}
	}
	err := s.w.write(frameChunk, o.body, len(p.out) > 0)
	p.h.cfg.Memory.Put(o.body)
	return err
}

// A Lane carries the chunk messages of one transfer on a path.
type Lane struct {
	p     *path
	id    transfer.ID
	token []byte
	over  <-chan struct{} // closed when the epoch ends
}

// Send takes over a message and sends it. It blocks while the connection is full and the context of Open has not ended.
// An error means that messages may have been lost.
func (l *Lane) Send(message []byte) error {
	l.p.touch(&l.p.used)
	select {
	case <-l.p.done:
		return l.p.ended()
	default:
	}

	select {
	case l.p.out <- outgoing{l, message}:
		return nil
	case <-l.p.done:
		return l.p.ended()
	case <-l.over:
		return errOver
	}
}

// Carried returns the number of bytes that the path has carried, and whether more wait for it; 0 and false if the
// system does not report it.
func (l *Lane) Carried() (bytes uint64, waiting bool) { return l.p.carried() }

// Done is closed when the path has broken: the last messages may be lost.
func (l *Lane) Done() <-chan struct{} { return l.p.done }

// Err returns the reason why the path broke.
func (l *Lane) Err() error { return l.p.ended() }
