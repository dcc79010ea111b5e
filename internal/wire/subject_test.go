package wire_test

import (
	"strings"
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// FuzzSubject: whatever a name or a principal is, its subject has its tokens in
// their places and gives them back, in capitals; whatever a subject is, to read it does no
// harm.
func FuzzSubject(f *testing.F) {
	for _, s := range []string{"", "ALPHA", "a.b", "a b", "*", ">", "user@host", "x%2Ey", "é", "coordination", "ferry.data.A1.B1.01890a5d-ac96-774b-bcce-b302099a8057",
		"ferry.data.A1.%2.x", "....", "ferry.reply.A1.coordination"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if from, err := wire.DataSource(s); err == nil {
			if again, err := wire.AgentOf(from.Token()); err != nil || again != from {
				t.Fatalf("%q is from %q", s, from)
			}
		}
		if last := wire.LastToken(s); strings.Contains(last, ".") || !strings.HasSuffix(s, last) {
			t.Fatalf("the last token of %q is %q", s, last)
		}
		for _, subject := range []string{wire.CommandSubject("ALPHA", s), wire.ControlSubject("ALPHA", s)} {
			p, err := transfer.ParsePath(wire.LastToken(subject))
			if err != nil || string(p) != strings.ToUpper(s) || strings.Count(subject, ".") != 3 || strings.ContainsAny(subject, "*> \t\r\n") {
				t.Fatalf("the principal %q is in %q as %q, %v", s, subject, string(p), err)
			}
		}
		name, err := transfer.ParseAgentName(s)
		if err != nil {
			return
		}
		if from, err := wire.DataSource(wire.DataSubject("ALPHA", name, sampleID)); err != nil || from != name {
			t.Fatalf("%q sends as %q, %v", name, from, err)
		}
		if from, err := wire.AgentOf(wire.LastToken(wire.ReplySubject("ALPHA", name))); err != nil || from != name {
			t.Fatalf("%q replies as %q, %v", name, from, err)
		}
		if wire.AskSubject(name) == wire.AskCoordination {
			t.Fatalf("%q is taken for coordination", name)
		}
	})
}

// FuzzPeekHeader: it and ParseChunk see one header, and nothing is read that is
// not there.
func FuzzPeekHeader(f *testing.F) {
	for _, m := range chunks() {
		f.Add(m)
	}
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, raw []byte) {
		h, err := wire.PeekHeader(raw)
		whole, _, perr := wire.ParseChunk(raw)
		if perr == nil && (err != nil || h != whole) {
			t.Fatalf("%x: %+v and %+v, %v", raw, h, whole, err)
		}
	})
}
