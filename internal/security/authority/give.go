package authority

import (
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/security/policy"
	"ferry/internal/transfer"
)

// enrolRoles are the roles that a member with the authority enrol can give. Every other role takes the authority admin: a
// queue manager can publish in every name, and coordination and the authority decide for the network.
var enrolRoles = map[roles.Role]bool{roles.Agent: true, roles.User: true, roles.Member: true}

// restrictedRights are the authorities that a name cannot get from a giver without them, in any role: rules may give them to a
// name.
var restrictedRights = []transfer.Authority{transfer.AuthAdmin, transfer.AuthEnrol, transfer.AuthOperate, transfer.AuthAudit, transfer.AuthProgram, transfer.AuthDelegate}

// MayGive returns nil if by may have a name enrolled in a role, with the keys of w. A zero Wish stands for keys that
// are not known yet. Otherwise the error is of KindDenied.
func MayGive(a *Authority, by, name identity.Name, role roles.Role, w IdentityRequest) error {
	var keys Keys
	if w.CSR != nil {
		var err error
		if _, keys, err = w.read(); err != nil {
			return err
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return mayGive(a, by, name, role, keys)
}

// MayRevoke returns nil if by may revoke the identity of a name. Otherwise the error is of KindDenied.
func MayRevoke(a *Authority, by, name identity.Name) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	role := roles.Role(name.Role)
	if has := a.state.names[name.String()]; has != nil {
		role = has.role
	}
	return checkMayEnrol(a, by, name, role)
}

// mayGive is MayGive. A name belongs to the member that enrolled it: new keys would give another member all rights of
// the name. The caller holds a.mu.
func mayGive(a *Authority, by, name identity.Name, role roles.Role, keys Keys) error {
	if err := checkMayEnrol(a, by, name, role); err != nil {
		return err
	}
	has := a.state.names[name.String()]
	if has == nil || has.keys == keys || has.by == by.String() {
		return nil
	}
	rules, err := policy.Parse(a.policy)
	if err != nil || rules.Decide(policy.Question{Who: a.principal(by), Right: transfer.AuthAdmin}).Allowed {
		return err
	}
	return transfer.Errorf(transfer.KindDenied, "%s %s has not enrolled %s, and gives it no other keys without the authority admin", by.Role, by.Name, name).
		WithHint("an administrator can enrol the name anew")
}

// checkMayEnrol returns an error unless by may enrol a role under a name, and revoke it. The caller holds a.mu.
func checkMayEnrol(a *Authority, by, name identity.Name, role roles.Role) error {
	rules, err := policy.Parse(a.policy)
	if err != nil {
		return err
	}
	giver := a.principal(by)
	has := func(right transfer.Authority, at transfer.AgentName) bool {
		return rules.Decide(policy.Question{Who: giver, Right: right, Agent: at}).Allowed
	}
	var at transfer.AgentName
	if name.Role == identity.Agent {
		at = transfer.AgentName(name.Name)
	}
	switch {
	case has(transfer.AuthAdmin, ""):
		return nil
	case !has(transfer.AuthEnrol, at):
		return noAuthority(by, transfer.AuthEnrol, at)
	case !enrolRoles[role]:
		return transfer.Errorf(transfer.KindDenied, "%s %s does not have the authority admin in the network, which %s as %s takes", by.Role, by.Name, name, role).
			WithHint("an administrator can do it")
	}
	gets := policy.Principal{Kind: string(name.Role), Name: name.Name}
	if name.Role == identity.User {
		gets.Role = RoleWord(role)
	}
	for _, right := range restrictedRights {
		if rules.Ever(gets, right) && !has(right, "") {
			return transfer.Errorf(transfer.KindDenied, "the rules give %s the authority %s, which %s %s does not have in the network", name, right, by.Role, by.Name).
				WithHint("an administrator can do it")
		}
	}
	if name.Role != identity.User {
		return nil
	}
	member := gets
	member.Role = policy.RoleMember
	if right, rule := rules.Beyond(giver, gets, member); right != "" {
		return transfer.Errorf(transfer.KindDenied, "the rule %q gives the role %s the authority %s, and %s %s does not have all of that", rule, gets.Role, right, by.Role, by.Name).
			WithHint("the role member takes no more than enrol; an administrator can give the role " + gets.Role)
	}
	return nil
}
