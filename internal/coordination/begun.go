package coordination

import (
	"context"
	"time"

	"ferry/internal/audit"
	"ferry/internal/coordination/status"
	"ferry/internal/security/identity"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Bounds of the questions to agents that have started again.
const (
	begunAtOnce  = 50               // transfers that are asked about at each look
	begunTimeout = 5 * time.Second  // for an answer
	begunRecords = 100_000          // of each of them, that are read for the counts
	begunGrace   = 15 * time.Second // for the records of its destination to come: they say which files have arrived
)

// askBegun asks each agent that has started again about the transfers that it had begun. An agent that has lost its
// ledger, or runs on an older copy of it, ends the transfers that its ledger does not have. Its audit records about
// that are the proof for coordination (R35).
func askBegun(ctx context.Context, s *Service) {
	all := s.picture.Unconfirmed(begunGrace, begunAtOnce)
	counts, err := arrived(s.log, all)
	if err != nil {
		s.quiet.Warn("read audit records of transfers failed", "error", err)
		return
	}
	silent := map[transfer.AgentName]bool{} // sources that have not answered at this look
	for n, b := range all {
		if silent[b.Source] {
			continue
		}
		ask := wire.Ask{V: wire.Version, Kind: wire.AskBegun, ID: b.ID, Body: wire.Marshal(wire.Begun{Transfer: b.ID, Destination: b.Destination, Principal: b.Principal, Counts: counts[n]})}
		message := wire.Marshal(ask)
		if self := s.conn.Identity(); self != nil {
			now, agent := s.cfg.Clock.Now(), identity.Name{Network: self.Name().Network, Role: identity.Agent, Name: string(b.Source)}
			message = word.Sign(self, word.Statement{Kind: word.Ask, To: agent, ID: transfer.NewID(now)}, message, now)
		}
		data, err := s.conn.Request(ctx, wire.AskAgent(b.Source, wire.Coordination), message, begunTimeout)
		if ctx.Err() != nil {
			return
		}
		if silent[b.Source] = err != nil; err != nil {
			continue // it is asked again
		}
		if ans, err := wire.DecodeAnswer(data); err == nil && ans.Progress != nil && ans.Progress.ID == b.ID {
			s.picture.Confirmed(&b)
		}
	}
}

// A finder finds audit records; *audit.Log is one.
type finder interface {
	Find(audit.Filter, func(int64, []byte, *audit.Record) error) error
}

// arrived counts, for each transfer, the outcomes that its destination has put on record. The index of the log is read
// once for all of them.
func arrived(log finder, all []status.Begun) ([]transfer.Counts, error) {
	counts, among := make([]transfer.Counts, len(all)), map[transfer.ID]bool{}
	for n := range all {
		among[all[n].ID] = true
	}
	if len(all) == 0 {
		return counts, nil
	}
	err := log.Find(audit.Filter{Among: among, Role: audit.RoleDestination, Limit: begunRecords * len(all)}, func(_ int64, _ []byte, r *audit.Record) error {
		for n := range all {
			if all[n].ID != r.Transfer || all[n].Destination != r.Agent {
				continue
			}
			for k := range r.Items {
				if o := &r.Items[k]; !unknownOutcome(o) {
					counts[n].Add(o)
				}
			}
		}
		return nil
	})
	return counts, err
}

func unknownOutcome(o *transfer.Outcome) bool { return o.Err != nil && o.Err.Kind == transfer.KindLost }

// begunLoop asks at each look.
func begunLoop(ctx context.Context, s *Service) {
	t := s.cfg.Clock.NewTimer(lookEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C():
		case <-ctx.Done():
			return
		}
		askBegun(ctx, s)
		t.Reset(lookEvery)
	}
}
