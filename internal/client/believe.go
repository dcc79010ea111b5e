package client

import (
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Transfer is what an answer must be about to be believed.
type Transfer struct {
	Source transfer.AgentName
	ID     transfer.ID
	Hash   string // of its request (transfer.Request.Hash); empty: not known here
}

// Of is the transfer of a request.
func Of(q *transfer.Request) Transfer {
	if head, _, err := q.Split(); err == nil {
		q = head
	}
	return Transfer{Source: q.Source, ID: q.ID, Hash: q.Hash()}
}

// is reports whether a picture is one of the transfer by its source. A source that has lost the
// ledger of the transfer no longer knows its request.
func (t Transfer) is(p *transfer.Progress) bool {
	if p == nil || p.ID != t.ID || p.Source != t.Source {
		return false
	}
	lost := p.Request == "" && p.State.Final() && p.Reason != nil && p.Reason.Kind == transfer.KindLost
	return t.Hash == "" || p.Request == t.Hash || lost
}

// answer reads an answer about what has an ID: a transfer or a command. ok is
// false for anything else, which is as if nothing had come.
func answer(data []byte, about transfer.ID) (ans *wire.Answer, ok bool, err error) {
	ans, err = wire.DecodeAnswer(data)
	if ans == nil || ans.ID != about || err != nil && ans.Error == nil {
		return nil, false, nil
	}
	return ans, true, err
}
