package member

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// IdentityDir is the directory of the identity in the state directory of an agent or of coordination.
const IdentityDir = "identity"

// An Entry says how a service of this host gets its identity.
type Entry struct {
	As    string                      // directory of the identity that enrols the service; "": this OS user's
	Token func() (enrol.Token, error) // reads the token that the service joins with; nil: there is none
	Later func() (enrol.Token, error) // token after the first attempt of a service that enrols several times
}

// ServiceAt returns the identity of an agent or of coordination. It is the one in its directory. Where that has none,
// ServiceAt gets one with a token, or this OS user enrols it.
func ServiceAt(ctx context.Context, e Entry, url, state string, role identity.Role, name string, log *slog.Logger) (*identity.Identity, error) {
	path := filepath.Join(state, IdentityDir)
	if e.Token != nil {
		if err := JoinWith(ctx, e.Token, path, role, name, log); err != nil {
			return nil, err
		}
	}
	return MemberAt(ctx, e.As, url, path, e.Token != nil, role, name, log)
}

// MemberAt is serviceAt without a token; joined says that a token was used. as is the directory of the identity of the OS
// user that enrols it, as of connectAs.
func MemberAt(ctx context.Context, as, url, path string, joined bool, role identity.Role, name string, log *slog.Logger) (*identity.Identity, error) {
	i, err := Stored(path)
	if err == nil {
		if err := holds(i, path, role, name); err != nil {
			return nil, err
		}
		switch ended := time.Now().After(i.Until()); {
		case joined, !ended && !otherNetwork(ctx, url, i):
			return i, nil
		case ended:
			log.Warn("the identity has ended: enrolling again", "identity", i.Name(), "until", i.Until())
		default:
			log.Warn("the queue manager belongs to another network than the identity: enrolling anew", "identity", i.Name())
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}

	c, err := userAt(ctx, as, url, -1)
	if err != nil && transfer.KindOf(err) == transfer.KindDenied {
		return nil, transfer.Errorf(transfer.KindDenied, "%s %s has no identity in the network of the queue manager at %s", role, name, url).
			WithHint("have a token made there with `ferry token create --" + string(role) + " " + name + "`, and give it with --join FILE")
	}
	if err != nil || c.identity == nil {
		return nil, err
	}
	conn, err := Connect(ctx, as, url, "ferry enrol", -1, log)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return EnrolHere(ctx, conn, path, identity.Name{Network: c.identity.Name().Network, Role: role, Name: name})
}

// otherNetwork reports whether this OS user knows that the queue manager at a URL belongs to another network than an
// identity. Most likely the user has begun the network again.
func otherNetwork(_ context.Context, url string, i *identity.Identity) bool {
	store, err := Identities()
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

// EnrolHere has the authority issue an identity to a service on this host. The user of conn needs the right to enrol.
func EnrolHere(ctx context.Context, conn *qmgr.Conn, path string, name identity.Name) (*identity.Identity, error) {
	dir, err := keyfile.Make(path)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUnwritable, "the identity of %s cannot be kept: %w", name, err)
	}
	keys, w, err := authority.NewIdentityRequest(dir)
	if err != nil {
		return nil, err
	}
	enroller := enrol.Client{Conn: conn}
	g, err := enroller.Enrol(ctx, name, roles.Role(name.Role), w, false)
	// Where queue managers have just been started the channel that leads to it may not be up yet.
	for end := time.Now().Add(authorityWait); (transfer.KindOf(err) == transfer.KindUnreachable || transfer.KindOf(err) == transfer.KindTimeout) && time.Now().Before(end); {
		select {
		case <-time.After(AlivePause):
		case <-ctx.Done():
			return nil, err
		}
		g, err = enroller.Enrol(ctx, name, roles.Role(name.Role), w, false)
	}
	for k := transfer.KindOf(err); k == transfer.KindConflict || k == transfer.KindBusy; k = transfer.KindOf(err) {
		if err := CheckNotRunning(ctx, conn, name); err != nil {
			return nil, err
		}
		if g, err = enroller.Enrol(ctx, name, roles.Role(name.Role), w, true); transfer.KindOf(err) == transfer.KindBusy {
			select {
			case <-time.After(AlivePause):
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

// CheckNotRunning returns an error of KindAlive where an agent or service of a name runs. A new enrolment of the name would
// disconnect it.
func CheckNotRunning(ctx context.Context, conn *qmgr.Conn, name identity.Name) error {
	c := &client.Client{Conn: conn, Clock: clock.System, Who: client.Me(), Timeout: aliveWait}
	if name.Role == identity.Agent {
		b, _, err := c.Ping(ctx, transfer.AgentName(name.Name))
		if err == nil {
			return transfer.Errorf(transfer.KindAlive, "agent %s is already running on %s since %s (instance %s); this one stops", name.Name, b.Host, formatTime(b.Started), b.Instance).
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

// formatTime is a time in a message; "-" stands for none.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Local().Format(time.DateTime)
}

// Times of an enrolment.
const (
	aliveWait  = 3 * time.Second
	AlivePause = 500 * time.Millisecond // between two attempts
	// authorityWait is the time to wait for an authority that does not answer.
	authorityWait = 15 * time.Second
)
