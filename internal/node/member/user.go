package member

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"time"

	"ferry/internal/client"
	"ferry/internal/node/config"
	"ferry/internal/qmgr"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identities"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/transfer"
)

// Identities are those of the OS user.
func Identities() (*identities.Store, error) {
	home, err := StateDir()
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

// userAt returns the caller of this OS user at a queue manager. Its identity is the one in the directory as; with "", the
// network of the queue manager is known, or the queue manager names it, and the connection verifies that name.
func userAt(ctx context.Context, as, url string, patience time.Duration) (c caller, err error) {
	if as != "" {
		c.identity, err = LoadIdentity(as)
		return c, err
	}

	addresses := qmgr.Addresses(url)
	store, err := Identities()
	if err != nil && len(addresses) > 0 {
		store = identities.At("") // an empty store
	}
	for _, a := range addresses {
		network, err := store.Network(a)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			c.identity, err = ownIdentity(store, network, a)
		}
		return c, err
	}

	p, at, err := qmgr.ProbeURL(ctx, url, patience)
	switch {
	case err != nil:
		return c, err
	case p.Plain:
		return c, checkInsecureHost(at)
	}
	c.identity, err = ownIdentity(store, p.Network, at)
	c.store, c.at = store, at
	return c, err
}

// ownIdentity is the user's identity in the network of a queue manager.
func ownIdentity(store *identities.Store, network, at string) (*identity.Identity, error) {
	i, err := store.Load(network)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, transfer.Errorf(transfer.KindDenied, "this user has no identity in the network %s of the queue manager at %s", network, at).
			WithHint("have a token made there with `ferry token create --user NAME`, and log in with `ferry login --join FILE`")
	}
	return i, err
}

// checkInsecureHost refuses connections without identities to other hosts.
func checkInsecureHost(at string) error {
	host, _, err := net.SplitHostPort(at)
	if at == "" || err == nil && Loopback(host) {
		return nil
	}
	return transfer.Errorf(transfer.KindDenied, "the queue manager at %s is on another host and knows neither TLS nor identities", at).
		WithHint("start it with `ferry up` and without --insecure")
}

// LoadIdentity returns the identity in a directory that a user has named. Its errors are of KindUsage.
func LoadIdentity(path string) (*identity.Identity, error) {
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

// Connect connects this OS user, with the identity in the directory as; "": with the user's own in that network. Where
// it is time, the identity is renewed on the way.
func Connect(ctx context.Context, as, url, name string, patience time.Duration, log *slog.Logger) (conn *qmgr.Conn, err error) {
	var who *identity.Identity
	err = RetryRefused(ctx, func() (refused bool, err error) {
		at, c, err := userConfig(ctx, as, url, patience)
		if err != nil {
			return false, err
		}
		who = c.identity
		at.Name, at.Log = name, log
		if conn, err = qmgr.Connect(ctx, at); err == nil && at.Identity != nil {
			if c.store != nil { // which the connection has verified by now
				if kerr := c.store.SetNetwork(at.Identity.Name().Network, c.at); kerr != nil {
					log.Warn("the network of the queue manager is not kept", "error", kerr)
				}
			}
			renewSoon(ctx, conn, at.Identity, log)
		}
		return transfer.KindOf(err) == transfer.KindDenied, err
	})
	if transfer.KindOf(err) == transfer.KindDenied && who != nil {
		err = hintOtherNetwork(ctx, url, who, err)
	}
	return conn, err
}

// hintOtherNetwork adds a hint to a refusal by a queue manager of another network, where this user has an identity of that
// network, too. It does not use that identity by itself. A member of both networks could otherwise stand in for the
// queue manager of the other network at its address.
func hintOtherNetwork(ctx context.Context, url string, who *identity.Identity, refused error) error {
	store, err := Identities()
	if err != nil {
		return refused
	}
	p, at, err := qmgr.ProbeURL(ctx, url, RenewWait)
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

// RetryRefused runs op, and again for refusedFor from the first refusal while a queue manager refuses an identity. Another
// command may begin a new network at the address of an earlier one. It makes the new identities a moment before it
// listens, which may be after this command has looked up the address.
func RetryRefused(ctx context.Context, op func() (refused bool, err error)) error {
	var end time.Time
	for {
		refused, err := op()
		now := time.Now()
		if end.IsZero() {
			end = now.Add(refusedFor) // op may have waited for the queue manager before
		}
		if !refused || now.After(end) {
			return err
		}
		select {
		case <-time.After(refusedPause):
		case <-ctx.Done():
			return err
		}
	}
}

const (
	refusedFor   = 2 * time.Second
	refusedPause = 100 * time.Millisecond
)

// userConfig returns the configuration for a connection of this OS user.
func userConfig(ctx context.Context, as, url string, patience time.Duration) (cc qmgr.ConnConfig, c caller, err error) {
	began := time.Now()
	if c, err = userAt(ctx, as, url, patience); err != nil {
		return cc, c, err
	}
	cc = qmgr.ConnConfig{URL: url, Self: client.Me().Principal(), Identity: c.identity, Timeout: patience, Asks: true}
	if patience > 0 {
		cc.Timeout = max(patience-time.Since(began), 1)
	}
	return cc, c, nil
}

// renewSoon renews an identity that is due, unless the authority is away.
func renewSoon(ctx context.Context, conn *qmgr.Conn, i *identity.Identity, log *slog.Logger) {
	if time.Now().Before(i.Due()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, RenewWait)
	defer cancel()
	if err := (enrol.Client{Conn: conn}).Renew(ctx, i); err != nil {
		log.Warn("the identity is not renewed yet", "identity", i.Name(), "until", i.Until(), "error", err)
	}
}

// Times of a renewal.
const (
	RenewWait  = 2 * time.Second // of a command that has something else to do
	renewEvery = time.Hour

	RenewAgain  = 2 * time.Minute // after a failure
	renewWithin = 5 * time.Second
)

// Loopback reports whether a host name or address is this host's own.
func Loopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// UserName returns the name of the OS user in a network.
func UserName() string {
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

// StateDir is the user's state directory.
func StateDir() (string, error) {
	dir, err := config.StateDir()
	if err != nil {
		return "", transfer.Errorf(transfer.KindUsage, "%v", err)
	}
	return dir, nil
}
