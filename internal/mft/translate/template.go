package translate

import (
	"time"

	"ferry/internal/automation/template"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
)

// Template returns the template in a document. Functions that Ferry's transfers do not have are refused
// by name. later is the schedule of the document, where it has one.
func Template(d *mftxml.Document, later *template.Later) (*template.Template, error) {
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
	t, err := template.New(d.Template.Name, q, nil)
	if err != nil {
		return nil, err
	}
	t.Schedule = later
	return t, t.Check()
}

// Later returns the schedule of a document for a template.
func Later(s *mftxml.Schedule) (*template.Later, error) {
	words, err := wordsOf(s)
	if err != nil {
		return nil, err
	}
	later := template.Later(*words)
	return &later, nil
}
