package receiver

import (
	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/receiver/entry"
	"ferry/internal/receiver/writing"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An admission decides whether a transfer may come: by rights, lanes, programs, crashes, and the destinations of its
// items.
type admission struct {
	r     *services
	entry *entry.Entry
	to    *writing.Destinations
}

// maxCrashes is the number of crashes without progress after which a transfer is refused.
const maxCrashes = 3

// meet agrees on the lane.
func (a *admission) meet(o *wire.Open) (name, reason string, mine *wire.Direct, err error) {
	if a.r.cfg.Lanes != nil {
		return a.r.cfg.Lanes.Meet(a.entry.From, o, a.entry.ID)
	}
	return transfer.LaneQueue, "", nil, nil
}

// checkCrashes refuses a transfer that has crashed this agent three times without
// progress, until an operator has resumed it at its source.
func (a *admission) checkCrashes(o *wire.Open) error {
	if a.entry.In == nil || a.entry.In.Crashes < maxCrashes {
		return nil
	}
	if o.Pardon <= a.entry.In.Pardon {
		return transfer.Errorf(transfer.KindParked, "%s has crashed %d times on this transfer without progress", a.r.cfg.Agent, a.entry.In.Crashes).
			WithHint("see the log of " + string(a.r.cfg.Agent) + ", then `ferry transfer resume` or `ferry transfer cancel`")
	}
	return a.entry.ResetCrashes(o.Pardon)
}

// admitted checks that a transfer may come, and that its programs may run. It records a refusal in the audit.
func (a *admission) admitted(o *wire.Open) (rules string, err error) {
	if rules, err = a.r.admit(o.Principal, a.entry.From, a.entry.ID); err == nil {
		err = checkPrograms(&a.r.cfg, &o.Request, o.Principal)
	}
	a.denied(o, err)
	return rules, err
}

// recheck checks a transfer that has begun: it was checked then, but rules change.
func (a *admission) recheck() error {
	_, err := a.r.admit(a.entry.In.Principal, a.entry.From, a.entry.ID)
	return err
}

// denied records a refused transfer in the audit, if the error is of KindDenied.
func (a *admission) denied(o *wire.Open, err error) {
	if transfer.KindOf(err) == transfer.KindDenied {
		a.r.noteDenied(a.entry.ID, a.entry.From, o.Principal, err)
	}
}

// begin makes the ledger entry of a transfer that is new here.
func (a *admission) begin(o *wire.Open, lane string) error {
	rules, err := a.admitted(o)
	if err == nil {
		err = mayAppend(a.r.cfg.Place, o.Request.Dest.Place, &o.Request.Options)
	}
	if err != nil {
		return err
	}
	var res transfer.Resolution
	if q := &o.Request; !q.Dest.IsZero() {
		var before *transfer.Resolution
		if q.Retry != nil {
			before = q.Retry.Resolved
		}
		if res, err = resolve(a.r.cfg.Place, a.r.permit(o.Principal), q.Dest, o.Several, before); err != nil {
			a.denied(o, err)
			return err
		}
	}

	now := a.r.cfg.Clock.Now()
	maxChunk := min(a.r.cfg.MaxChunk, o.MaxChunk)
	settings := flow.Negotiate(o.Request.Settings, maxChunk)
	if lane == transfer.LaneDirect {
		settings = flow.ForDirect(settings, maxChunk)
	}

	rec := &ledger.Incoming{Request: o.Request, From: o.Source, Principal: o.Principal, State: transfer.Receiving, Resolution: res,
		Settings:    settings,
		Generations: ledger.Generations{Generation: a.r.cfg.Ledger.Generation()}, Pardon: o.Pardon, Started: now}
	a.entry.SetRecord(rec)
	a.to.Land()
	var home place.Location
	if res.Base != "" {
		var err error
		if home, err = a.to.Common(); err != nil {
			return err
		}
	}

	return a.entry.Begin(&home, lane, rules)
}

// takeTargets resolves the targets of an OPEN, each once (R8). complete reports that the source has all of them with
// this answer. The error is only a reason to wait.
func (a *admission) takeTargets(o *wire.Open) (all []transfer.Resolved, complete bool, err error) {
	if o.Targets == nil {
		return nil, true, nil
	}

	var fresh []ledger.Target
	for _, t := range o.Targets.List {
		if t.N > a.entry.In.Targets.Last {
			g, err := resolveTarget(a.r.cfg.Place, a.r.permit(a.entry.In.Principal), t)
			if err != nil {
				return nil, false, err
			}
			fresh = append(fresh, g)
		}
	}

	all, err = a.entry.AddTargets(o.Targets.List, fresh, !o.Targets.More)
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
	err := mayAppend(p, t.Dest.Place, &t.Options)
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

// mayAppend refuses an append to a DEST of a place that does not support it.
func mayAppend(p place.Target, of transfer.Place, o *transfer.Options) error {
	if !o.Append() || place.Appends(p, of) {
		return nil
	}
	return transfer.Errorf(transfer.KindUsage, "the destination cannot append: it keeps no files").
		WithHint("choose another --if-exists than append")
}

// resolve resolves a DEST, or takes the resolution of the transfer that is repeated.
func resolve(p place.Target, may place.Permit, dest transfer.Location, several bool, before *transfer.Resolution) (transfer.Resolution, error) {
	if before != nil {
		return p.Resolved(*before, may)
	}
	return p.Resolve(dest, several, may)
}
