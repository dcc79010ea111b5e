package template

import (
	"time"

	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
)

// FromDocument returns the template in a document of MQ MFT. Functions that Ferry's transfers do not have are refused
// by name. later is the schedule of the document, where it has one.
func FromDocument(d *mftxml.Document, later *Later) (*Template, error) {
	if d.Template == nil {
		return nil, transfer.Errorf(transfer.KindDocument, "the XML document is no template")
	}
	once := *d.Template.Transfer
	if later != nil {
		once.Schedule = nil
	}
	q, err := (&mftxml.Document{Transfer: &once}).Request(transfer.NewID(time.Unix(0, 0)))
	if err != nil {
		return nil, err
	}
	t, err := New(d.Template.Name, q, nil)
	if err != nil {
		return nil, err
	}
	t.Later = later
	return t, t.Check()
}
