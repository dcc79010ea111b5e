package receiver

import (
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// takeTargets resolves the targets of an OPEN, each once (R8). complete reports that the source has all of them with
// this answer. The error is only a reason to wait.
func (i *incoming) takeTargets(o *wire.Open) (all []transfer.Resolved, complete bool, err error) {
	if o.Targets == nil {
		return nil, true, nil
	}

	var fresh []ledger.Target
	for _, t := range o.Targets.List {
		if t.N > i.entry.In.Targets.Last {
			g, err := resolveTarget(i.r.cfg.Place, i.r.permit(i.entry.In.Principal), t)
			if err != nil {
				return nil, false, err
			}
			fresh = append(fresh, g)
		}
	}

	all, err = i.entry.AddTargets(o.Targets.List, fresh, !o.Targets.More)
	if err != nil {
		return nil, false, err
	}

	if fit := fitting(all); fit < len(all) {
		return all[:fit], false, nil // the next OPEN begins behind them
	}
	return all, !o.Targets.More, nil
}

// mostResolved bounds the targets of one answer, in bytes.
const mostResolved = wire.MaxControl / 2

// fitting returns how many of the targets fit into one answer: one at least.
func fitting(all []transfer.Resolved) int {
	size := 0
	for n := range all {
		if size += len(wire.Marshal(all[n])); size > mostResolved {
			return max(n, 1)
		}
	}
	return len(all)
}

// resolveTarget resolves a DEST. A reason why nothing can land there is kept in the target; the error is only a reason
// to wait.
func resolveTarget(p place.Target, may place.Permit, t transfer.Target) (ledger.Target, error) {
	g := ledger.Target{Target: t}
	err := mayAppend(p, &t.Options)
	var res transfer.Resolution
	if err == nil {
		res, err = resolve(p, may, t.Dest, t.Several, t.Resolved)
	}
	if transfer.KindOf(err).Waits() {
		return g, err
	}
	g.Place, g.Base, g.Into, g.Error = res.Place, res.Base, res.Into, transfer.AsError(err)
	return g, nil
}

// mayAppend refuses an append to a place that does not support it.
func mayAppend(p place.Target, o *transfer.Options) error {
	if _, can := p.(place.Appender); can || !o.Append() {
		return nil
	}
	return transfer.Errorf(transfer.KindUsage, "the destination cannot append: it has no files whose end could be written to").
		WithHint("choose another --if-exists than append")
}

// resolve resolves a DEST, or takes the resolution of the transfer that is repeated.
func resolve(p place.Target, may place.Permit, dest transfer.Location, several bool, before *transfer.Resolution) (transfer.Resolution, error) {
	if before != nil {
		return p.Resolved(*before, may)
	}
	return p.Resolve(dest, several, may)
}
