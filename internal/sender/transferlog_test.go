package sender

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
)

// The log of a transfer has one line for each event that an operator would ask about, for any number of attempts.
func TestTransferLog(t *testing.T) {
	var text bytes.Buffer
	now := time.Unix(1000, 0)
	c := transferLog{now: func() time.Time { return now }, log: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}))}
	rec := &ledger.Source{State: transfer.Accepted}
	rec.Progress.Job = "nightly"
	to := func(s transfer.State, reason *transfer.Error) {
		before, epoch := rec.State, rec.Epoch
		rec.State, rec.Progress.State, rec.Progress.Reason = s, s, reason
		if s == transfer.Running {
			rec.Epoch, rec.Progress.Lane = rec.Epoch+1, transfer.LaneDirect
		}
		c.moved(before, epoch, rec)
	}
	said := func(want ...string) {
		t.Helper()
		got := strings.Split(strings.TrimSpace(text.String()), "\n")
		text.Reset()
		if len(want) == 0 && got[0] == "" {
			return
		}
		if len(got) != len(want) {
			t.Fatalf("%q, want %q", got, want)
		}
		for n := range want {
			if got[n] != want[n] {
				t.Errorf("%s\nwant\n%s", got[n], want[n])
			}
		}
	}
	away := transfer.Errorf(transfer.KindUnreachable, "BETA is not reachable")
	full := transfer.Errorf(transfer.KindNoSpace, "no space is left")
	to(transfer.Negotiating, nil)
	said()
	to(transfer.Waiting, away)
	said(`level=INFO msg="transfer waits" error="BETA is not reachable"`)
	for range 1000 {
		now = now.Add(2 * time.Second)
		to(transfer.Negotiating, nil)
		to(transfer.Waiting, away)
	}
	said()
	now = now.Add(waitAgain)
	to(transfer.Negotiating, nil)
	to(transfer.Waiting, away)
	said(`level=INFO msg="transfer waits" error="BETA is not reachable" waits=1000`)
	to(transfer.Negotiating, nil)
	to(transfer.Running, nil)
	said(`level=INFO msg="transfer started" job=nightly lane=direct chunk=0`)
	to(transfer.Negotiating, nil)
	to(transfer.Running, nil)
	said()
	to(transfer.Waiting, full)
	to(transfer.Negotiating, nil)
	to(transfer.Waiting, full)
	to(transfer.Negotiating, nil)
	to(transfer.Running, nil)
	said(`level=INFO msg="transfer waits" error="no space is left"`, `level=INFO msg="transfer continues" lane=direct resumes=0 waits=1`)
	for range 100 { // epochs without progress, for two reasons by turns
		to(transfer.Waiting, full)
		to(transfer.Negotiating, nil)
		to(transfer.Running, nil)
		to(transfer.Waiting, away)
		to(transfer.Negotiating, nil)
		to(transfer.Running, nil)
	}
	said()
	p := &rec.Progress
	p.Started, p.Ended = now, now.Add(90*time.Second)
	p.Files, p.FilesFailed, p.Bytes, p.Resumes, p.BytesResent, p.Code = 7, 5, 1000, 2, 30, 20
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		p.Failures = append(p.Failures, transfer.Outcome{Err: transfer.Errorf(transfer.KindExists, "%s exists already", name).WithHint("remove it")})
	}
	to(transfer.Partial, nil)
	said(`level=WARN msg="transfer ended" state=partial code=20 job=nightly files=7 failed=5 bytes=1000 seconds=90 lane=direct resumes=2 resent=30 reasons="[a exists already b exists already c exists already]"`)
}
