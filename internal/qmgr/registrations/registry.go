package registrations

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
	"ferry/internal/sys/sleep"
	"ferry/internal/transfer"
)

// Times and limits of registrations.
const (
	// otherMemberLife is errands.RegistrationLife for a member of a cluster that names another member. For that time the
	// other member forwards messages while this one is away.
	otherMemberLife = 24 * time.Hour
	// ProofAge is the greatest age of the registration that proves that the author of a stored message was at the queue manager.
	// Commands are kept for 14 days.
	ProofAge = 15 * 24 * time.Hour

	// repeatedSoon is the time after a registration in which no other one of the identity at the same queue manager is taken:
	// commands in a loop cost one registration.
	repeatedSoon = 30 * time.Second

	MaxRegistration = 8 << 10 // bytes of a registration
	maxOfOne        = 16      // registrations of one identity, ended ones included
	maxInAnswer     = 64      // registrations in one answer of a queue manager
	maxHops         = 8       // channels between a queue manager and the farthest other one
	maxOwnProofs    = 100_000 // registrations that are kept as proofs
	proofsFile      = "places.json"
	keepProofs      = 12 * time.Hour // between two writes of the proof of one identity
)

// A Registry has the queue managers that agents, users, services and other queue managers are at. In a network with identities each
// identity signs its registrations (identity.Registration). Without identities the heartbeats of agents say them.
//
// An identity is behind a channel if it is at the queue manager at the other end, or at a queue manager that leads there. Each
// queue manager signs its registrations at the queue managers that channels and its cluster join it to.
type Registry struct {
	Identity *identity.Identity // of this queue manager; nil: the network has none
	Self     string             // the token of this queue manager
	// domain is the token of the queue manager, or of its cluster, and isOtherMember reports whether a token is another member's.
	domain        string
	isOtherMember func(token string) bool
	admission     func() *claims.Admission
	log           *slog.Logger
	quiet         *quiet.Log
	path          string // of the file that keeps proofs

	Mu              sync.Mutex
	All             map[string]*identityRegistrations    // by token, but for queue managers
	Managers        map[string]*managerRegistrations     // queue managers, by token
	links           map[string]map[*gate.Link]linkedPeer // by the token of the peer
	routes          map[string]map[string]bool           // by the token of a queue manager, the peers that lead there; nil: to be found
	domains         map[string]string                    // by the token of a queue manager that is in a cluster
	rolesBehind     map[string]map[roles.Role]bool       // by the token of a peer, the roles behind it; nil: to be found
	own             map[string]json.RawMessage           // by token, proofs of clients
	kept            map[string]int64                     // by token, the times of the proofs in the file
	names           map[string]string                    // by token, the names of queue managers
	fresh           map[string]*rate.Limiter             // by the token of a peer, of registrations to check
	limits          map[string]*peerLimits               // likewise, of other messages
	streams         map[string]string                    // by transfer.AgentName.StreamUser of a user's pipes, the user's token
	list            []listed                             // in the order of their keys; nil: to be made
	listMade        time.Time
	arrivals        uint64        // counts new queue managers, to order them
	ChannelsChanged chan struct{} // has one when a channel has come up or gone
}

// A linkedPeer is a connection of a channel.
type linkedPeer struct {
	gate.Connection
	began time.Time
	asked bool // its queue manager has been asked for the registrations that it knows
}

// identityRegistrations are the registrations of one identity.
type identityRegistrations struct {
	At     map[string]Registration // by the queue manager's token
	newest string                  // the token of the queue manager in the latest registration
	made   int64                   // of the latest registration
	seen   time.Time               // when it came
	gone   bool                    // the identity was elsewhere once: its messages may have been forwarded
	role   roles.Role
}

// A Registration is a signed registration with its times. One that has ended is remembered while a queue manager could replay it.
type Registration struct {
	made   int64
	came   time.Time
	until  time.Time // when it ends
	Ended  bool
	member bool
	said   json.RawMessage
	key    string // identity.KeyHash of the certificate that has signed it
}

// endIfDue ends a registration after its time, and reports whether it did. gone reports that a replay would be refused as too old.
func (x *Registration) endIfDue(now time.Time) (did, gone bool) {
	did = !x.Ended && now.After(x.until)
	x.Ended = x.Ended || did
	return did, x.Ended && now.After(x.until.Add(errands.RegistrationLife+2*errands.MaxClockOff))
}

// managerRegistrations is a queue manager with its registrations at others.
type managerRegistrations struct {
	At      map[string]Registration
	cluster string // as it announces itself
	number  uint64 // the order of arrival
}

// A Config describes the queue manager that keeps registrations.
type Config struct {
	Name         string
	Domain       string                   // its token, or that of its cluster
	Dir          string                   // its directory
	Identity     *identity.Identity       // nil: the network has none
	OtherMembers func() []string          // the names of the other members of its cluster; nil: it is in none
	Admission    func() *claims.Admission // the present claims of the network
	Log          *slog.Logger
}

// New returns the registry of a queue manager, with the proofs that it has kept.
func New(cfg Config) *Registry {
	p := &Registry{Identity: cfg.Identity, Self: transfer.Token(cfg.Name), domain: cfg.Domain, log: cfg.Log, quiet: quiet.New(cfg.Log, nil), admission: cfg.Admission, path: filepath.Join(cfg.Dir, proofsFile),
		All: map[string]*identityRegistrations{}, Managers: map[string]*managerRegistrations{}, links: map[string]map[*gate.Link]linkedPeer{}, own: map[string]json.RawMessage{}, kept: map[string]int64{}, ChannelsChanged: make(chan struct{}, 1), fresh: map[string]*rate.Limiter{}, limits: map[string]*peerLimits{}, streams: map[string]string{},
		names: map[string]string{transfer.Token(cfg.Name): cfg.Name}}
	p.isOtherMember = func(token string) bool {
		return cfg.OtherMembers != nil && slices.ContainsFunc(cfg.OtherMembers(), func(name string) bool { return transfer.Token(name) == token })
	}
	return p
}

// here reports whether a token is that of this queue manager, of its cluster, or of another member.
func (p *Registry) here(at string) bool { return at == p.Self || at == p.domain || p.isOtherMember(at) }

// Take takes a registration, and reports whether it was new. Its errors are of KindMalformed, KindDenied, KindClock or KindTooLarge.
func (p *Registry) Take(said []byte) (x identity.Registration, fresh bool, err error) {
	x, made, err := ReadRegistration(said)
	if err != nil {
		return x, false, err
	}
	now := time.Now()
	if made.Sub(now) > errands.MaxClockOff || now.Sub(made) > errands.RegistrationLife+errands.MaxClockOff {
		return x, false, transfer.Errorf(transfer.KindClock, "the registration of %s was made at %s, too far from now", x.Who, made.UTC().Format(time.RFC3339))
	}
	if p.known(&x) {
		return x, false, nil
	}
	role, key, err := p.check(&x)
	if err != nil {
		return x, false, err
	}
	if x.Who.Role == identity.Manager {
		if err := p.CheckSpelling(x.Who.Name); err != nil {
			return x, false, err
		}
		return x, p.join(&x, key, said, now), nil
	}
	return x, p.put(x.Who.Token(), &x, role, key, said, now), nil
}

// CheckSpelling returns an error if two queue managers have names with one token, such as qm and QM. It returns nil for the
// first one.
func (p *Registry) CheckSpelling(name string) error {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	token := transfer.Token(name)
	if first, ok := p.names[token]; ok && first != name {
		return transfer.Errorf(transfer.KindConflict, "two queue managers are called %s and %s", first, name)
	}
	p.names[token] = name
	return nil
}

// ReadRegistration decodes a registration, and returns it with its time. It does not check the signature. Its errors
// are of KindTooLarge and KindMalformed.
func ReadRegistration(said []byte) (x identity.Registration, made time.Time, err error) {
	if len(said) > MaxRegistration {
		return x, made, transfer.Errorf(transfer.KindTooLarge, "a registration has %d bytes; the limit is %d", len(said), MaxRegistration)
	}
	if err := json.Unmarshal(said, &x); err != nil {
		return x, made, transfer.Errorf(transfer.KindMalformed, "a registration cannot be read")
	}
	return x, time.UnixMilli(x.Made), nil
}

// check checks the signature of a registration, and returns the role of its author and the KeyHash of the author's certificate.
func (p *Registry) check(x *identity.Registration) (role roles.Role, key string, err error) {
	if key, err = p.Identity.CheckRegistration(x); err != nil {
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
		err = transfer.Errorf(transfer.KindDenied, "the registration of %s has the ticket of a pipe", x.Who)
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

// known reports whether a registration is no newer than the known one at the same queue manager.
func (p *Registry) known(x *identity.Registration) bool {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	at := transfer.Token(x.At)
	if x.Who.Role == identity.Manager {
		m := p.Managers[transfer.Token(x.Who.Name)]
		return m != nil && m.At[at].made >= x.Made
	}
	w := p.All[x.Who.Token()]
	if w == nil {
		return false
	}
	pl := w.At[at]
	return pl.made >= x.Made || w.newest == at && !pl.Ended && time.Since(pl.came) < repeatedSoon
}

// put takes the registration of an identity other than a queue manager, and reports whether it was new.
func (p *Registry) put(token string, x *identity.Registration, role roles.Role, key string, said []byte, now time.Time) bool {
	at, left := transfer.Token(x.At), transfer.Token(x.Left)
	p.Mu.Lock()
	w := p.All[token]
	if w == nil {
		if len(p.All) >= MaxAgents {
			p.Mu.Unlock()
			p.Forget(now)
			p.Mu.Lock()
		}
		if w = p.All[token]; w == nil {
			if len(p.All) >= MaxAgents {
				p.Mu.Unlock()
				p.log.Warn("too many agents and users; a registration is not taken", slog.String("token", token), slog.Int("limit", MaxAgents))
				return false
			}
			w = &identityRegistrations{At: map[string]Registration{}}
			p.All[token] = w
		}
	}
	was, before := w.At[at]
	if was.made >= x.Made && before {
		p.Mu.Unlock()
		return false
	}
	changed := !before || was.Ended || w.role != role
	if w.role != role {
		p.rolesBehind = nil
	}
	w.role = role
	if x.Who.Role == identity.User {
		p.streams[transfer.StreamAgentOf(x.Who.String(), transfer.ID{}).StreamUser()] = token
	}
	w.At[at] = Registration{made: x.Made, came: now, until: untilOf(x, now), said: said, key: key}
	if old := w.At[left]; x.Left != "" && left != at && old.made < x.Made {
		changed = changed || old.made > 0 && !old.Ended
		w.At[left] = Registration{made: x.Made, until: now, Ended: true}
		p.rolesBehind = nil
	}
	for len(w.At) > maxOfOne {
		oldest := at
		for other, pl := range w.At {
			if pl.made < w.At[oldest].made {
				oldest = other
			}
		}
		delete(w.At, oldest)
		p.rolesBehind = nil
	}
	if p.routes == nil {
		p.rolesBehind = nil
	}
	for peer := range p.routes[at] {
		if p.rolesBehind != nil {
			p.joins(peer, role)
		}
	}
	if x.Made > w.made {
		w.newest, w.made, w.seen = at, x.Made, now
		w.gone = w.gone || !p.here(at)
	}
	if p.here(at) && p.Identity != nil && (len(p.own) < maxOwnProofs || p.own[token] != nil) {
		p.own[token] = said
	}
	p.Mu.Unlock()
	if changed {
		p.changed(token, anyone)
	}
	return true
}

// Made returns the time of the latest known registration of an identity; 0 if none is known.
func (p *Registry) Made(token string) int64 {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if w := p.All[token]; w != nil {
		return w.made
	}
	return 0
}

// find finds the whereabouts of a token; those of its user for a pipe. p.Mu is held.
func (p *Registry) find(token string) *identityRegistrations { return p.All[p.signer(token)] }

// signer returns the token of the identity that signs the registrations of a token: the user of a pipe, or the token itself.
// p.Mu is held.
func (p *Registry) signer(token string) string {
	if user := transfer.AgentName(token).StreamUser(); user != "" {
		return p.streams[user]
	}
	return token
}

// limitsOf bound the registrations of a peer that are checked, and its other messages, over all its connections.
func (p *Registry) limitsOf(peer string) (*rate.Limiter, *peerLimits) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if p.fresh[peer] == nil {
		p.fresh[peer], p.limits[peer] = rate.NewLimiter(checksASecond, checksAtOnce), newPeerLimits()
	}
	return p.fresh[peer], p.limits[peer]
}

// untilOf returns the end of a registration that has come now.
func untilOf(x *identity.Registration, now time.Time) time.Time {
	life := errands.RegistrationLife
	if x.Member {
		life = otherMemberLife
	}
	return now.Add(min(life, time.UnixMilli(x.Made).Add(life+errands.MaxClockOff).Sub(now)))
}

// join takes the registration of a queue manager, and reports whether it was new.
func (p *Registry) join(x *identity.Registration, key string, said []byte, now time.Time) bool {
	token, at := transfer.Token(x.Who.Name), transfer.Token(x.At)
	p.Mu.Lock()
	m := p.Managers[token]
	if m == nil {
		if len(p.Managers) >= MaxManagers {
			p.Mu.Unlock()
			return false
		}
		p.arrivals++
		m = &managerRegistrations{At: map[string]Registration{}, number: p.arrivals}
		p.Managers[token] = m
	}
	was, before := m.At[at]
	if before && was.made >= x.Made || !before && len(m.At) >= MaxManagers {
		p.Mu.Unlock()
		return false
	}
	changed := !before || was.Ended || was.member != x.Member || m.cluster != x.Cluster
	m.cluster = x.Cluster
	m.At[at] = Registration{made: x.Made, until: untilOf(x, now), member: x.Member, said: said, key: key}
	if changed {
		p.routes = nil
	}
	p.Mu.Unlock()
	if changed {
		p.changed("")
	}
	return true
}

// anyone is the token of Hears for subjects that depend on all identities behind a channel.
const anyone = gate.Anyone

// changed has the connections of channels ask again about subjects that depend on tokens.
func (p *Registry) changed(tokens ...string) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for _, links := range p.links {
		for l := range links {
			l.Changed(tokens...)
		}
	}
}

// TakeHeartbeat takes the queue manager in the heartbeat of an agent, in a network without identities. It reports whether the agent
// has come to another queue manager.
func (p *Registry) TakeHeartbeat(token, at string, now time.Time) (came bool) {
	p.Mu.Lock()
	w := p.All[token]
	came = w == nil || w.newest != at
	p.Mu.Unlock()
	p.put(token, &identity.Registration{At: at, Left: p.Where(token), Made: now.UnixMilli()}, roles.Agent, "", nil, now)
	return came && !p.here(at)
}

// Where returns the token of the queue manager in the latest registration of an identity; empty if none is known. A pipe is
// here if its user is here. Other commands of that user may be elsewhere.
func (p *Registry) Where(token string) string {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	w := p.find(token)
	if w == nil {
		return ""
	}
	if transfer.AgentName(token).StreamUser() != "" {
		for at, x := range w.At {
			if !x.Ended && p.here(at) {
				return at
			}
		}
	}
	return w.newest
}

// HasAgent reports whether an agent with a token has a registration.
func (p *Registry) HasAgent(token string) bool {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	w := p.All[token]
	return w != nil && w.role == roles.Agent
}

// StaysHere reports whether an identity is here, and was never elsewhere.
func (p *Registry) StaysHere(token string) bool {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	w := p.All[token]
	return w != nil && p.here(w.newest) && !w.gone
}

// DomainOf returns the token of a queue manager's store: its own token, or that of its cluster.
func (p *Registry) DomainOf(manager string) string {
	if p.here(manager) {
		return p.domain
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.walk()
	if d, ok := p.domains[manager]; ok {
		return d
	}
	return manager
}

// Linked notes a connection of a channel, until left is called.
func (p *Registry) Linked(l *gate.Link, c gate.Connection) (left func()) {
	peer := transfer.Token(c.Peer)
	change := func(put bool) {
		p.Mu.Lock()
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
			p.routes = nil
		}
		p.Mu.Unlock()
		if turned {
			p.changed("")
		}
		sleep.Wake(p.ChannelsChanged)
	}
	change(true)
	return func() { change(false) }
}

// Forget ends registrations after their time, and drops identities that have been silent for a day; without room, for a minute.
func (p *Registry) Forget(now time.Time) {
	var gone []string
	p.Mu.Lock()
	most := agentGone
	if len(p.All) >= MaxAgents {
		most = AgentAway
	}
	for token, w := range p.All {
		if endAll(w.At, now, p.revoked) {
			gone = append(gone, token)
		}
		if now.Sub(w.seen) > most {
			delete(p.All, token)
			maps.DeleteFunc(p.streams, func(_, user string) bool { return user == token })
			gone = append(gone, token)
		}
	}
	graph := false
	for token, m := range p.Managers {
		graph = endAll(m.At, now, p.revoked) || graph
		if len(m.At) == 0 {
			delete(p.Managers, token)
		}
	}
	if graph {
		p.routes = nil
	}
	if len(gone) > 0 {
		p.rolesBehind = nil
	}
	if now.Sub(p.listMade) > KeepEvery {
		p.list = nil
	}
	p.Mu.Unlock()
	switch {
	case graph:
		p.changed("")
	case len(gone) > 0:
		p.changed(append(gone, anyone)...)
	}
}

// revoked reports whether a certificate was revoked, by its identity.KeyHash.
func (p *Registry) revoked(key string) bool { return p.Identity != nil && p.Identity.Revoked(key) }

// endAll ends registrations after their time, and those with a revoked signature, and reports whether one ended.
func endAll(at map[string]Registration, now time.Time, revoked func(key string) bool) (some bool) {
	for manager, x := range at {
		if !x.Ended && x.until.After(now) && revoked(x.key) {
			x.until = now.Add(-1)
		}
		did, gone := x.endIfDue(now)
		some = some || did
		if at[manager] = x; gone {
			delete(at, manager)
		}
	}
	return some
}

const (
	MaxManagers = 10_000
)

const (
	MaxAgents = 100_000
	agentGone = 24 * time.Hour // without a heartbeat
	AgentAway = time.Minute
)

const (
	KeepEvery = time.Minute // between two looks whether the file is to be written
)

// Peers returns the names of the queue managers at the other ends of channels.
func (p *Registry) Peers() map[string]bool {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	all := map[string]bool{}
	for _, links := range p.links {
		for _, c := range links {
			all[c.Peer] = true
		}
	}
	return all
}

// Unasked returns the tokens of peers that have a new connection and were not asked for registrations since.
func (p *Registry) Unasked() map[string]bool {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	all := map[string]bool{}
	for peer, links := range p.links {
		for _, c := range links {
			all[peer] = all[peer] || !c.asked
		}
	}
	maps.DeleteFunc(all, func(_ string, is bool) bool { return !is })
	return all
}

// Asked notes that a peer was asked, from a time on.
func (p *Registry) Asked(peer string, from time.Time) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	for l, c := range p.links[peer] {
		c.asked = c.asked || c.began.Before(from)
		p.links[peer][l] = c
	}
}

// Connections returns the connections of channels.
func (p *Registry) Connections() map[*gate.Link]gate.Connection {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	all := map[*gate.Link]gate.Connection{}
	for _, links := range p.links {
		for l, c := range links {
			all[l] = c.Connection
		}
	}
	return all
}
