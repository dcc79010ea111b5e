package sender

import (
	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
)

// A Begun is the record that other agents have of a transfer that this agent has accepted, and that its ledger may have
// lost.
type Begun struct {
	ID          transfer.ID
	Destination transfer.AgentName
	Principal   string          // the submitter; empty: not known
	Counts      transfer.Counts // of the outcomes that are known
}

// EndUnknown returns the status of a transfer that other agents report as accepted by this agent. A transfer that is
// not in the ledger was accepted in an earlier ledger, or is younger than the restored copy (R35). It ends here: as
// FAILED, or PARTIAL if files have arrived, with undecided items unknown. The entry of that end keeps its request from
// running, should the request come again. The end of an older transfer may have been forgotten after its time (R2).
// Then the error is of KindNotFound, and the end is not recorded again.
func EndUnknown(c *Config, b *Begun) (*transfer.Progress, error) {
	var p *transfer.Progress
	err := c.Ledger.Update(func(t *ledger.Tx) error {
		rec, err := t.Source(b.ID)
		if err != nil {
			return err
		}
		if rec == nil {
			tomb, err := ledger.TombstoneByAny(t, b.ID)
			if err != nil {
				return err
			}
			if tomb.As != "" {
				p = &transfer.Progress{ID: b.ID, State: tomb.As, Source: c.Agent, Code: tomb.As.Code()}
				return nil
			}
			if floor := t.Floor(b.Principal); string(b.ID[:]) <= string(floor[:]) {
				return transfer.Errorf(transfer.KindNotFound, "%s has no transfer %s, or no longer", c.Agent, b.ID)
			}
			if rec, err = endUnknown(c, b); err == nil {
				err = t.PutSource(rec)
			}
			if err != nil {
				return err
			}
			event := audit.Failed
			if rec.State == transfer.Partial {
				event = audit.Completed
			}
			if err := c.Note(t, noteOf(rec, event, func(a *audit.Record) {
				a.Originator = nil
				a.State, a.Code, a.Counts, a.Error = rec.State, rec.Progress.Code, &rec.Progress.Counts, rec.Progress.Reason
			})); err != nil {
				return err
			}
		}
		p = &rec.Progress
		return nil
	})
	return p, err
}

// endUnknown returns the ledger entry of a transfer that ends here without its request.
func endUnknown(c *Config, b *Begun) (*ledger.Source, error) {
	q := transfer.Request{ID: b.ID, Source: c.Agent, Destination: b.Destination, Submitted: b.ID.Time().UTC()}
	rec := NewRecord(q, word.Origin{Principal: b.Principal}, c.Clock.Now())
	rec.Hash = ""
	way := []transfer.State{transfer.Accepted, transfer.Negotiating, transfer.Failed}
	if b.Counts.Files > 0 {
		way = []transfer.State{transfer.Accepted, transfer.Negotiating, transfer.Running, transfer.Settling, transfer.Partial}
	}
	p := &rec.Progress
	p.Request, p.Originator, p.Counts, p.Ended = "", "", b.Counts, rec.Accepted
	p.Reason = transfer.Errorf(transfer.KindLost, "%s has lost the ledger of the transfer, or runs on an older copy of it", c.Agent).
		WithHint("look at the destination, then submit the missing files as a new transfer")
	p.Code = p.Reason.Kind.Code()
	return rec, rec.Move(way...)
}
