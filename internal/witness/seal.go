package witness

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/identity"
	"ferry/internal/transfer"
)

// sealed is what an agent signs of a batch.
func sealed(agent identity.Name, b Batch, root tlog.Hash) []byte {
	return fmt.Appendf(nil, "ferry audit batch v1\n%s\n%s\n%d %d %d\n%s\n", agent, b.Incarnation, b.Floor, b.First, b.Count, base64.StdEncoding.EncodeToString(root[:]))
}

// A Batch is what a seal says of a batch beside its records.
type Batch struct {
	Incarnation string `json:"incarnation"` // of the agent's ledger
	Floor       uint64 `json:"floor"`       // below which the agent has dropped its records
	First       uint64 `json:"first"`       // the number of the first record
	Count       int    `json:"count"`
}

// Seal signs a batch whose records have a root.
func (k *Key) Seal(b Batch, root tlog.Hash) []byte {
	return ed25519.Sign(k.private, sealed(k.party.Name, b, root))
}

// CheckSeal checks that an agent has signed a batch whose records have a root. The error is of
// KindDenied.
func (p *Party) CheckSeal(seal []byte, b Batch, root tlog.Hash) error {
	if p.Name.Role != identity.Agent || b.Count < 1 || !ed25519.Verify(p.key, sealed(p.Name, b, root), seal) {
		return transfer.Errorf(transfer.KindDenied, "records %d to %d of ledger %s are not signed by %s", b.First, b.First+uint64(max(b.Count, 1))-1, b.Incarnation, p.Name)
	}
	return nil
}
