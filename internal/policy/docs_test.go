package policy

import (
	"os"
	"strings"
	"testing"
)

// The rules that the documentation shows can be applied.
func TestDocumentedRules(t *testing.T) {
	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rules, ok := strings.Cut(string(text), "```\n{\"v\": 1")
	rules, _, closed := strings.Cut(rules, "```")
	if !ok || !closed {
		t.Fatal("docs/security.md shows no rules")
	}
	if _, err := Parse([]byte(`{"v": 1` + rules)); err != nil {
		t.Error(err)
	}
	if _, err := Parse(Default); err != nil {
		t.Error(err)
	}
}
