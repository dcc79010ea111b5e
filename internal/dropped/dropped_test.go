package dropped

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A line for each speaker and reason, then one a minute, whoever speaks.
func TestALineAMinute(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1_000_000, 0)
	c := New(slog.New(slog.NewTextHandler(&out, nil)), func() time.Time { return now })
	lines := func() int { return strings.Count(out.String(), "\n") }
	for range 1000 {
		c.Note("MALLORY", "out of its range", "field", "credit")
		c.Note("MALLORY", "another speaks")
	}
	if lines() != 2 {
		t.Fatalf("%d lines:\n%s", lines(), &out)
	}
	now = now.Add(every)
	c.Note("MALLORY", "out of its range")
	if lines() != 3 || !strings.Contains(out.String(), `"more since the last line"=999`) {
		t.Fatalf("%d lines:\n%s", lines(), &out)
	}
	for n := range 100_000 {
		c.Note(fmt.Sprint("M", n), "out of its range")
	}
	if lines() > 3+speakers+1 || len(c.seen) > speakers+1 {
		t.Fatalf("%d lines for 100,000 names, %d remembered", lines(), len(c.seen))
	}
	now = now.Add(2 * every)
	c.Note("NEW", "out of its range")
	if !strings.Contains(out.String(), "from=NEW") || c.Total() != 102_002 {
		t.Fatalf("those who are quiet take the place of those who speak; %d in all", c.Total())
	}
}
