package writing

import (
	"time"

	"ferry/internal/content/conversion"
	"ferry/internal/content/digest"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/receiver/entry"
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

// Destinations are the destinations of a transfer, by target.
type Destinations struct {
	agent  *Agent
	entry  *entry.Entry
	of     *transfer.Request // without its items
	landed place.Landing     // at the transfer's DEST, or nowhere; nil: Land was not called
	known  map[uint64]*destination
}

// NewDestinations returns the destinations of a transfer. Land must be called before the first item.
func NewDestinations(a *Agent, e *entry.Entry) *Destinations {
	return &Destinations{agent: a, entry: e, known: map[uint64]*destination{}}
}

// Land makes the landing from the ledger entry.
func (g *Destinations) Land() {
	in := g.entry.In
	q := &in.Request
	cfg := LandingOf(in)
	cfg.Destination = place.Destination{Resolution: in.Resolution, Dest: q.Dest, IfExists: q.IfExists}
	cfg.Durable, cfg.Journal, cfg.May = q.Durable(), g.entry.Journal(), g.agent.May(in.Principal)
	cfg.Preserve, cfg.Made = q.Permissions == transfer.PermissionsPreserve, g.entry.HasMade
	cfg.Marked = g.entry.Marked
	g.of, g.landed, g.known = q, g.agent.Place.Land(cfg), map[uint64]*destination{}
}

// Common returns the location with the facts that hold for all items at the transfer's DEST.
func (g *Destinations) Common() (place.Location, error) { return g.landed.Locate(".", "") }

// mostDestinations bounds the destinations in memory.
const mostDestinations = 4096

// at returns the destination of a target; 0 is the transfer's DEST. An error is errOffset, for an unknown target, or
// the ledger's.
func (g *Destinations) at(to uint64) (*destination, error) {
	if d := g.known[to]; d != nil {
		return d, nil
	}

	d := &destination{landing: g.landed, place: g.of.Dest.Place, dest: g.of.Dest, options: g.of.Options}
	switch {
	case to > 0:
		var target *ledger.Target
		err := g.agent.Entries.Ledger.View(func(t *ledger.Tx) (err error) {
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
func (g *Destinations) path(b *wire.Begin) transfer.Path {
	d, err := g.at(b.To)
	if err != nil || d.err != nil {
		return b.Name
	}
	return d.landing.Path(b.Name)
}

// resolution returns a path of a target as a resolution, for questions to its place.
func (g *Destinations) resolution(to uint64, at transfer.Path) transfer.Resolution {
	d, err := g.at(to)
	if err != nil {
		return transfer.Resolution{Base: at}
	}
	return transfer.Resolution{Place: d.place, Base: at}
}

// LandingOf returns the landing configuration of a transfer, which names its temporaries.
func LandingOf(in *ledger.Incoming) place.LandConfig {
	return place.LandConfig{Transfer: in.Request.ID, Principal: in.Principal, Generation: in.Generation, Older: in.Older, Patience: patience(&in.Request)}
}

// mostPatience is the longest that an item waits for an obstacle at its destination.
const mostPatience = 10 * time.Minute

// patience returns how long an item waits for an obstacle. It ends two attempts before the source's recovery time-out:
// the item then fails with its reason, and the transfer does not fail without one.
func patience(q *transfer.Request) time.Duration {
	if r := time.Duration(q.Recovery); r > 0 {
		return min(mostPatience, max(r/2, r-8*time.Second))
	}
	return mostPatience
}

// outcome returns the outcome of an item that lands.
func (g *Destinations) outcome(item uint64, b *wire.Begin) transfer.Outcome {
	o := transfer.Outcome{Item: item, Type: b.Type, Path: g.path(b), Source: b.Source, To: b.To}
	if d, err := g.at(b.To); err == nil && d.options.Removes() { // a source is deleted only in the version that was read
		o.Version = b.Version
	}
	if b.Type == transfer.ItemFile {
		o.Size = max(0, b.Size) // of an item that has come, the bytes that came
	}
	return o
}

// ofBrokenSet returns the error of an item that begins after its set has failed; nil: the set has not.
func (g *Destinations) ofBrokenSet(b *wire.Begin) *transfer.Error {
	if g.entry.In.Set.Failed == nil {
		return nil
	}
	return transfer.OfSet(g.path(b), g.entry.In.Set.Failed)
}

// stale returns the temporary that an earlier epoch left of an item; nil: none.
func (g *Destinations) stale(item uint64) (left *stale) {
	if g.entry.In.Epoch == 1 && !g.entry.Adopted {
		return nil
	}

	pt, err := g.entry.Items.Point(item)
	if err == nil && pt != nil {
		var d *destination
		if d, err = g.at(pt.To); err == nil {
			left = &stale{d.landing, pt.Name}
		}
	}
	if err != nil {
		g.entry.Log.Warn("cannot look up an item's temporary file; removed at the end of the transfer", "item", item, "error", err)
	}
	return left
}

// SweepAtEnd ensures, before the end is on record, that no temporary of this transfer is in its directories or can come
// back there. It reports whether that failed. Unless some is true, it looks only if temporaries are possible: after a
// resend, or after an earlier process.
func (g *Destinations) SweepAtEnd(some bool) (unswept bool) {
	return !g.sweepDirs(some || g.entry.In.Epoch > 1 || g.entry.Adopted)
}

// Sweep removes this transfer's own temporaries. If that fails, it is tried again later.
func (g *Destinations) Sweep() { g.sweepDirs(true) }

func (g *Destinations) sweepDirs(some bool) bool {
	dirs, err := g.entry.Dirs()
	if err == nil && g.landed != nil {
		err = g.landed.RemoveLeftovers(dirs, some)
	}
	if err != nil {
		g.entry.Log.Warn("cannot remove temporary files; will retry", "dirs", dirs, "error", err)
		g.agent.Unswept()
	}
	return err == nil
}

// close releases open files and directories.
func (g *Destinations) close() {
	if g.landed != nil {
		g.landed.Close()
	}
}
