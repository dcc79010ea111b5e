package sender

import (
	"ferry/internal/place"
	"ferry/internal/transfer"
)

// formOf returns the form of a file's content beside its bytes, from its place and this agent's defaults. It returns
// nil if the request asks for bytes alone.
func (p *pump) formOf(source transfer.Path, src place.File) (*transfer.Form, error) {
	if !p.task.Content {
		return nil, nil
	}

	q := &p.task.Options
	known, dataset, err := src.Form()
	if !dataset && q.Mode != transfer.ModeText { // its records are its bytes, in any form
		known, err = nil, nil
	}

	said := !q.FromRecords.IsZero() && (q.FromEncoding != "" || q.Mode != transfer.ModeText) // the request gives all the facts that the form could give
	switch {
	case err == nil:
	case said && transfer.KindOf(err) == transfer.KindMalformed:
		known = nil
	case transfer.KindOf(err) == transfer.KindMalformed:
		return nil, transfer.AsError(err).WithHint("correct or remove it, or give --from-recfm, --from-lrecl and, in text mode, --from-encoding")
	default:
		return nil, err
	}

	if dataset && known == nil && q.FromRecords.IsZero() {
		return nil, transfer.Errorf(transfer.KindMalformed, "the record attributes of the data set %s are unknown", source).
			WithHint("give --from-recfm and --from-lrecl, or RECFM(FB),LRECL(80) after its name")
	}

	f := p.cfg.Content.Form(known, dataset)
	return &f, nil
}
