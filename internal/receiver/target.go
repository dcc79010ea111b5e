package receiver

import (
	"ferry/internal/content/conversion"
	"ferry/internal/content/digest"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A destination is the landing of the items with one target, or of those without a target of their own.
type destination struct {
	landing place.Landing
	place   transfer.Place
	dest    transfer.Location // as the request has it
	options transfer.Options
	err     *transfer.Error // why no item can land here
}

// method returns the digest method of files.
func (d *destination) method() digest.Method {
	m, _ := digest.ParseMethod(d.options.Checksum) // checked at OPEN
	return m
}

// destinations are the destinations of a transfer, by target.
type destinations struct {
	ledger *ledger.Ledger
	of     *transfer.Request // without its items
	landed place.Landing     // at the transfer's DEST, or nowhere
	known  map[uint64]*destination
}

// mostDestinations bounds the destinations in memory.
const mostDestinations = 4096

// at returns the destination of a target; 0 is the transfer's DEST. An error is errOffset, for an unknown target, or
// the ledger's.
func (g *destinations) at(to uint64) (*destination, error) {
	if d := g.known[to]; d != nil {
		return d, nil
	}

	d := &destination{landing: g.landed, place: g.of.Dest.Place, dest: g.of.Dest, options: g.of.Options}
	switch {
	case to > 0:
		var target *ledger.Target
		err := g.ledger.View(func(t *ledger.Tx) (err error) {
			target, err = t.Requests().Target(g.of.ID, to)
			return err
		})
		if err != nil {
			return nil, err
		}
		if target == nil {
			return nil, errOffset
		}
		d.place, d.dest, d.err = target.Place, target.Dest, target.Error
		if d.options, err = conversion.TargetOptions(&target.Target, g.of.Options); err != nil {
			d.err = transfer.AsError(err)
		}
		d.landing = g.landed.At(place.Destination{Resolution: target.Resolved().Resolution, Dest: target.Dest, IfExists: d.options.IfExists})
	case d.dest.IsZero():
		return nil, errOffset
	}

	if len(g.known) >= mostDestinations {
		clear(g.known)
	}

	g.known[to] = d
	return d, nil
}

// path returns the path where an item lands, for messages and records.
func (g *destinations) path(b *wire.Begin) transfer.Path {
	d, err := g.at(b.To)
	if err != nil || d.err != nil {
		return b.Name
	}
	return d.landing.Path(b.Name)
}

// resolution returns a path of a target as a resolution, for questions to its place.
func (g *destinations) resolution(to uint64, at transfer.Path) transfer.Resolution {
	d, err := g.at(to)
	if err != nil {
		return transfer.Resolution{Base: at}
	}
	return transfer.Resolution{Place: d.place, Base: at}
}

// mostTargets bounds the targets of a transfer, in bytes as the ledger has them.
const mostTargets = 4 * transfer.MaxRequest

// vetTargets refuses targets of an OPEN that contradict the known ones, or are impossible.
func vetTargets(o *wire.Open, known ledger.Targets) error {
	if o.Targets == nil {
		if o.Request.Dest.IsZero() && o.Dest == "" || known.Last > 0 && !known.All {
			return transfer.Errorf(transfer.KindMalformed, "the OPEN leaves out targets that have not come")
		}
		return nil
	}

	size := known.Bytes
	for n := range o.Targets.List {
		t := &o.Targets.List[n]
		size += len(wire.Marshal(t))
		if err := t.Check(o.Request.Options); err != nil {
			return err
		}
		options, err := conversion.TargetOptions(t, o.Request.Options)
		if err == nil {
			err = conversion.CheckOptions(&options, t.Dest)
		}
		if err != nil {
			return err
		}
	}

	if size > mostTargets {
		return transfer.Errorf(transfer.KindTooLarge, "the destinations of the transfer have more than %d bytes", mostTargets)
	}
	return nil
}

// takeTargets resolves the targets of an OPEN, each once (R8). complete reports that the source has all of them with
// this answer. The error is only a reason to wait.
func (rc *record) takeTargets(o *wire.Open) (all []transfer.Resolved, complete bool, err error) {
	if o.Targets == nil {
		return nil, true, nil
	}

	var fresh []ledger.Target
	for _, t := range o.Targets.List {
		if t.N > rc.rec.Targets.Last {
			g, err := resolveTarget(rc.r.cfg.Place, rc.r.permit(rc.rec.Principal), t)
			if err != nil {
				return nil, false, err
			}
			fresh = append(fresh, g)
		}
	}

	err = rc.update(func(t *ledger.Tx, rec *ledger.Incoming) error {
		all = nil
		for _, asked := range o.Targets.List {
			if asked.N > rec.Targets.Last {
				break
			}
			g, err := t.Requests().Target(rc.id, asked.N)
			if err != nil {
				return err
			}
			if g != nil {
				all = append(all, g.Resolved())
			}
		}
		if len(fresh) > 0 {
			rec.Targets.Last, rec.Targets.All = fresh[len(fresh)-1].N, !o.Targets.More
			for n := range fresh {
				rec.Targets.Bytes += len(wire.Marshal(fresh[n]))
				all = append(all, fresh[n].Resolved())
			}
		}
		return t.Requests().PutTargets(rc.id, fresh)
	})
	if err != nil {
		return nil, false, rc.unwritable(err)
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
