package entry

import (
	"ferry/internal/content/conversion"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// ErrContradiction reports an OPEN that contradicts its own message; no agent sends one on purpose.
var ErrContradiction = transfer.Errorf(transfer.KindMalformed, "the OPEN speaks of another transfer or agent than its message")

// CheckOpen refuses an OPEN that contradicts the entry (R35), or that requests an unsupported feature.
func (e *Entry) CheckOpen(o *wire.Open) error {
	q := &o.Request
	mine := e.all.Ledger.IncarnationText()
	switch {
	case q.ID != e.ID || q.Source != e.From || q.Destination != e.all.Agent:
		return ErrContradiction
	case o.Dest != "" && o.Dest != mine:
		return transfer.Errorf(transfer.KindLost, "%s has lost the ledger that recorded the accepted transfer", e.all.Agent)
	case e.In == nil && o.Dest != "":
		return transfer.Errorf(transfer.KindLost, "%s no longer has a record of the transfer", e.all.Agent)
	case e.In != nil && !e.In.State.Final() && o.Recorded > e.In.Decided.Count():
		return transfer.Errorf(transfer.KindLost, "%s runs on an older copy of its ledger: it knows fewer items than it has reported", e.all.Agent)
	case e.In != nil && e.In.From != o.Source:
		return transfer.Errorf(transfer.KindLost, "%s has lost the ledger that recorded the start of the transfer", e.From)
	}

	one := transfer.RequestItem{Source: transfer.File("-")} // Check needs an item, and only the source has the real ones
	if q.Dest.IsZero() {
		one.Dest = transfer.File("-")
	}

	q.Items = []transfer.RequestItem{one}
	defer func() { q.Items = nil }()
	if err := q.Check(); err != nil {
		return err
	}
	if err := conversion.Check(q); err != nil {
		return err
	}

	if e.In != nil && e.In.Epoch > 0 && o.Targets != nil && o.Targets.More {
		return ErrContradiction // all of them were here before the first epoch
	}
	return checkTargets(o, e.Targets())
}

// Targets returns the progress of the transfer's targets.
func (e *Entry) Targets() ledger.Targets {
	if e.In == nil {
		return ledger.Targets{}
	}
	return e.In.Targets
}

// mostTargets bounds the targets of a transfer, in bytes as the ledger has them.
const mostTargets = 4 * transfer.MaxRequest

// checkTargets refuses targets of an OPEN that contradict the known ones, or are impossible.
func checkTargets(o *wire.Open, known ledger.Targets) error {
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
