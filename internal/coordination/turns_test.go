package coordination

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/sys/quiet"
	"ferry/internal/sys/turns"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The pipes of a user count as one asker, and as another one than the pipes of other users.
func TestPipesOfAUserAreOneAsker(t *testing.T) {
	w, quiet := turns.New[qmgr.Message](), quiet.New(slog.New(slog.DiscardHandler), time.Now)
	pipe := func(user string, n int) string {
		return string(transfer.StreamAgentOf("ferry://n/user/"+user, transfer.ID{14: byte(n >> 8), 15: byte(n)}))
	}
	ask := func(as string) {
		queueQuestion(w, quiet, qmgr.Message{Subject: wire.AskSubject(wire.Coordination, as)})
	}
	for n := range 10_000 {
		ask(pipe("mallory", n))
	}
	if n := w.Len(); n > 3000 {
		t.Errorf("%d questions of one user's pipes wait", n)
	}
	ask(pipe("ann", 0))
	ask("ann")
	w.Take() // one of mallory's
	for _, want := range []string{pipe("ann", 0), "ann"} {
		if m, ok := w.Take(); !ok || wire.LastToken(m.Subject) != want {
			t.Errorf("the question of %s comes, not that of %s", wire.LastToken(m.Subject), want)
		}
	}
	for _, name := range []string{"ALPHA", "ann", "0123456789", string(transfer.StreamAgent(transfer.ID{15: 1}))} {
		if got := askerOf(name); got != name {
			t.Errorf("%s counts as %s", name, got)
		}
	}
}

// A question waits for one question of each other asker at most, and one asker has some thousand waiting at most.
func TestQuestionsTakeTurns(t *testing.T) {
	log := &bytes.Buffer{}
	w, quiet := turns.New[qmgr.Message](), quiet.New(slog.New(slog.NewTextHandler(log, nil)), time.Now)
	ask := func(as string) {
		queueQuestion(w, quiet, qmgr.Message{Subject: wire.AskSubject(wire.Coordination, as), Data: []byte("{}")})
	}
	for range 10_000 {
		ask("mallory")
	}
	ask("ann")
	if n := w.Len(); n < 1000 || n > 3000 || !strings.Contains(log.String(), "too many questions wait") {
		t.Errorf("%d questions wait, and the log has %s", n, log)
	}
	ctx, cancel := context.WithCancel(t.Context())
	answered := 0
	answerInTurns(ctx, w, func(m qmgr.Message) {
		answered++
		if wire.LastToken(m.Subject) == "ann" || w.Len() == 0 {
			cancel()
		}
	})
	if answered > 2 {
		t.Errorf("a question is number %d to be answered", answered)
	}
}
