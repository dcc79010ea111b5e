package agent

import (
	"context"
	"time"

	"ferry/internal/sender"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// maxEndedUnknown bounds the transfers that coordination can have ended in a run because the ledger does
// not know them. Each is a record of the ledger.
const maxEndedUnknown = 10_000

// overAt asks a source how a transfer stands there. The error is of KindNotFound where the source does not know it, and
// of another kind where no answer has come.
func (w *transferEnds) overAt(ctx context.Context, source transfer.AgentName, id transfer.ID) (*transfer.Progress, error) {
	ask := wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskBegun, ID: id, Body: wire.Marshal(wire.Begun{Transfer: id})})
	data, err := w.conn.Request(ctx, wire.AskAgent(source, w.cfg.Name.Token()), ask, 5*time.Second)
	if err != nil {
		return nil, transfer.Errorf(transfer.KindUnreachable, "%s does not answer: %w", source, err)
	}
	ans, err := wire.DecodeAnswer(data)
	switch {
	case err != nil:
		return nil, err
	case ans.Progress == nil || ans.Progress.ID != id || ans.Progress.Source != source:
		return nil, transfer.Errorf(transfer.KindMalformed, "%s has answered for another transfer", source)
	}
	return ans.Progress, nil
}

// askBegun answers with the status of a transfer that this agent has accepted, as its destination or coordination says.
// A transfer that the ledger does not know may be in coordination's log. It began in a ledger that was lost, and ends.
// A destination's statement alone makes no record, because any agent can claim to be one.
func (a *answers) askBegun(ask *asking, ans *wire.Answer) error {
	b, err := wire.ReadBody[wire.Begun](ask.Kind, ask.Body)
	if err != nil {
		return err
	}
	if ask.Principal == wire.Coordination {
		ans.Progress, err = a.begun(b)
		return err
	}
	asker, err := wire.AgentOf(ask.Principal)
	if err != nil {
		return transfer.Errorf(transfer.KindDenied, "only the destination of a transfer and coordination ask whether it has begun")
	}
	p, err := a.status(b.Transfer)
	if err == nil && p.Destination != "" && p.Destination != asker {
		return transfer.Errorf(transfer.KindNotFound, "%s has no transfer %s to %s", a.cfg.Name, b.Transfer, asker)
	}
	ans.Progress = p
	return err
}

// begun returns the progress of a transfer that has begun here, according to coordination. A transfer that the ledger
// does not know ends.
func (w *transferEnds) begun(b *wire.Begun) (*transfer.Progress, error) {
	p, err := w.status(b.Transfer)
	if transfer.KindOf(err) != transfer.KindNotFound {
		return p, err
	}
	if b.Destination == "" || b.Transfer.Time().Sub(w.cfg.Clock.Now()) > farFuture {
		return nil, err
	}
	if w.endedUnknown.Add(1) > maxEndedUnknown {
		return nil, err
	}
	if p, err = sender.EndUnknown(&w.sendCfg, &sender.Begun{ID: b.Transfer, Destination: b.Destination, Principal: b.Principal, Counts: b.Counts}); err != nil {
		return nil, err
	}
	w.log.Warn("transfer ended that the ledger does not know", "transfer", b.Transfer, "destination", b.Destination, "state", p.State)
	w.progress(p)
	return p, nil
}
