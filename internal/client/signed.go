package client

import (
	"ferry/internal/identity"
	"ferry/internal/transfer"
	"ferry/internal/word"
)

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
