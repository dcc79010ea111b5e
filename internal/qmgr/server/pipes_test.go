package server

import (
	"testing"

	"ferry/internal/qmgr/claims"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// TestAGateTakesTheTicketsOfAUser holds that the gate compares a ticket with the certificate, before the server verifies
// it.
func TestAGateTakesTheTicketsOfAUser(t *testing.T) {
	a := authoritytest.New(t)
	bob := authoritytest.Identity(t, a, identity.User, "bob", roles.User).Name()
	eve := authoritytest.Identity(t, a, identity.User, "eve", roles.User).Name()
	alpha := authoritytest.Identity(t, a, identity.Agent, "ALPHA", roles.Agent).Name()
	signed, err := a.Claims()
	must(t, err)
	r, err := claims.Read(signed)
	must(t, err)
	lets := &claims.Admission{Account: r.Account, Data: r.Data}
	id := transfer.ID{6: 0x70, 8: 0x80, 15: 1}
	jwts, err := authority.Ticket(a, bob, authority.Pipe{Transfer: id, Peer: "ALPHA", Right: transfer.AuthDest})
	must(t, err)
	self := transfer.StreamAgentOf(bob.String(), id).Token()
	for _, token := range []string{jwts.User, jwts.Data} {
		c, err := claims.Caller(bob, token, lets)
		must(t, err)
		if c.Token != self || c.Member != bob.Token() || c.Role != "pipe" || c.Replies != "ferry.inbox."+self+"." {
			t.Errorf("the ticket lets in %s of %s as %s with replies %s", c.Token, c.Member, c.Role, c.Replies)
		}
		data := token == jwts.Data
		if c.Publish("ferry.data.ALPHA."+self+"."+id.String()) != data || c.Publish("ferry.reply.ALPHA."+self) == data || c.Publish("ferry.reply.BETA."+self) {
			t.Errorf("the rights are not those of the ticket; for data: %v", data)
		}
		for _, other := range []identity.Name{eve, alpha} {
			if c, err := claims.Caller(other, token, lets); transfer.KindOf(err) != transfer.KindDenied {
				t.Errorf("the ticket of bob lets %s in as %s: %v", other, c.Token, err)
			}
		}
	}
}
