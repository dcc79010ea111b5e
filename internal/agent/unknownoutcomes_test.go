package agent

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
)

// Outcomes of unknown transfers are put on record at once, and then once an hour at most. The memory for their speakers
// is bounded.
func TestUnknownOutcomesOnceAnHour(t *testing.T) {
	s := unknownOutcomes{of: map[transfer.AgentName]int64{}}
	now := time.Unix(1_800_000_000, 0)
	if s.due(now) {
		t.Error("nothing has come, and is due")
	}
	s.count("BETA", 3)
	s.count("ALPHA", 1)
	s.count("BETA", 4)
	if !s.due(now) || !strings.HasSuffix(s.String(), ": 1 from ALPHA, 7 from BETA") {
		t.Errorf("%v: %s", s.due(now), &s)
	}
	s.told(now)
	for n := range 1000 {
		s.count(transfer.AgentName(fmt.Sprintf("A%d", n)), 1)
	}
	if s.due(now.Add(unknownOutcomesEvery-1)) || !s.due(now.Add(unknownOutcomesEvery)) || !s.due(now.Add(-2*unknownOutcomesEvery)) {
		t.Error("there is more than one record an hour, or none")
	}
	if len(s.of) > maxUnknownOutcomes+1 || !strings.HasSuffix(s.String(), ", 992 from other agents") {
		t.Errorf("%d speakers: %s", len(s.of), &s)
	}
}
