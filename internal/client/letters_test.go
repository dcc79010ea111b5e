package client

import (
	"slices"
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Any member may send a request with the ID of another one's transfer, and its letter is not that of the transfer.
func TestLettersOfOthersAreNotThoseOfATransfer(t *testing.T) {
	id := transfer.ID{15: 1}
	letters := []wire.DeadLetter{
		{ID: "a", Kind: wire.DeadRequest, Agent: "ALPHA", From: "mallory", Transfer: id, Reason: "forbidden"},
		{ID: "b", Kind: wire.DeadRequest, Agent: "ALPHA", From: "ann", Transfer: id, Reason: "removed"},
	}
	if got := ownLetters(letters, "ann"); !slices.Equal(got, []string{"b"}) {
		t.Errorf("the letters of ann are %v", got)
	}
	for by, want := range map[string]string{"ann": "its request is the dead letter b: removed", "bob": ""} {
		list := []transfer.Progress{{ID: id, Source: "ALPHA", Principal: by, State: transfer.Queued}}
		l := letterReasons{read: true, of: map[transfer.ID][]wire.DeadLetter{id: letters}}
		l.explain(t.Context(), nil, list)
		got := ""
		if r := list[0].Reason; r != nil {
			got = r.Text
		}
		if got != want {
			t.Errorf("the reason of the transfer of %s is %q", by, got)
		}
	}
}
