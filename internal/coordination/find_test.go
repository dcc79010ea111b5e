package coordination

import (
	"encoding/json"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/coordination/status"
	"ferry/internal/security/access"
	"ferry/internal/security/policy"
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

	rules, err := policy.Parse([]byte(`{"v":1,"rules":[{"name":"root alone","who":["user:root"],"may":["operate"]}]}`))
	check(t, err)
	s := &Service{log: log, picture: status.New(clock.System), rights: rights{access.NewJudge("", rules, false)}}
	s.picture.Queued(&transfer.Progress{ID: id, Source: "ALPHA", Destination: "BETA", Principal: "mallory", State: transfer.Queued})
	if g, err := find(s, "mallory", id.String()); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("mallory finds the transfer of ann under her own report: %+v, %v", g, err)
	}
	if g, err := find(s, "ann", id.String()); err != nil || g.Principal != "ann" || g.State != transfer.Failed {
		t.Errorf("after the question of mallory ann finds %+v, %v", g, err)
	}
}

// A question about a transfer that only its submitter has reported finds that transfer, beside an older one in the log
// with an ID that ends in the same digits. It does not bring the older one back into the picture.
func TestReportIsFoundBesideAnOlderTransfer(t *testing.T) {
	id := transfer.NewID(time.UnixMilli(1_767_225_600_000))
	older := id
	older[0]--
	log, err := audit.OpenLog(t.TempDir(), time.Now)
	check(t, err)
	t.Cleanup(func() { log.Close() })
	r := audit.Record{Agent: "ALPHA", Incarnation: audit.FormatIncarnation(7), N: 1, Time: time.Unix(1_767_225_600, 0), Event: audit.Submitted, Role: audit.RoleSource,
		Transfer: older, Source: "ALPHA", Destination: "BETA", Principal: "ann"}
	raw, err := audit.Encode(&r)
	check(t, err)
	_, err = log.Append(audit.Batch{Agent: "ALPHA", Incarnation: r.Incarnation, Floor: 1, Records: []json.RawMessage{raw}})
	check(t, err)

	s := &Service{log: log, picture: status.New(clock.System)}
	s.picture.Queued(&transfer.Progress{ID: id, Source: "ALPHA", Destination: "BETA", Principal: "ann", State: transfer.Queued})
	suffix := id.String()[24:]
	if g, err := find(s, "ann", suffix); err != nil || g.ID != id {
		t.Errorf("the end %s finds %+v, %v", suffix, g, err)
	}
	if _, is := status.At(s.picture, "ALPHA", older); is {
		t.Error("the picture has the older transfer")
	}
	if status.Unread(s.picture, id) {
		t.Error("each question reads the log")
	}
}
