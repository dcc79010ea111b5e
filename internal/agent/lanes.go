package agent

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"ferry/internal/lane/direct"
	"ferry/internal/lane/queue"
	"ferry/internal/qmgr"
	"ferry/internal/sender"
	"ferry/internal/sys/tcp"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// DirectOff is the mode of an agent without the direct lane.
const DirectOff = "off"

// Direct is an agent's part of the direct lane.
type Direct struct {
	Mode string // tls (also if empty), plain or off
	// Listen is the address for connections of other agents, HOST:PORT. Empty: a free port of the agent's own address
	// on the way to its queue manager. "none": it only dials.
	Listen      string
	Advertise   string // HOST:PORT for other agents, in place of Listen
	Connections int    // that this agent dials to each peer, 1 to 16; 0 is 1
	Options     tcp.Options
}

// lanes chooses how chunk messages travel, in both directions: over the direct
// lane where both agents have it and find to each other, through the queue
// manager otherwise.
type lanes struct {
	*core
	lost  func([]transfer.AgentName) // direct paths from them have lost their address here
	plain func() bool                // the policy consents to a direct lane without TLS
	hub   *direct.Hub                // nil: off
	mem   *wire.Memory

	mu sync.Mutex // held while the hub follows the address
}

// openLanes makes the agent's hub.
func (a *Agent) openLanes() error {
	a.lanes = &lanes{core: a.core, mem: &wire.Memory{}, plain: a.gate.Judge().Plain, lost: func(from []transfer.AgentName) { a.recv.Moved(from) }}
	d := a.cfg.Direct
	if d.Mode == DirectOff {
		return nil
	}

	if d.Mode == "" {
		d.Mode = wire.DirectTLS
	}
	if d.Mode == wire.DirectPlain && !a.lanes.plain() {
		a.log.Warn("the direct lane is not used: it is plain, and the network's policy does not consent", "agent", a.cfg.Name,
			"hint", `set "direct_plain": true with ferry policy apply, or start with --direct tls`)
	}

	listen, told, err := a.lanes.addresses(d)
	if err != nil {
		return transfer.Errorf(transfer.KindUsage, "--direct-listen %q is no HOST:PORT", d.Listen)
	}

	a.lanes.hub, err = direct.New(direct.Config{Agent: a.cfg.Name, Mode: d.Mode, Listen: listen, Addresses: told,
		Connections: d.Connections, Unidentified: a.cfg.Files.Unauthenticated, Identity: a.conn.Identity(), Options: d.Options, Memory: a.lanes.mem, Clock: a.cfg.Clock, Log: a.log,
		Take: func(from transfer.AgentName, m []byte) { a.recv.Chunk(from, m, true) }, Live: a.alive})
	if err != nil && d.Listen == "" && d.Advertise == "" { // the configuration does not ask for the direct lane
		a.log.Warn("direct lane disabled", "error", err)
		return nil
	}
	return err
}

// addresses returns the address of the direct lane's listener, and the addresses that other agents are told.
func (l *lanes) addresses(d Direct) (listen string, told []string, err error) {
	switch listen = d.Listen; listen {
	case "none":
		listen = ""
	case "":
		listen = net.JoinHostPort(l.conn.LocalHost(), "0")
	}
	told, err = advertised(listen, d.Advertise, l.conn.LocalHost())
	return listen, told, err
}

// recheck ends the direct paths of revoked agents.
func (l *lanes) recheck() {
	if l != nil && l.hub != nil {
		l.hub.Recheck()
	}
}

// moved has the direct lane follow the host's address. It checks the address at each new connection to the queue
// manager.
func (l *lanes) moved() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hub == nil {
		return
	}

	listen, told, err := l.addresses(l.cfg.Direct)
	if err != nil {
		return
	}

	before := l.hub.Addresses()
	lost, err := l.hub.Move(listen, told)
	if err != nil {
		l.log.Warn("direct lane cannot move to the new host address", "error", err)
		return
	}

	if now := l.hub.Addresses(); !slices.Equal(before, now) {
		l.log.Info("direct lane moved to a new host address", "addresses", now)
	}

	if len(lost) > 0 {
		l.lost(lost)
	}
}

// maxTold is the number of a host's addresses that other agents are told at most.
const maxTold = 4

// advertised returns the addresses that other agents are told to dial. An agent that listens on every address
// advertises its own address on the way to its queue manager, or else those of its interfaces.
func advertised(listen, wish, reached string) ([]string, error) {
	if wish != "" || listen == "" {
		return strings.Fields(wish), nil
	}

	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return nil, err
	}

	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		return []string{listen}, nil
	}

	if reached != "" {
		return []string{net.JoinHostPort(reached, port)}, nil
	}

	var told []string
	all, err := net.InterfaceAddrs()
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && len(told) < maxTold {
			told = append(told, net.JoinHostPort(n.IP.String(), port))
		}
	}

	if len(told) == 0 {
		told = []string{net.JoinHostPort("127.0.0.1", port)}
	}
	return told, err
}

func (l *lanes) close() {
	if l != nil && l.hub != nil {
		l.hub.Close()
	}
}

// direct returns the hub, where the direct lane may be used. A plain hub in a network with identities takes the consent
// of the policy. Otherwise the hub is nil, and why gives the reason.
func (l *lanes) direct() (hub *direct.Hub, why string) {
	switch {
	case l.hub == nil:
		return nil, "off"
	case l.hub.Mode() == wire.DirectPlain && !l.plain():
		return nil, "plain, which the network's policy does not allow,"
	}
	return l.hub, ""
}

// Offer returns the part of an OPEN about the direct lane.
func (l *lanes) Offer(to transfer.AgentName, id transfer.ID) *wire.Direct {
	hub, _ := l.direct()
	if hub == nil {
		return nil
	}
	d := hub.Offer(id, to)
	d.Dial = hub.Wants(to)
	return d
}

// Meet answers an OPEN at the destination.
func (l *lanes) Meet(from transfer.AgentName, o *wire.Open, id transfer.ID) (name, reason string, mine *wire.Direct, err error) {
	if o.Request.Lane == transfer.LaneQueue {
		return transfer.LaneQueue, "", nil, nil
	}

	hub, off := l.direct()
	switch {
	case l.hub != nil && o.Direct != nil && o.Direct.Mode != l.hub.Mode():
		reason = "the direct lane is " + o.Direct.Mode + " at " + string(from) + " and " + l.hub.Mode() + " at " + string(l.cfg.Name)
	case hub == nil:
		reason = "the direct lane is " + off + " at " + string(l.cfg.Name)
	case o.Direct == nil:
		reason = "the direct lane is off at " + string(from)
	}

	if reason == "" {
		l.hub.Meet(id, from, o.Direct)
		return transfer.LaneDirect, "", l.hub.Offer(id, from), nil
	}

	if o.Request.Lane == transfer.LaneDirect {
		return "", "", nil, transfer.Errorf(transfer.KindUsage, "there is no direct lane from %s to %s: %s", from, l.cfg.Name, reason).
			WithHint("start both agents with the same --direct, or send with --lane auto")
	}
	return transfer.LaneQueue, reason, nil, nil
}

// A dataConn is the data connection, which says how far its connection has got.
type dataConn struct{ *qmgr.Conn }

// DataCarried is qmgr.DataAcknowledged of the connection.
func (c dataConn) DataCarried() (bytes uint64, waiting bool) { return qmgr.DataAcknowledged(c.Conn) }

// Shared reports whether the bytes that the queue manager sends may take the link of a lane.
func (l *lanes) Shared() bool { return !qmgr.OnThisHost(l.conn) }

// came returns the number of bytes that lanes have brought and that may be a source's: all bytes on the data
// connection, and those on direct paths from it.
func (l *lanes) came(from transfer.AgentName) int64 {
	n := qmgr.DataReceived(l.conn)
	if l.hub != nil {
		n += direct.Received(l.hub, from)
	}
	return n
}

// Open returns the lane of an epoch at the source.
func (l *lanes) Open(ctx context.Context, to transfer.AgentName, id transfer.ID, want string, said *wire.Accept, took time.Duration) (sender.Lane, string, string, error) {
	reason := said.LaneReason
	if hub, _ := l.direct(); want != transfer.LaneQueue && said.Lane == transfer.LaneDirect && said.Direct != nil && hub != nil {
		lane, err := hub.Open(ctx, id, to, said.Direct, took)
		if err == nil {
			return lane, transfer.LaneDirect, "", nil
		}
		if ctx.Err() != nil || want == transfer.LaneDirect {
			return nil, "", "", err
		}
		reason = transfer.AsError(err).Text
	} else if want == transfer.LaneDirect {
		return nil, "", "", transfer.Errorf(transfer.KindUnreachable, "%s offers no direct lane", to)
	}
	return queue.New(dataConn{l.conn}, l.mem, l.cfg.Name, to, id), transfer.LaneQueue, reason, nil
}
