package sender

import (
	"slices"

	"ferry/internal/failpoint"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// What a destination says of an item is held against what this side knows of it:
// the item's number leads to its line in the journal, and the line says what it is
// and where. Nothing that is deleted is chosen by a message (INV-12).

// A begun item is one that the destination may decide.
type begun struct {
	kind   transfer.ItemType
	source transfer.Path
	delete bool               // its source is to be deleted
	form   bool               // and what is kept of its content
	before bool               // an earlier run may have sent all of it
	ends   []transfer.Version // of what this run has sent to its end, each once
	sum    string             // the digest of the last of them, where summed says that it was sent, too
	summed bool
}

// noteBegun says that an item is about to be sent.
func (o *Outgoing) noteBegun(n uint64, it transfer.Item, t *task) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.begun[n] == nil {
		o.begun[n] = &begun{kind: it.Type, source: it.Source, delete: t.options.Delete(), form: t.content}
	}
}

// noteEnd says that the end of a file is about to be sent.
func (o *Outgoing) noteEnd(n uint64, v transfer.Version) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.begun[n]
	if b == nil {
		return
	}
	if b.summed = false; !slices.Contains(b.ends, v) {
		b.ends = append(b.ends, v)
	}
}

// noteSum says that the digest of a file is about to be sent.
func (o *Outgoing) noteSum(n uint64, v transfer.Version, sum string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if b := o.begun[n]; b != nil && len(b.ends) > 0 && b.ends[len(b.ends)-1] == v {
		b.sum, b.summed = sum, true
	}
}

// sumOf is the digest that was sent of a file, if it is still what it was then.
func (o *Outgoing) sumOf(n uint64, v transfer.Version) (sum string, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b := o.begun[n]
	if b == nil || !b.summed || b.ends[len(b.ends)-1] != v {
		return "", false
	}
	return b.sum, true
}

// inherit takes in what earlier runs may have begun: what they have sent, nobody
// knows. It is done once, before the first outcomes of a run are looked at.
func (o *Outgoing) inherit() error {
	o.mu.Lock()
	heir, below := o.heir, o.rec.Decided.Below()
	o.mu.Unlock()
	if !heir {
		return nil
	}
	items, err := o.cfg.Ledger.JournalItems(o.ID, below, transfer.MaxUndecided)
	if err != nil {
		return err
	}
	rec := o.Record()
	a, tasks := o.cfg.asked(&rec), make([]task, len(items))
	for k := range items {
		switch {
		case items[k].Type != transfer.ItemFile:
			continue
		case k > 0 && items[k-1].Arg == items[k].Arg && items[k-1].Type == transfer.ItemFile:
			tasks[k] = tasks[k-1]
		default:
			if tasks[k], err = a.task(items[k].Arg); err != nil {
				return err
			}
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for k, it := range items {
		n := below + uint64(k)
		if o.begun[n] == nil {
			o.begun[n] = &begun{kind: it.Type, source: it.Source, delete: tasks[k].options.Delete(), form: tasks[k].content}
		}
		o.begun[n].before = true
	}
	o.heir = false
	return nil
}

// A believed outcome can be true. delete and form are those of the item.
type believed struct {
	transfer.Outcome
	delete, form bool
}

// believed are the outcomes that are not on record and can be: each is held against what
// was sent, and names the journal's path.
func (o *Outgoing) believed(outcomes []transfer.Outcome) (all []believed) {
	var doubts []string
	o.mu.Lock()
	for _, oc := range outcomes {
		if o.rec.Decided.Has(oc.Item) {
			continue
		}
		if why := o.believe(&oc); why != "" {
			doubts = append(doubts, why)
			continue
		}
		b := believed{Outcome: oc}
		if known := o.begun[oc.Item]; known != nil {
			b.delete, b.form = known.delete, known.form
		}
		all = append(all, b)
	}
	o.mu.Unlock()
	for _, why := range doubts {
		o.doubt(why)
	}
	return all
}

// believe holds an outcome against what was sent, and puts the journal's path in
// place of the one that it names. Where the two do not match it says why. o.mu is held.
func (o *Outgoing) believe(oc *transfer.Outcome) (why string) {
	if failpoint.Planted("outcome-path-believed") {
		return ""
	}
	b := o.begun[oc.Item]
	switch {
	case b == nil:
		return "an outcome of an item that was not begun"
	case oc.Source != b.source && (oc.OK() || oc.Source != ""):
		return "an outcome of another file than the item's"
	case oc.Type != b.kind && (oc.OK() || oc.Type != transfer.ItemBad), oc.OK() && b.kind == transfer.ItemBad:
		return "an outcome of another type than the item's"
	case oc.OK() && b.kind == transfer.ItemFile && !b.before && len(b.ends) == 0:
		return "an outcome of a file that was not sent to its end"
	case oc.OK() && b.kind == transfer.ItemFile && !b.before && b.delete && !slices.Contains(b.ends, oc.Version):
		return "an outcome of another state of the file than was sent"
	}
	oc.Source = b.source
	return ""
}

// decidedNow forgets what need not be known of items that are decided.
func (o *Outgoing) decidedNow(outcomes []transfer.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n := range outcomes {
		if item := outcomes[n].Item; o.rec.Decided.Has(item) {
			delete(o.live.high, item)
			delete(o.begun, item)
		}
	}
}

// impossible says what of an ACK cannot be: it speaks of what was not sent.
func (o *Outgoing) impossible(p *pump, a *wire.Ack) (why string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch s := a.Safe; {
	case a.Seq > p.sealed.Load():
		return "an ACK of messages that were not sent"
	case a.Credit > p.credit.used()+wire.MaxAhead:
		return "an ACK with more credit than there is"
	case a.Bytes > o.live.sent:
		return "an ACK of bytes that were not sent"
	case s != nil && !o.inherited && !o.rec.Decided.Has(s.Item) && s.Offset > o.live.high[s.Item]:
		return "an ACK with a safe point that was not sent"
	}
	return ""
}

// doubt counts what the destination says and cannot be.
func (o *Outgoing) doubt(why string) { o.cfg.Quiet.Dropped(string(o.to), why, "transfer", o.ID) }
