package audit

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

func TestAppendReadVerify(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "log")
	l, err := OpenLog(dir, still) // with its syncs
	if err != nil {
		t.Fatal(err)
	}
	if root, err := l.Root(); err != nil || root != new(tree).root() || l.Size() != 0 {
		t.Fatalf("an empty log: %s, %v, %d", root, err, l.Size())
	}
	sound(t, l)
	r := appendOK(t, l, batchOf(t, "A1", 1, 1, 1, 5))
	if want := (Receipt{V: 1, Agent: "A1", Incarnation: FormatIncarnation(1), Have: 5, Index: 4, Last: 5}); r != want {
		t.Fatalf("receipt %+v, want %+v", r, want)
	}
	if r := appendOK(t, l, batchOf(t, "A1", 1, 1, 1, 2)); r.Have != 2 || r.Last != 5 || newest(t, l, "A1", r.Incarnation).N != 5 || newest(t, l, "A2", r.Incarnation).N != 0 {
		t.Fatalf("of a batch that the log has: %+v", r)
	}
	r = appendOK(t, l, batchOf(t, "A1", 2, 1, 1, 1)) // a new ledger starts its own numbers
	if r.Have != 1 || r.Index != 5 {
		t.Fatalf("receipt %+v", r)
	}
	if err := l.AppendOwn(Record{Event: Submitted, Transfer: idOf(0)}); err != nil {
		t.Fatal(err)
	}
	before := l.Checkpoint()
	check := func(l *Log) {
		t.Helper()
		if l.Checkpoint() != before {
			t.Fatalf("checkpoint %v, want %v", l.Checkpoint(), before)
		}
		raw, rec, err := l.Read(3)
		if err != nil || rec.N != 4 || string(raw) != string(encoded(t, recordOf("A1", 1, 4))) {
			t.Fatalf("%s, %v", raw, err)
		}
		_, own, err := l.Read(6)
		if err != nil || own.Agent != Coordination || own.N != 1 || own.Role != RoleCoordination || !own.Time.Equal(epoch) {
			t.Fatalf("%+v, %v", own, err)
		}
		for _, i := range []int64{-1, 7} {
			_, _, err := l.Read(i)
			wantKind(t, err, transfer.KindNotFound, "7 records")
		}
		if rep := sound(t, l, before, Checkpoint{}.at(l, t, 3)); rep.Root != before.Root {
			t.Fatalf("root %s", rep.Root)
		}
	}
	check(l)
	ro, err := OpenLogReadOnly(dir) // beside the writer
	if err != nil {
		t.Fatal(err)
	}
	check(ro)
	_, err = ro.Append(batchOf(t, "A1", 1, 1, 6, 6))
	wantKind(t, err, transfer.KindUsage, "reading only")
	closeLog(t, ro)
	closeLog(t, l)
	_, err = l.Append(batchOf(t, "A1", 1, 1, 6, 6))
	wantKind(t, err, transfer.KindInternal, "closed")

	l = open(t, dir)
	check(l)
	if r := appendOK(t, l, batchOf(t, "A1", 1, 6, 6, 7)); r.Have != 7 || r.Index != 8 {
		t.Fatalf("receipt %+v", r)
	}
	sound(t, l, before)
	closeLog(t, l)
}

// at returns the checkpoint of the log at a size.
func (Checkpoint) at(l *Log, t *testing.T, size int64) Checkpoint {
	t.Helper()
	tr, err := loadTree(size, l.files.hashes)
	if err != nil {
		t.Fatal(err)
	}
	return Checkpoint{size, tr.root()}
}

func TestOneWriter(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	_, err := OpenLog(dir, still)
	wantKind(t, err, transfer.KindConflict, dir, "in use")
	closeLog(t, l)
	closeLog(t, open(t, dir))
}

func TestReadOnlyNeedsALog(t *testing.T) {
	_, err := OpenLogReadOnly(filepath.Join(t.TempDir(), "none"))
	wantKind(t, err, transfer.KindMissing, "none")
}

func TestRecordsMissing(t *testing.T) {
	dir := t.TempDir()
	closeLog(t, open(t, dir))
	if err := os.Remove(filepath.Join(dir, recordsName)); err != nil {
		t.Fatal(err)
	}
	_, err := OpenLog(dir, still)
	wantKind(t, err, transfer.KindInternal, "records", "missing")
}

func TestFilesOfTwoLogs(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	closeLog(t, open(t, a))
	closeLog(t, open(t, b))
	for name, word := range map[string]string{hashesName: "another log", indexName: "another log"} {
		dir := copyDir(t, a)
		store(t, dir, name, load(t, b, name))
		_, err := OpenLog(dir, still)
		wantKind(t, err, transfer.KindInternal, word)
	}
	store(t, a, recordsName, []byte(strings.Repeat("x", 64)))
	_, err := OpenLog(a, still)
	wantKind(t, err, transfer.KindUsage, "not a file of an audit log")
}

func TestNumbersDecide(t *testing.T) {
	l := open(t, t.TempDir())
	defer closeLog(t, l)
	for i, step := range []struct {
		floor, from, to uint64
		have            uint64
		index           int64
		size            int64
	}{
		{1, 1, 0, 0, -1, 0},    // asks
		{1, 3, 4, 0, -1, 0},    // a hole: nothing is appended
		{1, 1, 3, 3, 2, 3},     //
		{1, 1, 3, 3, 2, 3},     // again
		{1, 2, 5, 5, 4, 5},     // overlaps
		{1, 7, 9, 5, 4, 5},     // a hole
		{6, 6, 6, 6, 5, 6},     // the floor follows the receipts
		{1, 1, 2, 2, 5, 6},     // late, with its old floor
		{7, 1, 0, 6, 5, 6},     // asks
		{10, 10, 11, 11, 8, 9}, // a log that is lost gave receipts for 7 to 9: a gap record, 10, 11
		{10, 10, 12, 12, 9, 10},
		{20, 1, 0, 19, 10, 11}, // the receipt of a gap alone has the gap record's index
		{20, 22, 23, 19, 10, 11},
		{20, 20, 21, 21, 12, 13},
	} {
		r := appendOK(t, l, batchOf(t, "A1", 1, step.floor, step.from, step.to))
		if r.Have != step.have || r.Index != step.index || l.Size() != step.size {
			t.Fatalf("step %d: have %d at %d of %d, want %+v", i, r.Have, r.Index, l.Size(), step)
		}
	}
	_, gaps := numbers(t, l)
	if len(gaps) != 2 || *gaps[0].Gap != (Gap{"A1", FormatIncarnation(1), 7, 9}) || *gaps[1].Gap != (Gap{"A1", FormatIncarnation(1), 13, 19}) {
		t.Errorf("gaps %+v", gaps)
	}
	if rep, err := l.Verify(t.Context(), nil); err != nil || rep.Gaps != 2 || rep.Found != 2 {
		t.Errorf("%d gaps and %+v, %v", rep.Gaps, rep.Problems, err)
	}
	dir := copyDir(t, l.files.dir)
	again := open(t, dir) // without the state, by reading
	if r := appendOK(t, again, batchOf(t, "A1", 1, 22, 22, 22)); r.Have != 22 || r.Index != 13 {
		t.Errorf("after a restart: %+v", r)
	}
	closeLog(t, again)
}

func TestAppendRefusesWholeBatches(t *testing.T) {
	l := open(t, t.TempDir())
	defer closeLog(t, l)
	one := func(mod func(*Batch)) Batch {
		b := batchOf(t, "A1", 1, 1, 1, 3)
		mod(&b)
		return b
	}
	for name, c := range map[string]struct {
		b    Batch
		kind transfer.Kind
		word string
	}{
		"another agent's":       {one(func(b *Batch) { b.Records[1] = encoded(t, recordOf("B1", 1, 2)) }), transfer.KindUsage, "B1/"},
		"another incarnation's": {one(func(b *Batch) { b.Records[1] = encoded(t, recordOf("A1", 9, 2)) }), transfer.KindUsage, "came in a batch of"},
		"twice":                 {one(func(b *Batch) { b.Records[1] = b.Records[0] }), transfer.KindUsage, "follows number 1"},
		"a hole inside":         {one(func(b *Batch) { b.Records = append(b.Records[:1], b.Records[2]) }), transfer.KindUsage, "follows number 1"},
		"version":               {one(func(b *Batch) { b.Records[2] = json.RawMessage(`{"v":2}`) }), transfer.KindVersion, "version 2"},
		"no JSON":               {one(func(b *Batch) { b.Records[2] = json.RawMessage(`{`) }), transfer.KindUsage, "malformed"},
		"coordination's":        {one(func(b *Batch) { b.Agent = Coordination }), transfer.KindUsage, "coordination's own"},
		"too much": {one(func(b *Batch) {
			r := recordOf("A1", 1, 1)
			r.Text = strings.Repeat("x", MaxBatch/2)
			b.Records[0] = encoded(t, r)
			r.N = 2
			b.Records[1] = encoded(t, r)
		}), transfer.KindTooLarge, "more than"},
	} {
		_, err := l.Append(c.b)
		if transfer.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if l.Size() != 0 {
		t.Errorf("%d records were appended", l.Size())
	}
}

// An agent cannot record a gap in its own or another's numbers.
func TestOnlyCoordinationRecordsGaps(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	r := recordOf("A1", 1, 1)
	r.Event, r.Gap = GapFound, &Gap{"B1", FormatIncarnation(1), 1, 9}
	b := batchOf(t, "A1", 1, 1, 1, 1)
	b.Records[0] = encoded(t, r)
	appendOK(t, l, b)
	if r := appendOK(t, l, batchOf(t, "B1", 1, 1, 1, 2)); r.Have != 2 || r.Index != 2 {
		t.Errorf("receipt %+v", r)
	}
	sound(t, l)
	closeLog(t, l)
}

// The log does not store space between tokens, and ignores it in comparisons.
func TestOneLineARecord(t *testing.T) {
	l := open(t, t.TempDir())
	defer closeLog(t, l)
	b := batchOf(t, "A1", 1, 1, 1, 1)
	b.Records[0] = json.RawMessage(strings.Replace(string(b.Records[0]), `{"v":1,`, "{\n \"v\": 1,\r\n", 1))
	appendOK(t, l, b)
	if _, err := l.Append(b); err != nil {
		t.Fatal(err)
	}
	numbers(t, l)
}

// If the queue manager delivers the batches in any order or repeatedly, the log has 1..n of each agent, in order, once.
func TestAnyOrderOfBatches(t *testing.T) {
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		l := open(t, dir)
		const n = 60
		agents := []transfer.AgentName{"A1", "B1", "C1"}
		have := map[transfer.AgentName]uint64{}
		for len(have) < len(agents) || have["A1"] < n || have["B1"] < n || have["C1"] < n {
			agent := agents[rnd.IntN(len(agents))]
			from := 1 + rnd.Uint64N(n)
			if rnd.IntN(2) == 0 { // not always, to save time
				from = min(have[agent]+1, n)
			}
			to := min(from+rnd.Uint64N(12), n)
			// Any floor that the agent may have had when it sent the batch.
			floor := 1 + rnd.Uint64N(min(have[agent], from-1)+1)
			r := appendOK(t, l, batchOf(t, agent, 1, floor, from, to))
			if from <= have[agent]+1 {
				have[agent] = max(have[agent], to)
			}
			if want := min(have[agent], to); r.Have != want {
				t.Fatalf("seed %d: have %d, want %d", seed, r.Have, want)
			}
			if rnd.IntN(30) == 0 {
				closeLog(t, l)
				l = open(t, dir)
			}
		}
		got, gaps := numbers(t, l)
		for _, a := range agents {
			upTo(t, got[a], n)
		}
		if len(gaps) != 0 {
			t.Errorf("seed %d: gaps %v", seed, gaps)
		}
		sound(t, l)
		closeLog(t, l)
	}
}

// smallBatch returns records of an agent that are small and made without Encode, for tests of large logs.
func smallBatch(agent transfer.AgentName, from, to uint64) Batch {
	b := Batch{V: 1, Agent: agent, Incarnation: FormatIncarnation(1), Floor: from}
	id := idOf(from / 4).String()
	for n := from; n <= to; n++ {
		if n%4 == 0 {
			id = idOf(n / 4).String()
		}
		b.Records = append(b.Records, fmt.Appendf(nil,
			`{"v":1,"agent":%q,"incarnation":%q,"n":%d,"time":"2026-03-01T12:00:00Z","event":"item","transfer":%q}`, agent, b.Incarnation, n, id))
	}
	return b
}

func TestManyRecords(t *testing.T) {
	t.Parallel()
	const n, batch = 60_000, 500
	dir := t.TempDir()
	l := open(t, dir)
	for from := uint64(1); from < n; from += batch {
		appendOK(t, l, smallBatch("A1", from, from+batch-1))
	}
	size := 0
	for _, name := range []string{recordsName, indexName, hashesName} {
		size += len(load(t, dir, name))
	}
	want := l.Checkpoint()
	// Without Close: as after a crash, from the last saved state.
	copied := copyDir(t, dir)
	closeLog(t, l)
	for _, dir := range []string{dir, copied} {
		d := &faulty{quick: true}
		l, err := openLog(dir, still, d)
		if err != nil {
			t.Fatal(err)
		}
		if l.Checkpoint() != want {
			t.Errorf("checkpoint %+v, want %+v", l.Checkpoint(), want)
		}
		// A start reads the records after the state, not all of them.
		if limit := 2 * (saveEvery + batch) * int64(size) / n; d.read > limit {
			t.Errorf("a start read %d bytes of %d, more than %d", d.read, size, limit)
		}
		if r := appendOK(t, l, batchOf(t, "A1", 1, n+1, n+1, n+1)); r.Have != n+1 {
			t.Errorf("receipt %+v", r)
		}
		checkFind(t, l)
		closeLog(t, l)
	}
}

// checkFind finds one transfer in the large log.
func checkFind(t *testing.T, l *Log) {
	t.Helper()
	var got []uint64
	err := l.Find(Filter{IDSuffix: idOf(5_000).String()[28:]}, func(_ int64, _ []byte, r *Record) error {
		got = append(got, r.N)
		return nil
	})
	if err != nil || len(got) != 4 || got[0] != 20_003 || got[3] != 20_000 {
		t.Errorf("found %v, %v", got, err)
	}
}

func newest(t *testing.T, l *Log, agent transfer.AgentName, incarnation string) Newest {
	t.Helper()
	n, err := NewestOf(l, agent, incarnation)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
