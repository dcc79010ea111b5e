package coordination

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/coordination/status"
	"ferry/internal/mft/translate"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The documents of transfers have no facts of agents that were removed from the picture.
func TestLogbookFollowsThePicture(t *testing.T) {
	s := &Service{picture: status.New(clock.System), logbook: translate.NewLogbook()}
	for agent, manager := range map[transfer.AgentName]string{"ALPHA": "QM1", "BETA": "QM2"} {
		b := &wire.Beat{Agent: agent, Manager: manager, Status: wire.AgentReady}
		if err := s.beat(b); err != nil {
			t.Fatal(err)
		}
		s.logbook.Beat(b)
	}
	s.picture.Remove("ALPHA", time.Unix(1000, 0))
	s.count(&agentStateLogger{log: slog.New(slog.DiscardHandler)})
	docs := s.logbook.Logs(&audit.Record{Agent: "ALPHA", Role: audit.RoleSource, Event: audit.Started, Transfer: transfer.ID{7}, Time: time.Unix(1000, 0), Source: "ALPHA", Destination: "BETA"})
	if len(docs) != 1 {
		t.Fatalf("%d documents", len(docs))
	}
	if text := string(docs[0].XML()); strings.Contains(text, "QM1") || !strings.Contains(text, "QM2") {
		t.Errorf("the facts of BETA alone must be in\n%s", text)
	}
}
