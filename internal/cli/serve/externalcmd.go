package serve

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/node/member"
	"ferry/internal/node/queuemanager"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/server"
	"ferry/internal/security/authority"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

func newAuthorityExport() *cobra.Command {
	q := &session.Query{}
	var dir, name, listen, maxStore string
	var cluster clusterFlags
	var members []string
	c := &cobra.Command{Use: "export DIR", Short: "Write the configuration of a server of NATS that is not Ferry's, as a queue manager of the network",
		Long: `Writes to a directory all that a server of NATS needs as a queue manager of the network: its
configuration, the operator's JWT, a resolver with the accounts, and an identity with certificate
and key. The authority is the one in --dir, which must not run meanwhile, or that of --network.
The identity is good for 30 days: write the configuration again in time, to the same directory, and
have the server read it (nats-server --signal reload).`,
		Example: "  ferry authority export hub --dir /var/lib/ferry-authority --name HUB --listen :4222\n  cd hub && nats-server -c nats-server.conf\n" +
			"  ferry authority run --external --dir /var/lib/ferry-authority --network nats://hub:4222",
		Args: usage.OneArg("the directory"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e := server.External{Name: name, Listen: listen, Identity: member.IdentityDir}
			e.Cluster = cluster.member()
			if err := cluster.checkCluster("", false); err != nil {
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
			issue := func(cmd *cobra.Command, path, name string) (*identity.Identity, roles.Claims, error) {
				return issueOver(q, cmd, path, name)
			}
			if dir != "" {
				issue = func(cmd *cobra.Command, path, name string) (*identity.Identity, roles.Claims, error) {
					log, err := session.ErrorLogger(cmd)
					if err != nil {
						return nil, roles.Claims{}, err
					}
					return queuemanager.IssueFrom(cmd.Context(), dir, path, name, log)
				}
			}
			i, claims, err := issue(cmd, filepath.Join(out.Path(), member.IdentityDir), name)
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
			fmt.Fprintf(cmd.OutOrStdout(), "%s has the configuration of %s, good until %s\n", out.Path(), i.Name(), output.Stamp(i.Until()))
			if e.Cluster != nil && len(members) < len(e.Cluster.Routes) {
				fmt.Fprintf(cmd.ErrOrStderr(), "ferry: it lets %d of %d other members of cluster %s in: when their configurations are written, write this one again with --member DIR for each\n",
					len(members), len(e.Cluster.Routes), output.Printable(e.Cluster.Name))
			}
			return nil
		}}
	q.Add(c)
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
		other, err := member.Stored(filepath.Join(m, member.IdentityDir))
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
func issueOver(q *session.Query, cmd *cobra.Command, path, name string) (i *identity.Identity, claims roles.Claims, err error) {
	ctx, a, network, done, err := q.AskAuthority(cmd)
	if err != nil {
		return nil, claims, err
	}
	defer done()
	dir, err := keyfile.Make(path)
	if err != nil {
		return nil, claims, err
	}
	keys, w, err := authority.NewIdentityRequest(dir)
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
