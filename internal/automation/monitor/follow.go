package monitor

import (
	"io"
	"strings"

	"ferry/internal/audit"
	"ferry/internal/content/digest"
	"ferry/internal/ledger"
	"ferry/internal/place/local/walk"
	"ferry/internal/transfer"
)

// A followed transfer belongs to a monitor and has not ended.
type followed struct {
	Monitor string        `json:"monitor"`
	Dir     transfer.Path `json:"dir"` // the directory that is watched, as a path of the host
}

// follow registers a trigger's files for Follow.
func (p *poll) follow(d drawer, tr *trigger) error {
	if len(tr.files) == 0 || !tr.files[0].isFile() {
		return nil
	}
	f := &tr.files[0]
	return save(d, followedKey(tr.id), followed{p.name, transfer.Path(strings.TrimSuffix(string(f.Path), string(f.Rel)))})
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

// sentBefore reports whether a file that differs only in its time of change has the content that has arrived, so that
// it is not sent. While its transfer is running, that is unknown, and a later poll checks again. A file that has not
// arrived is sent.
func (p *poll) sentBefore(e *known, f *walk.Found, is identity) (bool, error) {
	over, err := p.over(e.transfer)
	if err != nil || !over {
		return true, err
	}
	now, err := p.entryOf(e.key) // the transfer may have ended since the history was read
	switch {
	case err != nil:
		return false, err
	case now == nil, now.again, now.sum == "", now.transfer != e.transfer:
		return false, nil
	}
	sum, err := p.digestOf(f, sumMethods[now.sum[0]])
	if err != nil {
		p.problem = err
		return true, nil
	}
	if packed(sum) != now.sum {
		return false, nil
	}
	e.gone, e.identity = 0, is
	return true, p.mark(*e)
}

// entryOf returns the present entry of a file, or nil if the history has none.
func (r *runner) entryOf(key string) (e *entry, err error) {
	err = r.Ledger.View(func(t *ledger.Tx) error {
		data := drawerOf(t).Get(historyPrefix(r.name) + key)
		if data == nil {
			return nil
		}
		is, err := decodeEntry(data)
		e = &is
		return err
	})
	return e, err
}

// digestOf digests a file in the state that the poll of its directory has seen.
func (p *poll) digestOf(f *walk.Found, m digest.Method) (string, error) {
	h := m.New()
	err := p.readWhole(f, func(in io.Reader) error {
		_, err := io.CopyBuffer(h, stoppable{p, in}, make([]byte, 256<<10))
		return err
	})
	return m.Sum(h), err
}

// stoppable reads until the agent ends.
type stoppable struct {
	p  *poll
	in io.Reader
}

func (r stoppable) Read(b []byte) (int, error) {
	if err := r.p.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(b)
}
