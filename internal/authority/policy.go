package authority

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"slices"
	"time"

	"ferry/internal/identity"
	"ferry/internal/keyfile"
	"ferry/internal/policy"
	"ferry/internal/qmgr/roles"
	"ferry/internal/transfer"
	"ferry/internal/trust"
)

// filePolicy has the rules of the network. It is replaced before the act is on record, and what a
// crash left between the two is put on record at the next start.
const filePolicy = "policy.json"

// actPolicy says that the rules were replaced; Token is the hash of the new ones.
const actPolicy = "policy"

// openPolicy reads the rules; a network begins with policy.Default.
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
		return a.do(&Act{Act: actPolicy, Time: a.clock(), Name: a.about.Network, Token: h})
	}
	return nil
}

// compact is a policy in the spelling in which it is kept, signed and, by its size, limited.
func compact(data []byte) ([]byte, error) { return json.Marshal(json.RawMessage(data)) }

// Policy are the rules of the network, in JSON.
func (a *Authority) Policy() []byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.policy)
}

// SetPolicy replaces the rules of the network. Rules that leave by without the authority
// to replace them again are refused, where by is a user: nobody could take them back.
func (a *Authority) SetPolicy(data []byte, by identity.Name) error {
	if _, err := policy.Parse(data); err != nil {
		return err
	}
	data, err := compact(data)
	if err != nil {
		return err
	}
	r, err := policy.Parse(data) // it may have grown
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
	trial := trust.Document{Network: a.about.Network, Number: 1, Issued: now, Policy: data, Users: a.users(now)}
	if _, err := trust.Sign(a.trust.Signer, trial); err != nil {
		return err
	}
	if err := a.dir.Write(filePolicy, data); err != nil {
		return err
	}
	if err := a.do(&Act{Act: actPolicy, Time: now, Name: a.about.Network, Token: hash(string(data)), By: by.String()}); err != nil {
		return errors.Join(err, a.dir.Write(filePolicy, a.policy)) // what is not on record does not hold
	}
	a.policy = data
	return nil
}

// May decides whether somebody has an authority that is for no agent and no path.
func (a *Authority) May(who identity.Name, right transfer.Authority) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return mayAt(a, who, right, "")
}

// principal is a name as rules know it. a.mu is held.
func (a *Authority) principal(n identity.Name) policy.Principal {
	p := policy.Principal{Kind: string(n.Role), Name: n.Name}
	if n.Role == identity.User {
		p.Role = policy.RoleRevoked
		if has := a.state.names[n.String()]; has != nil && !a.state.isRevoked(has.keys) {
			p.Role = roleOf(has.role)
		}
	}
	return p
}

// roleOf is what rules call a user's role.
func roleOf(r roles.Role) string {
	if r == roles.User {
		return policy.RoleSender
	}
	return string(r)
}

// longRevoked is how long a user is named as revoked after what was signed for him has ended: what he
// has submitted before may wait that long.
const longRevoked = 90 * 24 * time.Hour

// maxListed is how many bytes the list of users may have in a rules document, beside the rules and the revoked keys.
const maxListed = 256 << 10

// listable is nil where the rules document has room for the user of an act. a.mu is held.
func listable(a *Authority, name identity.Name, act *Act) error {
	if name.Role != identity.User {
		return nil
	}
	all := a.users(act.Time)
	if _, ok := all[name.Name]; ok {
		return nil
	}
	all[name.Name] = roleOf(act.Role)
	if data, err := json.Marshal(all); err != nil || len(data) > maxListed {
		return cmp.Or(err, error(transfer.Errorf(transfer.KindTooLarge, "%d users are enrolled, as many as the network's rules can list", len(all)-1)))
	}
	return nil
}

// users are the roles of all users, also of revoked ones for some time: a user that is not
// among them has no right. a.mu is held.
func (a *Authority) users(at time.Time) map[string]string {
	all := map[string]string{}
	for uri, has := range a.state.names {
		name, err := identity.Parse(uri)
		if err != nil || name.Role != identity.User {
			continue
		}
		until, revoked := a.state.revoked[has.keys]
		switch {
		case revoked && at.Before(until.Add(longRevoked)):
			all[name.Name] = policy.RoleRevoked
		case !revoked:
			all[name.Name] = roleOf(has.role)
		}
	}
	return all
}
