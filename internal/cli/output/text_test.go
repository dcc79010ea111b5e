package output

import (
	"testing"

	"ferry/internal/transfer"
)

// A pipe is shown by its data: its name means nothing to a person.
func TestEnds(t *testing.T) {
	pipe := transfer.AgentName("PIPE-0123456789AB")
	if !pipe.Stream() {
		t.Fatalf("%s is no pipe", pipe)
	}
	for _, c := range []struct {
		source, dest transfer.AgentName
		from, to     string
	}{{"ALPHA", "BETA", "ALPHA", "BETA"}, {"ALPHA", pipe, "ALPHA", "(stdout)"}, {pipe, "BETA", "(stdin)", "BETA"}} {
		if from, to := Ends(&transfer.Progress{Source: c.source, Destination: c.dest}); from != c.from || to != c.to {
			t.Errorf("%s to %s: %s, %s", c.source, c.dest, from, to)
		}
	}
}
