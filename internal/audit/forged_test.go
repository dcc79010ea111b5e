package audit

import (
	"encoding/json"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

// forgedOf returns a batch like batchOf, with other content under the same numbers.
func forgedOf(t testing.TB, agent transfer.AgentName, incarnation, floor, from, to uint64) Batch {
	b := batchOf(t, agent, incarnation, floor, from, to)
	for i := range b.Records {
		r := recordOf(agent, incarnation, from+uint64(i))
		r.Text = "forged"
		b.Records[i] = encoded(t, r)
	}
	return b
}

// kept returns the numbers of an agent's own records in the log, in the order of the log.
func kept(t testing.TB, l *Log, agent transfer.AgentName, incarnation uint64) (own []uint64) {
	t.Helper()
	if err := l.Scan(0, func(_ int64, raw []byte, r *Record) error {
		if r.Agent == agent && string(raw) == string(encoded(t, recordOf(agent, incarnation, r.N))) {
			own = append(own, r.N)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return own
}

// unsound fails unless Verify finds a problem: in the log as it is, and after a start with the state and without it.
func unsound(t *testing.T, l *Log, words ...string) *Log {
	t.Helper()
	for _, with := range []string{"as it is", "after a start", "after a start without the state"} {
		if with != "as it is" {
			closeLog(t, l)
			if with != "after a start" {
				remove(t, l.files.dir, stateName)
			}
			l = open(t, l.files.dir)
		}
		rep, err := l.Verify(t.Context(), nil)
		if err != nil || rep.Found == 0 {
			t.Fatalf("%s: Verify finds nothing (%v)", with, err)
		}
		text := string(mustJSON(t, rep.Problems))
		for _, w := range words {
			if !strings.Contains(text, w) {
				t.Errorf("%s: Verify does not say %q: %s", with, w, text)
			}
		}
	}
	return l
}

func mustJSON(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A batch with a false floor opens a gap. The agent's own records are appended after it, and Verify names the missing
// ones until they arrive.
func TestFloorIsNotBelieved(t *testing.T) {
	l := open(t, t.TempDir())
	appendOK(t, l, batchOf(t, "A1", 1, 1, 1, 5))
	for _, floor := range []uint64{0, MaxNumber + 1, 1 << 60, 1<<64 - 1} {
		if _, err := l.Append(Batch{V: 1, Agent: "A1", Incarnation: FormatIncarnation(1), Floor: floor}); transfer.KindOf(err) != transfer.KindUsage {
			t.Errorf("floor %d: %v", floor, err)
		}
	}
	appendOK(t, l, forgedOf(t, "A1", 1, 1<<40, 1<<40, 1<<40+3))
	l = unsound(t, l, "records 6 to 1099511627775 of A1/0000000000000001 are missing")
	if r := appendOK(t, l, batchOf(t, "A1", 1, 6, 6, 8)); r.Have != 8 {
		t.Fatalf("the agent goes on below the gap and is receipted up to %d", r.Have)
	}
	if r := appendOK(t, l, batchOf(t, "A1", 1, 6, 7, 9)); r.Have != 9 {
		t.Fatalf("a repeat that overlaps is receipted up to %d", r.Have)
	}
	l = unsound(t, l, "records 10 to 1099511627775 of A1/0000000000000001 are missing")
	if r := appendOK(t, l, batchOf(t, "A1", 1, 12, 12, 13)); r.Have != 13 {
		t.Fatalf("behind a hole in the gap it is receipted up to %d", r.Have)
	}
	if r := appendOK(t, l, batchOf(t, "A1", 1, 10, 12, 13)); r.Have != 9 {
		t.Fatalf("with the floor at 10, and 10 and 11 not there, it is receipted up to %d", r.Have)
	}
	upTo13 := kept(t, l, "A1", 1)
	if want := []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13}; string(mustJSON(t, upTo13)) != string(mustJSON(t, want)) {
		t.Errorf("the log has %v of the agent, not %v", upTo13, want)
	}
	l = unsound(t, l, "records 10 to 11 of", "records 14 to 1099511627775 of")
	closeLog(t, l)
}

// A filled gap is no problem.
func TestFilledGapIsSound(t *testing.T) {
	l := open(t, t.TempDir())
	appendOK(t, l, batchOf(t, "A1", 1, 4, 4, 6))
	l = unsound(t, l, "records 1 to 3 of")
	appendOK(t, l, batchOf(t, "A1", 1, 1, 1, 6))
	if rep := sound(t, l); rep.Gaps != 1 || rep.Late != 3 {
		t.Errorf("%d gaps and %d records that came late", rep.Gaps, rep.Late)
	}
	closeLog(t, l)
}

// Forged records take an agent's numbers first. The agent's own records are appended too, and Verify reports two of
// each.
func TestTakenNumbers(t *testing.T) {
	l := open(t, t.TempDir())
	appendOK(t, l, batchOf(t, "A1", 1, 1, 1, 5))
	appendOK(t, l, forgedOf(t, "A1", 1, 1, 6, 9))
	if r := appendOK(t, l, batchOf(t, "A1", 1, 1, 4, 12)); r.Have != 12 {
		t.Fatalf("the agent is receipted up to %d", r.Have)
	}
	size := l.Size()
	for range 3 {
		appendOK(t, l, batchOf(t, "A1", 1, 1, 4, 12))
	}
	if l.Size() != size {
		t.Errorf("repeats are taken for something else: %d records became %d", size, l.Size())
	}
	upTo(t, kept(t, l, "A1", 1), 12)
	l = unsound(t, l, "records 6 to 9 of A1/0000000000000001 came twice")
	appendOK(t, l, batchOf(t, "A1", 1, 1, 4, 12))
	if l.Size() != size {
		t.Errorf("after a start, repeats are taken for something else: %d records became %d", size, l.Size())
	}
	closeLog(t, l)
}

// The memory for a numbering with many gaps is bounded, and the agent's records are still appended.
func TestManyGapsAreBounded(t *testing.T) {
	l := open(t, t.TempDir())
	const jumps = 10 * maxGaps
	for i := range uint64(jumps) {
		n := 1000 + 10*i
		appendOK(t, l, forgedOf(t, "A1", 1, n, n, n+1))
	}
	for _, p := range l.streams {
		if len(p.open) > maxGaps {
			t.Fatalf("%d gaps are remembered; the limit is %d", len(p.open), maxGaps)
		}
	}
	for n := uint64(1); n <= 200; n += 50 {
		if r := appendOK(t, l, batchOf(t, "A1", 1, n, n, n+49)); r.Have != n+49 {
			t.Fatalf("the agent is receipted up to %d", r.Have)
		}
	}
	upTo(t, kept(t, l, "A1", 1), 200)
	l = unsound(t, l, "records 201 to ")
	closeLog(t, l)
}

// Numbers out of range are refused before anything is written.
func TestNumbersOutOfRange(t *testing.T) {
	l := open(t, t.TempDir())
	defer closeLog(t, l)
	many := Batch{V: 1, Agent: "A1", Incarnation: FormatIncarnation(1), Floor: 1, Records: make([]json.RawMessage, maxBatchRecords+1)}
	for i := range many.Records {
		many.Records[i] = json.RawMessage(`{}`)
	}
	text, err := EncodeBatch(&many)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeBatch(text); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("%d records in a batch: %v", len(many.Records), err)
	}
	if _, err := DecodeBatch([]byte(strings.Replace(string(text), `{"v":1`, `{ "v":1`, 1))); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("%d records in a batch, spelled otherwise: %v", len(many.Records), err)
	}
	for name, b := range map[string]Batch{
		"no floor":                batchOf(t, "A1", 1, 0, 1, 2),
		"records below the floor": batchOf(t, "A1", 1, 3, 2, 4),
		"too many":                many,
	} {
		if _, err := l.Append(b); err == nil {
			t.Errorf("%s: it is taken", name)
		}
	}
	far := recordOf("A1", 1, 1)
	far.N = MaxNumber + 1
	if _, err := Encode(&far); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("a record with number %d: %v", far.N, err)
	}
	if l.Size() != 0 {
		t.Errorf("%d records were appended", l.Size())
	}
	for _, r := range []Receipt{{Agent: "A1", Have: MaxNumber + 1}, {Agent: "A1", Last: MaxNumber + 1}, {Agent: "A1", Index: -2}, {Agent: "A1", Index: MaxNumber + 1}, {Agent: "-"}} {
		r.Incarnation = FormatIncarnation(1)
		b, err := EncodeReceipt(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeReceipt(b); err == nil {
			t.Errorf("receipt %s is taken", b)
		}
	}
}
