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
