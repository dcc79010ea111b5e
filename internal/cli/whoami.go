package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ferry/internal/client"
	"ferry/internal/node/config"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identities"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// addNetwork adds the flags of a user's command that speaks to a network.
func addNetwork(fl *pflag.FlagSet, url *string) {
	fl.StringVar(url, "network", "", "URL of a queue manager")
	fl.String("identity", "", "directory of the identity as which to connect (default: this user's in that network)")
}

// myIdentities are those of the OS user.
func myIdentities() (*identities.Store, error) {
	home, err := stateDir()
	if err != nil {
		return nil, err
	}
	return identities.At(filepath.Join(home, "identities")), nil
}

// A caller connects to a queue manager. It has an identity, or none where the queue manager has no identities.
type caller struct {
	identity *identity.Identity
	store    *identities.Store // where the address is to be kept; nil: nowhere
	at       string
}

// userAt returns the caller of this OS user at a queue manager. The network of the queue manager is known, or the queue
// manager names it; the connection verifies that name.
func userAt(ctx context.Context, cmd *cobra.Command, url string, patience time.Duration) (c caller, err error) {
	if f := cmd.Flags().Lookup("identity"); f != nil && f.Value.String() != "" {
		c.identity, err = loadIdentity(f.Value.String())
		return c, err
	}

	addresses := qmgr.Addresses(url)
	store, err := myIdentities()
	if err != nil && len(addresses) > 0 {
		store = identities.At("") // an empty store
	}
	for _, a := range addresses {
		network, err := store.Network(a)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			c.identity, err = mine(store, network, a)
		}
		return c, err
	}

	p, at, err := qmgr.ProbeURL(ctx, url, patience)
	switch {
	case err != nil:
		return c, err
	case p.Plain:
		return c, plainly(at)
	}
	c.identity, err = mine(store, p.Network, at)
	c.store, c.at = store, at
	return c, err
}

// mine is the user's identity in the network of a queue manager.
func mine(store *identities.Store, network, at string) (*identity.Identity, error) {
	i, err := store.Load(network)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, transfer.Errorf(transfer.KindDenied, "this user has no identity in the network %s of the queue manager at %s", network, at).
			WithHint("have a token made there with `ferry token create --user NAME`, and log in with `ferry login --join FILE`")
	}
	return i, err
}

// plainly refuses connections without identities to other hosts.
func plainly(at string) error {
	host, _, err := net.SplitHostPort(at)
	if at == "" || err == nil && loopback(host) {
		return nil
	}
	return transfer.Errorf(transfer.KindDenied, "the queue manager at %s is on another host and knows neither TLS nor identities", at).
		WithHint("start it with `ferry up` and without --insecure")
}

// loopback reports whether a host name or address is this host's own.
func loopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

func loadIdentity(path string) (*identity.Identity, error) {
	dir, err := keyfile.Open(path)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "the identity in %s cannot be used: %w", path, err)
	}
	i, err := identity.Load(dir)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUsage, "the identity in %s cannot be used: %w", path, err)
	}
	return i, nil
}

// connectUser connects this OS user. Where it is time, the identity is renewed on the way.
func connectUser(ctx context.Context, cmd *cobra.Command, url, name string, patience time.Duration, log logT) (conn *qmgr.Conn, err error) {
	var who *identity.Identity
	err = anew(ctx, func() (refused bool, err error) {
		at, c, err := userConfig(ctx, cmd, url, patience)
		if err != nil {
			return false, err
		}
		who = c.identity
		at.Name, at.Log = name, log
		if conn, err = qmgr.Connect(ctx, at); err == nil && at.Identity != nil {
			if c.store != nil { // which the connection has verified by now
				if kerr := c.store.Know(at.Identity.Name().Network, c.at); kerr != nil {
					log.Warn("the network of the queue manager is not kept", "error", kerr)
				}
			}
			renewSoon(ctx, conn, at.Identity, log)
		}
		return transfer.KindOf(err) == transfer.KindDenied, err
	})
	if transfer.KindOf(err) == transfer.KindDenied && who != nil {
		err = elsewhere(ctx, url, who, err)
	}
	return conn, err
}

// elsewhere adds a hint to a refusal by a queue manager of another network, where this user has an identity of that
// network, too. It does not use that identity by itself. A member of both networks could otherwise stand in for the
// queue manager of the other network at its address.
func elsewhere(ctx context.Context, url string, who *identity.Identity, refused error) error {
	store, err := myIdentities()
	if err != nil {
		return refused
	}
	p, at, err := qmgr.ProbeURL(ctx, url, renewWait)
	if err != nil || p.Network == "" || p.Network == who.Name().Network {
		return refused
	}
	i, err := store.Load(p.Network)
	if err != nil {
		return refused
	}
	return transfer.Errorf(transfer.KindDenied, "%w", refused).
		WithHint("the queue manager at " + at + " says that it is of the network " + p.Network + ", and was of " + who.Name().Network +
			" before; if that is right give --identity " + i.Path() + ", or log in anew with a token of it")
}

// anew runs op, and again for anewFor while a queue manager refuses an identity. Another command may begin a new
// network at the address of an earlier one. It makes the new identities a moment before it listens, which may be after
// this command has looked up the address.
func anew(ctx context.Context, op func() (refused bool, err error)) error {
	end := time.Now().Add(anewFor)
	for {
		refused, err := op()
		if !refused || time.Now().After(end) {
			return err
		}
		select {
		case <-time.After(anewPause):
		case <-ctx.Done():
			return err
		}
	}
}

const (
	anewFor   = 2 * time.Second
	anewPause = 100 * time.Millisecond
)

// userConfig returns the configuration for a connection of this OS user.
func userConfig(ctx context.Context, cmd *cobra.Command, url string, patience time.Duration) (cc qmgr.ConnConfig, c caller, err error) {
	began := time.Now()
	if c, err = userAt(ctx, cmd, url, patience); err != nil {
		return cc, c, err
	}
	cc = qmgr.ConnConfig{URL: url, Self: client.Me().Principal(), Identity: c.identity, Timeout: patience, Asks: true}
	if patience > 0 {
		cc.Timeout = max(patience-time.Since(began), 1)
	}
	return cc, c, nil
}

// renewSoon renews an identity that is due, unless the authority is away.
func renewSoon(ctx context.Context, conn *qmgr.Conn, i *identity.Identity, log logT) {
	if time.Now().Before(i.Due()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, renewWait)
	defer cancel()
	if err := (enrol.Asker{Conn: conn}).Renew(ctx, i); err != nil {
		log.Warn("the identity is not renewed yet", "identity", i.Name(), "until", i.Until(), "error", err)
	}
}

const (
	renewWait  = 2 * time.Second // of a command that has something else to do
	renewEvery = time.Hour

	renewAgain  = 2 * time.Minute
	renewWithin = 5 * time.Second
)

// keepRenewed renews an identity from when it is due, until ctx ends.
func keepRenewed(ctx context.Context, i *identity.Identity, renew func(context.Context) error, log logT) {
	t := time.NewTicker(renewEvery)
	defer t.Stop()
	soon := time.NewTimer(0) // which ends a wait
	defer soon.Stop()
	for {
		if !time.Now().Before(i.Due()) {
			if err := renew(ctx); err != nil && ctx.Err() == nil {
				log.Warn("the identity is not renewed yet", "identity", i.Name(), "until", i.Until(), "error", err)
				soon.Reset(renewAgain)
			}
		}
		select {
		case <-t.C:
		case <-soon.C:
		case <-i.Soon(): // all identities of the network at once, and there may be thousands
			soon.Reset(rand.N(renewWithin))
		case <-ctx.Done():
			return
		}
	}
}

// identityDir is the directory of the identity in the state directory of an agent or of coordination.
const identityDir = "identity"

// serviceAt returns the identity of an agent or of coordination. It is the one in its directory. Where that has none,
// serviceAt gets one with a token, or this OS user enrols it.
func serviceAt(ctx context.Context, cmd *cobra.Command, url, state, join string, role identity.Role, name string, log logT) (*identity.Identity, error) {
	path := filepath.Join(state, identityDir)
	if joining(join) {
		if err := joinWith(ctx, cmd, join, path, role, name, log); err != nil {
			return nil, err
		}
	}
	return memberAt(ctx, cmd, url, path, joining(join), role, name, log)
}

// memberAt is serviceAt without a token; joined says that a token was used.
func memberAt(ctx context.Context, cmd *cobra.Command, url, path string, joined bool, role identity.Role, name string, log logT) (*identity.Identity, error) {
	i, err := stored(path)
	if err == nil {
		if i.Name().Role != role || i.Name().Name != name {
			return nil, transfer.Errorf(transfer.KindConflict, "the identity in %s is %s, and not that of %s %s", path, i.Name(), role, name).
				WithHint("choose another state directory with --dir")
		}
		switch ended := time.Now().After(i.Until()); {
		case joined, !ended && !strayed(ctx, url, i):
			return i, nil
		case ended:
			log.Warn("the identity has ended: enrolling again", "identity", i.Name(), "until", i.Until())
		default:
			log.Warn("the queue manager belongs to another network than the identity: enrolling anew", "identity", i.Name())
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	c, err := userAt(ctx, cmd, url, -1)
	if err != nil && transfer.KindOf(err) == transfer.KindDenied {
		return nil, transfer.Errorf(transfer.KindDenied, "%s %s has no identity in the network of the queue manager at %s", role, name, url).
			WithHint("have a token made there with `ferry token create --" + string(role) + " " + name + "`, and give it with --join FILE")
	}
	if err != nil || c.identity == nil {
		return nil, err
	}
	conn, err := connectUser(ctx, cmd, url, "ferry enrol", -1, log)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return enrolHere(ctx, conn, path, identity.Name{Network: c.identity.Name().Network, Role: role, Name: name})
}

// strayed reports whether this OS user knows that the queue manager at a URL belongs to another network than an
// identity. Most likely the user has begun the network again.
func strayed(_ context.Context, url string, i *identity.Identity) bool {
	store, err := myIdentities()
	if err != nil {
		return false
	}
	for _, a := range qmgr.Addresses(url) {
		if network, err := store.Network(a); err == nil && network != i.Name().Network {
			_, err := store.Load(network)
			return err == nil
		}
	}
	return false
}

// stored is the identity in a directory. The error is fs.ErrNotExist where there is none.
func stored(path string) (*identity.Identity, error) {
	dir, err := keyfile.Open(path)
	if err != nil {
		return nil, err
	}
	return identity.Load(dir)
}

// enrolHere has the authority issue an identity to a service on this host. The user of conn needs the right to enrol.
func enrolHere(ctx context.Context, conn *qmgr.Conn, path string, name identity.Name) (*identity.Identity, error) {
	dir, err := keyfile.Make(path)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUnwritable, "the identity of %s cannot be kept: %w", name, err)
	}
	keys, w, err := authority.NewWish(dir)
	if err != nil {
		return nil, err
	}
	desk := enrol.Asker{Conn: conn}
	g, err := desk.Enrol(ctx, name, roles.Role(name.Role), w, false)
	// Where queue managers have just been started the channel that leads to it may not be up yet.
	for end := time.Now().Add(authorityWait); (transfer.KindOf(err) == transfer.KindUnreachable || transfer.KindOf(err) == transfer.KindTimeout) && time.Now().Before(end); {
		select {
		case <-time.After(livesPause):
		case <-ctx.Done():
			return nil, err
		}
		g, err = desk.Enrol(ctx, name, roles.Role(name.Role), w, false)
	}
	for k := transfer.KindOf(err); k == transfer.KindConflict || k == transfer.KindBusy; k = transfer.KindOf(err) {
		if err := lives(ctx, conn, name); err != nil {
			return nil, err
		}
		if g, err = desk.Enrol(ctx, name, roles.Role(name.Role), w, true); transfer.KindOf(err) == transfer.KindBusy {
			select {
			case <-time.After(livesPause):
			case <-ctx.Done():
				return nil, err
			}
		}
	}
	if err != nil {
		return nil, err
	}
	return identity.New(dir, keys, g)
}

// lives returns an error of KindAlive where an agent or service of a name runs. A new enrolment of the name would
// disconnect it.
func lives(ctx context.Context, conn *qmgr.Conn, name identity.Name) error {
	c := newClient(conn, "", livesWait)
	if name.Role == identity.Agent {
		b, _, err := c.Ping(ctx, transfer.AgentName(name.Name))
		if err == nil {
			return transfer.Errorf(transfer.KindAlive, "agent %s is already running on %s since %s (instance %s); this one stops", name.Name, b.Host, stamp(b.Started), b.Instance).
				WithHint("stop that one, or take another name")
		}
		return nil
	}
	if err := c.Agents(ctx, func(*wire.AgentStatus) error { return nil }); err == nil {
		return transfer.Errorf(transfer.KindAlive, "another coordination service already runs on this network").
			WithHint("there is one writer of the audit log; stop the other")
	}
	return nil
}

const (
	livesWait  = 3 * time.Second
	livesPause = 500 * time.Millisecond
	// authorityWait is the time to wait for an authority that does not answer.
	authorityWait = 15 * time.Second
)

// joinWith joins a network with a token, unless that was done with it before. An identity that
// is good stays where the token is not, or is there no more.
func joinWith(ctx context.Context, cmd *cobra.Command, join, path string, role identity.Role, name string, log logT) error {
	was, err := stored(path)
	good := err == nil && time.Now().Before(was.Until())
	t, err := readToken(cmd, join)
	if err != nil && good {
		return nil // as after a restart with the same command
	}
	if err != nil {
		return err
	}
	_, err = joinIn(ctx, t, path, identity.Name{Role: role, Name: name})
	if good && transfer.KindOf(err) == transfer.KindDenied {
		log.Warn("the token is not good; the identity stays as it is", "identity", was.Name(), "error", err)
		return nil
	}
	return err
}

// joinIn joins a network as a name with a token, and keeps the identity at path. The identity has new keys, because old
// ones may be revoked or belong to another holder. An identity that was at path is put aside after that. A second call
// with the same token resumes the first one, or returns its identity.
func joinIn(ctx context.Context, t enrol.Token, path string, as identity.Name) (*identity.Identity, error) {
	sum := sha256.Sum256([]byte(t.Secret))
	mark := hex.EncodeToString(sum[:])
	marked := func(path string) bool {
		dir, err := keyfile.Open(path)
		if err != nil {
			return false
		}
		data, err := dir.Read(fileToken)
		return err == nil && string(data) == mark
	}
	if i, err := stored(path); err == nil && marked(path) {
		return i, nil
	}

	fresh := path + ".new"
	if !marked(fresh) {
		if err := os.RemoveAll(fresh); err != nil {
			return nil, err
		}
	}
	dir, err := keyfile.Make(fresh)
	if err == nil {
		err = dir.Write(fileToken, []byte(mark))
	}
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUnwritable, "the identity cannot be kept: %w", err)
	}
	if _, err := enrol.Join(ctx, t, as, dir); err != nil {
		return nil, err
	}
	if _, err := os.Lstat(path); err == nil {
		if err := putAside(path); err != nil {
			return nil, err
		}
	}
	if err := os.Rename(fresh, path); err != nil {
		return nil, err
	}
	return stored(path)
}

// fileToken is the name of a file beside an identity. The file has the hash of the token that the identity joined with.
const fileToken = "token.sha256"

// envJoin is the environment variable for a token, for services that cannot name a file.
const envJoin = "FERRY_JOIN"

// addJoin adds the flag for a token.
func addJoin(c *cobra.Command, join *string) {
	c.Flags().StringVar(join, "join", "", "file with the token of `ferry token create --out FILE`, which other users cannot read, or - for standard input; the token itself may be in FERRY_JOIN")
	config.Never(c, "join") // FERRY_JOIN is a token, and not its file
}

// joining reports whether a token is given.
func joining(join string) bool { return join != "" || os.Getenv(envJoin) != "" }

// readToken reads a token from a file or from standard input; from FERRY_JOIN where neither
// is named.
func readToken(cmd *cobra.Command, from string) (enrol.Token, error) {
	switch {
	case from == "":
		return enrol.ParseToken(os.Getenv(envJoin))
	case strings.HasPrefix(from, "ferry-token:"):
		return enrol.Token{}, transfer.Errorf(transfer.KindUsage, "--join takes a file and not the token: each user of this host can read the arguments of a command").
			WithHint("have a new one made with `ferry token create --out FILE`, and give the file or standard input")
	}
	data, err := readSecret(cmd, "token", from, 64<<10)
	if errors.Is(err, keyfile.ErrRead) {
		if strings.HasPrefix(from, "/dev/") || strings.HasPrefix(from, "/proc/") { // a file that the shell has opened
			return enrol.Token{}, transfer.AsError(err).WithHint("give standard input as `--join -`")
		}
		return enrol.Token{}, transfer.AsError(err).WithHint("if no other user has read it, `chmod 600 " + quoted(from) + "`; otherwise take it back with `ferry token rm`, and have a new one made with `ferry token create --out FILE`")
	}
	if err != nil {
		return enrol.Token{}, transfer.AsError(err).WithHint("--join takes a file with the token, or - for standard input")
	}
	return enrol.ParseToken(string(data))
}

// userName returns the name of the OS user in a network.
func userName() string {
	name := strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, strings.ToLower(client.Me().User))
	if err := (identity.Name{Network: "aaaaaaaa", Role: identity.User, Name: name}).Check(); err != nil {
		name = "user-" + name
	}
	return name[:min(len(name), 64)]
}

// secretDirs are the directories of this user's identities, which no transfer may touch.
func secretDirs(cmd *cobra.Command) (all []string) {
	if home, err := stateDir(); err == nil {
		all = append(all, filepath.Join(home, "identities"))
	}
	if f := cmd.Flags().Lookup("identity"); f != nil && f.Value.String() != "" {
		all = append(all, f.Value.String())
	}
	return all
}
