package sender

import (
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// inherit takes in what earlier runs may have begun. It is done once, before the first
// outcomes of a run are looked at.
func (o *Outgoing) inherit() error {
	if !o.sent.lacksEarlier() {
		return nil
	}
	rec := o.Record()
	below := rec.Decided.Below()
	items, err := o.cfg.Ledger.JournalItems(o.ID, below, transfer.MaxUndecided)
	if err != nil {
		return err
	}
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
	o.sent.inherit(below, items, tasks)
	return nil
}

// believed are the outcomes that are not on record and can be: each is held against what
// was sent, and names the journal's path.
func (o *Outgoing) believed(outcomes []transfer.Outcome) (all []believed) {
	rec := o.Record()
	for _, oc := range outcomes {
		if rec.Decided.Has(oc.Item) {
			continue
		}
		if is, why := o.sent.believe(oc); why != "" {
			o.doubt(why)
		} else {
			all = append(all, is)
		}
	}
	return all
}

// decidedNow forgets what need not be known of items that are decided.
func (o *Outgoing) decidedNow(outcomes []transfer.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n := range outcomes {
		if item := outcomes[n].Item; o.rec.Decided.Has(item) {
			delete(o.live.high, item)
			o.sent.forget(item)
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
