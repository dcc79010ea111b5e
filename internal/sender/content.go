package sender

import (
	"ferry/internal/record"
	"ferry/internal/transfer"
)

// formOf is what is known of a file beside its bytes: what lies beside it, and
// this agent's defaults. nil where the request asks for bytes alone.
func (p *pump) formOf(source transfer.Path) (*transfer.Form, error) {
	q := p.involved
	if q == nil {
		return nil, nil
	}
	dataset := record.IsDataset(string(q.Sources[0])) // then all of them are
	var data []byte
	if dataset || q.Mode == transfer.ModeText {
		var err error
		if data, err = p.o.cfg.FS.ReadBeside(source, dataset, record.MaxSidecar); err != nil {
			return nil, err
		}
	}
	var side *record.Sidecar
	if data != nil {
		s, err := record.DecodeSidecar(data)
		said := !q.FromRecords.IsZero() && (q.FromEncoding != "" || q.Mode != transfer.ModeText) // all that it could say
		if err != nil && !said {
			return nil, transfer.Errorf(transfer.KindMalformed, "what lies beside %s cannot be read: %w", source, err).
				WithHint("correct or remove it, or give --from-recfm, --from-lrecl and, in text mode, --from-encoding")
		}
		if err == nil {
			side = &s
		}
	}
	if dataset && side == nil && q.FromRecords.IsZero() {
		return nil, transfer.Errorf(transfer.KindMalformed, "nothing says what the records of the data set %s are like", source).
			WithHint("give --from-recfm and --from-lrecl, or RECFM(FB),LRECL(80) after its name")
	}
	f := p.o.cfg.Content.Form(side, dataset)
	return &f, nil
}
