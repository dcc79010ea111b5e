package receiver

import (
	"context"

	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Preview previews the items of a request here: the target of each, and the reason why it could not land. An item that
// already has an error in the preview stays unchanged. Look creates nothing. It returns the first items: as many as fit
// into an answer, and as were looked at before ctx ended. The error is the reason why the whole transfer would be
// refused.
func (r *Receiver) Preview(ctx context.Context, principal string, q *transfer.Request, p *wire.Preview) ([]wire.PreviewItem, error) {
	items := p.List
	landings, err := previewed(r.cfg.Place, r.permit(principal), q, p)
	if err != nil {
		return items, err
	}
	defer landings[0].at.Close()

	size := 0
	for n := range items {
		it := &items[n]
		d := landings[it.To]
		if d == nil {
			return items[:n], nil
		}
		if it.Error == nil {
			it.Error = d.err
		}
		if landing := d.at; it.Error == nil {
			loc, err := landing.Locate(it.Name, it.Name)
			if loc.Dataset {
				return items, nil // the treatment is decided when its attributes are known
			}
			if it.Target, it.Error = landing.Path(loc.Name), transfer.AsError(err); err == nil && it.Type == transfer.ItemFile {
				target, err := landing.Look(it.Name, it.Mtime, it.Size)
				it.Target, it.Error = target, transfer.AsError(err)
			}
		}
		if size += len(wire.Marshal(it)); size > maxPreview || ctx.Err() != nil {
			return items[:n], nil
		}
	}
	return items, nil
}

// maxPreview bounds the items of one answer, in bytes of JSON.
const maxPreview = 768 << 10

// A previewTarget is the destination of the items with one target, for a preview.
type previewTarget struct {
	at  place.Landing
	err *transfer.Error // why no item can land there
}

// previewed returns the destinations of a preview, by target. The error is the reason why no item would be sent.
func previewed(at place.Target, may place.Permit, q *transfer.Request, p *wire.Preview) (map[uint64]*previewTarget, error) {
	if err := mayAppend(at, p.Dest.Place, &q.Options); err != nil {
		return nil, err
	}
	to := place.Destination{Dest: p.Dest, IfExists: q.IfExists}
	if !p.Dest.IsZero() {
		var before *transfer.Resolution
		if q.Retry != nil {
			before = q.Retry.Resolved
		}
		var err error
		if to.Resolution, err = resolve(at, may, p.Dest, p.Several, before); err != nil {
			return nil, err
		}
	}

	first := at.Land(place.LandConfig{Transfer: q.ID, May: may, Destination: to})
	all := map[uint64]*previewTarget{0: {at: first}}
	for _, t := range p.Targets {
		g, err := resolveTarget(at, may, t)
		if err != nil {
			return nil, err
		}
		o := t.Options.Or(q.Options)
		all[t.N] = &previewTarget{err: g.Error, at: first.At(place.Destination{Resolution: g.Resolved().Resolution, Dest: t.Dest, IfExists: o.IfExists})}
	}
	return all, nil
}
