package template

import (
	"time"

	"ferry/internal/mftxml"
	"ferry/internal/transfer"
)

// FromDocument is the template that a document of MQ MFT has. What of it Ferry's transfers cannot do is
// refused by name.
func FromDocument(d *mftxml.Document) (*Template, error) {
	if d.Template == nil {
		return nil, transfer.Errorf(transfer.KindDocument, "the XML document is no template")
	}
	q, err := (&mftxml.Document{Transfer: d.Template.Transfer}).Request(transfer.NewID(time.Unix(0, 0)))
	if err != nil {
		return nil, err
	}
	return New(d.Template.Name, q, nil)
}
