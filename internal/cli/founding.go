package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

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

// A home is the network's authority in the process of `ferry up` or `ferry authority run`. It holds the identities of
// the services in this process, too.
type home struct {
	*authority.Authority
	ctx   context.Context // ends with stop
	end   context.CancelFunc
	log   logT
	dir   string             // of `ferry up`
	store *identities.Store  // of the OS user; nil: there is no state directory
	self  *identity.Identity // the authority's own
	qm    *identity.Identity // the queue manager's

	way   atomic.Pointer[way] // to the network; nil: it is not reached yet
	enrol string              // HOST:PORT where joiners ask
	tasks sync.WaitGroup

	changing sync.Mutex // one change at a time

	mu   sync.Mutex
	all  []*identity.Identity // of the services in this process
	wake chan struct{}        // a token was made

	again chan struct{} // the network is reached again
}

// A way is the connection of an authority to its network.
type way struct {
	conn  *qmgr.Conn // the authority's
	admit func(roles.Claims) error
}

// Lines of the state directory.
const (
	authorityDir  = "authority"
	identitiesDir = "identities"
)

// openHome opens the authority in a state directory, or makes a network there.
func openHome(ctx context.Context, dir string, log logT) (*home, error) {
	if err := bereft(dir); err != nil {
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
		log.Warn("founded a new network, which has no agents and no users yet; keep a backup of its directory", "network", a.Network(), "dir", filepath.Join(dir, authorityDir))
	}
	h := &home{Authority: a, log: log, dir: dir, wake: make(chan struct{}, 1), again: make(chan struct{}, 1)}
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

// bereft returns an error of KindLost where a state directory has identities of a network but not its authority. A new
// authority would begin another network.
func bereft(dir string) error {
	path := filepath.Join(dir, authorityDir)
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range []string{"authority", "qm"} {
		i, err := stored(filepath.Join(dir, identitiesDir, name))
		if err == nil {
			return transfer.Errorf(transfer.KindLost, "%s, the authority of the network %s, is missing: identities that it has issued are there", path, i.Name().Network).
				WithHint("put it back from its backup; where it runs elsewhere give --authority none; to begin another network move " + filepath.Join(dir, identitiesDir) + " and " + filepath.Join(dir, "qm") + " aside")
		}
	}
	return nil
}

// user gives the OS user an identity. The commands of this user act under it in the network.
func (h *home) user() error {
	store, err := myIdentities()
	if err != nil {
		h.log.Warn("this user gets no identity: there is no place for it", "error", err)
		return nil
	}
	if err := store.Sweep(time.Now(), h.Network()); err != nil {
		h.log.Warn("identities of this user that have ended are not removed", "error", err)
	}
	dir, err := store.Dir(h.Network())
	if os.Geteuid() == 0 && errors.As(err, new(*keyfile.ForeignError)) { // a HOME that is not root's
		return err
	}
	if err != nil { // as of a service that may write nowhere else
		h.log.Warn("this user gets no identity: it cannot be kept", "error", err)
		return nil
	}
	h.store = store
	name := identity.Name{Network: h.Network(), Role: identity.User, Name: userName()}
	if _, err := identity.Load(dir); errors.Is(err, fs.ErrNotExist) && h.Role(name) != "" {
		h.log.Warn("the user has an identity of the network in another state directory; this one gets new keys, and agents stop the monitors, schedules and jobs made with the others. "+
			"To keep them start with the former HOME or XDG_STATE_HOME", "identity", name, "dir", dir.Path())
	}
	_, err = h.issueIn(dir, identity.User, name.Name, roles.Admin)
	return err
}

// issue is the identity of something that runs here, in a directory; it is made where it is
// missing or due.
func (h *home) issue(path string, role identity.Role, name string, as roles.Role) (*identity.Identity, error) {
	dir, err := keyfile.Make(path)
	if err != nil {
		return nil, err
	}
	return h.issueIn(dir, role, name, as)
}

func (h *home) issueIn(dir *keyfile.Dir, role identity.Role, name string, as roles.Role) (*identity.Identity, error) {
	want := identity.Name{Network: h.Network(), Role: role, Name: name}
	i, err := identity.Load(dir)
	if errors.Is(err, keyfile.ErrLax) {
		return nil, err
	}
	if role == identity.Agent && h.Revoked(want) {
		return nil, transfer.Errorf(transfer.KindDenied, "the identity of agent %s was revoked", name).
			WithHint("to let it in again: `ferry token create --agent " + name + "`, and `ferry agent run " + name + " --join FILE`")
	}
	if err == nil && !h.current(i, want, as) {
		// The name has other keys by now, or none. New keys can finish the work begun with these, because the name
		// belongs to this host.
		h.log.Warn("the identity is not as it was issued last; it gets new keys", "identity", want, "was", i.Name())
		if dir, err = aside(dir.Path()); err != nil {
			return nil, err
		}
		err = fs.ErrNotExist
	}
	if now := time.Now(); err != nil || !now.Before(i.Due()) || now.Before(i.Certificate().Leaf.NotBefore) || !h.latest(i) {
		fresh, ierr := h.IssueTo(dir, want, as, "")
		switch {
		case ierr == nil:
			i = fresh
			h.changed()
		case err == nil && transfer.Full(ierr) && time.Now().Before(i.Until()):
			h.log.Warn("the identity is not renewed yet", "identity", want, "until", i.Until(), "error", ierr)
		default:
			return nil, ierr
		}
	}

	h.mu.Lock()
	h.all = append(h.all, i)
	h.mu.Unlock()
	h.tasks.Go(func() { keepRenewed(h.ctx, i, func(context.Context) error { return h.renew(i) }, h.log) })
	return i, nil
}

// renew renews an identity of a service in this process.
func (h *home) renew(i *identity.Identity) error {
	w, err := authority.WishOf(i.Keys())
	if err != nil {
		return err
	}
	g, err := h.Renew(i.Name(), w)
	if err != nil {
		return err
	}
	return i.Renew(g)
}

// latest reports whether an identity was issued since the authority's keys have changed last.
func (h *home) latest(i *identity.Identity) bool {
	return slices.Equal(i.Known(), h.Roots().Hashes())
}

// follow renews the identities in this process after a change of the authority's keys. It runs before queue managers
// get the change, because they may then refuse the old keys.
func (h *home) follow() error {
	h.mu.Lock()
	all := slices.Clone(h.all)
	h.mu.Unlock()
	var err error
	for _, i := range all {
		if !h.latest(i) {
			err = errors.Join(err, h.renew(i))
		}
	}
	return err
}

// current reports whether an identity has the name, the role and the keys that the authority issued last for want.
func (h *home) current(i *identity.Identity, want identity.Name, as roles.Role) bool {
	w, err := authority.WishOf(i.Keys())
	return err == nil && i.Name() == want && h.Role(want) == as && h.Has(want, w)
}

// aside puts a directory of an identity aside and makes an empty one.
func aside(path string) (*keyfile.Dir, error) {
	if err := putAside(path); err != nil {
		return nil, err
	}
	return keyfile.Make(path)
}

// putAside puts a directory of an identity aside, in the place of an earlier one. It removes an empty directory.
func putAside(path string) error {
	if all, err := os.ReadDir(path); err == nil && len(all) == 0 {
		return os.Remove(path)
	}
	old := path + ".old"
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	return os.Rename(path, old)
}

// Enrol enrols an identity at the authority and publishes the change at once. The name may get new keys by it. Enrol
// refuses that while an agent or a queue manager of the name runs, because new keys would disconnect it.
func (h *home) Enrol(secret string, as identity.Name, w authority.Wish) (identity.Grant, error) {
	if name, ok := h.Replaces(secret, as, w); ok {
		if err := h.lives(name); err != nil {
			return identity.Grant{}, err
		}
	}
	g, err := h.Authority.Enrol(secret, as, w)
	if err == nil {
		h.changed()
	}
	return g, err
}

// lives is an error of KindAlive where something of a name runs.
func (h *home) lives(name identity.Name) error {
	w := h.way.Load()
	switch {
	case w == nil, name.Role == identity.User: // the authority cannot know
		return nil
	case name.Role == identity.Manager:
		if managerLives(h.ctx, w.conn, name.Name) {
			return transfer.Errorf(transfer.KindAlive, "queue manager %s runs", name.Name).WithHint("stop it, or have a token made for another name")
		}
		return nil
	}
	return lives(h.ctx, w.conn, name)
}

// guard returns the guard of the queue manager: its identity, the claims and the rules for connections.
func (h *home) guard(name string) (*server.Guard, error) {
	var err error
	if h.qm, err = h.issue(filepath.Join(h.dir, identitiesDir, "qm"), identity.Manager, name, roles.Manager); err != nil {
		return nil, err
	}
	claims, err := h.Claims()
	if err != nil {
		return nil, err
	}
	// The claims are kept for a later move of the authority to another process.
	keep := func(c roles.Claims) error { return keepClaims(h.qm, c) }
	if err := keep(claims); transfer.Full(err) {
		h.log.Warn("the disk is full: the claims of the queue manager are kept later", "dir", h.dir, "error", err)
	} else if err != nil {
		return nil, err
	}
	rules := &queueRules{document: h.document}
	return &server.Guard{Identity: h.qm, Claims: claims, Keep: keep, May: rules.may, Enrolled: func(token string) bool { return authority.Enrolled(h.Authority, token) }}, nil
}

// attend has the authority answer until stop, over the queue manager and, while a token is open, at the address
// enrolAt; "": the port after the queue manager's.
func (h *home) attend(server *server.Server, listen, enrolAt string) error {
	var err error
	if h.enrol, err = nextPort(enrolAt, listen, server.URL()); err != nil {
		return err
	}
	if h.store != nil {
		for _, at := range qmgr.Addresses(server.URL()) {
			if was, err := h.store.Network(at); err == nil && was != h.Network() && authority.Founded(h.Authority) {
				h.log.Warn("the address belonged to another network: its agents and users are not let in. Where its directory was lost, stop, and restore it from its backup", "at", at, "network", h.Network(), "was", was)
			}
		}
		if err := h.store.Know(h.Network(), reached(listen, qmgr.Addresses(server.URL()))...); err != nil {
			return err
		}
	}
	conn, err := qmgr.Connect(h.ctx, qmgr.ConnConfig{Server: server, Name: "ferry authority", Identity: h.self, Early: true, Log: h.log})
	if err != nil {
		return err
	}
	if err := h.serve(&way{conn, server.Admit}); err != nil {
		return err
	}
	h.tasks.Go(h.joiners)
	return nil
}

// serve has the authority answer questions of the network.
func (h *home) serve(w *way) error {
	h.way.Store(w)
	desk := &enrol.Desk{Authority: h.Authority, Conn: w.conn, Token: h.token, Changed: h.changed, Log: h.log}
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
			case h.again <- struct{}{}:
			default:
			}
		}
	})
	if err != nil {
		stop()
		return err
	}
	h.tasks.Go(func() { <-h.ctx.Done(); unsubscribe(); stop() })
	h.tasks.Go(h.publish)
	return nil
}

const (
	maxManagersSeen = 10_000          // queue managers that are remembered
	managerAway     = 7 * time.Second // without a word: it has missed something
)

// caller returns the configuration for the connection of a service in this process to its queue manager. Where there
// are no identities it connects as token. name is the name of the agent, for an agent.
func (h *home) caller(server *server.Server, token string, role identity.Role, name string, log logT) (cc qmgr.ConnConfig, err error) {
	cc = qmgr.ConnConfig{Server: server, Name: name, Self: token, Timeout: server.Patience(), Log: log}
	if h == nil {
		return cc, nil
	}
	switch role {
	case identity.Agent:
		cc.Identity, err = h.issue(filepath.Join(h.dir, "agents", name, identityDir), role, name, roles.Agent)
	case identity.Manager: // which may speak as any token
		cc.Identity = h.qm
	default:
		cc.Identity, err = h.issue(filepath.Join(h.dir, identitiesDir, string(role)), role, "", roles.Role(role))
	}
	return cc, err
}

// forgetAddresses makes the OS user's commands connect without identities to a queue manager that has none any more.
func forgetAddresses(listen string) error {
	store, err := myIdentities()
	if err != nil {
		return nil // then there are none
	}
	_, err = store.Network(listen)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return store.Know("", listen)
}

// document is the newest rules document; nil, of none.
func (h *home) document() (*trust.Document, error) {
	if h == nil {
		return nil, nil
	}
	doc, err := h.Trust(trust.Rules)
	if err != nil {
		return nil, err
	}
	return trust.Open(h.self.Trust(), h.Network(), doc)
}

// stop ends everything; it may be called again, and of none.
func (h *home) stop() {
	if h == nil {
		return
	}
	h.end()
	h.tasks.Wait()
	if w := h.way.Load(); w != nil {
		w.conn.Close()
	}
	h.Close()
}

// changed publishes the claims and the trust document, so that revoked identities are refused. An authority that has
// not reached its network yet does so when it has.
func (h *home) changed() {
	w := h.way.Load()
	if w == nil {
		return
	}
	h.changing.Lock() // the claims that are read first are admitted first
	defer h.changing.Unlock()
	err := h.follow()
	claims, cerr := h.Claims()
	if err = errors.Join(err, cerr); cerr == nil {
		err = errors.Join(err, w.admit(claims), tellManagers(w.conn, claims))
	}
	err = errors.Join(err, h.distrust(w)) // agents get it even where a queue manager fails
	if err != nil {
		h.log.Error("some queue managers do not refuse the revoked identities yet", "error", err)
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
func (h *home) distrust(w *way) error {
	doc, err := h.Trust(trust.Keys)
	if err != nil {
		return err
	}
	d, err := trust.Open(h.self.Trust(), h.Network(), doc)
	if err != nil {
		return err
	}
	var keys []string
	for _, r := range d.Revoked {
		keys = append(keys, r.TLS)
	}
	h.mu.Lock()
	for _, i := range h.all {
		i.Distrust(keys)
		i.Trusting(d.Roots)
	}
	h.mu.Unlock()
	rules, err := h.Trust(trust.Rules)
	if err == nil {
		err = w.conn.Publish(wire.Rules, rules)
	}
	return errors.Join(err, w.conn.Publish(wire.Trust, doc))
}

// settled is the least running time of the process before it rotates or gives up keys. It also bounds the change of the
// host's clock in that time. A host that starts with a clock years ahead would otherwise rotate at once, and a
// correction of the clock could not undo that.
const settled = time.Hour

// tend does the step that is due of a rotation of keys, once the clock can be believed.
func (h *home) tend(began time.Time) (changed bool, err error) {
	ran := time.Since(began) // by the monotonic clock, which cannot be set
	shown := time.Now().Round(0).Sub(began.Round(0))
	if ran < settled || (shown-ran).Abs() > settled {
		return false, nil
	}
	return h.Tend()
}

// publish repeats the trust document for the agents and queue managers that were away.
func (h *home) publish() {
	t := time.NewTicker(publishEvery)
	defer t.Stop()
	began := time.Now()
	for {
		if changed, err := h.tend(began); err != nil {
			h.log.Error("the authority's keys are not rotated yet", "error", err)
		} else if changed {
			h.log.Info("the authority has rotated its keys, or given up old ones")
		}
		h.changed()
		select {
		case <-t.C:
		case <-h.again:
		case <-h.ctx.Done():
			return
		}
	}
}

const (
	publishEvery = 5 * time.Minute
	doorLook     = time.Second
	doorStays    = time.Minute // after the last token: an answer may be lost, and asked for again
)

// token writes a token's secret as joiners are given it, and has the door opened.
func (h *home) token(secret string) (string, error) {
	select {
	case h.wake <- struct{}{}:
	default:
	}
	t := enrol.Token{Network: h.Network(), Root: h.Roots().Hash(), Secret: secret, Addresses: reached(h.enrol, []string{h.enrol})}
	return t.String(), nil
}

// joiners listens while a token is open.
func (h *home) joiners() {
	var end context.CancelFunc
	var closed chan struct{}
	var last time.Time
	t := time.NewTicker(doorLook)
	defer t.Stop()
	for {
		if len(h.Tokens()) > 0 {
			last = time.Now()
		}
		switch open := time.Since(last) < doorStays; {
		case open && end == nil:
			l, err := net.Listen("tcp", h.enrol)
			if err != nil {
				h.log.Error("joiners cannot be heard", "listen", h.enrol, "error", err)
				break
			}
			var ctx context.Context
			ctx, end = context.WithCancel(h.ctx)
			closed = make(chan struct{})
			h.log.Info("listening for joiners", "address", l.Addr())
			go func() {
				defer close(closed)
				if err := enrol.Serve(ctx, l, h.self, h, h.log); err != nil {
					h.log.Error("joiners are no longer heard", "error", err)
				}
			}()
		case !open && end != nil:
			end()
			<-closed
			end = nil
		}
		select {
		case <-t.C:
		case <-h.wake:
		case <-h.ctx.Done():
			if end != nil {
				end()
				<-closed
			}
			return
		}
	}
}

// nextPort returns the address for joiners: given, or the port after the queue manager's.
func nextPort(given, listen, url string) (string, error) {
	if given != "" {
		if _, _, err := net.SplitHostPort(given); err != nil {
			return "", transfer.Errorf(transfer.KindUsage, "--enrol %q is no HOST:PORT", given)
		}
		return given, nil
	}
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return "", err
	}
	at := qmgr.Addresses(url)
	if len(at) == 0 {
		return "", transfer.Errorf(transfer.KindInternal, "the queue manager at %s has no port", url)
	}
	_, text, err := net.SplitHostPort(at[0])
	if err != nil {
		return "", err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return "", err
	}
	if port++; port > 65535 {
		port = 65534
	}
	return net.JoinHostPort(host, strconv.Itoa(port)), nil
}

// reached returns the addresses of a listener for clients. A listener on all addresses gets those of this host.
func reached(listen string, also []string) []string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return also
	}
	if len(also) > 0 {
		if _, p, err := net.SplitHostPort(also[0]); err == nil {
			port = p // the port that was free
		}
	}
	if ip := net.ParseIP(host); host != "" && (ip == nil || !ip.IsUnspecified()) {
		return []string{net.JoinHostPort(host, port)}
	}

	var all []string
	if name, err := os.Hostname(); err == nil {
		all = append(all, net.JoinHostPort(name, port))
	}
	addresses, _ := net.InterfaceAddrs() // without them the name has to do
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			all = append(all, net.JoinHostPort(n.IP.String(), port))
		}
	}
	all = all[:min(len(all), 15)]
	return slices.Compact(append(all, net.JoinHostPort("127.0.0.1", port)))
}
