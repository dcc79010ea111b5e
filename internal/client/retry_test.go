package client

import (
	"testing"

	"ferry/internal/audit"
	"ferry/internal/transfer"
)

// A repeated request sends a file as it is by then, also where the first one expected a version of it: the reason of
// the failure may have been put right by a change of the file.
func TestARepeatedRequestExpectsNoVersion(t *testing.T) {
	q := &transfer.Request{Source: "ALPHA", Destination: "BETA", Items: []transfer.RequestItem{
		{Source: transfer.File("/in/a"), Dest: transfer.File("/out/a"), Expected: "v1"}, {Source: transfer.File("/in/b"), Dest: transfer.File("/out/b"), Expected: "v2"}}}
	facts := audit.FactsOf(q)
	items := itemsAgain(facts, []transfer.Resolved{{N: 2, Resolution: transfer.Resolution{Base: "/out/b"}}})
	if len(items) != 2 || items[1].Resolved == nil {
		t.Fatalf("the items are %+v", items)
	}
	for n, it := range items {
		if it.Expected != "" || it.Dest != q.Items[n].Dest || q.Items[n].Expected == "" {
			t.Errorf("item %d is %+v", n, it)
		}
	}
}

// A failed item that another repetition has brought to the same target is not sent again. A source that was missing may be a
// directory by then, and is sent again unless a file arrived.
func TestArrived(t *testing.T) {
	brought := map[item]transfer.ItemType{{"/in/a", 0}: transfer.ItemFile, {"/in/b", 1}: transfer.ItemFile, {"/in/d", 0}: transfer.ItemDir}
	for _, c := range []struct {
		source transfer.Path
		to     uint64
		as     transfer.ItemType
		want   bool
	}{
		{"/in/a", 0, transfer.ItemFile, true}, {"/in/a", 0, transfer.ItemBad, true}, {"/in/b", 1, transfer.ItemFile, true}, {"/in/b", 2, transfer.ItemFile, false},
		{"/in/c", 0, transfer.ItemFile, false}, {"/in/d", 0, transfer.ItemDir, true}, {"/in/d", 0, transfer.ItemBad, false},
	} {
		if got := arrived(brought, &transfer.Outcome{Source: c.source, To: c.to, Type: c.as}); got != c.want {
			t.Errorf("%s to %d: %v", c.source, c.to, got)
		}
	}
}
