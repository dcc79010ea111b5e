package link

import (
	"testing"
	"time"

	"ferry/internal/qmgr/streams"
)

// While bytes come, the wait for an answer lasts as long as the answer needs on the slowest link. Without bytes it ends
// after ten seconds.
func TestPatienceFollowsBytes(t *testing.T) {
	began := time.Unix(1000, 0)
	now := began
	slow := newAnswerWait(streams.MaxStoredMessage, Traffic{}, now)
	for k := range 40 { // a byte every second, of a message that needs 33 s
		if now = now.Add(time.Second); slow.over(Traffic{In: int64(k + 1)}, now) {
			t.Fatalf("the answer is given up after %s, and bytes come", now.Sub(began))
		}
	}
	slow.answer(Traffic{In: 41}, now)
	if slow.over(Traffic{In: 41}, now.Add(quietMost)) || !slow.over(Traffic{In: 41}, now.Add(quietMost+1)) {
		t.Errorf("silence does not end the patience after %s", quietMost)
	}

	other, end := newAnswerWait(4096, Traffic{}, began), time.Duration(0)
	for k := 1; !other.over(Traffic{In: int64(k)}, began.Add(end)); k++ { // bytes come, and no answer
		end += 100 * time.Millisecond
	}
	if end < quietMost || end > quietMost+time.Second {
		t.Errorf("an answer of 4 KiB that was lost is given up after %s", end)
	}
}

// A receipt is not overdue while the queue manager has not got the message, however long that lasts.
func TestAReceiptIsOverdueFromWhenTheMessageIsThere(t *testing.T) {
	var l trip
	old := l.Begin()
	sent := time.Now()
	l.End(old, true)
	if d := l.HeldFor(sent, sent.Add(time.Hour)); d != 0 {
		t.Errorf("a round trip that began before the message shows that the message was there for %s", d)
	}
	began := time.Now()
	l.End(began, false)
	if d := l.HeldFor(sent, sent.Add(time.Hour)); d != 0 {
		t.Errorf("a round trip without an answer shows that the message was there for %s", d)
	}
	began = time.Now()
	l.End(began, true)
	if d := l.HeldFor(sent, time.Now().Add(time.Minute)); d < time.Minute || d > time.Hour {
		t.Errorf("the message was there for %s", d)
	}
}
