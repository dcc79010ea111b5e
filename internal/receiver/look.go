package receiver

import (
	"context"

	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Look says what would become of the items that a request would send here: where each
// would land, and why it could not. What a preview knows to fail is left as it is.
// Nothing is made. The items are the first ones: as many as fit into an answer, and as
// were looked at before ctx ended. The error is why the whole transfer would be refused.
func (r *Receiver) Look(ctx context.Context, q *transfer.Request, several bool, items []wire.PreviewItem) ([]wire.PreviewItem, error) {
	res, err := r.resolve(q, several)
	if err != nil {
		return items, err
	}
	landing := r.cfg.Place.Land(place.LandConfig{Transfer: q.ID, Resolution: res, Dest: q.Dest, IfExists: q.IfExists})
	defer landing.Close()
	size := 0
	for n := range items {
		it := &items[n]
		if it.Error == nil {
			loc, err := landing.Locate(it.Name, it.Name)
			if loc.Dataset {
				return items, nil // what becomes of it is decided when its attributes are known
			}
			if it.Target, it.Error = landing.Path(loc.Name), transfer.AsError(err); err == nil && it.Type == transfer.ItemFile {
				target, err := landing.Look(it.Name, it.Mtime, it.Size)
				it.Target, it.Error = target, transfer.AsError(err)
			}
		}
		if size += len(wire.Marshal(it)); size > maxLook || ctx.Err() != nil {
			return items[:n], nil
		}
	}
	return items, nil
}

// maxLook bounds what is said of items in one answer, in bytes of JSON.
const maxLook = 768 << 10

// resolve decides what DEST is, or takes what it was for the transfer that is repeated.
func (r *Receiver) resolve(q *transfer.Request, several bool) (transfer.Resolution, error) {
	if q.Retry != nil && q.Retry.Resolved != nil {
		return r.cfg.Place.Resolved(*q.Retry.Resolved)
	}
	return r.cfg.Place.Resolve(q.Dest, several)
}
