package qmgr

import (
	"encoding/json"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/jwt/v2"
	"golang.org/x/time/rate"

	"ferry/internal/qmgr/claims"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/gate"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
)

// Times and limits of places.
const (
	// mateLife is the same of a member of a cluster that names another member. For that time the other member forwards
	// messages while this one is away.
	mateLife = 24 * time.Hour
	// placeProof is the greatest age of the place that proves that the author of a stored message was at the queue manager.
	// Commands are kept for 14 days.
	placeProof = 15 * 24 * time.Hour

	// placeSoon is the time after a place in which no other one of the identity at the same queue manager is taken:
	// commands in a loop cost one place.
	placeSoon = 30 * time.Second

	maxPlace       = 8 << 10 // bytes of a place
	maxPlacesOfOne = 16      // places of one identity, ended ones included
	placesAtATime  = 64      // places in one answer of a queue manager
	maxWays        = 8       // channels between a queue manager and the farthest other one
	maxOwnPlaces   = 100_000 // places that are kept as proofs
	placesFile     = "places.json"
	keepPlaces     = 12 * time.Hour // between two writes of the proof of one identity
)

// places have the queue managers that agents, users, services and other queue managers are at. In a network with identities each
// identity signs its places (identity.Place). Without identities the heartbeats of agents say them.
//
// An identity is behind a channel if it is at the queue manager at the other end, or at a queue manager that leads there. Each
// queue manager signs its places at the queue managers that channels and its cluster join it to.
type places struct {
	identity *identity.Identity // of this queue manager; nil: the network has none
	self     string             // the token of this queue manager
	// domain is the token of the queue manager, or of its cluster, and mate reports whether a token is another member's.
	domain    string
	mate      func(token string) bool
	admission func() *claims.Admission
	log       *slog.Logger
	quiet     *quiet.Log
	path      string // of the file that keeps proofs

	mu       sync.Mutex
	all      map[string]*whereabouts              // by token, but for queue managers
	managers map[string]*joined                   // queue managers, by token
	links    map[string]map[*gate.Link]linkedPeer // by the token of the peer
	ways     map[string]map[string]bool           // by the token of a queue manager, the peers that lead there; nil: to be found
	domains  map[string]string                    // by the token of a queue manager that is in a cluster
	crowd    map[string]map[roles.Role]bool       // by the token of a peer, the roles behind it; nil: to be found
	own      map[string]json.RawMessage           // by token, proofs of clients
	kept     map[string]int64                     // by token, the times of the proofs in the file
	names    map[string]string                    // by token, the names of queue managers
	fresh    map[string]*rate.Limiter             // by the token of a peer, of places to check
	paces    map[string]*peerPaces                // likewise, of other messages
	streams  map[string]string                    // by transfer.AgentName.StreamUser of a user's pipes, the user's token
	list     []listed                             // in the order of their keys; nil: to be made
	listMade time.Time
	arrivals uint64        // counts new queue managers, to order them
	turned   chan struct{} // has one when a channel has come up or gone
}

// A linkedPeer is a connection of a channel.
type linkedPeer struct {
	gate.Connection
	began time.Time
	asked bool // its queue manager has been asked for the places that it knows
}

// whereabouts are the places of one identity.
type whereabouts struct {
	at     map[string]placed // by the queue manager's token
	newest string            // the token of the queue manager in the latest place
	made   int64             // of the latest place
	seen   time.Time         // when it came
	gone   bool              // the identity was elsewhere once: its messages may have been forwarded
	role   roles.Role
}

// placed is a place. One that has ended is remembered while a queue manager could replay it.
type placed struct {
	made   int64
	came   time.Time
	until  time.Time // when it ends
	ended  bool
	member bool
	said   json.RawMessage
	key    string // identity.KeyHash of the certificate that has signed it
}

// ends ends a place after its time, and reports whether it did. gone reports that a replay would be refused as too old.
func (x *placed) ends(now time.Time) (did, gone bool) {
	did = !x.ended && now.After(x.until)
	x.ended = x.ended || did
	return did, x.ended && now.After(x.until.Add(errands.PlaceLife+2*errands.MaxClockOff))
}

// joined is a queue manager with its places at others.
type joined struct {
	at      map[string]placed
	cluster string // as it announces itself
	number  uint64 // the order of arrival
}

// A placesConfig describes the queue manager that keeps places.
type placesConfig struct {
	Name      string
	Domain    string                   // its token, or that of its cluster
	Dir       string                   // its directory
	Identity  *identity.Identity       // nil: the network has none
	Mates     func() []string          // the names of the other members of its cluster; nil: it is in none
	Admission func() *claims.Admission // the present claims of the network
	Log       *slog.Logger
}

func newPlaces(cfg placesConfig) *places {
	p := &places{identity: cfg.Identity, self: transfer.Token(cfg.Name), domain: cfg.Domain, log: cfg.Log, quiet: quiet.New(cfg.Log, nil), admission: cfg.Admission, path: filepath.Join(cfg.Dir, placesFile),
		all: map[string]*whereabouts{}, managers: map[string]*joined{}, links: map[string]map[*gate.Link]linkedPeer{}, own: map[string]json.RawMessage{}, kept: map[string]int64{}, turned: make(chan struct{}, 1), fresh: map[string]*rate.Limiter{}, paces: map[string]*peerPaces{}, streams: map[string]string{},
		names: map[string]string{transfer.Token(cfg.Name): cfg.Name}}
	p.mate = func(token string) bool {
		return cfg.Mates != nil && slices.ContainsFunc(cfg.Mates(), func(name string) bool { return transfer.Token(name) == token })
	}
	return p
}

// here reports whether a token is that of this queue manager, of its cluster, or of another member.
func (p *places) here(at string) bool { return at == p.self || at == p.domain || p.mate(at) }

// take takes a place, and reports whether it was new. Its errors are of KindMalformed, KindDenied, KindClock or KindTooLarge.
func (p *places) take(said []byte) (x identity.Place, fresh bool, err error) {
	x, made, err := readPlace(said)
	if err != nil {
		return x, false, err
	}
	now := time.Now()
	if made.Sub(now) > errands.MaxClockOff || now.Sub(made) > errands.PlaceLife+errands.MaxClockOff {
		return x, false, transfer.Errorf(transfer.KindClock, "the place of %s was made at %s, too far from now", x.Who, made.UTC().Format(time.RFC3339))
	}
	if p.known(&x) {
		return x, false, nil
	}
	role, key, err := p.check(&x)
	if err != nil {
		return x, false, err
	}
	if x.Who.Role == identity.Manager {
		if err := p.spells(x.Who.Name); err != nil {
			return x, false, err
		}
		return x, p.join(&x, key, said, now), nil
	}
	return x, p.put(x.Who.Token(), &x, role, key, said, now), nil
}

// spells returns an error if two queue managers have names with one token, such as qm and QM. It returns nil for the
// first one.
func (p *places) spells(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	token := transfer.Token(name)
	if first, ok := p.names[token]; ok && first != name {
		return transfer.Errorf(transfer.KindConflict, "two queue managers are called %s and %s", first, name)
	}
	p.names[token] = name
	return nil
}

func readPlace(said []byte) (x identity.Place, made time.Time, err error) {
	if len(said) > maxPlace {
		return x, made, transfer.Errorf(transfer.KindTooLarge, "a place has %d bytes; the limit is %d", len(said), maxPlace)
	}
	if err := json.Unmarshal(said, &x); err != nil {
		return x, made, transfer.Errorf(transfer.KindMalformed, "a place cannot be read")
	}
	return x, time.UnixMilli(x.Made), nil
}

// check checks the signature of a place, and returns the role of its author and the KeyHash of the author's certificate.
func (p *places) check(x *identity.Place) (role roles.Role, key string, err error) {
	if key, err = p.identity.CheckPlace(x); err != nil {
		return "", "", err
	}
	switch {
	case x.Who.Role == identity.Agent:
		return roles.Agent, key, nil
	case x.Who.Role != identity.User:
		return roles.Role(x.Who.Role), key, nil
	case x.JWT == "":
		return roles.User, key, nil
	}
	a := p.admission()
	c, err := claims.Caller(x.Who, x.JWT, a)
	if err == nil && c.Token != x.Who.Token() {
		err = transfer.Errorf(transfer.KindDenied, "the place of %s has the ticket of a pipe", x.Who)
	}
	if err != nil {
		return "", "", err
	}
	u, err := jwt.DecodeUserClaims(x.JWT)
	if err != nil || a.Account.IsClaimRevoked(u) || u.Expires > 0 && time.Since(time.Unix(u.Expires, 0)) > errands.MaxClockOff {
		return "", "", transfer.Errorf(transfer.KindDenied, "the JWT of %s has ended or was revoked", x.Who)
	}
	return roles.Role(c.Role), key, nil
}

// known reports whether a place is no newer than the known one at the same queue manager.
func (p *places) known(x *identity.Place) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := transfer.Token(x.At)
	if x.Who.Role == identity.Manager {
		m := p.managers[transfer.Token(x.Who.Name)]
		return m != nil && m.at[at].made >= x.Made
	}
	w := p.all[x.Who.Token()]
	if w == nil {
		return false
	}
	pl := w.at[at]
	return pl.made >= x.Made || w.newest == at && !pl.ended && time.Since(pl.came) < placeSoon
}

// put takes the place of an identity other than a queue manager, and reports whether it was new.
func (p *places) put(token string, x *identity.Place, role roles.Role, key string, said []byte, now time.Time) bool {
	at, left := transfer.Token(x.At), transfer.Token(x.Left)
	p.mu.Lock()
	w := p.all[token]
	if w == nil {
		if len(p.all) >= maxAgents {
			p.mu.Unlock()
			p.forget(now)
			p.mu.Lock()
		}
		if w = p.all[token]; w == nil {
			if len(p.all) >= maxAgents {
				p.mu.Unlock()
				p.log.Warn("too many agents and users; a place is not taken", slog.String("token", token), slog.Int("limit", maxAgents))
				return false
			}
			w = &whereabouts{at: map[string]placed{}}
			p.all[token] = w
		}
	}
	was, before := w.at[at]
	if was.made >= x.Made && before {
		p.mu.Unlock()
		return false
	}
	changed := !before || was.ended || w.role != role
	if w.role != role {
		p.crowd = nil
	}
	w.role = role
	if x.Who.Role == identity.User {
		p.streams[transfer.StreamAgentOf(x.Who.String(), transfer.ID{}).StreamUser()] = token
	}
	w.at[at] = placed{made: x.Made, came: now, until: untilOf(x, now), said: said, key: key}
	if old := w.at[left]; x.Left != "" && left != at && old.made < x.Made {
		changed = changed || old.made > 0 && !old.ended
		w.at[left] = placed{made: x.Made, until: now, ended: true}
		p.crowd = nil
	}
	for len(w.at) > maxPlacesOfOne {
		oldest := at
		for other, pl := range w.at {
			if pl.made < w.at[oldest].made {
				oldest = other
			}
		}
		delete(w.at, oldest)
		p.crowd = nil
	}
	if p.ways == nil {
		p.crowd = nil
	}
	for peer := range p.ways[at] {
		if p.crowd != nil {
			p.joins(peer, role)
		}
	}
	if x.Made > w.made {
		w.newest, w.made, w.seen = at, x.Made, now
		w.gone = w.gone || !p.here(at)
	}
	if p.here(at) && p.identity != nil && (len(p.own) < maxOwnPlaces || p.own[token] != nil) {
		p.own[token] = said
	}
	p.mu.Unlock()
	if changed {
		p.changed(token, anyone)
	}
	return true
}

// made returns the time of the latest known place of an identity; 0 if none is known.
func (p *places) made(token string) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.all[token]; w != nil {
		return w.made
	}
	return 0
}

// find finds the whereabouts of a token; those of its user for a pipe. p.mu is held.
func (p *places) find(token string) *whereabouts { return p.all[p.signer(token)] }

// signer returns the token of the identity that signs the places of a token: the user of a pipe, or the token itself.
// p.mu is held.
func (p *places) signer(token string) string {
	if user := transfer.AgentName(token).StreamUser(); user != "" {
		return p.streams[user]
	}
	return token
}

// limitsOf bound the places of a peer that are checked, and its other messages, over all its connections.
func (p *places) limitsOf(peer string) (*rate.Limiter, *peerPaces) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fresh[peer] == nil {
		p.fresh[peer], p.paces[peer] = rate.NewLimiter(placesASecond, placesAtOnce), newPeerPaces()
	}
	return p.fresh[peer], p.paces[peer]
}

// untilOf returns the end of a place that has come now.
func untilOf(x *identity.Place, now time.Time) time.Time {
	life := errands.PlaceLife
	if x.Member {
		life = mateLife
	}
	return now.Add(min(life, time.UnixMilli(x.Made).Add(life+errands.MaxClockOff).Sub(now)))
}

// join takes the place of a queue manager, and reports whether it was new.
func (p *places) join(x *identity.Place, key string, said []byte, now time.Time) bool {
	token, at := transfer.Token(x.Who.Name), transfer.Token(x.At)
	p.mu.Lock()
	m := p.managers[token]
	if m == nil {
		if len(p.managers) >= maxManagers {
			p.mu.Unlock()
			return false
		}
		p.arrivals++
		m = &joined{at: map[string]placed{}, number: p.arrivals}
		p.managers[token] = m
	}
	was, before := m.at[at]
	if before && was.made >= x.Made || !before && len(m.at) >= maxManagers {
		p.mu.Unlock()
		return false
	}
	changed := !before || was.ended || was.member != x.Member || m.cluster != x.Cluster
	m.cluster = x.Cluster
	m.at[at] = placed{made: x.Made, until: untilOf(x, now), member: x.Member, said: said, key: key}
	if changed {
		p.ways = nil
	}
	p.mu.Unlock()
	if changed {
		p.changed("")
	}
	return true
}

// anyone is the token of Hears for subjects that depend on all identities behind a channel.
const anyone = gate.Anyone

// changed has the connections of channels ask again about subjects that depend on tokens.
func (p *places) changed(tokens ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, links := range p.links {
		for l := range links {
			l.Changed(tokens...)
		}
	}
}

// hear takes the queue manager in the heartbeat of an agent, in a network without identities. It reports whether the agent
// has come to another queue manager.
func (p *places) hear(token, at string, now time.Time) (came bool) {
	p.mu.Lock()
	w := p.all[token]
	came = w == nil || w.newest != at
	p.mu.Unlock()
	p.put(token, &identity.Place{At: at, Left: p.where(token), Made: now.UnixMilli()}, roles.Agent, "", nil, now)
	return came && !p.here(at)
}

// where returns the token of the queue manager in the latest place of an identity; empty if none is known. A pipe is
// here if its user is here. Other commands of that user may be elsewhere.
func (p *places) where(token string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.find(token)
	if w == nil {
		return ""
	}
	if transfer.AgentName(token).StreamUser() != "" {
		for at, x := range w.at {
			if !x.ended && p.here(at) {
				return at
			}
		}
	}
	return w.newest
}

// hasAgent reports whether an agent with a token has a place.
func (p *places) hasAgent(token string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.all[token]
	return w != nil && w.role == roles.Agent
}

// stays reports whether an identity is here, and was never elsewhere.
func (p *places) stays(token string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.all[token]
	return w != nil && p.here(w.newest) && !w.gone
}

// domainOf returns the token of a queue manager's store: its own token, or that of its cluster.
func (p *places) domainOf(manager string) string {
	if p.here(manager) {
		return p.domain
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.walk()
	if d, ok := p.domains[manager]; ok {
		return d
	}
	return manager
}

// linked notes a connection of a channel, until left is called.
func (p *places) linked(l *gate.Link, c gate.Connection) (left func()) {
	peer := transfer.Token(c.Peer)
	change := func(put bool) {
		p.mu.Lock()
		before := len(p.links[peer])
		if put {
			if p.links[peer] == nil {
				p.links[peer] = map[*gate.Link]linkedPeer{}
			}
			p.links[peer][l] = linkedPeer{Connection: c, began: time.Now()}
		} else if delete(p.links[peer], l); len(p.links[peer]) == 0 {
			delete(p.links, peer)
		}
		turned := before == 0 || len(p.links[peer]) == 0
		if turned {
			p.ways = nil
		}
		p.mu.Unlock()
		if turned {
			p.changed("")
		}
		poke(p.turned)
	}
	change(true)
	return func() { change(false) }
}

// forget ends places after their time, and drops identities that have been silent for a day; without room, for a minute.
func (p *places) forget(now time.Time) {
	var gone []string
	p.mu.Lock()
	most := agentGone
	if len(p.all) >= maxAgents {
		most = agentAway
	}
	for token, w := range p.all {
		if endAll(w.at, now, p.revoked) {
			gone = append(gone, token)
		}
		if now.Sub(w.seen) > most {
			delete(p.all, token)
			maps.DeleteFunc(p.streams, func(_, user string) bool { return user == token })
			gone = append(gone, token)
		}
	}
	graph := false
	for token, m := range p.managers {
		graph = endAll(m.at, now, p.revoked) || graph
		if len(m.at) == 0 {
			delete(p.managers, token)
		}
	}
	if graph {
		p.ways = nil
	}
	if len(gone) > 0 {
		p.crowd = nil
	}
	if now.Sub(p.listMade) > placesKeep {
		p.list = nil
	}
	p.mu.Unlock()
	switch {
	case graph:
		p.changed("")
	case len(gone) > 0:
		p.changed(append(gone, anyone)...)
	}
}

// revoked reports whether a certificate was revoked, by its identity.KeyHash.
func (p *places) revoked(key string) bool { return p.identity != nil && p.identity.Revoked(key) }

// endAll ends places after their time, and those with a revoked signature, and reports whether one ended.
func endAll(at map[string]placed, now time.Time, revoked func(key string) bool) (some bool) {
	for manager, x := range at {
		if !x.ended && x.until.After(now) && revoked(x.key) {
			x.until = now.Add(-1)
		}
		did, gone := x.ends(now)
		some = some || did
		if at[manager] = x; gone {
			delete(at, manager)
		}
	}
	return some
}
