package qm

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A message that was put without an answer may be in the queue. One that was refused is not.
func TestPutWithoutAnAnswer(t *testing.T) {
	for _, c := range []struct {
		err    error
		unsure bool
	}{
		{transfer.Errorf(transfer.KindTimeout, "coordination has not answered within 5s"), true},
		{transfer.Errorf(transfer.KindNoManager, "the connection is lost"), true},
		{transfer.Errorf(transfer.KindUnreachable, "coordination does not answer"), false},
		{transfer.Errorf(transfer.KindNoSpace, "the queue Q is full"), false},
		{transfer.Errorf(transfer.KindDenied, "bob may not operate"), false},
	} {
		err := unanswered("Q", c.err)
		unsure := strings.Contains(err.Error(), "may have been stored")
		if unsure != c.unsure || unsure && transfer.KindOf(err).Code() != transfer.CodeNoManager || !errors.Is(err, c.err) {
			t.Errorf("%v becomes %v, code %d", c.err, err, transfer.KindOf(err).Code())
		}
	}
	if err := unanswered("Q", nil); err != nil {
		t.Error(err)
	}
}

// A message that standard output does not take is an error, as text and as JSON. So the caller leaves it in the queue.
func TestWriteMessageToAFullOutput(t *testing.T) {
	ans := &wire.QueueAnswer{Message: &wire.QueueMessage{Number: 1}, Data: []byte("data")}
	for _, asJSON := range []bool{false, true} {
		err := writeMessage(full{}, asJSON, "Q", ans)
		if transfer.KindOf(err) != transfer.KindUnwritable || !errors.Is(err, errFull) {
			t.Errorf("JSON %v: a full output gives %v", asJSON, err)
		}
		var out strings.Builder
		if err := writeMessage(&out, asJSON, "Q", ans); err != nil || out.Len() == 0 {
			t.Errorf("JSON %v: %q, %v", asJSON, out.String(), err)
		}
	}
}

var errFull = errors.New("no space left on device")

// full is an output without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// The time in the mark of a queue is shown as a time.
func TestMadeAt(t *testing.T) {
	at := time.Date(2026, 11, 3, 8, 30, 0, 5, time.UTC)
	if got, want := madeAt(strconv.FormatInt(at.UnixNano(), 36)), at.Local().Format("2006-01-02 15:04:05"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := madeAt("not a mark"); got != "not a mark" {
		t.Errorf("%q", got)
	}
}
