package authority

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"time"

	"ferry/internal/security/identity"
	"ferry/internal/security/keyfile"
	"ferry/internal/security/policy"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
)

// filePolicy has the rules of the network. It is replaced before the act is recorded. After a crash between the two,
// the next start records the act.
const filePolicy = "policy.json"

// actPolicy records that the rules were replaced. Token is the hash of the new ones.
const actPolicy = "policy"

// openPolicy reads the rules. A new network has policy.Default.
func (a *Authority) openPolicy(dir *keyfile.Dir) error {
	data, err := dir.Read(filePolicy)
	if errors.Is(err, fs.ErrNotExist) && a.state.policy != "" {
		return transfer.Errorf(transfer.KindLost, "%s is missing, and %s says that there were rules; restore the directory whole", filePolicy, fileActs)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if data, err = compact(policy.Default); err == nil {
			err = dir.Write(filePolicy, data)
		}
	}
	if err != nil {
		return err
	}
	if _, err := policy.Parse(data); err != nil {
		return transfer.Errorf(transfer.KindMalformed, "%s is damaged: %w", filePolicy, err)
	}
	a.policy = data
	if h := hash(string(data)); h != a.state.policy {
		return a.do(&Act{Act: actPolicy, Time: a.clock(), Name: a.network.Network, Token: h})
	}
	return nil
}

// compact returns a policy in its stored spelling, which is signed and measured.
func compact(data []byte) ([]byte, error) { return json.Marshal(json.RawMessage(data)) }

// Policy returns the rules of the network, in JSON.
func (a *Authority) Policy() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.policy)
}

// SetPolicy replaces the rules of the network. If by is a user, the new rules must leave by the authority to replace
// them again. Otherwise they could never be undone.
func (a *Authority) SetPolicy(data []byte, by identity.Name) error {
	if _, err := policy.Parse(data); err != nil {
		return err
	}
	data, err := compact(data)
	if err != nil {
		return err
	}
	r, err := policy.Parse(data) // another version may have made it larger
	if err != nil {
		return err
	}

	a.mu.Lock()
	defer a.mu.Unlock()
	if d := r.Decide(policy.Question{Who: a.principal(by), Right: transfer.AuthAdmin}); by.Role == identity.User && !d.Allowed {
		return transfer.Errorf(transfer.KindUsage, "by these rules %s would not have the authority admin any more, and could not change them again", by.Name).
			WithHint(`add a rule as {"name":"administrators","who":["role:admin"],"may":["admin"]}`)
	}
	now := a.clock()
	trial := trust.Document{Network: a.network.Network, Number: 1, Issued: now, Policy: data, Users: a.users(now), Keys: reenrolledKeys(a)}
	if _, err := trust.Sign(a.trust.Signer, trial); err != nil {
		return err
	}
	if err := a.dir.Write(filePolicy, data); err != nil {
		return err
	}
	if err := a.do(&Act{Act: actPolicy, Time: now, Name: a.network.Network, Token: hash(string(data)), By: by.String()}); err != nil {
		return errors.Join(err, a.dir.Write(filePolicy, a.policy)) // unrecorded rules do not apply
	}
	a.policy = data
	return nil
}

// May decides whether a member has an authority that is independent of agents and paths.
func (a *Authority) May(who identity.Name, right transfer.Authority) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return mayAt(a, who, right, "")
}

// revokedUsersListed is how long a user is listed as revoked after the end of its certificates' validity: earlier requests of
// the user may wait that long.
const revokedUsersListed = 90 * 24 * time.Hour

// maxListed bounds the lists of users and of their keys in a rules document, in bytes, beside the rules and the revoked
// keys.
const maxListed = 256 << 10

// reenrolledRoom is the part of maxListed, in bytes, that is reserved for the keys of names that are enrolled again.
const reenrolledRoom = 32 << 10

// listable returns an error unless the rules document has room for the user of an act. The caller holds a.mu.
func listable(a *Authority, name identity.Name, act *Act) error {
	if name.Role != identity.User {
		return nil
	}
	all, keys, most := a.users(act.Time), reenrolledKeys(a), maxListed-reenrolledRoom
	_, listed := all[name.Name]
	has := a.state.names[name.String()]
	if has != nil && has.keys != act.Keys && !has.replaced {
		keys[name.Name], most = shortFingerprint(act.TLS), maxListed
	} else if listed {
		return nil
	}
	all[name.Name] = RoleWord(act.Role)
	if data, err := json.Marshal([]any{all, keys}); err != nil || len(data) > most {
		return cmp.Or(err, error(transfer.Errorf(transfer.KindTooLarge, "%d users are enrolled, as many as the network's rules can list", len(all)-1)))
	}
	return nil
}

// users returns the roles of all users, and of revoked ones for some time. A user that is not listed has no right. The
// caller holds a.mu.
func (a *Authority) users(at time.Time) map[string]string {
	all := map[string]string{}
	for uri, has := range a.state.names {
		name, err := identity.Parse(uri)
		if err != nil || name.Role != identity.User {
			continue
		}
		until, revoked := a.state.revoked[has.keys]
		switch {
		case revoked && at.Before(until.Add(revokedUsersListed)):
			all[name.Name] = policy.RoleRevoked
		case !revoked:
			all[name.Name] = RoleWord(has.role)
		}
	}
	return all
}

// shortFingerprint returns the part of a fingerprint in the rules document: 128 bits.
func shortFingerprint(fingerprint string) string { return fingerprint[:min(len(fingerprint), 32)] }

// reenrolledKeys returns the marks of the present keys of users with former keys, by name. The caller holds a.mu.
func reenrolledKeys(a *Authority) map[string]string {
	all := map[string]string{}
	for uri, has := range a.state.names {
		if name, err := identity.Parse(uri); err == nil && name.Role == identity.User && has.replaced {
			all[name.Name] = shortFingerprint(has.keys.TLS)
		}
	}
	return all
}
