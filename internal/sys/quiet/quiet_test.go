package quiet

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestLogOncePerKind(t *testing.T) {
	var out bytes.Buffer
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	l := New(slog.New(slog.NewTextHandler(&out, nil)), func() time.Time { return now })
	lines := func() int { return strings.Count(out.String(), "\n") }
	for range 1000 {
		l.Warn("a message is refused", "error", "x")
	}
	l.Error("another kind")
	if lines() != 2 {
		t.Fatalf("1,000 lines of one kind and one of another make %d lines:\n%s", lines(), &out)
	}
	now = now.Add(Every - 1)
	l.Warn("a message is refused")
	if lines() != 2 {
		t.Fatalf("a line passes within a minute:\n%s", &out)
	}
	now = now.Add(1)
	l.Warn("a message is refused")
	if lines() != 3 || !strings.Contains(out.String(), "left_out=1000") {
		t.Fatalf("after a minute, the next line has no number of lines left out:\n%s", &out)
	}
	now = now.Add(-24 * time.Hour)
	l.Warn("a message is refused")
	if lines() != 4 {
		t.Fatalf("a clock that was set back silences the log:\n%s", &out)
	}
	l.Log(slog.LevelDebug, "not enabled")
	if lines() != 4 {
		t.Fatalf("a level that is not enabled is written:\n%s", &out)
	}
}

func TestLogKindsAreBounded(t *testing.T) {
	var out bytes.Buffer
	l := New(slog.New(slog.NewTextHandler(&out, nil)), nil)
	for i := range 10 * maxKinds {
		l.Warn(fmt.Sprint("kind ", i))
	}
	if n := len(l.kinds); n > maxKinds+1 {
		t.Errorf("%d kinds are remembered; the limit is %d", n, maxKinds)
	}
	if n := strings.Count(out.String(), "\n"); n > maxKinds+1 {
		t.Errorf("%d lines are written; the limit is %d", n, maxKinds)
	}
}

// A speaker has lines of its own, and a quiet one makes room for the next.
func TestLogDropped(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1_000_000, 0)
	l := New(slog.New(slog.NewTextHandler(&out, nil)), func() time.Time { return now })
	lines := func() int { return strings.Count(out.String(), "\n") }
	for range 1000 {
		l.Dropped("MALLORY", "out of its range", "field", "credit")
		l.Dropped("MALLORY", "another speaks")
		l.Dropped("TRUDY", "another speaks")
	}
	if lines() != 3 || !strings.Contains(out.String(), "from=MALLORY field=credit") {
		t.Fatalf("%d lines:\n%s", lines(), &out)
	}
	now = now.Add(Every)
	l.Dropped("MALLORY", "out of its range")
	if lines() != 4 || !strings.Contains(out.String(), "left_out=999") {
		t.Fatalf("%d lines:\n%s", lines(), &out)
	}
	for n := range 100_000 {
		l.Dropped(fmt.Sprint("M", n), "out of its range")
	}
	if lines() > 4+maxKinds+1 || len(l.kinds) > maxKinds+1 {
		t.Fatalf("%d lines for 100,000 names, %d remembered", lines(), len(l.kinds))
	}
	now = now.Add(2 * Every)
	l.Dropped("NEW", "out of its range")
	if !strings.Contains(out.String(), "from=NEW") {
		t.Fatal("quiet speakers keep the room of active ones")
	}
}

func TestGateHeld(t *testing.T) {
	var g Gate
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if _, ok := g.Held(now); ok {
		t.Error("nothing was held back, and it is told of")
	}
	if held, ok := g.Pass(now); held != 0 || !ok {
		t.Error("the first does not pass")
	}
	for range 3 {
		if _, ok := g.Pass(now); ok {
			t.Error("the next passes at once")
		}
	}
	if _, ok := g.Held(now.Add(Every - 1)); ok {
		t.Error("events that were held back are reported too soon")
	}
	if held, ok := g.Held(now.Add(Every)); held != 3 || !ok {
		t.Errorf("3 were held back, and %d are told of (%v)", held, ok)
	}
	if _, ok := g.Held(now.Add(2 * Every)); ok {
		t.Error("it is told of twice")
	}
}
