package translate

import (
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// RequestIn returns the ID of the request of a dead letter, also if it is a document of MQ MFT. It is zero if no agent
// can read the request.
func RequestIn(d *wire.DeadLetter) transfer.ID {
	if !mftxml.Is(d.Data) {
		return d.Transfer
	}
	if doc, err := mftxml.Parse(d.Data); err == nil && !doc.ID.IsZero() {
		return doc.ID
	}
	return mftxml.IDOf(d.Data, d.From, d.Stored)
}
