package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/server"
	"ferry/internal/security/authority"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

func newAuthorityExport() *cobra.Command {
	q := &query{}
	var dir, name, listen, maxStore string
	var cluster upFlags
	var members []string
	c := &cobra.Command{Use: "export DIR", Short: "Write the configuration of a server of NATS that is not Ferry's, as a queue manager of the network",
		Long: `Writes to a directory all that a server of NATS needs as a queue manager of the network: its
configuration, the operator's JWT, a resolver with the accounts, and an identity with certificate
and key. The authority is the one in --dir, which must not run meanwhile, or that of --network.
The identity is good for 30 days: write the configuration again in time, to the same directory, and
have the server read it (nats-server --signal reload).`,
		Example: "  ferry authority export hub --dir /var/lib/ferry-authority --name HUB --listen :4222\n  cd hub && nats-server -c nats-server.conf\n" +
			"  ferry authority run --external --dir /var/lib/ferry-authority --network nats://hub:4222",
		Args: oneArg("the directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e := server.External{Name: name, Listen: listen, Identity: identityDir}
			e.Cluster = cluster.member()
			if err := cluster.checkCluster(); err != nil {
				return err
			}
			if maxStore != "" {
				n, err := transfer.ParseSize(maxStore)
				if err != nil {
					return err
				}
				e.MaxStore = int64(n)
			}
			if err := e.Check(); err != nil {
				return err
			}
			out, err := keyfile.Make(args[0])
			if err != nil {
				return transfer.Errorf(transfer.KindUnwritable, "the configuration cannot be written: %w", err)
			}
			issue := q.issueOver
			if dir != "" {
				issue = func(cmd *cobra.Command, path, name string) (*identity.Identity, roles.Claims, error) {
					return issueFrom(cmd, dir, path, name)
				}
			}
			i, claims, err := issue(cmd, filepath.Join(out.Path(), identityDir), name)
			if err != nil {
				return err
			}
			e.Claims = claims
			if e.Cluster != nil {
				if e.Pins, err = pins(i, members); err != nil {
					return err
				}
			}
			if err := e.Write(out); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s has the configuration of %s, good until %s\n", out.Path(), i.Name(), stamp(i.Until()))
			if e.Cluster != nil && len(members) < len(e.Cluster.Routes) {
				fmt.Fprintf(cmd.ErrOrStderr(), "ferry: it lets %d of %d other members of cluster %s in: when their configurations are written, write this one again with --member DIR for each\n",
					len(members), len(e.Cluster.Routes), printable(e.Cluster.Name))
			}
			return nil
		}}
	q.add(c)
	fl := c.Flags()
	fl.StringVar(&dir, "dir", "", "directory of the authority, or of a ferry up, that does not run at present")
	fl.StringVar(&name, "name", "QM", "name of the queue manager")
	fl.StringVar(&listen, "listen", "127.0.0.1:4222", "HOST:PORT of the server; :PORT listens on every address of its host")
	fl.StringVar(&cluster.cluster, "cluster", "", "name of the server's cluster: the same at each member")
	fl.StringVar(&cluster.clusterListen, "cluster-listen", "127.0.0.1:6222", "HOST:PORT for routes of the other members of the cluster")
	fl.StringArrayVar(&cluster.routes, "route", nil, "HOST:PORT, the --cluster-listen of another member of the cluster; once for each of them")
	fl.StringArrayVar(&members, "member", nil, "directory with the configuration of another member of the cluster; the server admits that member's key; once for each of them")
	fl.StringVar(&maxStore, "max-store", "", "bytes of the server's store (default: 8 GiB)")
	return c
}

// pins returns the hashes of an external server's key and of the keys of its fellow members. members are the
// directories of their configurations.
func pins(own *identity.Identity, members []string) ([]string, error) {
	all := []string{identity.KeyHash(own.Certificate().Leaf)}
	for _, m := range members {
		other, err := stored(filepath.Join(m, identityDir))
		if err != nil {
			return nil, transfer.Errorf(transfer.KindUsage, "--member %s has no configuration of an external server: %w", m, err)
		}
		if n := other.Name(); n.Role != identity.Manager || n.Network != own.Name().Network {
			return nil, transfer.Errorf(transfer.KindUsage, "--member %s has the identity %s, which is no queue manager of the network %s", m, n, own.Name().Network)
		}
		all = append(all, identity.KeyHash(other.Certificate().Leaf))
	}
	return all, nil
}

// issueOver asks the authority of a network for the identity of an external server.
func (q *query) issueOver(cmd *cobra.Command, path, name string) (i *identity.Identity, claims roles.Claims, err error) {
	ctx, a, network, done, err := q.askAuthority(cmd)
	if err != nil {
		return nil, claims, err
	}
	defer done()
	dir, err := keyfile.Make(path)
	if err != nil {
		return nil, claims, err
	}
	keys, w, err := authority.NewWish(dir)
	if err != nil {
		return nil, claims, err
	}
	g, err := a.Enrol(ctx, identity.Name{Network: network, Role: identity.Manager, Name: name}, roles.Manager, w, false)
	if err != nil {
		return nil, claims, err
	}
	if err := json.Unmarshal(g.Claims, &claims); err != nil {
		return nil, claims, transfer.Errorf(transfer.KindVersion, "the authority does not list the admitted identities: it is of an older version")
	}
	i, err = identity.New(dir, keys, g)
	return i, claims, err
}

// issueFrom issues the identity of an external server from the authority in a directory.
func issueFrom(cmd *cobra.Command, from, path, name string) (i *identity.Identity, claims roles.Claims, err error) {
	log, err := errorLogger(cmd)
	if err != nil {
		return nil, claims, err
	}
	h, err := openHome(cmd.Context(), from, log)
	if transfer.KindOf(err) == transfer.KindAlive {
		return nil, claims, transfer.Errorf(transfer.KindAlive, "the authority in %s runs", from).WithHint("leave out --dir and give --network, or stop it for a moment")
	}
	if err != nil {
		return nil, claims, err
	}
	defer h.stop()
	dir, err := keyfile.Make(path)
	if err != nil {
		return nil, claims, err
	}
	want := identity.Name{Network: h.Network(), Role: identity.Manager, Name: name}
	if err := want.Check(); err != nil {
		return nil, claims, err
	}
	if i, err = h.IssueTo(dir, want, roles.Manager, ""); err != nil {
		return nil, claims, err
	}
	claims, err = h.Claims()
	return i, claims, err
}

// An abroad serves an external server for an authority: it sends claims and does errands.
type abroad struct {
	h   *home
	url string

	mu    sync.Mutex
	last  *roles.Claims // the last claims sent to the server
	facts qmgr.Facts
}

// errandsName is the name of the identity that does errands for an external server.
const errandsName = "errands"

// admit sends claims to the server, unless it has sent the same ones before.
func (a *abroad) admit(c roles.Claims) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last != nil && server.SameClaims(*a.last, c) {
		return nil
	}
	jwt, seed, err := a.h.SystemUser(time.Hour)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(a.h.ctx, admitWait)
	defer cancel()
	f, err := qmgr.AdmitExternal(ctx, a.url, a.h.self, errands.SystemUser{JWT: jwt, Seed: seed}, c)
	if err != nil {
		return err
	}
	a.last, a.facts = &c, f
	return nil
}

func (a *abroad) known() qmgr.Facts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.facts
}

// open connects to the external server and sends it the claims. Until the authority stops, it does the errands that an
// embedded queue manager does itself.
func (a *abroad) open() error {
	i, err := a.h.issue(filepath.Join(a.h.dir, identitiesDir, errandsName), identity.Manager, errandsName, roles.Manager)
	if err != nil {
		return err
	}
	conn, err := qmgr.Connect(a.h.ctx, qmgr.ConnConfig{URL: a.url, Name: "ferry errands", Identity: i, Timeout: -1, Log: a.h.log})
	if err != nil {
		return err
	}
	claims, err := a.h.Claims()
	if err == nil {
		err = a.admit(claims)
	}
	var stop func()
	if err == nil {
		stop, err = qmgr.DoErrands(conn, a.known, (&queueRules{document: a.h.document}).may)
	}
	if err != nil {
		conn.Close()
		return err
	}
	a.h.tasks.Go(func() { <-a.h.ctx.Done(); stop(); conn.Close() })
	return nil
}

// errandsBeside does the errands of an external server beside the coordination service, and shares its directory. The
// first start needs the authority, and a user with the right to enrol.
func errandsBeside(ctx context.Context, cmd *cobra.Command, url, dir string, log logT) (stop func(), err error) {
	i, err := memberAt(ctx, cmd, url, filepath.Join(dir, errandsName), false, identity.Manager, errandsName+"-coordination", log)
	if err != nil {
		return nil, err
	}
	if i == nil {
		return nil, transfer.Errorf(transfer.KindUsage, "the queue manager at %s has no identities, and needs no --external", url)
	}
	conn, err := qmgr.Connect(ctx, qmgr.ConnConfig{URL: url, Name: "ferry errands", Identity: i, Timeout: -1, Log: log})
	if err != nil {
		return nil, err
	}
	done, err := qmgr.DoErrands(conn, conn.Facts, nil)
	if err != nil {
		conn.Close()
		return nil, err
	}
	go keepRenewed(ctx, i, func(ctx context.Context) error { return enrol.Asker{Conn: conn}.Renew(ctx, i) }, log)
	return func() { done(); conn.Close() }, nil
}
