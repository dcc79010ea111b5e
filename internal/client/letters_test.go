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

// A cancel drops the letters of the transfer's author, and says that the transfer was withdrawn only if one of them was
// there and the source was never given the request. A letter that is gone meanwhile is no error.
func TestCancelDropsOwnLettersAlone(t *testing.T) {
	letter := func(id, from string) wire.DeadLetter {
		return wire.DeadLetter{ID: id, Kind: wire.DeadRequest, Agent: "ALPHA", From: from}
	}
	by := func(principal string, state transfer.State) *transfer.Progress {
		return &transfer.Progress{Source: "ALPHA", Principal: principal, State: state}
	}
	gone, away := transfer.Errorf(transfer.KindNotFound, "no such letter"), transfer.Errorf(transfer.KindTimeout, "no answer")
	both := []wire.DeadLetter{letter("a", "mallory"), letter("b", "ann"), letter("c", "ann")}
	for name, c := range map[string]struct {
		letters []wire.DeadLetter
		self    string
		known   *transfer.Progress // as coordination has it
		fails   error              // of each removal
		removed string
		want    bool
	}{
		"of the author":                 {both, "ann", by("ann", transfer.Queued), nil, "bc", true},
		"by an operator":                {both, "root", by("ann", transfer.Queued), nil, "bc", true},
		"a stranger's alone":            {both[:1], "ann", by("ann", transfer.Queued), nil, "", false},
		"by the stranger":               {both[:1], "mallory", by("ann", transfer.Queued), nil, "", false},
		"gone meanwhile":                {both, "ann", by("ann", transfer.Queued), gone, "bc", true},
		"a queue manager is away":       {both, "ann", by("ann", transfer.Queued), away, "b", false},
		"of a transfer that runs":       {both, "ann", by("ann", transfer.Running), nil, "bc", false},
		"coordination does not know":    {both, "mallory", nil, nil, "a", false},
		"an operator without knowledge": {both, "root", nil, nil, "", false},
	} {
		removed := ""
		got := dropOwn(c.letters, c.self, c.known, func(id string) error {
			removed += id
			return c.fails
		})
		if got != c.want || removed != c.removed {
			t.Errorf("%s: it is withdrawn: %t; the letters %q are removed, not %q", name, got, removed, c.removed)
		}
	}
}
