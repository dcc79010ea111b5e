package status_test

import (
	"testing"

	"ferry/internal/audit"
	"ferry/internal/coordination/status"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// FuzzPicture: after any messages of agents about themselves and about transfers, the picture can be shown, in pages
// that end.
func FuzzPicture(f *testing.F) {
	for _, s := range []string{
		`{"v":1,"kind":"beat","beat":{"v":1,"agent":"ALPHA","status":"READY"}}`, `{"v":1,"kind":"beat","beat":{}}`,
		`{"v":1,"kind":"progress","progress":{"id":"01890a5d-ac96-774b-bcce-b302099a8057","state":"running","failures":[{"item":1}]}}`,
		`{"v":1,"agent":"A1","incarnation":"0000000000000001","n":1,"time":"2026-03-01T12:00:00Z","event":"item","role":"source","transfer":"01890a5d-ac96-774b-bcce-b302099a8057","items":[{"item":1,"error":{"kind":3}}]}`,
		`{"v":1,"agent":"A1","incarnation":"0000000000000001","n":2,"time":"2026-03-01T12:00:00Z","event":"completed","role":"source","transfer":"01890a5d-ac96-774b-bcce-b302099a8057","state":"successful","seconds":1e308}`,
	} {
		f.Add([]byte(s), []byte(`{"v":1}`))
	}
	f.Fuzz(func(t *testing.T, one, two []byte) {
		p := status.New(clock.System)
		for _, data := range [][]byte{one, two, one} {
			if r, err := audit.Decode(data); err == nil {
				p.Record(&r)
			}
			if r, err := wire.DecodeReport(data); err == nil && r.Beat != nil {
				p.Beat(r.Beat)
			}
			if r, err := wire.DecodeReport(data); err == nil && r.Progress != nil {
				p.Progress(r.Progress)
				p.Queued(r.Progress)
			}
		}
		for _, a := range p.Agents() {
			p.Known(a.Agent)
		}
		p.Names()
		var before transfer.ID
		for left := 1; left > 0; {
			var page []transfer.Progress
			page, left = p.Transfers(status.Query{Before: before, Limit: 1})
			if len(page) == 0 && left > 0 {
				t.Fatal("there is more, and it does not come")
			}
			for _, g := range page {
				if !before.IsZero() && string(g.ID[:]) >= string(before[:]) {
					t.Fatalf("after %s comes %s", before, g.ID)
				}
				before = g.ID
				if _, err := p.Transfer(g.ID.String(), ""); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
