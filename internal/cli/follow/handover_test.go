package follow

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"ferry/internal/cli/session"
	"ferry/internal/client"
	"ferry/internal/transfer"
)

// said is the output of a command, and its exit code.
type said struct {
	out, err string
	code     int
}

// hand runs f with a request on its way, and gives the output of the command.
func hand(f func(h *Handover) error) said {
	var out, notes bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	cmd.SetErr(&notes)
	h := &Handover{Cmd: cmd, Noun: "job", Agent: "ALPHA", ID: transfer.ID{1, 6: 0x70, 8: 0x80}}
	code := session.ExitCode(f(h), &notes)
	return said{strings.TrimSpace(out.String()), notes.String(), code}
}

// stalled is a handover that has come so far.
func stalled(h client.Handover) error {
	return &client.HandoverError{At: h, Name: "x", Agent: "ALPHA", Err: errors.New("the time is over")}
}

// A command that does not wait has three answers: queued, where the queue manager has stored the request; not stored; and that it
// may have been stored, with the ID, or cancelled where that could be done.
func TestDetachSaysHowFarARequestHasCome(t *testing.T) {
	id := transfer.ID{1, 6: 0x70, 8: 0x80}.String()
	undone, failed := func(context.Context) error { return nil }, func(context.Context) error { return errors.New("away") }
	for _, c := range []struct {
		name string
		at   client.Handover
		undo func(context.Context) error
		want said
	}{
		{"stored", client.Stored, undone, said{id, "queued: agent ALPHA has not taken the job yet", transfer.CodeQueued}},
		{"not sent", client.NotSent, undone, said{"", "job " + id + " was not sent", transfer.CodeNoManager}},
		{"refused", client.Refused, undone, said{"", "has not stored job " + id, transfer.CodeNoManager}},
		{"not acknowledged", client.Unacknowledged, nil, said{id, "job " + id + " may have been stored", transfer.CodeNoManager}},
		{"not acknowledged, and not cancelled", client.Unacknowledged, failed, said{id, "job " + id + " may have been stored", transfer.CodeNoManager}},
		{"not acknowledged, and cancelled", client.Unacknowledged, undone, said{"", "it is cancelled", transfer.CodeNoManager}},
	} {
		got := hand(func(h *Handover) error {
			h.Undo = c.undo
			return h.Detach(t.Context(), func(context.Context) (transfer.State, error) { return "", stalled(c.at) })
		})
		if got.out != c.want.out || got.code != c.want.code || !strings.Contains(got.err, c.want.err) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
	taken := hand(func(h *Handover) error {
		return h.Detach(t.Context(), func(context.Context) (transfer.State, error) { return transfer.Accepted, nil })
	})
	if taken != (said{out: id}) {
		t.Errorf("accepted: %+v", taken)
	}
}

// A command that is stopped while it waits says that the request continues only where that is so.
func TestStoppedCommandsSayHowFarARequestHasCome(t *testing.T) {
	stopped, end := context.WithCancelCause(t.Context())
	end(session.SignalError{Sig: syscall.SIGTERM})
	for _, c := range []struct {
		err  error
		says string
		code int
	}{
		{context.Canceled, " goes on;", session.CodeTerminated},
		{stalled(client.Stored), "is queued and goes on when agent ALPHA takes it", session.CodeTerminated},
		{stalled(client.NotSent), "was not sent", transfer.CodeNoManager},
		{stalled(client.Refused), "has not stored", transfer.CodeNoManager},
		{stalled(client.Unacknowledged), "may have been stored", transfer.CodeNoManager},
	} {
		got := hand(func(h *Handover) error { return h.Interrupted(stopped, c.err, func() error { return nil }) })
		if got.code != c.code || !strings.Contains(got.err, c.says) || c.code != session.CodeTerminated && strings.Contains(got.err, "goes on") {
			t.Errorf("%v: %+v, want %d %q", c.err, got, c.code, c.says)
		}
	}
}
