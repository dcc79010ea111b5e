package witness

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// sealed returns the text that an agent signs for a batch.
func sealed(agent identity.Name, b Batch, root tlog.Hash) []byte {
	return fmt.Appendf(nil, "ferry audit batch v1\n%s\n%s\n%d %d %d\n%s\n", agent, b.Incarnation, b.Floor, b.First, b.Count, base64.StdEncoding.EncodeToString(root[:]))
}

// A Batch has the signed fields of a batch beside the root of its records.
type Batch struct {
	Incarnation string `json:"incarnation"` // of the agent's ledger
	Floor       uint64 `json:"floor"`       // the agent has dropped its records below this number
	First       uint64 `json:"first"`       // number of the first record
	Count       int    `json:"count"`
}

// Seal signs a batch of an agent. root is the root of its records.
func (k *Key) Seal(agent transfer.AgentName, b Batch, root tlog.Hash) []byte {
	return ed25519.Sign(k.private, sealed(k.party.agent(agent), b, root))
}

// CheckSeal checks that the party has signed a batch of an agent. root is the root of its records. The error is of
// KindDenied.
func (p *Party) CheckSeal(seal []byte, agent transfer.AgentName, b Batch, root tlog.Hash) error {
	if !p.Seals(agent) || b.Count < 1 || !ed25519.Verify(p.key, sealed(p.agent(agent), b, root), seal) {
		return transfer.Errorf(transfer.KindDenied, "records %d to %d of ledger %s are not signed by %s", b.First, b.First+uint64(max(b.Count, 1))-1, b.Incarnation, p.Name)
	}
	return nil
}

// Seals reports whether a party signs for an agent: it is the agent, or the user of a pipe.
func (p *Party) Seals(agent transfer.AgentName) bool {
	return p.Name == p.agent(agent) || p.Name.Role == identity.User && agent.StreamOf(p.Name.String())
}

// agent returns the name of an agent of the party's network.
func (p *Party) agent(name transfer.AgentName) identity.Name {
	return identity.Name{Network: p.Name.Network, Role: identity.Agent, Name: string(name)}
}
