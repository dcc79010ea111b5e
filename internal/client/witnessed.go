package client

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/audit/witness"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// atOnce is the number of agents that are asked at once for their witness statements.
const atOnce = 16

// An Auditor is a client that asks about the audit log and verifies every answer.
type Auditor struct{ *Client }

// Verify has coordination read its whole log again, and compares the log with the witness statements of the reachable
// agents. It does not rely on coordination: coordination must prove to this client that its log continues each
// witness's. In a network without identities the log is only read.
func (c Auditor) Verify(ctx context.Context) (*audit.Report, error) {
	if c.Conn.Identity() == nil {
		return c.verify(ctx, nil)
	}
	heard, err := c.Witnesses(ctx)
	if err != nil {
		return nil, err
	}
	heard.Show = func(size int64, log string) (*witness.Shown, error) { return c.Log(ctx, size, log) }
	var found audit.Report
	kept := heard.Compare(&found)
	report, err := c.verify(ctx, kept)
	if err != nil {
		return nil, err
	}
	report.Join(&found)
	return report, nil
}

// verify has coordination read its log against checkpoints.
func (c Auditor) verify(ctx context.Context, kept []audit.Checkpoint) (*audit.Report, error) {
	var body wire.VerifyAgainst
	for _, k := range kept[:min(len(kept), wire.MaxLogKept)] { // each was compared with the shown log already
		body.Checkpoints = append(body.Checkpoints, wire.LogKept{Size: k.Size, Root: k.Root})
	}
	ask := wire.Ask{Kind: wire.AskVerify, Body: wire.Marshal(body)}
	ans, err := c.asker().answered(ctx, wire.AskSubject(wire.Coordination, c.Conn.Self()), "coordination", ask, max(c.asker().timeout, 10*time.Minute))
	if err != nil {
		return nil, err
	}
	r := new(audit.Report)
	if err := json.Unmarshal(ans.Verified, r); err != nil {
		return nil, transfer.Errorf(transfer.KindVersion, "the answer of coordination cannot be read: %w", err)
	}
	return r, nil
}

// Log returns coordination's proof about its log for a client that has seen a size of the log of an incarnation.
func (c Auditor) Log(ctx context.Context, size int64, log string) (*witness.Shown, error) {
	ans, err := c.asker().coordination(ctx, wire.Ask{Kind: wire.AskLog, Body: wire.Marshal(wire.LogSeen{Size: size, Log: log})})
	if err != nil {
		return nil, err
	}
	return witness.DecodeShown(ans.Witness)
}

// Witnesses asks the agents for their statements about the audit log.
func (c Auditor) Witnesses(ctx context.Context) (*audit.WitnessStatements, error) {
	h := &audit.WitnessStatements{Roots: c.Conn.Identity().Roots(), Now: c.Clock.Now()}
	var names []transfer.AgentName
	if err := c.Agents(ctx, func(a *wire.AgentStatus) error {
		switch {
		case a.Status == wire.AgentUnreachable || a.Status == wire.AgentStopped:
			h.Silent = append(h.Silent, a.Agent)
		default:
			names = append(names, a.Agent)
		}
		return nil
	}); err != nil {
		return nil, err
	}

	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan transfer.AgentName)
	for range min(atOnce, len(names)) {
		wg.Go(func() {
			for name := range next {
				s, err := c.witness(ctx, name)
				mu.Lock()
				if err != nil {
					h.Silent = append(h.Silent, name)
				} else {
					h.Statements = append(h.Statements, s)
				}
				mu.Unlock()
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	wg.Wait()
	slices.Sort(h.Silent)
	slices.SortFunc(h.Statements, func(a, b *witness.Statement) int {
		return slices.Compare([]byte(a.Binding.Identity.Name), []byte(b.Binding.Identity.Name))
	})
	return h, ctx.Err()
}

// witness returns the statement of an agent about the log that it has seen.
func (c Auditor) witness(ctx context.Context, name transfer.AgentName) (*witness.Statement, error) {
	ans, err := c.asker().askAgent(ctx, name, wire.Ask{Kind: wire.AskWitness})
	if err != nil {
		return nil, err
	}
	s, err := witness.DecodeStatement(ans.Witness)
	if err == nil && s.Binding.Identity.Name != string(name) {
		err = transfer.Errorf(transfer.KindMalformed, "%s sent the statement of %s", name, s.Binding.Identity)
	}
	return s, err
}

// AcceptLog has an agent continue as a witness from the log that coordination shows now. With a reason the agent also
// accepts that the log lacks records of its own.
func (c Auditor) AcceptLog(ctx context.Context, name transfer.AgentName, shown *witness.Shown, reason string) error {
	_, err := c.asker().askAgent(ctx, name, wire.Ask{Kind: wire.AskAccept, Body: wire.Marshal(wire.AcceptLog{Note: shown.Note, Binding: shown.Binding.Encode(), Reason: reason})})
	return err
}

// Proofs calls fn for records of one transfer, newest first, each with its proof as one line.
func (c Auditor) Proofs(ctx context.Context, suffix string, fn func(line json.RawMessage) error) error {
	for ask := (wire.Ask{Kind: wire.AskProof, Suffix: suffix}); ; {
		ans, err := c.asker().answered(ctx, wire.AskSubject(wire.Coordination, c.Conn.Self()), "coordination", ask, max(c.asker().timeout, recordsTimeout))
		if err != nil {
			return err
		}
		for _, line := range ans.Records {
			if err := fn(line); err != nil {
				return err
			}
		}
		if ask.Index = ans.Next; !ans.More || ans.Next == 0 {
			return nil
		}
	}
}
