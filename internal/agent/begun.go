package agent

import (
	"context"
	"time"

	"ferry/internal/sender"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// maxDisowned bounds the transfers that one asker can have ended in a run because the ledger does
// not know them. Each is a record of the ledger.
const maxDisowned = 10_000

// overAt asks a source how a transfer stands there; nil: no answer has come.
func (w *sides) overAt(ctx context.Context, source transfer.AgentName, begun wire.Begun) *transfer.Progress {
	ask := wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskBegun, ID: begun.Transfer, Body: wire.Marshal(begun)})
	data, err := w.conn.Request(ctx, wire.AskAgent(source, w.cfg.Name.Token()), ask, 5*time.Second)
	if err != nil {
		return nil
	}
	ans, err := wire.DecodeAnswer(data)
	if err != nil || ans.Progress == nil || ans.Progress.ID != begun.Transfer || ans.Progress.Source != source {
		return nil
	}
	return ans.Progress
}

// askBegun says how a transfer stands that this agent has accepted, as its destination or
// coordination says. One that the ledger does not know has begun in a ledger that was lost, and ends.
func (a *answers) askBegun(ask *wire.Ask, ans *wire.Answer) error {
	b, err := wire.ReadBody[wire.Begun](ask.Kind, ask.Body)
	if err != nil {
		return err
	}
	if ask.Principal != wire.Coordination {
		if b.Destination, err = wire.AgentOf(ask.Principal); err != nil {
			return transfer.Errorf(transfer.KindDenied, "only the destination of a transfer and coordination ask whether it has begun")
		}
	}
	ans.Progress, err = a.begun(b, ask.Principal)
	if err == nil && ask.Principal != wire.Coordination && ans.Progress.Destination != "" && ans.Progress.Destination != b.Destination {
		ans.Progress, err = nil, transfer.Errorf(transfer.KindNotFound, "%s has no transfer %s to %s", a.cfg.Name, b.Transfer, b.Destination)
	}
	return err
}

// begun gives the picture of a transfer that has begun here, as asker says. One that is not known ends.
func (w *sides) begun(b *wire.Begun, asker string) (*transfer.Progress, error) {
	p, err := w.status(b.Transfer)
	if transfer.KindOf(err) != transfer.KindNotFound {
		return p, err
	}
	if b.Destination == "" || b.Transfer.Time().Sub(w.cfg.Clock.Now()) > farFuture {
		return nil, err
	}
	if !w.disowned.count(asker) {
		return nil, err
	}
	if p, err = sender.Disown(&w.sendCfg, &sender.Begun{ID: b.Transfer, Destination: b.Destination, Principal: b.Principal, Counts: b.Counts}); err != nil {
		return nil, err
	}
	w.log.Warn("transfer ended that the ledger does not know", "transfer", b.Transfer, "destination", b.Destination, "state", p.State, "asker", asker)
	w.progress(p)
	return p, nil
}

// count counts one more transfer of an asker, or reports false where there are too many of that asker, or too
// many askers.
func (d *disowned) count(asker string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, known := d.of[asker]
	if n >= maxDisowned || !known && len(d.of) >= maxDisowned {
		return false
	}
	d.of[asker] = n + 1
	return true
}
