package coordination

import (
	"context"
	"time"

	"ferry/internal/audit"
	"ferry/internal/status"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Bounds of the questions to agents that have started again.
const (
	begunAtOnce  = 50               // transfers that are asked about at each look
	begunTimeout = 5 * time.Second  // for an answer
	begunRecords = 100_000          // of a transfer, that are read for its counts
	begunGrace   = 45 * time.Second // for its destination to ask first: it knows which files have arrived
)

// askBegun asks each agent that has started again about the transfers that it had begun. One that
// has lost its ledger, or runs on an older copy of it, ends those that it does not know; its
// audit records of that are the proof for coordination (R35).
func askBegun(ctx context.Context, s *Service) {
	silent := map[transfer.AgentName]bool{} // sources that have not answered at this look
	for _, b := range s.picture.Unconfirmed(begunGrace, begunAtOnce) {
		if silent[b.Source] {
			continue
		}
		counts, err := arrived(s, &b)
		if err != nil {
			s.quiet.Warn("the audit records of a transfer cannot be read", "transfer", b.ID, "error", err)
			continue
		}
		ask := wire.Ask{V: wire.Version, Kind: wire.AskBegun, ID: b.ID, Body: wire.Marshal(wire.Begun{Transfer: b.ID, Destination: b.Destination, Principal: b.Principal, Counts: counts})}
		data, err := s.conn.Request(ctx, wire.AskAgent(b.Source, wire.Coordination), wire.Marshal(ask), begunTimeout)
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

// arrived counts the outcomes of a transfer that its destination has put on record.
func arrived(s *Service, b *status.Begun) (c transfer.Counts, err error) {
	err = s.log.Find(audit.Filter{IDSuffix: b.ID.String(), Agent: b.Destination, Role: audit.RoleDestination, Limit: begunRecords}, func(_ int64, _ []byte, r *audit.Record) error {
		for n := range r.Items {
			if o := &r.Items[n]; r.Agent == b.Destination && !unknownOutcome(o) {
				c.Add(o)
			}
		}
		return nil
	})
	return c, err
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
