package client

import (
	"ferry/internal/security/identity"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// plain are the questions to an agent that are not signed. They change nothing, read no files, and their answers go to the inbox
// of the asker. administers are the questions to coordination that are signed.
var (
	plain       = map[wire.Kind]bool{wire.AskPing: true, wire.AskStatus: true, wire.AskWitness: true}
	administers = map[wire.Kind]bool{wire.AskRemove: true, wire.AskQueue: true, wire.AskSeen: true}
)

// signed returns a message to an agent with the signature of the connection's identity. In a network without identities it
// returns the message alone.
func (l asker) signed(kind word.Kind, to transfer.AgentName, id transfer.ID, message []byte) []byte {
	return l.signedTo(kind, identity.Name{Role: identity.Agent, Name: string(to)}, id, message)
}

// signedTo is signed for any addressee of the network.
func (l asker) signedTo(kind word.Kind, to identity.Name, id transfer.ID, message []byte) []byte {
	self := l.conn.Identity()
	if self == nil {
		return message
	}
	to.Network = self.Name().Network
	s := word.Statement{Kind: kind, To: to, ID: id}
	if l.user != "" && to.Role == identity.Agent {
		s.For = identity.Name{Network: to.Network, Role: identity.User, Name: l.user}
	}
	return word.Sign(self, s, message, l.clock.Now())
}

// signedAsk returns a question, signed if it is one of those that take a signature.
func (l asker) signedAsk(subject string, a wire.Ask) []byte {
	message, id := wire.Marshal(a), transfer.NewID(l.clock.Now())
	if to := wire.Answerer(subject); to != wire.Coordination && (!plain[a.Kind] || l.user != "") {
		if agent, err := wire.AgentOf(to); err == nil {
			return l.signed(word.Ask, agent, id, message)
		}
	} else if to == wire.Coordination && administers[a.Kind] {
		return l.signedTo(word.Ask, identity.Name{Role: identity.Coordination}, id, message)
	}
	return message
}
