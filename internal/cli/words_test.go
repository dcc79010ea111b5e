package cli

import (
	"regexp"
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// `ferry help words` explains each state of a transfer and of an agent, and the other terms of the screens.
func TestWordsOfTheScreens(t *testing.T) {
	terms := []string{wire.AgentReady, wire.AgentActive, wire.AgentDegraded, wire.AgentStopping, wire.AgentStopped, wire.AgentUnreachable, wire.AgentStandby,
		"recovering", "away", "dead letter", "letter", "exit", "ACK", "gives up", "bindings"}
	for _, s := range transfer.States() {
		terms = append(terms, string(s))
	}
	text := newWords().Long
	for _, term := range terms {
		if !regexp.MustCompile(`\b` + term + `\b`).MatchString(text) {
			t.Errorf("`ferry help words` does not explain %q", term)
		}
	}
}
