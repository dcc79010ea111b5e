package cli

import (
	"regexp"
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// `ferry help words` explains each state of a transfer and of an agent, and the other terms of the screens. A term has a
// line of its own, or is named in the line of a related one.
func TestWordsOfTheScreens(t *testing.T) {
	terms := []string{wire.AgentReady, wire.AgentActive, wire.AgentDegraded, wire.AgentStopping, wire.AgentStopped, wire.AgentUnreachable, wire.AgentStandby,
		"recovering", "away", "dead letter", "exit", "ACK", "bindings"}
	for _, s := range transfer.States() {
		if s != transfer.Settling {
			terms = append(terms, string(s))
		}
	}
	lines := map[string]string{"letter": "dead letter", "gives up": "waiting", string(transfer.Settling): "finishing"}
	for _, term := range terms {
		lines[term] = ""
	}
	text := newWords().Long
	for term, of := range lines {
		line := `(?m)^  ` + term + ` `
		if of != "" {
			line = `(?m)^  ` + of + ` (.*\n   )*.*\b` + term + `\b`
		}
		if !regexp.MustCompile(line).MatchString(text) {
			t.Errorf("`ferry help words` does not explain %q", term)
		}
	}
}
