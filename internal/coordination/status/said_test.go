package status_test

import (
	"testing"
	"time"

	"ferry/internal/coordination/status"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// Everyone may report a transfer as queued or withdrawn. Such a report has nothing that shows a run: an agent refuses a
// request that has run.
func TestReportOfASubmitterShowsNoRun(t *testing.T) {
	p := status.New(clock.System)
	p.Queued(&transfer.Progress{ID: id(1), Source: "ALPHA", Destination: "BETA", State: transfer.Withdrawn, Principal: "eve", Request: "hash", Started: time.Now(),
		Ended: time.Now(), Counts: transfer.Counts{Files: 9}})
	g, err := p.Transfer(id(1).String(), "")
	if err != nil || g.State != transfer.Withdrawn || g.Principal != "eve" || g.Request != "" || !g.Started.IsZero() || !g.Ended.IsZero() || g.Files != 0 {
		t.Errorf("the transfer is %+v, %v", g, err)
	}
}
