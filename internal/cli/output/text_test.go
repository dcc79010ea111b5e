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

// A name on a screen stays on its line, and its characters stay in their order.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{"a\nb\r\x1b[31m\u009b\x7f": "a?b??[31m??", "invoice\u202efdp.exe": "invoice?fdp.exe", "\u2066a\u2069\u2028b": "?a??b",
		"a\u200e1\u200f2\u061c3\u2029\u202a\u202b\u202c\u202d\u2067\u2068": "a?1?2?3???????", "\u06451\u200d\u20102": "\u06451\u200d\u20102", "\u05e9\u05dc\u05d5\u05dd é 漢": "שלום é 漢"} {
		if got := Printable(in); got != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
}
