package audit

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ferry/internal/transfer"
)

// A log with files that are missing, empty or truncated. Records are never begun anew beside evidence of earlier ones.
// The other files are made from the records. Verify does not report such a log as sound, in any case.
func TestLostFiles(t *testing.T) {
	const (
		refuses = "refuses"
		mends   = "mends"   // nothing is lost
		records = "records" // the loss is recorded, and the log continues
	)
	all := []string{recordsName, indexName, hashesName, stateName}
	for _, c := range []struct {
		name  string
		files []string
		size  int64 // new size; below 0: removed
		want  string
	}{
		{"records missing", all[:1], -1, refuses},
		{"records empty", all[:1], 0, refuses},
		{"records cut in the header", all[:1], 9, refuses},
		{"records cut behind the header", all[:1], headerSize, records},
		{"index missing", all[1:2], -1, mends},
		{"index empty", all[1:2], 0, mends},
		{"index without entries", all[1:2], headerSize, mends},
		{"hashes missing", all[2:3], -1, mends},
		{"hashes empty", all[2:3], 0, mends},
		{"hashes without any", all[2:3], headerSize, mends},
		{"state missing", all[3:], -1, mends},
		{"state empty", all[3:], 0, mends},
		{"all but records empty", all[1:], 0, mends},
		{"all but records missing", all[1:], -1, mends},
		{"all empty", all, 0, refuses},
		{"all cut behind their headers", all, headerSize, refuses},
		{"records, index and hashes cut behind their headers", all[:3], headerSize, records},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			l := open(t, dir)
			appendOK(t, l, batchOf(t, "AG", 7, 1, 1, 20))
			closeLog(t, l)
			for _, f := range c.files {
				path := filepath.Join(dir, f)
				if c.size < 0 {
					mustDo(t, os.Remove(path))
				} else {
					mustDo(t, os.Truncate(path, c.size))
				}
			}
			if l, err := OpenLogReadOnly(dir); err == nil {
				if rep, err := l.Verify(context.Background(), nil); err == nil && rep.Found == 0 && c.want != mends {
					t.Errorf("verify calls it sound: %+v", rep)
				}
				l.Close()
			}
			l, err := openLog(dir, still, &faulty{quick: true})
			if c.want == refuses {
				if err == nil {
					closeLog(t, l)
					t.Fatal("it is taken for a log")
				}
				if transfer.KindOf(err) != transfer.KindInternal || !strings.Contains(err.Error(), filepath.Join(dir, recordsName)) || !strings.Contains(err.Error(), "move it away") {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer closeLog(t, l)
			rep, err := l.Verify(context.Background(), nil)
			if err != nil {
				t.Fatal(err)
			}
			byAgent, _ := numbers(t, l)
			if c.want == mends && (rep.Found != 0 || rep.Gaps != 0 || len(byAgent["AG"]) != 20) {
				t.Errorf("%d gaps, records %v", rep.Gaps, byAgent)
			}
			if c.want == records && rep.Found == 0 {
				t.Errorf("nothing is found of the loss: %+v", rep)
			}
		})
	}
}

func mustDo(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
