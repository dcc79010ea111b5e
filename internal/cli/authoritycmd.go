package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

func newAuthority() *cobra.Command {
	c := &cobra.Command{Use: "authority", Short: "Run the network's authority on its own, and look after its keys", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newAuthorityRun(), newAuthorityExport(), newAuthorityRotate())
	return c
}

func newAuthorityRotate() *cobra.Command {
	q := &query{}
	c := &cobra.Command{Use: "rotate", Short: "Have the authority begin to sign with new keys; the old ones stay good until nothing needs them",
		Long: `Has the authority make a new root with new issuers, and new keys for the JWTs that
queue managers ask for. Each agent and user then renews its identity by itself. Identities
signed with the old keys stay valid until they expire: nothing is interrupted. The
authority drops the old keys after 39 days, or at the next rotation once all identities
have been renewed. Without this command the authority rotates a year before its issuers end.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, a, network, done, err := q.askAuthority(cmd)
			if err != nil {
				return err
			}
			defer done()
			if err := a.Rotate(ctx); err != nil {
				return err
			}
			if q.json {
				printJSON(cmd, tokenLine{MessageType: "rotated", Name: network})
				return nil
			}
			fmt.Fprintf(cmd.OutOrStdout(), "the authority of the network %s signs with new keys; make a new backup of it\n", network)
			return nil
		}}
	q.add(c)
	return c
}

// authorityFlags are the settings of `ferry authority run`.
type authorityFlags struct {
	dir, network, enrol, qm string
	external                bool
	log                     logFlags
}

func newAuthorityRun() *cobra.Command {
	f := &authorityFlags{}
	c := &cobra.Command{Use: "run", Short: "Run the network's authority apart from its queue managers",
		Long: `Runs the authority, which enrols, renews and revokes, in a process of its own. The queue
manager is started with ` + "`ferry up --authority none`" + `. At its first start the authority makes the
network, an identity of this user, and a token for the first queue manager, which it writes
to DIR/first-qm.token. Transfers and connections do not ask it: it may be away for a week.`,
		Example: "  ferry authority run --dir /var/lib/ferry-authority --network nats://hub:4222 --enrol hub2:4223\n" +
			"  ferry up --authority none --join first-qm.token --listen :4222",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.network == "" || f.dir == "" {
				return transfer.Errorf(transfer.KindUsage, "`ferry authority run` needs --network URL and --dir DIR")
			}
			ctx, log, stop, err := f.log.serve(cmd)
			if err != nil {
				return err
			}
			defer stop()
			collectLess(slackOfOthers)
			err = whileFull(ctx, log, "authority", f.dir, func() error { return authorityRun(ctx, cmd.OutOrStdout(), f, log) })
			if ctx.Err() != nil {
				return nil // told to stop, possibly before the network was reached
			}
			return err
		}}
	fl := c.Flags()
	fl.StringVar(&f.dir, "dir", "", "directory of the authority; made if it is not there")
	fl.StringVar(&f.network, "network", "", "URL of a queue manager")
	fl.StringVar(&f.enrol, "enrol", "", "HOST:PORT where agents, users and queue managers join with a token; open while there is a token (default: the port after the queue manager's; on this host alone where that is)")
	fl.StringVar(&f.qm, "qm", "QM", "name of the first queue manager; the authority writes a token for it")
	fl.BoolVar(&f.external, "external", false, "the queue manager is a server of NATS with the configuration of ferry authority export: do its errands, too")
	f.log.add(c, "info")
	return c
}

func authorityRun(ctx context.Context, out io.Writer, f *authorityFlags, log logT) error {
	at := qmgr.Addresses(f.network)
	if len(at) == 0 {
		return transfer.Errorf(transfer.KindUsage, "--network %q names no queue manager that asks for identities", f.network).WithHint("write it as nats://HOST:PORT")
	}
	host, _, err := net.SplitHostPort(at[0])
	if err != nil {
		return err
	}
	if !loopback(host) {
		host = ""
	}
	h, err := openHome(ctx, f.dir, log)
	if err != nil {
		return err
	}
	defer h.stop()
	if h.enrol, err = nextPort(f.enrol, net.JoinHostPort(host, "0"), f.network); err != nil {
		return err
	}
	if h.store != nil {
		if err := h.store.Know(h.Network(), at...); err != nil {
			return err
		}
	}
	if !f.external {
		err = h.first(out, f)
	}
	if err != nil {
		return err
	}
	h.tasks.Go(h.joiners)
	w := &way{}
	if f.external {
		a := &abroad{h: h, url: f.network}
		if err := a.open(); err != nil {
			return err
		}
		w.admit = a.admit
	}

	conn, err := qmgr.Connect(ctx, qmgr.ConnConfig{URL: f.network, Name: "ferry authority", Identity: h.self, Timeout: -1, Log: log,
		OnConnect: func() {
			select {
			case h.again <- struct{}{}:
			default:
			}
		}})
	if err != nil {
		return err
	}
	w.conn = conn
	if !f.external {
		w.admit = func(c roles.Claims) error {
			ctx, cancel := context.WithTimeout(h.ctx, admitWait)
			defer cancel()
			return qmgr.Admit(ctx, conn, c)
		}
	}
	if err := h.serve(w); err != nil {
		return err
	}
	fmt.Fprintf(out, "authority of the network %s ready\n", h.Network())
	<-ctx.Done()
	return nil
}

const (
	admitWait  = 10 * time.Second
	firstToken = "first-qm.token"
	firstFor   = 24 * time.Hour
)

// first writes a token for the first queue manager of a network that has none.
func (h *home) first(out io.Writer, f *authorityFlags) error {
	for _, i := range h.Identities() {
		if i.Name.Role == identity.Manager && !i.Revoked {
			return nil
		}
	}
	name := identity.Name{Network: h.Network(), Role: identity.Manager, Name: f.qm}
	path := filepath.Join(f.dir, firstToken)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := h.DropToken(name.String(), ""); err != nil { // of a start before
		return err
	}
	secret, err := h.NewToken(name, roles.Manager, firstFor, "")
	if err != nil {
		return err
	}
	line, err := h.token(secret)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(line+"\n"), 0o600); err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the token for the first queue manager cannot be written: %w", err)
	}
	fmt.Fprintf(out, "the network %s has no queue manager yet; %s has a token for one, good for %s. Start it with:\n  ferry up --authority none --name %s --join %s\n",
		h.Network(), path, firstFor, f.qm, path)
	return nil
}
