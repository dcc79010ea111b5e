package roles

import (
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"

	"ferry/internal/transfer"
)

// A Ticket names the transfer of a pipe. It is a JWT of the role Pipe for the nkey of a user. The template of the role
// has wildcards for the other end and the transfer; the gate of a queue manager narrows it with Grant and Data.
type Ticket struct {
	Name     transfer.AgentName // of the pipe
	Peer     transfer.AgentName // the agent at the other end
	Transfer transfer.ID
}

// The tags of a ticket. The library puts tags in small letters.
const (
	tagPeer     = "peer:"
	tagTransfer = "transfer:"
)

// SignTicket signs a ticket for the public nkey of a user: one JWT for the account and one for the account of data.
func (k *Keys) SignTicket(t Ticket, key string, until time.Time) (said, data string, err error) {
	tags := []string{tagPeer + string(t.Peer), tagTransfer + t.Transfer.String()}
	if said, err = k.sign(k.Account, Pipe, t.Name.Token(), key, until, tags...); err != nil {
		return "", "", err
	}
	data, err = k.sign(k.Data, Pipe, t.Name.Token(), key, until, tags...)
	return said, data, err
}

// ReadTicket reads the ticket in a JWT of SignTicket.
func ReadTicket(text string) (t Ticket, err error) {
	u, err := jwt.DecodeUserClaims(text)
	if err != nil {
		return t, transfer.Errorf(transfer.KindMalformed, "a ticket cannot be read")
	}
	for _, tag := range u.Tags {
		if peer, ok := strings.CutPrefix(tag, tagPeer); ok && err == nil {
			t.Peer, err = transfer.ParseAgentName(peer)
		} else if id, ok := strings.CutPrefix(tag, tagTransfer); ok && err == nil {
			t.Transfer, err = transfer.ParseID(id)
		}
	}
	if err != nil || t.Peer == "" || t.Transfer.IsZero() || t.Peer.Stream() {
		return Ticket{}, transfer.Errorf(transfer.KindMalformed, "the ticket of %.40q does not name an agent and a transfer", u.Name)
	}
	t.Name = transfer.AgentName(u.Name) // the name of a pipe is its token
	return t, nil
}

// An end has the tokens of subjects that differ from one pipe to the next, beside its name.
type end struct{ user, peer, transfer string }

// anyEnd is the end in the template.
var anyEnd = end{"*", "*", "*"}

// end returns the end of the ticket of a user's pipe.
func (t Ticket) end(user string) end { return end{user, t.Peer.Token(), t.Transfer.String()} }

// Grant returns the rights of the pipe of a ticket. user is the token of its user.
func (t Ticket) Grant(user string) Grant { return pipeGrant(t.Name.Token(), t.end(user)) }

// Data returns the rights of the pipe in the account for data.
func (t Ticket) Data(user string) Grant { return pipeData(t.Name.Token(), t.end(user)) }

// pipeGrant returns the subjects of a pipe. Its requests and cancels come from its user, its conversation is with the
// peer, and it answers those two and coordination.
func pipeGrant(self string, e end) (g Grant) {
	each := func(before string, tokens []string, after string) (all []string) {
		for _, token := range tokens {
			all = append(all, before+token+after)
		}
		return all
	}
	asked, askers := []string{e.peer}, []string{e.peer}
	if e != anyEnd {
		asked = append(asked, string(Coordination), string(Authority), queueManager)
		askers = append(askers, string(Coordination), e.user)
	}
	g.Publish = append(g.Publish, each("ferry.ask.", asked, "."+self)...)
	g.Publish = append(g.Publish, each("ferry.inbox.", askers, "."+self+".>")...)
	g.Publish = append(g.Publish, "ferry.reply."+e.peer+"."+self, "ferry.beat."+self, "ferry.progress."+self+"."+e.user, "ferry.event."+self)
	g.Publish = append(g.Publish, reads(StreamCommand, DurableCommand+self)...)
	g.Publish = append(g.Publish, reads(StreamControl, DurableControl+self)...)
	g.Subscribe = []string{"ferry.inbox." + self + ".>", "ferry.reply." + self + ".*", "ferry.ask." + self + ".*", "ferry.beat." + e.peer, "ferry.trust"}
	return g
}

func pipeData(self string, e end) Grant {
	return Grant{Publish: []string{"ferry.data." + e.peer + "." + self + "." + e.transfer}, Subscribe: []string{"ferry.data." + self + ".>"}}
}

// queueManager is the token of every queue manager.
const queueManager = "qmgr"
