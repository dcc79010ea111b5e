package wire_test

import (
	"strings"
	"testing"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// FuzzSubject: for any name or principal, its subject has its tokens in their places and gives them back, in capitals.
// Any subject can be read without harm.
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
		if s != "" {
			user := transfer.UserToken(s)
			p, err := transfer.ParsePath(user)
			if _, isAgent := wire.AgentOf(user); err != nil || string(p) != strings.ToLower(s) || isAgent == nil {
				t.Fatalf("the user %q has the token %q, which is %q, %v", s, user, string(p), err)
			}
		}
		token := transfer.Token(s)
		for _, subject := range []string{wire.CommandSubject("ALPHA", token), wire.ControlSubject("ALPHA", token), wire.AskAgent("ALPHA", token)} {
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
		if wire.AskAgent(name, "x") == wire.AskSubject(wire.Coordination, "x") {
			t.Fatalf("%q is taken for coordination", name)
		}
	})
}

// FuzzInbox: an accepted inbox is written again as it was, and is one subject.
func FuzzInbox(f *testing.F) {
	secret := strings.Repeat("A", wire.InboxSecret)
	own := wire.InboxSubject("ALPHA", "BETA", secret, 1)
	for _, s := range []string{"", own, own + ".x", own[:len(own)-1], own[:len(own)-2], "ferry.inbox.ALPHA.BETA." + secret + ".01", "ferry.inbox.ALPHA.BETA." + secret + ".-1", "ferry.inbox.*.BETA." + secret + ".1",
		"ferry.inbox.ALPHA.>." + secret + ".1", "ferry.inbox.A B.BETA." + secret + ".1", "ferry.inbox..BETA." + secret + ".1", "ferry.inbox.ALPHA.BETA.A.1", "ferry.reply.ALPHA.BETA", "$JS.API.STREAM.DELETE.X", "_INBOX.x",
		"ferry.inbox.ALPHA.BETA." + secret + ".1\r\nPUB x", wire.InstanceSubject("ALPHA", "0123456789abcdef")} {
		f.Add(s)
	}
	if asker, answerer, ok := wire.ReadInbox(own); !ok || asker != "ALPHA" || answerer != "BETA" {
		f.Fatalf("%s is %s, %s, %v", own, asker, answerer, ok)
	}
	if !wire.Wants(wire.AskAgent("BETA", "ALPHA"), own) || wire.Wants(wire.AskAgent("BETA", "GAMMA"), own) || wire.Wants(wire.AskAgent("GAMMA", "ALPHA"), own) {
		f.Fatal("an answer is wanted where it was not asked from")
	}
	f.Fuzz(func(t *testing.T, s string) {
		asker, answerer, ok := wire.ReadInbox(s)
		if !ok {
			return
		}
		if strings.Count(s, ".") != 5 || !strings.HasPrefix(s, "ferry.inbox."+asker+"."+answerer+".") || strings.ContainsAny(s, "*> \t\r\n") || asker == "" || answerer == "" {
			t.Fatalf("%q is an inbox of %q for %q", s, asker, answerer)
		}
	})
}

// FuzzPeekHeader: it and ParseChunk read the same header, and neither reads past the end.
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

func TestReadStore(t *testing.T) {
	id := transfer.ID{1, 6: 0x70, 8: 0x80}
	at, err := wire.ReadStore(wire.StoreSubject("A.B", "BETA", id, 12))
	if err != nil || at != (wire.StoredEpoch{To: "A.B", From: "BETA", ID: id, Epoch: 12}) {
		t.Errorf("%+v, %v", at, err)
	}
	for _, bad := range []string{"", "ferry.store.A.B.x.1", "ferry.data.AA.BB." + id.String() + ".1", "ferry.store.AA.BB." + id.String() + ".01", "ferry.store.AA.BB." + id.String() + ".4294967296",
		"ferry.store.AA.*." + id.String() + ".1", "ferry.store.AA.BB." + id.String() + ".1.2"} {
		if _, err := wire.ReadStore(bad); err == nil {
			t.Errorf("%q is read", bad)
		}
	}
}

// The longest subject of stored delivery is not too long, and neither is the longest inbox.
func TestTooLongSubjects(t *testing.T) {
	longest := transfer.AgentName("A" + strings.Repeat("%", 27))
	if s := wire.StoreSubject(longest, longest, transfer.ID{}, 1<<32-1); wire.TooLong(s) {
		t.Errorf("%d bytes of %s", len(s), s)
	}
	if s := "ferry.store." + strings.Repeat("a", 256); !wire.TooLong(s) {
		t.Errorf("%s is stored", s)
	}
	if wire.TooLong("ferry.inbox."+strings.Repeat("a", 1200-12)) || !wire.TooLong("ferry.inbox."+strings.Repeat("a", 1200)) {
		t.Error("an inbox")
	}
}
