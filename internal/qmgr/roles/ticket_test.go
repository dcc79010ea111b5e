package roles_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"

	"ferry/internal/qmgr/roles"
	"ferry/internal/transfer"
)

// TestATicketNarrows holds that each subject of a ticket lies within the template of the role, that a ticket has no
// wildcard in the place of another party, and that a ticket is read as it was written.
func TestATicketNarrows(t *testing.T) {
	k, err := roles.NewKeys()
	must(t, err)
	kp, err := nkeys.CreateUser()
	must(t, err)
	public, err := kp.PublicKey()
	must(t, err)
	id := transfer.ID{6: 0x70, 8: 0x80, 15: 1}
	for _, peer := range []transfer.AgentName{"ALPHA", "A.B_C%D-E", "9X"} {
		want := roles.Ticket{Name: transfer.StreamAgentOf("ferry://n/user/bob", id), Peer: peer, Transfer: id}
		said, data, err := k.SignTicket(want, public, time.Now().Add(time.Hour))
		must(t, err)
		for _, text := range []string{said, data} {
			if got, err := roles.ReadTicket(text); err != nil || got != want {
				t.Errorf("the ticket %+v is read as %+v, %v", want, got, err)
			}
		}
		name := want.Name.Token()
		for _, x := range []struct{ ticket, template roles.Grant }{
			{want.Grant("bob"), roles.Grants()[roles.Pipe].For(name)}, {want.Data("bob"), roles.DataGrants()[roles.Pipe].For(name)}} {
			for _, s := range x.ticket.Publish {
				if !roles.Covers(x.template.Publish, s) {
					t.Errorf("the template does not give %s", s)
				}
				if own := strings.HasPrefix(s, "$JS.") || strings.HasSuffix(s, "."+name+".>"); !own && strings.ContainsAny(s, "*>") {
					t.Errorf("a ticket gives %s", s)
				}
			}
			for _, s := range x.ticket.Subscribe {
				if !roles.Covers(x.template.Subscribe, s) {
					t.Errorf("the template does not give %s", s)
				}
				if parts := strings.Split(s, "."); slices.Index(parts, "*") == 2 {
					t.Errorf("a ticket hears %s", s)
				}
			}
		}
	}
}

// TestWhatIsNoTicket holds that a JWT without a peer and a transfer is no ticket.
func TestWhatIsNoTicket(t *testing.T) {
	kp, err := nkeys.CreateUser()
	must(t, err)
	public, err := kp.PublicKey()
	must(t, err)
	account, err := nkeys.CreateAccount()
	must(t, err)
	const id = "01890a5d-ac96-774b-bcce-b302099a8057"
	for _, tags := range [][]string{nil, {"peer:alpha"}, {"transfer:" + id}, {"peer:a", "transfer:" + id}, {"peer:*", "transfer:" + id}, {"peer:alpha", "transfer:x"},
		{"peer:alpha", "transfer:00000000-0000-0000-0000-000000000000"}, {"peer:pipe-0123456789ab", "transfer:" + id}, {"peer:", "transfer:" + id}} {
		u := jwt.NewUserClaims(public)
		u.Tags.Add(tags...)
		text, err := u.Encode(account)
		must(t, err)
		if got, err := roles.ReadTicket(text); transfer.KindOf(err) != transfer.KindMalformed {
			t.Errorf("%q is the ticket %+v, %v", tags, got, err)
		}
	}
}
