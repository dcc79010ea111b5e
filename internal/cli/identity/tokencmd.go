package identity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client/view"
	"ferry/internal/node/member"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identities"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// subjectFlags are the name that a token is for: one of the three.
type subjectFlags struct{ agent, user, qm string }

func (s *subjectFlags) name(network string) (identity.Name, error) {
	n := identity.Name{Network: network}
	given := 0
	for role, name := range map[identity.Role]string{identity.Agent: s.agent, identity.User: s.user, identity.Manager: s.qm} {
		if name != "" {
			given++
			n.Role, n.Name = role, name
		}
	}
	if given != 1 {
		return n, transfer.Errorf(transfer.KindUsage, "a token is for one of --agent NAME, --user NAME and --qm NAME")
	}
	if n.Role == identity.Agent {
		a, err := transfer.ParseAgentName(n.Name)
		if err != nil {
			return n, err
		}
		n.Name = string(a)
	}
	return n, n.Check()
}

// userRoles are the words of --role.
var userRoles = map[string]roles.Role{"admin": roles.Admin, "operator": roles.Operator, "auditor": roles.Auditor, "sender": roles.User, "member": roles.Member}

// NewToken makes the command `ferry token`.
func NewToken() *cobra.Command {
	c := &cobra.Command{Use: "token", Short: "Make tokens for agents and users that join the network", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newTokenCreate(), newTokenLs(), newTokenRm())
	return c
}

func newTokenCreate() *cobra.Command {
	q, s := &session.Query{}, &subjectFlags{}
	var ttl time.Duration
	var role, out string
	var addresses []string
	c := &cobra.Command{Use: "create (--agent | --user | --qm) NAME", Short: "Make a token, good once and for a while, for one name",
		Long: `Makes a token. An agent, user or queue manager joins the network under one name with it:
` + "`ferry agent run NAME --join FILE`" + ` or ` + "`ferry login --join FILE`" + `. It is one line and a secret:
the first to use it joins. With --out it is written to a new file that only this user
can read, and not printed; a file that other users can read is not taken by --join.

The rules give a user its rights by its --role and by its name (docs/security.md). A sender
reads and writes beneath all roots by the rules of a new network; a member has no right until
a rule names it. Making a token takes the authority enrol. The authority admin is needed for
queue managers, for the roles admin, operator and auditor, and for names that another member
has enrolled.`,
		Example: "  ferry token create --agent GAMMA --out gamma.token\n  ferry token create --user bob --role sender --ttl 15m\n  ferry token create --user carol --role member --out carol.token",
		Args:    usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			as, ok := userRoles[role]
			if !ok {
				return transfer.Errorf(transfer.KindUsage, "--role %q is unknown; it is one of admin, operator, auditor, sender, member", role)
			}
			if err := checkAddresses(addresses); err != nil {
				return err
			}
			ctx, a, network, done, err := q.AskAuthority(cmd)
			if err != nil {
				return err
			}
			defer done()
			name, err := s.name(network)
			if err != nil {
				return err
			}
			switch {
			case name.Role != identity.User && cmd.Flags().Changed("role"):
				return transfer.Errorf(transfer.KindUsage, "--role is for users")
			case name.Role != identity.User:
				as = roles.Role(name.Role)
			}
			create := func() (string, error) {
				line, err := a.NewToken(ctx, name, as, ttl)
				if err != nil {
					return "", err
				}
				return tokenAt(line, addresses)
			}
			token := ""
			if out == "" {
				token, err = create()
			} else {
				err = writeToken(out, create)
			}
			switch {
			case err != nil:
				return err
			case q.JSON:
				output.JSON(cmd, view.TokenFor(name, token, out))
			case out != "":
				fmt.Fprintf(cmd.OutOrStdout(), "the token for %s is in %s\n", name, out)
			default:
				fmt.Fprintln(cmd.OutOrStdout(), token)
			}
			return nil
		}}
	q.Add(c)
	c.Flags().StringVar(&s.agent, "agent", "", "name of an agent")
	c.Flags().StringVar(&s.user, "user", "", "name of a user, in small letters")
	c.Flags().StringVar(&s.qm, "qm", "", "name of a queue manager")
	c.Flags().StringVar(&role, "role", "sender", "role of the user, for the rules: admin, operator, auditor, sender, member (none by the rules of a new network)")
	c.Flags().StringSliceVar(&addresses, "address", nil, "HOST:PORT where the joiner reaches the authority (--enrol of ferry up, or the port after --listen), in place of the addresses of its host; may be repeated")
	c.Flags().DurationVar(&ttl, "ttl", time.Hour, "how long the token is good")
	c.Flags().StringVar(&out, "out", "", "new file for the token, which only this user can read (default: standard output)")
	return c
}

// mostAddresses is the greatest number of addresses in a token.
const mostAddresses = 16

// checkAddresses refuses addresses that no token can name.
func checkAddresses(addresses []string) error {
	for _, a := range addresses {
		if host, port, err := net.SplitHostPort(a); err != nil || host == "" || port == "" || strings.ContainsAny(a, " /@\t\r\n,") {
			return transfer.Errorf(transfer.KindUsage, "--address %q is no HOST:PORT", a)
		}
	}
	if len(addresses) > mostAddresses {
		return transfer.Errorf(transfer.KindUsage, "a token names %d addresses at most, and --address gives %d", mostAddresses, len(addresses))
	}
	return nil
}

// tokenAt returns a token with other addresses of the authority; without any it stays as it is.
func tokenAt(line string, addresses []string) (string, error) {
	if len(addresses) == 0 {
		return line, nil
	}
	t, err := enrol.ParseToken(line)
	if err != nil {
		return "", err
	}
	t.Addresses = addresses
	return t.String(), nil
}

// writeToken writes the token that create makes to a new file of mode 0600. The file is there before the token is made, and
// removed where none is.
func writeToken(path string, create func() (string, error)) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return transfer.Errorf(transfer.KindUsage, "%s exists already, and --out writes a new file", path).WithHint("choose another name, or remove the file first")
	}
	if err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the token cannot be written: %w", err)
	}
	token, err := create()
	if err != nil {
		return errors.Join(err, f.Close(), os.Remove(path))
	}
	_, err = fmt.Fprintln(f, token)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(transfer.Errorf(transfer.KindUnwritable, "the token cannot be written to %s: %w", path, err).
			WithHint("make room, and have another one made"), os.Remove(path))
	}
	return nil
}

func newTokenLs() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List the tokens that may still be used", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, a, _, done, err := q.AskAuthority(cmd)
			if err != nil {
				return err
			}
			defer done()
			return output.ListOf(cmd, q.JSON, "token that may still be used", []string{"TOKEN", "FOR", "ROLE", "UNTIL"}, func(row output.Row) error {
				all, err := a.Tokens(ctx)
				for _, t := range all {
					t.Role = roles.Role(authority.RoleWord(t.Role))
					row(t, t.Hash[:12], t.Name, string(t.Role), output.Stamp(t.Until))
				}
				return err
			})
		}}
	q.Add(c)
	output.AddForms(c)
	return c
}

func newTokenRm() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "rm TOKEN", SuggestFor: []string{"remove", "delete"}, Short: "Revoke a token, by its ID in `ferry token ls` or by the name that it is for",
		Args: usage.OneArg("the token"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, a, network, done, err := q.AskAuthority(cmd)
			if err != nil {
				return err
			}
			defer done()
			n, err := a.DropToken(ctx, args[0])
			if name, nerr := namedIdentity(network, args[0]); err == nil && n == 0 && nerr == nil {
				n, err = a.DropToken(ctx, name.String())
			}
			if err != nil {
				return err
			}
			if n == 0 {
				return transfer.Errorf(transfer.KindNotFound, "there is no token %s that may still be used", args[0])
			}
			if q.JSON {
				output.JSON(cmd, view.Authorised(view.TypeRemoved, args[0]))
				return nil
			}
			fmt.Fprintln(cmd.OutOrStdout(), output.Plural(int64(n), "token"), "taken back")
			return nil
		}}
	q.Add(c)
	return c
}

// NewLogin makes the command `ferry login`.
func NewLogin() *cobra.Command {
	var join, as string
	var force bool
	c := &cobra.Command{Use: "login --join FILE", Short: "Join a network as this user, with a token",
		Long: `Joins a network with a token of ` + "`ferry token create --user`" + `. The identity is kept in the state
directory of this user (ferry config paths shows it), and is his for every queue
manager of that network.

A valid identity that the user has in that network stays where the token is for another name,
or gives the name another role; the token is then not used up. --force replaces it, as a login
does with an identity that has expired or cannot be read: it is put aside as DIRECTORY.old.
--identity keeps that of another name in a directory of its own,
which other commands take by --identity, too. Choose a directory beneath "identities" of this
user's state directory: no transfer of this user's agents reads or writes there.`,
		Example: "  ferry login --join ann.token\n  ferry login --join bob.token --identity ~/.local/state/ferry/identities/bob",
		Args:    usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t, err := session.ReadToken(cmd, join)
			if err != nil {
				return err
			}
			ctx, stop := session.UntilSignal(cmd.Context())
			defer stop()
			if as != "" {
				i, err := member.Login(ctx, t, as, force)
				if err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "logged in as %s until %s; give commands --identity %s\n", i.Name(), output.Stamp(i.Until()), i.Path())
				return nil
			}
			store, err := member.Identities()
			if err != nil {
				return err
			}
			i, err := login(ctx, store, t, force)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "logged in as %s until %s\n", i.Name(), output.Stamp(i.Until()))
			return nil
		}}
	session.AddJoin(c, &join)
	c.Flags().StringVar(&as, "identity", "", "directory for the identity (default: this user's in that network)")
	c.Flags().BoolVar(&force, "force", false, "replace an identity of another name, and change the role of the name")
	return c
}

// login joins a network as a user.
func login(ctx context.Context, store *identities.Store, t enrol.Token, force bool) (*identity.Identity, error) {
	dir, err := store.Dir(t.Network)
	if err != nil {
		return nil, err
	}
	i, err := member.Login(ctx, t, dir.Path(), force)
	if err != nil {
		return nil, err
	}
	var hosts []string
	for _, a := range t.Addresses {
		if host, _, err := net.SplitHostPort(a); err == nil {
			hosts = append(hosts, host)
		}
	}
	return i, store.Moved(t.Network, hosts...)
}

// NewIdentity makes the command `ferry identity`.
func NewIdentity() *cobra.Command {
	c := &cobra.Command{Use: "identity", Short: "Look at identities, renew and revoke them", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newIdentityLs(), newIdentityShow(), newIdentityRenew(), newIdentityRevoke())
	return c
}

func newIdentityLs() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List the identities that were issued in a network", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, a, _, done, err := q.AskAuthority(cmd)
			if err != nil {
				return err
			}
			defer done()
			return output.List(cmd, q.JSON, []string{"IDENTITY", "ROLE", "ISSUED", "UNTIL", "STATE"}, func(row output.Row) error {
				all, err := a.Identities(ctx)
				for _, i := range all {
					i.Role = roles.Role(authority.RoleWord(i.Role))
					row(i, i.Name.String(), string(i.Role), output.Stamp(i.At), output.Stamp(i.Until), IdentityState(&i))
				}
				return err
			})
		}}
	q.Add(c)
	output.AddForms(c)
	return c
}

// IdentityState describes an issued identity in a word.
func IdentityState(i *authority.Issued) string {
	switch {
	case i.Revoked:
		return "revoked"
	case time.Now().After(i.Until):
		return "ended"
	}
	return "good"
}

func newIdentityShow() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{Use: "show [DIR]", Short: "Show this user's identities, or the one in a directory", Args: func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return transfer.Errorf(transfer.KindUsage, "`ferry identity show` takes at most one directory")
		}
		return nil
	},
		RunE: func(cmd *cobra.Command, args []string) error {
			var all []*identity.Identity
			if len(args) == 1 {
				i, err := member.LoadIdentity(args[0])
				if err != nil {
					return err
				}
				all = append(all, i)
			} else {
				store, err := member.Identities()
				if err != nil {
					return err
				}
				networks, err := store.Networks()
				if err != nil {
					return err
				}
				for _, n := range networks {
					if i, err := store.Load(n); err == nil {
						all = append(all, i)
					}
				}
			}
			return output.ListOf(cmd, asJSON, "identity of this user", []string{"IDENTITY", "UNTIL", "RENEWED FROM", "DIRECTORY"}, func(row output.Row) error {
				for _, i := range all {
					row(view.IdentityOf(i), i.Name().String(), output.Stamp(i.Until()), output.Stamp(i.Due()), i.Path())
				}
				return nil
			})
		}}
	c.Flags().BoolVar(&asJSON, "json", false, "one JSON object a line")
	output.AddForms(c)
	return c
}

func newIdentityRenew() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "renew", Short: "Renew this user's identity now; all are renewed by themselves from the twentieth day", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, a, _, done, err := q.AskAuthority(cmd)
			if err != nil {
				return err
			}
			defer done()
			i := a.Conn.Identity()
			if err := a.Renew(ctx, i); err != nil {
				return err
			}
			output.Result(cmd, q.JSON, view.IdentityOf(i), "%s is good until %s\n", i.Name(), output.Stamp(i.Until()))
			return nil
		}}
	q.Add(c)
	return c
}

func newIdentityRevoke() *cobra.Command {
	q := &session.Query{}
	c := &cobra.Command{Use: "revoke NAME", Short: "Revoke an identity: its connections end, and it is let in nowhere", Args: usage.OneArg("the name: that of an agent, or ferry://NETWORK/ROLE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, a, network, done, err := q.AskAuthority(cmd)
			if err != nil {
				return err
			}
			defer done()
			name, err := namedIdentity(network, args[0])
			if err != nil {
				return err
			}
			if err := a.Revoke(ctx, name); err != nil {
				return err
			}
			output.Result(cmd, q.JSON, view.Authorised(view.TypeRevoked, name.String()), "%s is revoked\n", name)
			return nil
		}}
	q.Add(c)
	return c
}

// namedIdentity reads the name of an identity: as a URI, an agent's in capitals or a user's in
// small letters.
func namedIdentity(network, text string) (identity.Name, error) {
	if n, err := identity.Parse(text); err == nil {
		return n, nil
	}
	n := identity.Name{Network: network, Role: identity.Agent, Name: text}
	if n.Check() != nil {
		n.Role = identity.User
	}
	return n, n.Check()
}
