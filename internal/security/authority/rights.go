package authority

import (
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/security/policy"
	"ferry/internal/transfer"
)

// principal returns the principal of a name. The caller holds a.mu.
func (a *Authority) principal(n identity.Name) policy.Principal {
	p := policy.Principal{Kind: string(n.Role), Name: n.Name}
	if n.Role == identity.User {
		p.Role = policy.RoleRevoked
		if has := a.state.names[n.String()]; has != nil && !a.state.isRevoked(has.keys) {
			p.Role = RoleWord(has.role)
		}
	}
	return p
}

// RoleWord returns the name of a role in rules and in `ferry token create`.
func RoleWord(r roles.Role) string {
	if r == roles.User {
		return policy.RoleSender
	}
	return string(r)
}

// mayAt decides whether a name has an authority at an agent, for some path if it is one for paths. An empty agent
// stands for the network. The caller holds a.mu.
func mayAt(a *Authority, name identity.Name, right transfer.Authority, at transfer.AgentName) error {
	r, err := policy.Parse(a.policy)
	if err != nil {
		return err
	}
	if d := r.Decide(policy.Question{Who: a.principal(name), Right: right, Agent: at}); !d.Allowed {
		return noAuthority(name, right, at)
	}
	return nil
}

// noAuthority returns the error that a member lacks an authority at an agent, or in the network if at is empty.
func noAuthority(by identity.Name, right transfer.Authority, at transfer.AgentName) error {
	where := "in the network"
	if at != "" {
		where = "at agent " + string(at)
	}
	return transfer.Errorf(transfer.KindDenied, "%s %s does not have the authority %s %s: no rule gives it", by.Role, by.Name, right, where).
		WithHint("`ferry policy test` shows the rights that the rules give")
}
