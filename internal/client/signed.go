package client

import (
	"ferry/internal/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
	"ferry/internal/word"
)

// plain are the questions that are not signed. They change nothing, read no files, and their answers go to the inbox of the asker.
var plain = map[wire.Kind]bool{wire.AskPing: true, wire.AskStatus: true, wire.AskWitness: true}

// signed is a message to an agent with the signature of the client's identity. In a network without identities it is the message
// alone.
func signed(c *Client, kind word.Kind, to transfer.AgentName, id transfer.ID, message []byte) []byte {
	self := c.Conn.Identity()
	if self == nil {
		return message
	}
	agent := identity.Name{Network: self.Name().Network, Role: identity.Agent, Name: string(to)}
	return word.Sign(self, word.Statement{Kind: kind, To: agent, ID: id}, message, c.Clock.Now())
}

// signedAsk is a question, signed where it is one of those to an agent that take a signature.
func signedAsk(c *Client, subject string, a wire.Ask) []byte {
	message, to := wire.Marshal(a), wire.Answerer(subject)
	agent, err := wire.AgentOf(to)
	if err != nil || to == wire.Coordination || plain[a.Kind] {
		return message
	}
	return signed(c, word.Ask, agent, transfer.NewID(c.Clock.Now()), message)
}
