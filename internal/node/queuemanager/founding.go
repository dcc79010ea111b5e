package queuemanager

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"ferry/internal/node/member"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/forward"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/server"
	"ferry/internal/security/authority"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identities"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A localAuthority is the network's authority in the process of `ferry up` or `ferry authority run`. It holds the identities of
// the services in this process, too.
type localAuthority struct {
	*authority.Authority
	ctx   context.Context // ends with stop
	end   context.CancelFunc
	log   *slog.Logger
	dir   string             // of `ferry up`
	store *identities.Store  // of the OS user; nil: there is no state directory
	self  *identity.Identity // the authority's own
	qm    *identity.Identity // the queue manager's

	link  atomic.Pointer[networkLink] // to the network; nil: it is not reached yet
	enrol string                      // HOST:PORT where joiners ask
	tasks sync.WaitGroup

	open func(network, address string) (net.Listener, error) // for joiners: net.Listen

	changing sync.Mutex // one change at a time

	mu   sync.Mutex
	all  []*identity.Identity // of the services in this process
	wake chan chan<- error    // a token was made: serveJoiners answers once it listens

	again chan struct{} // the network is reached again
}

// A networkLink is the connection of an authority to its network.
type networkLink struct {
	conn  *qmgr.Conn // the authority's
	admit func(roles.Claims) error
}

// Lines of the state directory.
const (
	authorityDir  = "authority"
	identitiesDir = "identities"
)

// openLocalAuthority opens the authority in a state directory, or makes a network there.
func openLocalAuthority(ctx context.Context, dir string, log *slog.Logger) (*localAuthority, error) {
	if err := checkAuthorityPresent(dir); err != nil {
		return nil, err
	}
	a, err := authority.Open(filepath.Join(dir, authorityDir), time.Now)
	if transfer.KindOf(err) == transfer.KindAlive {
		return nil, transfer.Errorf(transfer.KindAlive, "the directory %s is in use by another queue manager", dir).
			WithHint("stop that one, or give this one a directory of its own with --dir")
	}
	if err != nil {
		return nil, err
	}
	if authority.Founded(a) {
		log.Warn("founded a new network, because the directory had none; keep a backup of it", "network", a.Network(), "dir", filepath.Join(dir, authorityDir))
	}
	h := &localAuthority{Authority: a, log: log, dir: dir, open: net.Listen, wake: make(chan chan<- error), again: make(chan struct{}, 1)}
	h.ctx, h.end = context.WithCancel(ctx)
	if h.self, err = h.issue(filepath.Join(dir, identitiesDir, "authority"), identity.Authority, "", roles.Authority); err == nil {
		err = h.user()
	}
	if err != nil {
		h.stop()
		return nil, err
	}
	return h, nil
}

// checkAuthorityPresent returns an error of KindLost where a state directory has identities of a network but not its authority. A new
// authority would begin another network.
func checkAuthorityPresent(dir string) error {
	path := filepath.Join(dir, authorityDir)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range []string{"authority", "qm"} {
		i, err := member.Stored(filepath.Join(dir, identitiesDir, name))
		if err == nil {
			return transfer.Errorf(transfer.KindLost, "%s, the authority of the network %s, is missing: identities that it has issued are there", path, i.Name().Network).
				WithHint("put it back from its backup; where it runs elsewhere give --authority none; to begin another network move " + filepath.Join(dir, identitiesDir) + " and " + filepath.Join(dir, "qm") + " aside")
		}
	}
	return nil
}

// user gives the OS user an identity. The commands of this user act under it in the network.
func (a *localAuthority) user() error {
	store, err := member.Identities()
	if err != nil {
		a.log.Warn("this user gets no identity: there is no place for it", "error", err)
		return nil
	}
	if err := store.Sweep(time.Now(), a.Network()); err != nil {
		a.log.Warn("identities of this user that have ended are not removed", "error", err)
	}
	dir, err := store.Dir(a.Network())
	if os.Geteuid() == 0 && errors.As(err, new(*keyfile.ForeignError)) { // a HOME that is not root's
		return err
	}
	if err != nil { // as of a service that may write nowhere else
		a.log.Warn("this user gets no identity: it cannot be kept", "error", err)
		return nil
	}
	a.store = store
	name := identity.Name{Network: a.Network(), Role: identity.User, Name: member.UserName()}
	if _, err := identity.Load(dir); errors.Is(err, fs.ErrNotExist) && a.Role(name) != "" {
		a.log.Warn("the user has an identity of the network in another state directory; this one gets new keys, and agents stop the monitors, schedules and jobs made with the others. "+
			"To keep them start with the former HOME or XDG_STATE_HOME", "identity", name, "dir", dir.Path())
	}
	_, err = a.issueIn(dir, identity.User, name.Name, roles.Admin)
	return err
}

// issue is the identity of something that runs here, in a directory; it is made where it is
// missing or due.
func (a *localAuthority) issue(path string, role identity.Role, name string, as roles.Role) (*identity.Identity, error) {
	dir, err := keyfile.Make(path)
	if err != nil {
		return nil, err
	}
	return a.issueIn(dir, role, name, as)
}

func (a *localAuthority) issueIn(dir *keyfile.Dir, role identity.Role, name string, as roles.Role) (*identity.Identity, error) {
	want := identity.Name{Network: a.Network(), Role: role, Name: name}
	i, err := identity.Load(dir)
	if errors.Is(err, keyfile.ErrInsecure) {
		return nil, err
	}
	if role == identity.Agent && a.Revoked(want) {
		return nil, transfer.Errorf(transfer.KindDenied, "the identity of agent %s was revoked", name).
			WithHint("to let it in again: `ferry token create --agent " + name + "`, and `ferry agent run " + name + " --join FILE`")
	}
	if err == nil && !a.current(i, want, as) {
		// The name has other keys by now, or none. New keys can finish the work begun with these, because the name
		// belongs to this host.
		a.log.Warn("the identity is not as it was issued last; it gets new keys", "identity", want, "was", i.Name())
		if dir, err = member.PutAside(dir.Path()); err != nil {
			return nil, err
		}
		err = fs.ErrNotExist
	}
	if now := time.Now(); err != nil || !now.Before(i.Due()) || now.Before(i.Certificate().Leaf.NotBefore) || !a.latest(i) {
		fresh, ierr := a.IssueTo(dir, want, as, "")
		switch {
		case ierr == nil:
			i = fresh
			a.changed()
		case err == nil && transfer.Full(ierr) && time.Now().Before(i.Until()):
			a.log.Warn("the identity is not renewed yet", "identity", want, "until", i.Until(), "error", ierr)
		default:
			return nil, ierr
		}
	}

	a.mu.Lock()
	a.all = append(a.all, i)
	a.mu.Unlock()
	a.tasks.Go(func() { member.KeepRenewed(a.ctx, i, func(context.Context) error { return a.renew(i) }, a.log) })
	return i, nil
}

// renew renews an identity of a service in this process.
func (a *localAuthority) renew(i *identity.Identity) error {
	w, err := authority.IdentityRequestOf(i.Keys())
	if err != nil {
		return err
	}
	g, err := a.Renew(i.Name(), w)
	if err != nil {
		return err
	}
	return i.Renew(g)
}

// latest reports whether an identity was issued since the authority's keys have changed last.
func (a *localAuthority) latest(i *identity.Identity) bool {
	return slices.Equal(i.Known(), a.Roots().Hashes())
}

// follow renews the identities in this process after a change of the authority's keys. It runs before queue managers
// get the change, because they may then refuse the old keys.
func (a *localAuthority) follow() error {
	a.mu.Lock()
	all := slices.Clone(a.all)
	a.mu.Unlock()
	var err error
	for _, i := range all {
		if !a.latest(i) {
			err = errors.Join(err, a.renew(i))
		}
	}
	return err
}

// current reports whether an identity has the name, the role and the keys that the authority issued last for want.
func (a *localAuthority) current(i *identity.Identity, want identity.Name, as roles.Role) bool {
	w, err := authority.IdentityRequestOf(i.Keys())
	return err == nil && i.Name() == want && a.Role(want) == as && a.Has(want, w)
}

// Enrol enrols an identity at the authority and publishes the change at once. The name may get new keys by it. Enrol
// refuses that while an agent or a queue manager of the name runs, because new keys would disconnect it.
func (a *localAuthority) Enrol(secret string, as identity.Name, w authority.IdentityRequest) (identity.Grant, error) {
	if name, ok := a.Replaces(secret, as, w); ok {
		if err := a.checkNotRunning(name); err != nil {
			return identity.Grant{}, err
		}
	}
	g, err := a.Authority.Enrol(secret, as, w)
	if err == nil {
		a.changed()
	}
	return g, err
}

// checkNotRunning is an error of KindAlive where something of a name runs.
func (a *localAuthority) checkNotRunning(name identity.Name) error {
	w := a.link.Load()
	switch {
	case w == nil, name.Role == identity.User: // the authority cannot know
		return nil
	case name.Role == identity.Manager:
		if managerRuns(a.ctx, w.conn, name.Name) {
			return transfer.Errorf(transfer.KindAlive, "queue manager %s runs", name.Name).WithHint("stop it, or have a token made for another name")
		}
		return nil
	}
	return member.CheckNotRunning(a.ctx, w.conn, name)
}

// guard returns the guard of the queue manager: its identity, the claims and the rules for connections.
func (a *localAuthority) guard(name string) (*server.Guard, error) {
	var err error
	if a.qm, err = a.issue(filepath.Join(a.dir, identitiesDir, "qm"), identity.Manager, name, roles.Manager); err != nil {
		return nil, err
	}
	claims, err := a.Claims()
	if err != nil {
		return nil, err
	}
	// The claims are kept for a later move of the authority to another process.
	keep := func(c roles.Claims) error { return keepClaims(a.qm, c) }
	if err := keep(claims); transfer.Full(err) {
		a.log.Warn("the disk is full: the claims of the queue manager are kept later", "dir", a.dir, "error", err)
	} else if err != nil {
		return nil, err
	}
	rules := &queueRules{document: a.document}
	return &server.Guard{Identity: a.qm, Claims: claims, Keep: keep, May: rules.may, Enrolled: func(token string) bool { return authority.Enrolled(a.Authority, token) }}, nil
}

// attend has the authority answer until stop, over the queue manager and, while a token is open, at the address
// enrolAt; "": the port after the queue manager's.
func (a *localAuthority) attend(server *server.Server, listen, enrolAt string) error {
	var err error
	if a.enrol, err = nextPort(enrolAt, listen, server.URL()); err != nil {
		return err
	}
	if a.store != nil {
		for _, at := range qmgr.Addresses(server.URL()) {
			if was, err := a.store.Network(at); err == nil && was != a.Network() && authority.Founded(a.Authority) {
				a.log.Warn("the address belonged to another network: its agents and users are not let in. Where its directory was lost, stop, and restore it from its backup", "at", at, "network", a.Network(), "was", was)
			}
		}
		if err := a.store.SetNetwork(a.Network(), reached(listen, qmgr.Addresses(server.URL()))...); err != nil {
			return err
		}
	}
	conn, err := qmgr.Connect(a.ctx, qmgr.ConnConfig{Server: server, Name: "ferry authority", Identity: a.self, Early: true, Log: a.log})
	if err != nil {
		return err
	}
	if err := a.serve(&networkLink{conn, server.Admit}); err != nil {
		return err
	}
	a.tasks.Go(a.serveJoiners)
	return nil
}

// serve has the authority answer questions of the network.
func (a *localAuthority) serve(w *networkLink) error {
	a.link.Store(w)
	desk := &enrol.Responder{Authority: a.Authority, Conn: w.conn, Token: a.token, Changed: a.changed, Log: a.log}
	stop, err := desk.Attend()
	if err != nil {
		return err
	}
	// A queue manager that comes back gets at once the changes that it has missed.
	type heard struct {
		instance string
		at       time.Time
	}
	seen := map[string]heard{}
	unsubscribe, err := w.conn.Subscribe(wire.AllManagers, func(m qmgr.Message) {
		token, now := wire.LastToken(m.Subject), heard{forward.InstanceOf(m.Data), time.Now()}
		was, known := seen[token]
		if known || len(seen) < maxManagersSeen {
			seen[token] = now
		}
		if was.instance != now.instance || now.at.Sub(was.at) > managerAway {
			select {
			case a.again <- struct{}{}:
			default:
			}
		}
	})
	if err != nil {
		stop()
		return err
	}
	a.tasks.Go(func() { <-a.ctx.Done(); unsubscribe(); stop() })
	a.tasks.Go(a.publish)
	return nil
}

const (
	maxManagersSeen = 10_000          // queue managers that are remembered
	managerAway     = 7 * time.Second // without a word: it has missed something
)

// caller returns the configuration for the connection of a service in this process to its queue manager. Where there
// are no identities it connects as token. name is the name of the agent, for an agent.
func (a *localAuthority) caller(server *server.Server, token string, role identity.Role, name string, log *slog.Logger) (cc qmgr.ConnConfig, err error) {
	cc = qmgr.ConnConfig{Server: server, Name: name, Self: token, Timeout: server.Patience(), Log: log}
	if a == nil {
		return cc, nil
	}
	switch role {
	case identity.Agent:
		cc.Identity, err = a.issue(filepath.Join(a.dir, "agents", name, member.IdentityDir), role, name, roles.Agent)
	case identity.Manager: // which may speak as any token
		cc.Identity = a.qm
	default:
		cc.Identity, err = a.issue(filepath.Join(a.dir, identitiesDir, string(role)), role, "", roles.Role(role))
	}
	return cc, err
}

// forgetAddresses makes the OS user's commands connect without identities to a queue manager that has none any more.
func forgetAddresses(listen string) error {
	store, err := member.Identities()
	if err != nil {
		return nil // then there are none
	}
	_, err = store.Network(listen)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return store.SetNetwork("", listen)
}

// document is the newest rules document; nil, of none.
func (a *localAuthority) document() (*trust.Document, error) {
	if a == nil {
		return nil, nil
	}
	doc, err := a.Trust(trust.Rules)
	if err != nil {
		return nil, err
	}
	return trust.Open(a.self.Trust(), a.Network(), doc)
}

// stop ends everything; it may be called again, and of none.
func (a *localAuthority) stop() {
	if a == nil {
		return
	}
	a.end()
	a.tasks.Wait()
	if w := a.link.Load(); w != nil {
		w.conn.Close()
	}
	a.Close()
}

// changed publishes the claims and the trust document, so that revoked identities are refused. An authority that has
// not reached its network yet does so when it has.
func (a *localAuthority) changed() {
	w := a.link.Load()
	if w == nil {
		return
	}
	a.changing.Lock() // the claims that are read first are admitted first
	defer a.changing.Unlock()
	err := a.follow()
	claims, cerr := a.Claims()
	if err = errors.Join(err, cerr); cerr == nil {
		err = errors.Join(err, w.admit(claims), tellManagers(w.conn, claims))
	}
	err = errors.Join(err, a.distrust(w)) // agents get it even where a queue manager fails
	if err != nil {
		a.log.Error("some queue managers do not refuse the revoked identities yet", "error", err)
	}
}

// tellManagers sends the claims to the queue managers that are reached by channels.
func tellManagers(conn *qmgr.Conn, claims roles.Claims) error {
	data, err := json.Marshal(claims)
	if err != nil {
		return err
	}
	return conn.Publish(wire.Claims, data)
}

// distrust publishes the revoked keys and the trusted roots, and applies both to the identities in this process.
func (a *localAuthority) distrust(w *networkLink) error {
	doc, err := a.Trust(trust.Keys)
	if err != nil {
		return err
	}
	d, err := trust.Open(a.self.Trust(), a.Network(), doc)
	if err != nil {
		return err
	}
	var keys []string
	for _, r := range d.Revoked {
		keys = append(keys, r.TLS)
	}
	a.mu.Lock()
	for _, i := range a.all {
		i.Distrust(keys)
		i.Trusting(d.Roots)
	}
	a.mu.Unlock()
	rules, err := a.Trust(trust.Rules)
	if err == nil {
		err = w.conn.Publish(wire.Rules, rules)
	}
	return errors.Join(err, w.conn.Publish(wire.Trust, doc))
}

// clockTrustedAfter is the least running time of the process before it rotates or gives up keys. It also bounds the change of the
// host's clock in that time. A host that starts with a clock years ahead would otherwise rotate at once, and a
// correction of the clock could not undo that.
const clockTrustedAfter = time.Hour

// rotateStep does the step that is due of a rotation of keys, once the clock can be believed.
func (a *localAuthority) rotateStep(began time.Time) (changed bool, err error) {
	ran := time.Since(began) // by the monotonic clock, which cannot be set
	shown := time.Now().Round(0).Sub(began.Round(0))
	if ran < clockTrustedAfter || (shown-ran).Abs() > clockTrustedAfter {
		return false, nil
	}
	return a.RotateIfDue()
}

// publish repeats the trust document for the agents and queue managers that were away.
func (a *localAuthority) publish() {
	t := time.NewTicker(publishEvery)
	defer t.Stop()
	began := time.Now()
	for {
		if changed, err := a.rotateStep(began); err != nil {
			a.log.Error("the authority's keys are not rotated yet", "error", err)
		} else if changed {
			a.log.Info("the authority has rotated its keys, or given up old ones")
		}
		a.changed()
		select {
		case <-t.C:
		case <-a.again:
		case <-a.ctx.Done():
			return
		}
	}
}

const (
	publishEvery = 5 * time.Minute
	joinersLook  = time.Second
	joinersStay  = time.Minute // after the last token: an answer may be lost, and asked for again
)

// token writes a token's secret as joiners are given it, and returns once the authority listens for joiners.
func (a *localAuthority) token(secret string) (string, error) {
	listens := make(chan error, 1)
	select {
	case a.wake <- listens:
	case <-a.ctx.Done():
		return "", context.Cause(a.ctx)
	}
	select {
	case err := <-listens:
		if err != nil {
			return "", transfer.Errorf(transfer.KindUnreachable, "the authority cannot listen for joiners at %s: %w", a.enrol, err).
				WithHint("free the address, or start the queue manager with another --enrol; the token is kept, and `ferry token rm` removes it")
		}
	case <-a.ctx.Done():
		return "", context.Cause(a.ctx)
	}
	t := enrol.Token{Network: a.Network(), Root: a.Roots().Hash(), Secret: secret, Addresses: reached(a.enrol, []string{a.enrol})}
	return t.String(), nil
}

// serveJoiners listens while a token is open. Where the listener ends by an error, serveJoiners listens again at the next
// look, or before the next token is given out.
func (a *localAuthority) serveJoiners() {
	var end context.CancelFunc
	var closed chan struct{}
	var last time.Time
	var asked chan<- error // answered once it listens
	failed := false
	t := time.NewTicker(joinersLook)
	defer t.Stop()
	for {
		select {
		case <-closed: // by an error
			end()
			end, closed = nil, nil
		default:
		}
		var err error
		if len(a.Tokens()) > 0 {
			last = time.Now()
		}
		switch open := time.Since(last) < joinersStay; {
		case open && end == nil:
			var l net.Listener
			if l, err = a.open("tcp", a.enrol); err != nil {
				if asked == nil && !failed {
					a.log.Error("listen for joiners failed", "address", a.enrol, "error", err)
				}
				failed = true
				break
			}
			failed = false
			var ctx context.Context
			ctx, end = context.WithCancel(a.ctx)
			closed = make(chan struct{})
			a.log.Info("listening for joiners", "address", l.Addr())
			go func() {
				defer close(closed)
				if err := enrol.Serve(ctx, l, a.self, a, a.log); err != nil {
					a.log.Error("joiners are no longer heard", "error", err)
				}
			}()
		case !open && end != nil:
			end()
			<-closed
			end, closed = nil, nil
		}
		if asked != nil {
			asked <- err
			asked = nil
		}
		select {
		case <-t.C:
		case asked = <-a.wake:
		case <-a.ctx.Done():
			if end != nil {
				end()
				<-closed
			}
			return
		}
	}
}
