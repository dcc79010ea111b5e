package monitor

import (
	"strings"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// A followed transfer belongs to a monitor and has not ended.
type followed struct {
	Monitor string        `json:"monitor"`
	Dir     transfer.Path `json:"dir"` // the directory that is watched, as a path of the host
}

// Follow updates the history from an audit record of a transfer. A file that has arrived gets its digest; a file that
// Ferry has deleted or archived is forgotten; a file that was replaced triggers again. It implements duty.Follower.
func (m *monitors) Follow(t *ledger.Tx, r *audit.Record) error {
	switch r.Event {
	case audit.Items, audit.Deleted, audit.Archived, audit.Completed, audit.Failed, audit.Cancelled:
	default:
		return nil
	}
	if r.Role != audit.RoleSource || r.Transfer.IsZero() {
		return nil
	}
	d := drawerOf(t)
	of, ok, err := load[followed](d, followedKey(r.Transfer))
	if err != nil { // the error must not prevent the end of the transfer
		m.Log.Error("read followed transfer of monitor failed; the history does not learn how its files end", "transfer", r.Transfer, "error", err)
		return d.Delete(followedKey(r.Transfer))
	}
	if !ok {
		return nil
	}
	for n := range r.Items {
		if err := m.take(d, &of, r, &r.Items[n]); err != nil {
			return err
		}
	}
	if r.Event == audit.Completed || r.Event == audit.Failed || r.Event == audit.Cancelled {
		return d.Delete(followedKey(r.Transfer))
	}
	return nil
}

// take updates the entry of an item, if the entry still belongs to that transfer.
func (m *monitors) take(d drawer, of *followed, r *audit.Record, oc *transfer.Outcome) error {
	rel := strings.TrimPrefix(string(oc.Source), string(of.Dir)) // a file that is missing has the name that the request gave it
	key := historyPrefix(of.Monitor) + fileKey(transfer.Path(rel))
	data := d.Get(key)
	if data == nil {
		return nil
	}
	e, err := decodeEntry(data)
	switch {
	case err != nil: // the next poll reports the entry and forgets it
		return nil
	case e.transfer != r.Transfer:
		return nil // it has triggered again
	case r.Event == audit.Deleted, r.Event == audit.Archived:
		return d.Delete(key)
	case r.Event != audit.Items || oc.Type == transfer.ItemDir:
		return nil
	case oc.OK():
		e.sum, e.tries = packed(oc.Digest), 0
	case oc.Err.Kind == transfer.KindReplaced:
		e.again = true
	default:
		return nil
	}
	return d.Put(key, e.encode())
}
