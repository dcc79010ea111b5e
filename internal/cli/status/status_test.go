package status

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Transfers are in the section of their state. Only a wait for space needs a person.
func TestPlace(t *testing.T) {
	full := transfer.Errorf(transfer.KindNoSpace, "no space beneath /srv: the file needs 2.0 GiB, and 1.0 GiB are free")
	busy := transfer.Errorf(transfer.KindBusy, "the destination has no free slot")
	for _, c := range []struct {
		p    transfer.Progress
		in   int // failed, parked, waiting, running
		need bool
	}{
		{transfer.Progress{State: transfer.Failed}, 0, true},
		{transfer.Progress{State: transfer.Partial}, 0, true},
		{transfer.Progress{State: transfer.Parked}, 1, true},
		{transfer.Progress{State: transfer.Waiting, Reason: busy}, 2, false},
		{transfer.Progress{State: transfer.Waiting, Reason: full}, 2, true},
		{transfer.Progress{State: transfer.Queued}, 2, false},
		{transfer.Progress{State: transfer.Running}, 3, false},
		{transfer.Progress{State: transfer.Settling}, 3, false},
		{transfer.Progress{State: transfer.Successful}, -1, false},
		{transfer.Progress{State: transfer.Cancelled}, -1, false},
	} {
		all := []*section{{trouble: true}, {trouble: true}, {}, {}}
		place(&c.p, all[0], all[1], all[2], all[3])
		need := false
		for n, s := range all {
			if got := len(s.objects) > 0; got != (n == c.in) {
				t.Errorf("%s: section %d has it: %v", c.p.State, n, got)
			}
			need = need || s.trouble && len(s.objects) > 0
		}
		if need != c.need {
			t.Errorf("%s, %v: it needs a person: %v", c.p.State, c.p.Reason, need)
		}
	}
}

// A transfer needs its source until it has ended, and its destination while it waits. A request that its source has not
// taken needs the source alone.
func TestAgentsThatAreAwaited(t *testing.T) {
	for state, want := range map[transfer.State]map[transfer.AgentName]int{
		transfer.Queued:     {"ALPHA": 1},
		transfer.Accepted:   {"ALPHA": 1, "BETA": 1},
		transfer.Waiting:    {"ALPHA": 1, "BETA": 1},
		transfer.Running:    {"ALPHA": 1},
		transfer.Cancelling: {"ALPHA": 1},
		transfer.Parked:     nil,
		transfer.Failed:     nil,
		transfer.Successful: nil,
	} {
		waiting := &section{}
		place(&transfer.Progress{State: state, Source: "ALPHA", Destination: "BETA"}, &section{}, &section{}, waiting, &section{})
		if !maps.Equal(waiting.awaited, want) {
			t.Errorf("%s: it waits for %v, want %v", state, waiting.awaited, want)
		}
	}
	waiting := &section{}
	place(&transfer.Progress{State: transfer.Waiting, Source: "ALPHA", Destination: "ALPHA"}, &section{}, &section{}, waiting, &section{})
	if waiting.awaited["ALPHA"] != 1 {
		t.Errorf("one transfer of an agent to itself counts as %d", waiting.awaited["ALPHA"])
	}
}

// A section has a bounded number of lines, and counts the others.
func TestSectionIsBounded(t *testing.T) {
	s := &section{}
	for range most + 3 {
		s.add(nil, "x")
	}
	if len(s.rows) != most || s.more != 3 || len(s.objects) != most+3 {
		t.Errorf("%d lines, %d more, %d objects", len(s.rows), s.more, len(s.objects))
	}
}

// The command asks for transfers of the states that a section shows, and for no others: a network may have thousands that
// succeeded since yesterday.
func TestFilterOfTheScreen(t *testing.T) {
	f := filterOf(time.Date(2026, 12, 1, 9, 30, 0, 0, time.UTC))
	if want := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC); !f.Since.Equal(want) {
		t.Errorf("since %s, want %s", f.Since, want)
	}
	for _, state := range transfer.States() {
		all := []*section{{}, {}, {}, {}}
		place(&transfer.Progress{State: state}, all[0], all[1], all[2], all[3])
		shown := slices.ContainsFunc(all, func(s *section) bool { return len(s.objects) > 0 })
		if slices.Contains(f.States, state) != shown {
			t.Errorf("%s: it is shown: %v, and asked for: %v", state, shown, !shown)
		}
	}
}

// screen returns the output of sections, and the error that is the result code.
func screen(asJSON bool, all ...*section) (string, error) {
	var out bytes.Buffer
	cmd := &cobra.Command{}
	cmd.SetOut(&out)
	err := show(cmd, asJSON, all, false)
	return out.String(), err
}

// Queue managers that cannot be asked for are a line of the screen and an object of --json, and need a person.
func TestQueueManagersThatAreUnknown(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		got, err := screen(asJSON, managersOf(nil, transfer.Errorf(transfer.KindTimeout, "the queue manager does not answer")))
		var code output.Exit
		if !errors.As(err, &code) || code != codeTrouble {
			t.Errorf("json %v: the command ends with %v", asJSON, err)
		}
		if !strings.Contains(got, "the queue manager does not answer") || asJSON && !strings.Contains(got, `"message_type":"unknown","objects":"queue managers"`) {
			t.Errorf("json %v: the command prints %q", asJSON, got)
		}
		if got, err := screen(asJSON, managersOf([]streams.Member{{Name: "QM", Up: true}}, nil)); err != nil || !strings.Contains(got, "QM") {
			t.Errorf("json %v: one that is up: %q, %v", asJSON, got, err)
		}
	}
}

// Monitors that cannot be asked for are a line, too: here the network has no coordination.
func TestMonitorsThatAreUnknown(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	at, err := server.Start(t.Context(), server.Config{Name: "QM", Dir: t.TempDir(), Listen: "127.0.0.1:0", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(at.Shutdown)
	conn, err := qmgr.Connect(t.Context(), qmgr.ConnConfig{Server: at, Name: "ferry query", Self: wire.Up, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	got, err := screen(true, monitors(t.Context(), &client.Client{Conn: conn, Clock: clock.System, Timeout: time.Minute}))
	var code output.Exit
	if !errors.As(err, &code) || code != codeTrouble || !strings.Contains(got, `"objects":"monitors with a problem"`) || !strings.Contains(got, "coordination") {
		t.Errorf("the command prints %q and ends with %v", got, err)
	}
}

// A failure of the command itself never ends with the code that says that something needs a person.
func TestCodeOfAFailure(t *testing.T) {
	for _, err := range []error{errors.New("a defect"), transfer.Errorf(transfer.KindVersion, "version 2 is not spoken here"), transfer.Errorf(transfer.KindUnreachable, "coordination does not answer"),
		transfer.Errorf(transfer.KindUsage, "no network is given"), session.SignalError{Sig: os.Interrupt}} {
		var said bytes.Buffer
		cmd := &cobra.Command{}
		cmd.SetErr(&said)
		code := session.ExitCode(failure(cmd, err), &said)
		if want := session.ExitCode(err, io.Discard); code == codeTrouble || want != codeTrouble && code != want || strings.Count(said.String(), err.Error()) != 1 {
			t.Errorf("%v ends the command with %d, and %q", err, code, said.String())
		}
	}
}
