package client

import (
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Transfer identifies the transfer that an answer must be about.
type Transfer struct {
	Source transfer.AgentName
	ID     transfer.ID
	Hash   string // of its request (transfer.Request.Hash); empty: not known here
}

// Of returns the transfer of a request.
func Of(q *transfer.Request) Transfer {
	if head, _, err := q.Split(); err == nil {
		q = head
	}
	return Transfer{Source: q.Source, ID: q.ID, Hash: q.Hash()}
}

// is reports whether a picture shows the transfer and comes from its source. A source that has lost the ledger of the
// transfer no longer knows its request.
func (t Transfer) is(p *transfer.Progress) bool {
	if p == nil || p.ID != t.ID || p.Source != t.Source {
		return false
	}
	lost := p.Request == "" && p.State.Final() && p.Reason != nil && p.Reason.Kind == transfer.KindLost
	return t.Hash == "" || p.Request == t.Hash || lost
}

// answer reads an answer about an ID: of a transfer or a command. ok is false for any other data, which counts as no
// answer.
func answer(data []byte, about transfer.ID) (ans *wire.Answer, ok bool, err error) {
	ans, err = wire.DecodeAnswer(data)
	if ans == nil || ans.ID != about || err != nil && ans.Error == nil {
		return nil, false, nil
	}
	return ans, true, err
}
