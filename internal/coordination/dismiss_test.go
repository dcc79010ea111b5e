package coordination

import (
	"io"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/audit"
	"ferry/internal/clock"
	"ferry/internal/status"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The agent of a command that was killed is removed, on record, once such a command would
// have given up; other agents stay.
func TestAgentsOfCommandsAreDismissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, err := audit.OpenLog(t.TempDir(), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer log.Close()
		s := &Service{cfg: Config{Log: slog.New(slog.NewTextHandler(io.Discard, nil))}, log: log, picture: status.New(clock.System), learned: make(chan struct{}, 1)}
		killed, lives, earlier := transfer.StreamAgent(transfer.ID{15: 1}), transfer.StreamAgent(transfer.ID{15: 2}), transfer.StreamAgent(transfer.ID{15: 3})
		s.picture.Know(earlier) // from the registry
		for _, name := range []transfer.AgentName{killed, lives, "ALPHA"} {
			if _, err := s.picture.Beat(&wire.Beat{Agent: name, Status: wire.AgentActive}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(dismissAfter)
		s.dismiss()
		if names := s.picture.Names(); len(names) != 4 {
			t.Errorf("after %s there are %v", dismissAfter, names)
		}
		if _, err := s.picture.Beat(&wire.Beat{Agent: lives, Status: wire.AgentActive}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		s.dismiss()
		s.dismiss()
		if names := s.picture.Names(); !slices.Equal(names, []transfer.AgentName{"ALPHA", lives}) {
			t.Errorf("later there are %v", names)
		}

		var removed []transfer.AgentName
		if err := log.Scan(0, func(_ int64, _ []byte, r *audit.Record) error {
			if r.Event == audit.Removed && r.Principal == string(audit.Coordination) {
				removed = append(removed, r.Source)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(removed, []transfer.AgentName{killed, earlier}) {
			t.Errorf("on record are %v", removed)
		}
	})
}
