package claims

import (
	"github.com/nats-io/jwt/v2"

	"ferry/internal/qmgr/gate"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Caller compares a JWT with the name of a certificate, and returns the client. The server itself verifies the JWT.
func Caller(name identity.Name, token string, to *Admission) (gate.Caller, error) {
	u, err := jwt.DecodeUserClaims(token)
	if err != nil {
		return gate.Caller{}, transfer.Errorf(transfer.KindDenied, "%s shows a JWT that cannot be read", name)
	}
	account := to.Account
	if u.IssuerAccount == to.Data.Subject {
		account = to.Data
	}
	scope, _ := account.SigningKeys.GetScope(u.Issuer)
	signed, ok := scope.(*jwt.UserScope)
	c := gate.Caller{Token: u.Name, Member: name.Token()}
	if ok {
		c.Role = signed.Role
	}
	if c.Role == string(roles.Pipe) && name.Role == identity.User {
		return pipe(c, name, token, account == to.Data)
	}
	if !ok || u.Name != name.Token() || identityRole[roles.Role(signed.Role)] != name.Role {
		return gate.Caller{}, transfer.Errorf(transfer.KindDenied, "%s shows the JWT of another name", name)
	}
	if name.Role != identity.Manager {
		c.Replies = wire.InboxesOf(c.Token)
	}
	return c, nil
}

// pipe returns the client c with the ticket of a user. The gate narrows its rights to the peer and the transfer.
func pipe(c gate.Caller, user identity.Name, token string, data bool) (gate.Caller, error) {
	t, err := roles.ReadTicket(token)
	if err != nil {
		return gate.Caller{}, err
	}
	if t.Name != transfer.StreamAgentOf(user.String(), t.Transfer) {
		return gate.Caller{}, transfer.Errorf(transfer.KindDenied, "%s shows the ticket of another user or transfer, %s", user, t.Name)
	}
	g := t.Grant(user.Token())
	if data {
		g = t.Data(user.Token())
	}
	c.Replies = wire.InboxesOf(c.Token)
	c.Publish = func(subject string) bool { return roles.Covers(g.Publish, subject) }
	c.Subscribe = func(subject string) bool { return roles.Covers(g.Subscribe, subject) }
	return c, nil
}

// identityRole maps each role to the role in its bearer's certificates.
var identityRole = map[roles.Role]identity.Role{
	roles.Agent: identity.Agent, roles.User: identity.User, roles.Member: identity.User, roles.Admin: identity.User, roles.Operator: identity.User, roles.Auditor: identity.User,
	roles.Coordination: identity.Coordination, roles.Authority: identity.Authority, roles.Manager: identity.Manager, roles.Channel: identity.Manager,
}
