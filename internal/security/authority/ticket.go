package authority

import (
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// Tickets of pipes. A clock may be an hour off, so a ticket is valid for an hour longer than needed.
const (
	TicketValid = 2 * time.Hour
	TicketRenew = 40 * time.Minute // after which a running pipe has it signed anew
)

// A Pipe is the standard input or output of a command, as one end of a transfer.
type Pipe struct {
	Transfer transfer.ID        `json:"transfer"`
	Peer     transfer.AgentName `json:"peer"` // the agent at the other end
	// Right is the authority that the request needs there: source if the pipe is the destination, else destination.
	Right transfer.Authority `json:"right"`
}

// check returns an error for a Pipe out of range.
func (p *Pipe) check() error {
	if p.Transfer.IsZero() || p.Right != transfer.AuthSource && p.Right != transfer.AuthDest {
		return transfer.Errorf(transfer.KindUsage, "the request for a pipe names no transfer, or neither %s nor %s", transfer.AuthSource, transfer.AuthDest)
	}
	if p.Peer.Stream() {
		return transfer.Errorf(transfer.KindUsage, "%s is a pipe, and has no files", p.Peer)
	}
	_, err := transfer.ParseAgentName(string(p.Peer))
	return err
}

// Ticket signs the JWTs for the pipe of a user's command, for the nkey of the user, if the rules allow the request for
// some path at the peer. The peer checks the path that it opens. The authority keeps nothing of a ticket.
func Ticket(a *Authority, user identity.Name, p Pipe) (identity.JWTs, error) {
	if err := p.check(); err != nil {
		return identity.JWTs{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	now, has := a.clock(), a.state.names[user.String()]
	if user.Role != identity.User || has == nil {
		return identity.JWTs{}, transfer.Errorf(transfer.KindDenied, "%s has no pipes: it is no user of the network", user)
	}
	if err := mayAt(a, user, p.Right, p.Peer); err != nil { // a revoked user has no rights
		return identity.JWTs{}, err
	}
	until := now.Add(TicketValid)
	if until.After(has.until) {
		until = has.until
	}
	t := roles.Ticket{Name: transfer.StreamAgentOf(user.String(), p.Transfer), Peer: p.Peer, Transfer: p.Transfer}
	said, data, err := a.signers(roles.Pipe, now).SignTicket(t, has.keys.Nkey, until)
	return identity.JWTs{User: said, Data: data}, err
}
