package authority

import (
	"testing"
	"time"

	"ferry/internal/qmgr/roles"
	"ferry/internal/security/identity"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
)

// Only the token of an agent's name itself is that of an enrolled agent. A subject with other letters reaches no agent, so
// the gate refuses its messages.
func TestEnrolledAgentsHaveOneToken(t *testing.T) {
	s := newStage(t)
	for _, name := range []string{"ALPHA", "A.B", "GONE"} {
		s.enrolled(s.name(identity.Agent, name), roles.Agent)
	}
	s.enrolled(s.name(identity.User, "eve"), roles.User)
	must(t, s.Revoke(s.name(identity.Agent, "GONE"), ""))
	for token, want := range map[string]bool{"ALPHA": true, "A%2EB": true, "alpha": false, "Alpha": false, "%41LPHA": false, "A.B": false, "a%2eb": false, "A%2eB": false,
		"GONE": false, "BETA": false, "eve": false, "EVE": false, "": false, "%": false} {
		if got := Enrolled(s.Authority, token); got != want {
			t.Errorf("%q is the token of an enrolled agent: %t", token, got)
		}
	}
}

// A signed question is obeyed once, over restarts, for as long as its signature is valid. Its author must have the
// present keys of its name.
func TestASignedQuestionIsObeyedOnce(t *testing.T) {
	s := newStage(t)
	ann := s.name(identity.User, "ann")
	s.enrolled(ann, roles.Admin)
	key := s.state.names[ann.String()].keys.TLS
	author := func() *word.Author {
		return &word.Author{Statement: word.Statement{Kind: word.Authority, By: ann, To: s.name(identity.Authority, ""), ID: transfer.NewID(s.now)}, Key: key}
	}
	first, second := author(), author()
	must(t, CheckAuthor(s.Authority, first))
	must(t, RecordQuestion(s.Authority, first, "policy"))
	must(t, RecordQuestion(s.Authority, second, "policy"))
	again := func(after string) {
		t.Helper()
		if err := RecordQuestion(s.Authority, first, "policy"); transfer.KindOf(err) != transfer.KindConflict {
			t.Errorf("%s a repeat is answered %v", after, err)
		}
	}
	again("at once")
	s.again()
	again("after a restart")
	s.now = s.now.Add(3 * time.Hour)
	must(t, RecordQuestion(s.Authority, author(), "policy"))
	again("after three hours")
	s.now = s.now.Add(2 * time.Hour)
	must(t, RecordQuestion(s.Authority, author(), "policy"))
	if n := len(s.state.asked); n > 2 {
		t.Errorf("%d questions are remembered", n)
	}

	s.enrolled(ann, roles.Admin) // with new keys
	if err := CheckAuthor(s.Authority, first); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("former keys speak: %v", err)
	}
	key = s.state.names[ann.String()].keys.TLS
	must(t, CheckAuthor(s.Authority, author()))
	must(t, s.Revoke(ann, ""))
	if err := CheckAuthor(s.Authority, author()); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("a revoked name speaks: %v", err)
	}
}
