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
	"ferry/internal/wire"
)

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
