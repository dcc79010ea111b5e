package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	names := []string{"send", "transfer", "audit", "agent", "if-exists", "ls", "up"}
	for word, want := range map[string]string{"sned": "send", "Tranfser": "transfer", "agnet": "agent", "if_exist": "if-exists", "l": "ls", "pu": "up",
		"xyz": "", "": "", "frobnicate": "", "IF_EXISTS": "if-exists"} {
		if got := strings.Join(Nearest(word, 1, names), " "); got != want {
			t.Errorf("%q is near %q, want %q", word, got, want)
		}
	}
	if got := Nearest("abc", 2, []string{"abd", "abc", "ab"}); strings.Join(got, " ") != "abc abd" {
		t.Errorf("%q", got)
	}
}
