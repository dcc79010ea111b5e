package qmgr

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr/streams"
)

func TestWitness(t *testing.T) {
	w := newStreamHistory()
	t0 := time.Unix(1, 0)
	check := func(what, got, want string) {
		t.Helper()
		if !strings.Contains(got, want) || (got != "") != (want != "") {
			t.Errorf("%s: it says %q; want %q", what, got, want)
		}
	}
	s := string(streams.StreamCommand)
	check("the first look", w.compare(s, w.before(s), streams.Mark{Created: t0, Last: 5}), "")
	before := w.before(s)
	w.saw(s, 6) // stored while the stream was asked
	check("a message stored meanwhile", w.compare(s, before, streams.Mark{Created: t0, Last: 5}), "")
	check("a message less", w.compare(s, w.before(s), streams.Mark{Created: t0, Last: 5}), "from message 6 to message 5")
	check("the same again", w.compare(s, w.before(s), streams.Mark{Created: t0, Last: 5}), "")
	check("made anew", w.compare(s, w.before(s), streams.Mark{Created: t0.Add(1), Last: 9}), "made anew")

	check("the first attach", w.attach(s, "d", 0), "")
	for i := range uint64(10) {
		check("a delivery", w.delivered(s, "d", i, i), "")
		w.acked(s, "d", i)
	}
	check("the next attach", w.attach(s, "d", 9+maxSkipped), "")
	check("an attach ahead", w.attach(s, "d", 9+2*maxSkipped+1), "17 messages ahead")
	for i := range uint64(maxRedelivered) {
		check("an acknowledged message", w.delivered(s, "d", i, 100+i), "")
	}
	check("one too many", w.delivered(s, "d", 8, 110), "come again")
	check("and one more", w.delivered(s, "d", 9, 111), "")
	for i := range uint64(2 * rememberAcked) {
		w.acked(s, "d", 1000+i)
	}
	if r := w.readers[s+" d"]; len(r.acked) != rememberAcked || len(r.order) != rememberAcked {
		t.Errorf("%d and %d acknowledgements are remembered", len(r.acked), len(r.order))
	}
}

func TestFindingsFade(t *testing.T) {
	var f streams.Findings
	at := time.Unix(1000, 0)
	for i := range streams.MaxFindings + 2 {
		if !f.Add(fmt.Sprint(i), at) {
			t.Errorf("finding %d is not news", i)
		}
	}
	if f.Add("5", at) || f.Text(at) != "2; 3; 4; 5" {
		t.Errorf("the findings are %s", f.Text(at))
	}
	if later := at.Add(streams.DegradedFor); f.Text(later) != "" || !f.Add("5", later) {
		t.Errorf("after an hour the findings are %s", f.Text(later))
	}
}
