package queuemanager

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"ferry/internal/node/member"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/server"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identities"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A remoteAuthority runs beside a queue manager in a network with its authority elsewhere. It keeps the queue manager's claims
// beside its identity. The queue manager therefore starts and runs while the authority is away.
type remoteAuthority struct {
	ctx   context.Context // ends with stop
	end   context.CancelFunc
	log   *slog.Logger
	dir   string            // of `ferry up`
	store *identities.Store // of the OS user; nil: there is no state directory
	qm    *identity.Identity
	held  *trust.State // of rules documents
	tasks sync.WaitGroup

	server *server.Server
	conn   *qmgr.Conn // the queue manager's own

	mu  sync.Mutex
	all []*identity.Identity // of the services in this process
}

// fileNote is the file of the newest rules document, beside the queue manager's identity.
const fileNote = "trust.note"

// joined starts a queue manager that has joined a network.
func (u *Config) joined(ctx context.Context, clients int) (hostServices, *server.Server, error) {
	o := &remoteAuthority{log: u.Log, dir: u.Dir}
	o.ctx, o.end = context.WithCancel(ctx)
	guard, err := o.open(u.Name, u.Entry)
	if err != nil {
		o.stop()
		return nil, nil, err
	}
	cfg := u.server(clients)
	cfg.Guard = guard
	if o.server, err = server.Start(ctx, cfg); err == nil {
		err = o.attend(u.Listen)
	}
	if err != nil {
		o.stop()
		if o.server != nil {
			o.server.Shutdown()
		}
		return nil, nil, err
	}
	return o, o.server, nil
}

// open reads the queue manager's identity, or joins the network. It returns the guard of the queue manager.
func (a *remoteAuthority) open(name string, e member.Entry) (*server.Guard, error) {
	path := filepath.Join(a.dir, identitiesDir, "qm")
	if e.Token != nil {
		if err := member.JoinWith(a.ctx, e.Token, path, identity.Manager, name, a.log); err != nil {
			return nil, err
		}
	}
	var err error
	a.qm, err = member.Stored(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, transfer.Errorf(transfer.KindDenied, "queue manager %s has no identity, and the authority that could issue one is elsewhere", name).
			WithHint("have an administrator make a token with `ferry token create --qm " + name + "`, or take the one that `ferry authority run` writes at its first start, and give it with --join FILE")
	}
	if err != nil {
		return nil, err
	}
	if n := a.qm.Name(); n.Role != identity.Manager || n.Name != name {
		return nil, transfer.Errorf(transfer.KindConflict, "the identity in %s is %s, and not that of queue manager %s", path, n, name).
			WithHint("give --name, or choose another state directory with --dir")
	}
	rules := &queueRules{document: a.document}
	g := &server.Guard{Identity: a.qm, Keep: func(c roles.Claims) error { return keepClaims(a.qm, c) }, May: rules.may}
	data, err := a.qm.Claims()
	if err == nil {
		err = json.Unmarshal(data, &g.Claims)
	}
	if err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the record that queue manager %s has of its network cannot be read: %w", name, err).
			WithHint("join again with a new token: --join FILE")
	}
	if err := a.openNote(path); err != nil {
		return nil, err
	}
	a.add(a.qm)
	return g, nil
}

// keepClaims writes a queue manager's claims beside its identity.
func keepClaims(qm *identity.Identity, c roles.Claims) error {
	data, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return qm.KeepClaims(data)
}

// openNote reads the trust document that was kept.
func (a *remoteAuthority) openNote(path string) error {
	dir, err := keyfile.Open(path)
	if err != nil {
		return err
	}
	kept, err := dir.Read(fileNote)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	a.held, err = trust.NewState(a.qm.Trust(), a.qm.Name().Network, trust.Rules, kept)
	return err
}

// takeDocument takes a trust document.
func (a *remoteAuthority) takeDocument(doc []byte) {
	fresh, err := a.held.Take(doc, func(doc []byte) error {
		dir, err := keyfile.Open(a.qm.Path())
		if err != nil {
			return err
		}
		return dir.Write(fileNote, doc)
	})
	if err != nil {
		a.log.Warn("a trust document is not taken", "error", err)
	}
	if fresh {
		a.mu.Lock()
		defer a.mu.Unlock()
		for _, i := range a.all {
			a.applyTrust(i)
		}
	}
}

// takeClaims takes new claims, where the authority's queue manager is another one.
func (a *remoteAuthority) takeClaims(data []byte) {
	var c roles.Claims
	err := json.Unmarshal(data, &c)
	if err == nil {
		err = a.server.Admit(c)
	}
	if err != nil && transfer.KindOf(err) != transfer.KindConflict { // older claims than the present ones
		a.log.Warn("cannot admit the listed identities", "error", err)
	}
}

// applyTrust applies the trust document to an identity.
func (a *remoteAuthority) applyTrust(i *identity.Identity) {
	d, _ := a.held.Held()
	if d == nil {
		return
	}
	var keys []string
	for _, r := range d.Revoked {
		keys = append(keys, r.TLS)
	}
	i.Distrust(keys)
	i.Trusting(d.Roots)
}

// add takes an identity of something that runs here, and keeps it renewed.
func (a *remoteAuthority) add(i *identity.Identity) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all = append(a.all, i)
	a.applyTrust(i)
}

// keep keeps an identity renewed. Each has a connection of its own, because the authority renews the identity of the
// connection.
func (a *remoteAuthority) keep(i *identity.Identity) {
	a.tasks.Go(func() {
		member.KeepRenewed(a.ctx, i, func(ctx context.Context) error {
			conn, err := qmgr.Connect(ctx, qmgr.ConnConfig{Server: a.server, Name: "ferry renew", Identity: i, Log: a.log, Asks: true})
			if err != nil {
				return err
			}
			defer conn.Close()
			return enrol.Client{Conn: conn}.Renew(ctx, i)
		}, a.log)
	})
}

// attend subscribes the queue manager to the news of its network, until stop.
func (a *remoteAuthority) attend(listen string) error {
	network := a.qm.Name().Network
	if store, err := member.Identities(); err == nil {
		a.store = store
		if _, err := store.Load(network); err == nil { // this user is in it
			if err := store.SetNetwork(network, reached(listen, qmgr.Addresses(a.server.URL()))...); err != nil {
				return err
			}
		}
	}
	var err error
	if a.conn, err = qmgr.Connect(a.ctx, qmgr.ConnConfig{Server: a.server, Name: "ferry queue manager", Identity: a.qm, Early: true, Log: a.log}); err != nil {
		return err
	}
	stop, err := a.conn.Subscribe(wire.Rules, func(m qmgr.Message) { a.takeDocument(m.Data) })
	if err != nil {
		return err
	}
	unsubscribe, err := a.conn.Subscribe(wire.Claims, func(m qmgr.Message) { a.takeClaims(m.Data) })
	if err != nil {
		stop()
		return err
	}
	a.tasks.Go(func() { <-a.ctx.Done(); unsubscribe(); stop() })
	a.keep(a.qm)
	a.tasks.Go(a.catchUp)
	return nil
}

// caller returns the configuration for the connection of a service in this process to its queue manager.
func (a *remoteAuthority) caller(server *server.Server, token string, role identity.Role, name string, log *slog.Logger) (cc qmgr.ConnConfig, err error) {
	cc = qmgr.ConnConfig{Server: server, Name: name, Self: token, Timeout: server.Patience(), Log: log}
	if role == identity.Manager {
		cc.Identity = a.qm
		return cc, nil
	}
	path := filepath.Join(a.dir, identitiesDir, string(role))
	if role == identity.Agent {
		path = filepath.Join(a.dir, "agents", name, member.IdentityDir)
	} else {
		name = ""
	}
	want := identity.Name{Network: a.qm.Name().Network, Role: role, Name: name}
	i, err := member.Stored(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (i.Name() != want || time.Now().After(i.Until())) {
		i, err = a.enrol(path, want)
	}
	if err != nil {
		return cc, err
	}
	a.add(i)
	a.keep(i)
	cc.Identity = i
	return cc, nil
}

// enrol has the authority issue an identity to a service in this process. It asks as the OS user, if that user has the
// right. It waits for the authority.
func (a *remoteAuthority) enrol(path string, name identity.Name) (*identity.Identity, error) {
	var user *identity.Identity
	err := fs.ErrNotExist
	if a.store != nil {
		user, err = a.store.Load(name.Network)
	}
	if err != nil {
		e := transfer.Errorf(transfer.KindDenied, "%s has no identity, and this user has none in the network %s that could enrol it", name, name.Network)
		if name.Role == identity.Agent {
			return nil, e.WithHint("have a token made with `ferry token create --agent " + name.Name + "`, and start it with `ferry agent run " + name.Name + " --join FILE`")
		}
		return nil, e.WithHint("give --coordination none, or log in first: `ferry login --join FILE`")
	}
	conn, err := qmgr.Connect(a.ctx, qmgr.ConnConfig{Server: a.server, Name: "ferry enrol", Identity: user, Log: a.log, Asks: true})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	for said := false; ; said = true {
		i, err := member.EnrolHere(a.ctx, conn, path, name)
		k := transfer.KindOf(err)
		if k == transfer.KindDenied && name.Role == identity.Coordination {
			return nil, transfer.AsError(err).WithHint("give --coordination none, or log in as an administrator: `ferry login --join FILE`")
		}
		if k != transfer.KindUnreachable && k != transfer.KindTimeout {
			return i, err
		}
		if !said {
			a.log.Warn("waiting for the network's authority to enrol the identity", "identity", name, "error", err)
		}
		select {
		case <-time.After(member.AlivePause):
		case <-a.ctx.Done():
			return nil, err
		}
	}
}

// document is the newest trust document that has arrived.
func (a *remoteAuthority) document() (*trust.Document, error) {
	d, _ := a.held.Held()
	if d == nil {
		return nil, transfer.Errorf(transfer.KindUnreachable, "no policy has arrived yet: the network's authority is away").WithHint("try again when it is there")
	}
	return d, nil
}

// stop ends everything; it may be called again.
func (a *remoteAuthority) stop() {
	a.end()
	a.tasks.Wait()
	if a.conn != nil {
		a.conn.Close()
	}
}
