package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

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

// An outpost runs beside a queue manager in a network with its authority elsewhere. It keeps the queue manager's claims
// beside its identity. The queue manager therefore starts and runs while the authority is away.
type outpost struct {
	ctx   context.Context // ends with stop
	end   context.CancelFunc
	log   logT
	dir   string            // of `ferry up`
	store *identities.Store // of the OS user; nil: there is no state directory
	qm    *identity.Identity
	held  *trust.Holder // of rules documents
	tasks sync.WaitGroup

	server *server.Server
	conn   *qmgr.Conn // the queue manager's own

	mu  sync.Mutex
	all []*identity.Identity // of the services in this process
}

// fileNote is the file of the newest rules document, beside the queue manager's identity.
const fileNote = "trust.note"

// outpost starts a queue manager that has joined a network.
func (u *upFlags) outpost(ctx context.Context, cmd *cobra.Command, clients int, log logT) (house, *server.Server, error) {
	o := &outpost{log: log, dir: u.dir}
	o.ctx, o.end = context.WithCancel(ctx)
	guard, err := o.open(cmd, u.name, u.join)
	if err != nil {
		o.stop()
		return nil, nil, err
	}
	cfg, err := u.server(clients, log)
	if err == nil {
		cfg.Guard = guard
		o.server, err = server.Start(ctx, cfg)
	}
	if err == nil {
		err = o.attend(u.listen)
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
func (o *outpost) open(cmd *cobra.Command, name, join string) (*server.Guard, error) {
	path := filepath.Join(o.dir, identitiesDir, "qm")
	if joining(join) {
		if err := joinWith(o.ctx, cmd, join, path, identity.Manager, name, o.log); err != nil {
			return nil, err
		}
	}
	var err error
	o.qm, err = stored(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, transfer.Errorf(transfer.KindDenied, "queue manager %s has no identity, and the authority that could issue one is elsewhere", name).
			WithHint("have an administrator make a token with `ferry token create --qm " + name + "`, or take the one that `ferry authority run` writes at its first start, and give it with --join FILE")
	}
	if err != nil {
		return nil, err
	}
	if n := o.qm.Name(); n.Role != identity.Manager || n.Name != name {
		return nil, transfer.Errorf(transfer.KindConflict, "the identity in %s is %s, and not that of queue manager %s", path, n, name).
			WithHint("give --name, or choose another state directory with --dir")
	}
	rules := &queueRules{document: o.document}
	g := &server.Guard{Identity: o.qm, Keep: func(c roles.Claims) error { return keepClaims(o.qm, c) }, May: rules.may}
	data, err := o.qm.Claims()
	if err == nil {
		err = json.Unmarshal(data, &g.Claims)
	}
	if err != nil {
		return nil, transfer.Errorf(transfer.KindMalformed, "the record that queue manager %s has of its network cannot be read: %w", name, err).
			WithHint("join again with a new token: --join FILE")
	}
	if err := o.openNote(path); err != nil {
		return nil, err
	}
	o.add(o.qm)
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
func (o *outpost) openNote(path string) error {
	dir, err := keyfile.Open(path)
	if err != nil {
		return err
	}
	kept, err := dir.Read(fileNote)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	o.held, err = trust.NewHolder(o.qm.Trust(), o.qm.Name().Network, trust.Rules, kept)
	return err
}

// heard takes a trust document.
func (o *outpost) heard(doc []byte) {
	fresh, err := o.held.Take(doc, func(doc []byte) error {
		dir, err := keyfile.Open(o.qm.Path())
		if err != nil {
			return err
		}
		return dir.Write(fileNote, doc)
	})
	if err != nil {
		o.log.Warn("a trust document is not taken", "error", err)
	}
	if fresh {
		o.mu.Lock()
		defer o.mu.Unlock()
		for _, i := range o.all {
			o.tell(i)
		}
	}
}

// told takes new claims, where the authority's queue manager is another one.
func (o *outpost) told(data []byte) {
	var c roles.Claims
	err := json.Unmarshal(data, &c)
	if err == nil {
		err = o.server.Admit(c)
	}
	if err != nil && transfer.KindOf(err) != transfer.KindConflict { // older claims than the present ones
		o.log.Warn("cannot admit the listed identities", "error", err)
	}
}

// tell applies the trust document to an identity.
func (o *outpost) tell(i *identity.Identity) {
	d, _ := o.held.Held()
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
func (o *outpost) add(i *identity.Identity) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.all = append(o.all, i)
	o.tell(i)
}

// keep keeps an identity renewed. Each has a connection of its own, because the authority renews the identity of the
// connection.
func (o *outpost) keep(i *identity.Identity) {
	o.tasks.Go(func() {
		keepRenewed(o.ctx, i, func(ctx context.Context) error {
			conn, err := qmgr.Connect(ctx, qmgr.ConnConfig{Server: o.server, Name: "ferry renew", Identity: i, Log: o.log, Asks: true})
			if err != nil {
				return err
			}
			defer conn.Close()
			return enrol.Asker{Conn: conn}.Renew(ctx, i)
		}, o.log)
	})
}

// attend subscribes the queue manager to the news of its network, until stop.
func (o *outpost) attend(listen string) error {
	network := o.qm.Name().Network
	if store, err := myIdentities(); err == nil {
		o.store = store
		if _, err := store.Load(network); err == nil { // this user is in it
			if err := store.Know(network, reached(listen, qmgr.Addresses(o.server.URL()))...); err != nil {
				return err
			}
		}
	}
	var err error
	if o.conn, err = qmgr.Connect(o.ctx, qmgr.ConnConfig{Server: o.server, Name: "ferry queue manager", Identity: o.qm, Early: true, Log: o.log}); err != nil {
		return err
	}
	stop, err := o.conn.Subscribe(wire.Rules, func(m qmgr.Message) { o.heard(m.Data) })
	if err != nil {
		return err
	}
	unsubscribe, err := o.conn.Subscribe(wire.Claims, func(m qmgr.Message) { o.told(m.Data) })
	if err != nil {
		stop()
		return err
	}
	o.tasks.Go(func() { <-o.ctx.Done(); unsubscribe(); stop() })
	o.keep(o.qm)
	o.tasks.Go(o.catchUp)
	return nil
}

// caller returns the configuration for the connection of a service in this process to its queue manager.
func (o *outpost) caller(server *server.Server, token string, role identity.Role, name string, log logT) (cc qmgr.ConnConfig, err error) {
	cc = qmgr.ConnConfig{Server: server, Name: name, Self: token, Timeout: server.Patience(), Log: log}
	if role == identity.Manager {
		cc.Identity = o.qm
		return cc, nil
	}
	path := filepath.Join(o.dir, identitiesDir, string(role))
	if role == identity.Agent {
		path = filepath.Join(o.dir, "agents", name, identityDir)
	} else {
		name = ""
	}
	want := identity.Name{Network: o.qm.Name().Network, Role: role, Name: name}
	i, err := stored(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (i.Name() != want || time.Now().After(i.Until())) {
		i, err = o.enrol(path, want)
	}
	if err != nil {
		return cc, err
	}
	o.add(i)
	o.keep(i)
	cc.Identity = i
	return cc, nil
}

// enrol has the authority issue an identity to a service in this process. It asks as the OS user, if that user has the
// right. It waits for the authority.
func (o *outpost) enrol(path string, name identity.Name) (*identity.Identity, error) {
	var user *identity.Identity
	err := fs.ErrNotExist
	if o.store != nil {
		user, err = o.store.Load(name.Network)
	}
	if err != nil {
		e := transfer.Errorf(transfer.KindDenied, "%s has no identity, and this user has none in the network %s that could enrol it", name, name.Network)
		if name.Role == identity.Agent {
			return nil, e.WithHint("have a token made with `ferry token create --agent " + name.Name + "`, and start it with `ferry agent run " + name.Name + " --join FILE`")
		}
		return nil, e.WithHint("give --coordination none, or log in first: `ferry login --join FILE`")
	}
	conn, err := qmgr.Connect(o.ctx, qmgr.ConnConfig{Server: o.server, Name: "ferry enrol", Identity: user, Log: o.log, Asks: true})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	for said := false; ; said = true {
		i, err := enrolHere(o.ctx, conn, path, name)
		k := transfer.KindOf(err)
		if k == transfer.KindDenied && name.Role == identity.Coordination {
			return nil, transfer.AsError(err).WithHint("give --coordination none, or log in as an administrator: `ferry login --join FILE`")
		}
		if k != transfer.KindUnreachable && k != transfer.KindTimeout {
			return i, err
		}
		if !said {
			o.log.Warn("waiting for the network's authority to enrol the identity", "identity", name, "error", err)
		}
		select {
		case <-time.After(livesPause):
		case <-o.ctx.Done():
			return nil, err
		}
	}
}

// document is the newest trust document that has arrived.
func (o *outpost) document() (*trust.Document, error) {
	d, _ := o.held.Held()
	if d == nil {
		return nil, transfer.Errorf(transfer.KindUnreachable, "no policy has arrived yet: the network's authority is away").WithHint("try again when it is there")
	}
	return d, nil
}

// stop ends everything; it may be called again.
func (o *outpost) stop() {
	o.end()
	o.tasks.Wait()
	if o.conn != nil {
		o.conn.Close()
	}
}
