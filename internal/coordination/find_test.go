package coordination

import (
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/coordination/status"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// A transfer that the picture has forgotten is found in the log, as that of its submitter, after any report of another
// one about its ID.
func TestForgottenTransferIsFoundBehindReports(t *testing.T) {
	id := transfer.NewID(time.UnixMilli(1_767_225_600_000))
	log, err := audit.OpenLog(t.TempDir(), time.Now)
	check(t, err)
	t.Cleanup(func() { log.Close() })
	b := audit.Batch{Agent: "ALPHA", Incarnation: audit.FormatIncarnation(7), Floor: 1}
	for n, event := range []audit.Event{audit.Submitted, audit.Failed} {
		r := audit.Record{Agent: "ALPHA", Incarnation: b.Incarnation, N: uint64(n + 1), Time: time.Unix(1_767_225_600, 0), Event: event, Role: audit.RoleSource, Transfer: id,
			Source: "ALPHA", Destination: "BETA", Principal: "ann"}
		if event == audit.Failed {
			r.State = transfer.Failed
		}
		raw, err := audit.Encode(&r)
		check(t, err)
		b.Records = append(b.Records, raw)
	}
	_, err = log.Append(b)
	check(t, err)

	for _, source := range []transfer.AgentName{"ALPHA", "EVIL"} {
		s := &Service{log: log, picture: status.New(clock.System)} // the rules allow everything
		s.picture.Queued(&transfer.Progress{ID: id, Source: source, Destination: "BETA", Principal: "mallory", State: transfer.Queued})
		g, err := find(s, "root", id.String())
		if err != nil || g.Source != "ALPHA" || g.Principal != "ann" || g.State != transfer.Failed {
			t.Errorf("after a report for %s an operator finds %+v, %v", source, g, err)
		}

		s.picture = status.New(clock.System)
		s.picture.Queued(&transfer.Progress{ID: id, Source: source, Destination: "BETA", Principal: "mallory", State: transfer.Queued})
		_, notFound := s.picture.Transfer(id.String(), "ann")
		if g, err := s.fromLog(id.String(), "ann", notFound); err != nil || g.Source != "ALPHA" || g.State != transfer.Failed {
			t.Errorf("after a report for %s the submitter finds %+v, %v", source, g, err)
		}
		if g, err := s.picture.Transfer(id.String(), "mallory"); err == nil && (g.Source == "ALPHA" || g.State == transfer.Failed) {
			t.Errorf("after a report for %s mallory finds %+v", source, g)
		}
	}
}
