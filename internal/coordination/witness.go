package coordination

import (
	"encoding/json"
	"errors"

	"ferry/internal/audit"
	"ferry/internal/audit/witness"
	"ferry/internal/qmgr"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// errUnsigned says that there is nothing to show.
func errUnsigned() error {
	return transfer.Errorf(transfer.KindUsage, "this network has no identities, so its audit log is not signed").
		WithHint("`ferry up` without --insecure gives each agent and user an identity")
}

// refuse says to an agent that a batch was not taken, and why.
func (s *Service) refuse(d qmgr.Delivery, b *audit.Batch, why string) {
	d.Term()
	receipt, err := audit.EncodeReceipt(audit.Receipt{Agent: b.Agent, Incarnation: b.Incarnation, Index: -1, Refused: why})
	if err == nil && b.Reply != "" {
		s.answerWith(b.Agent.Token(), b.Reply, receipt)
	}
}

// askBind takes the binding of an agent's key.
func (s *Service) askBind(a *receivedQuestion, _ *wire.Answer) error {
	body, err := wire.ReadBody[wire.Bind](a.Kind, a.Body)
	if err == nil && s.notary == nil {
		err = errUnsigned()
	}
	if err == nil {
		err = s.notary.bind(body.Binding, a.Principal)
	}
	return err
}

// askLog shows the log to a witness.
func (s *Service) askLog(a *receivedQuestion, ans *wire.Answer) error {
	body, err := wire.ReadBody[wire.LogSeen](a.Kind, a.Body)
	if err != nil {
		return err
	}
	if s.notary == nil {
		return errUnsigned()
	}
	k, err := s.notary.newest(body.First > 0)
	if err != nil {
		return err
	}
	seen := body.Size
	if body.Log != k.At.Log {
		seen = 0
	}
	shown, err := s.notary.log.Show(k.At, seen)
	if err != nil {
		return err
	}
	shown.Note, shown.Binding = k.plain(), k.Binding
	shown.Cosigned = s.notary.has(k, a.Principal)
	if agent, err := wire.AgentOf(a.Principal); err == nil && body.First > 0 {
		if shown.Runs, shown.Missing, err = s.notary.log.Runs(agent, body.Incarnation, body.First, body.Last, k.At.Size); err != nil {
			return err
		}
	}
	ans.Witness = wire.Marshal(shown)
	return nil
}

// plain is the note without cosignatures, which a witness does not need.
func (k *signedCheckpoint) plain() []byte { return witness.Plain(k.Note) }

// has reports whether whoever has a token has cosigned.
func (n *notary) has(k *signedCheckpoint, token string) bool {
	for _, w := range n.witnesses(k) {
		if w.Identity.Token() == token {
			return true
		}
	}
	return false
}

// witnesses returns the bindings of the cosigners of a note, as far as their keys are known.
func (n *notary) witnesses(k *signedCheckpoint) (all []*witness.Binding) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range k.Witnesses {
		if b, ok := n.bound[id]; ok {
			all = append(all, b.binding)
		}
	}
	return all
}

// askCosign takes a witness's cosignature.
func (s *Service) askCosign(a *receivedQuestion, _ *wire.Answer) error {
	body, err := wire.ReadBody[wire.Cosign](a.Kind, a.Body)
	if err != nil {
		return err
	}
	if s.notary == nil {
		return errUnsigned()
	}
	by, ok := s.notary.latest(a.Principal)
	if !ok {
		return transfer.Errorf(transfer.KindNotFound, "%s", wire.RefusedKey)
	}
	return s.notary.cosigned(by, body.Size, body.Line)
}

// latest is the newest key of whoever has a token.
func (n *notary) latest(token string) (of checkedBinding, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, b := range n.bound {
		if b.Party.Name.Token() == token && (!ok || b.Index > of.Index) {
			of, ok = b, true
		}
	}
	return of, ok
}

// askProof gives the records that askAudit gives, each with its proof.
func (s *Service) askProof(a *receivedQuestion, ans *wire.Answer) error {
	if s.notary == nil {
		return errUnsigned()
	}
	limit := a.Limit
	if limit <= 0 {
		limit = 100
	}
	roots, size := string(s.notary.self.Roots().PEM()), 0
	err := s.log.Find(RecordFilter(a.Ask), func(i int64, raw []byte, r *audit.Record) error {
		if len(ans.Records) == limit {
			ans.More = true
			return errPage
		}
		k, err := s.notary.best(i)
		if err != nil {
			return err
		}
		p, err := s.notary.log.Prove(i, raw, r, k.At)
		if err != nil {
			return err
		}
		p.Roots, p.Checkpoint, p.Signer, p.Witnesses = roots, string(k.Note), k.Binding, s.notary.witnesses(k)
		line, err := audit.EncodeProof(p)
		if err != nil {
			return err
		}
		if size += len(line); size > page(a) && len(ans.Records) > 0 {
			ans.More = true
			return errPage
		}
		ans.Records = append(ans.Records, json.RawMessage(line))
		ans.Next = i
		return nil
	})
	if errors.Is(err, errPage) {
		return nil
	}
	return err
}

// checkpointsOf are the checkpoints in a question.
func checkpointsOf(a *receivedQuestion) (all []audit.Checkpoint, err error) {
	if len(a.Body) == 0 {
		return nil, nil
	}
	body, err := wire.ReadBody[wire.VerifyAgainst](a.Kind, a.Body)
	if err != nil {
		return nil, err
	}
	for _, c := range body.Checkpoints {
		all = append(all, audit.Checkpoint{Size: c.Size, Root: c.Root})
	}
	return all, nil
}
