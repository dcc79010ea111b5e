package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
)

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// still returns the time of a clock that does not move.
func still() time.Time { return epoch }

// idOf returns the nth of a fixed series of transfer IDs.
func idOf(n uint64) transfer.ID {
	var id transfer.ID
	r := rand.New(rand.NewPCG(n, 7))
	for i := range id {
		id[i] = byte(r.Uint32())
	}
	id[6], id[8] = id[6]&0x0f|0x70, id[8]&0x3f|0x80
	return id
}

// recordOf returns the nth record of an agent. Its content depends on its number, so a test can tell whether it is
// unchanged.
func recordOf(agent transfer.AgentName, incarnation, n uint64) Record {
	return Record{Agent: agent, Incarnation: FormatIncarnation(incarnation), N: n, Time: epoch.Add(time.Duration(n) * time.Second),
		Event: Items, Role: RoleDestination, Transfer: idOf(n / 4), Source: "SRC", Destination: agent,
		Items: []transfer.Outcome{{Item: n, Type: transfer.ItemFile, Path: transfer.Path(fmt.Sprintf("/in/%d <&>\xff", n)), Size: int64(n)}}}
}

func encoded(t testing.TB, r Record) json.RawMessage {
	t.Helper()
	b, err := Encode(&r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// batchOf returns the records from..to of an agent.
func batchOf(t testing.TB, agent transfer.AgentName, incarnation, floor, from, to uint64) Batch {
	t.Helper()
	b := Batch{V: 1, Agent: agent, Incarnation: FormatIncarnation(incarnation), Floor: floor}
	for n := from; n <= to; n++ {
		b.Records = append(b.Records, encoded(t, recordOf(agent, incarnation, n)))
	}
	return b
}

// open opens a log for writing, on a disk without syncs: a test does not cut the power.
func open(t testing.TB, dir string) *Log {
	t.Helper()
	l, err := openLog(dir, still, &faulty{quick: true})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func closeLog(t testing.TB, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func appendOK(t testing.TB, l *Log, b Batch) Receipt {
	t.Helper()
	r, err := l.Append(b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// sound fails unless the log verifies without a problem.
func sound(t testing.TB, l *Log, against ...Checkpoint) Report {
	t.Helper()
	rep, err := l.Verify(context.Background(), nil, against...)
	if err != nil {
		t.Fatal(err)
	}
	if rep.Found != 0 {
		t.Fatalf("problems: %+v", rep.Problems)
	}
	if size := l.Size(); rep.Records != size {
		t.Fatalf("verified %d records of %d", rep.Records, size)
	}
	return rep
}

// numbers returns the records of each agent in the log, in its order, and the gap records.
func numbers(t testing.TB, l *Log) (byAgent map[transfer.AgentName][]uint64, gaps []Record) {
	t.Helper()
	byAgent = map[transfer.AgentName][]uint64{}
	err := l.Scan(0, func(i int64, raw []byte, r *Record) error {
		if r.Event == GapFound {
			gaps = append(gaps, *r)
		}
		if r.Agent != Coordination {
			byAgent[r.Agent] = append(byAgent[r.Agent], r.N)
			v, _ := ParseIncarnation(r.Incarnation)
			if want := encoded(t, recordOf(r.Agent, v, r.N)); string(want) != string(raw) {
				t.Errorf("record %d changed:\n%s\n%s", i, raw, want)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return byAgent, gaps
}

// upTo fails unless the numbers are 1..n.
func upTo(t testing.TB, got []uint64, n uint64) {
	t.Helper()
	if uint64(len(got)) != n {
		t.Fatalf("%d records, want %d: %v", len(got), n, got)
	}
	for i, v := range got {
		if v != uint64(i)+1 {
			t.Fatalf("record %d has number %d", i, v)
		}
	}
}

// copyDir copies a log's files, without its lock, to a new directory.
func copyDir(t testing.TB, dir string) string {
	t.Helper()
	to := t.TempDir()
	copyTo(t, dir, to)
	return to
}

// copyTo replaces the files of one log by those of another.
func copyTo(t testing.TB, dir, to string) {
	t.Helper()
	for _, name := range []string{recordsName, indexName, hashesName, stateName} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			os.Remove(filepath.Join(to, name))
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		store(t, to, name, b)
	}
}

func load(t testing.TB, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func store(t testing.TB, dir, name string, b []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	os.Remove(path) // file systems sync a file that is truncated and written again
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func wantKind(t testing.TB, err error, k transfer.Kind, words ...string) {
	t.Helper()
	if transfer.KindOf(err) != k {
		t.Fatalf("error %v is of kind %v, want %v", err, transfer.KindOf(err), k)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("error %q does not say %q", err, w)
		}
	}
}
