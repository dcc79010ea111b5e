package audit

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/transfer"
)

// A sample is a closed log of seven records in three appends.
type sample struct {
	dir     string
	copyDir string
	at      []int64      // at[i] is the offset of record i, at[7] the end of the file
	checks  []Checkpoint // checks[i] is the checkpoint at size i
	files   map[string][]byte
}

func newSample(t *testing.T) *sample {
	t.Helper()
	s := &sample{dir: t.TempDir(), copyDir: t.TempDir()}
	l := open(t, s.dir)
	for _, b := range [][2]uint64{{1, 3}, {4, 5}, {6, 7}} {
		appendOK(t, l, batchOf(t, "A1", 1, b[0], b[0], b[1]))
	}
	for i := range int64(8) {
		s.checks = append(s.checks, Checkpoint{}.at(l, t, i))
		c, _ := l.files.index.cell(i)
		s.at = append(s.at, c.at)
	}
	s.at[7] = l.tip.end
	closeLog(t, l)
	s.files = map[string][]byte{}
	for _, name := range []string{recordsName, indexName, hashesName, stateName} {
		s.files[name] = load(t, s.dir, name)
	}
	return s
}

// again returns a new copy of the sample, which replaces the previous one. Files that still are as in the sample stay.
func (s *sample) again(t *testing.T) (dir string) {
	t.Helper()
	for name, b := range s.files {
		if has, err := os.ReadFile(filepath.Join(s.copyDir, name)); err != nil || !bytes.Equal(has, b) {
			store(t, s.copyDir, name, b)
		}
	}
	return s.copyDir
}

// whole opens a log after a crash. It fails unless the log has the first n records of the sample, accepts the rest
// again, and is sound.
func (s *sample) whole(t *testing.T, dir string, n uint64) {
	t.Helper()
	l := open(t, dir)
	got, gaps := numbers(t, l)
	upTo(t, got["A1"], n)
	if len(gaps) != 0 {
		t.Fatalf("gaps: %+v", gaps)
	}
	sound(t, l, s.checks[n])
	if r := appendOK(t, l, batchOf(t, "A1", 1, 1, 1, 7)); r.Have != 7 || r.Index != 6 {
		t.Fatalf("receipt %+v", r)
	}
	if l.Checkpoint() != s.checks[7] {
		t.Fatal("the same records make another tree")
	}
	closeLog(t, l)
	if rep := verifyReadOnly(t, dir, s.checks...); rep.Found != 0 || rep.Records != 7 {
		t.Fatalf("%+v", rep)
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// covers cuts the index and the hashes to their length at a size, and removes the state.
func covers(t *testing.T, dir string, size int64) {
	t.Helper()
	store(t, dir, indexName, load(t, dir, indexName)[:headerSize+size*cellSize])
	store(t, dir, hashesName, load(t, dir, hashesName)[:headerSize+tlog.StoredHashCount(size)*cellSize])
	remove(t, dir, stateName)
}

// A crash in the last append, before its records were synced: every length. At each fourth length zeros or other bytes
// follow.
func TestCrashWhileRecordsAreWritten(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	records := load(t, s.dir, recordsName)
	for n := s.at[5]; n <= s.at[7]; n++ {
		want := uint64(5)
		if n >= s.at[6] {
			want = 6
		}
		if n == s.at[7] {
			want = 7
		}
		for i, tail := range [][]byte{nil, make([]byte, s.at[7]-n), records[:s.at[7]-n]} {
			if i > 0 && n%4 != 0 {
				continue
			}
			dir := s.again(t)
			covers(t, dir, 5)
			store(t, dir, recordsName, append(slices.Clone(records[:n]), tail...))
			s.whole(t, dir, want)
		}
	}
}

// A crash while index and hashes are written, or their loss: every length of each and of the state, cut off or zero.
func TestCrashWhileTheRestIsWritten(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	for _, name := range []string{indexName, hashesName, stateName} {
		b := load(t, s.dir, name)
		for n := 0; n <= len(b); n++ {
			dir := s.again(t)
			store(t, dir, name, b[:n])
			s.whole(t, dir, 7)
			if n < headerSize || name == stateName {
				continue // those are replaced as a whole
			}
			dir = s.again(t)
			remove(t, dir, stateName)
			store(t, dir, name, append(slices.Clone(b[:n]), make([]byte, len(b)-n)...))
			s.whole(t, dir, 7)
		}
		dir := s.again(t)
		remove(t, dir, name)
		s.whole(t, dir, 7)
	}
	// Both together, each at any length of the last append.
	index, hashes := load(t, s.dir, indexName), load(t, s.dir, hashesName)
	for i := headerSize + 5*cellSize; i <= len(index); i += 7 {
		for h := headerSize + int(tlog.StoredHashCount(5))*cellSize; h <= len(hashes); h += 7 {
			dir := s.again(t)
			remove(t, dir, stateName)
			store(t, dir, indexName, index[:i])
			store(t, dir, hashesName, hashes[:h])
			s.whole(t, dir, 7)
		}
	}
}

// Receipted records are missing at the end: every length of the last two. The log reports that and continues. The agent
// has dropped the records, and is not told that the log has them.
func TestRecordsLostTheirEnd(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	records := load(t, s.dir, recordsName)
	for n := s.at[5]; n < s.at[7]; n++ {
		left := int64(5)
		if n >= s.at[6] {
			left = 6
		}
		for i, witness := range []string{"all", "hashes", "index", "state"} {
			if i > 0 && n%16 != 0 && n != s.at[6] && n != s.at[6]+frameHead {
				continue // one test of each length is enough
			}
			dir := s.again(t)
			was := s.checks[7]
			switch witness {
			case "hashes":
				remove(t, dir, indexName)
				remove(t, dir, stateName)
			case "index":
				remove(t, dir, hashesName)
				remove(t, dir, stateName)
				was.Root = ""
			case "state":
				covers7 := load(t, dir, stateName)
				covers(t, dir, left)
				store(t, dir, stateName, covers7)
			}
			store(t, dir, recordsName, records[:n])
			rep := verifyReadOnly(t, dir)
			if rep.Found == 0 && witness != "index" { // an index alone proves nothing
				t.Fatalf("length %d, %s: Verify finds nothing", n, witness)
			}
			l := open(t, dir)
			got, gaps := numbers(t, l)
			upTo(t, got["A1"], uint64(left))
			if len(gaps) != 1 || l.Size() != left+1 {
				t.Fatalf("length %d, %s: gaps %+v, size %d", n, witness, gaps, l.Size())
			}
			if want := "once had 7 records"; !contains(gaps[0].Text, want) || !contains(gaps[0].Text, was.Root) {
				t.Fatalf("length %d, %s: %q", n, witness, gaps[0].Text)
			}
			// Receipted and dropped by the agent: 1 to 7.
			if r := appendOK(t, l, batchOf(t, "A1", 1, 8, 8, 9)); r.Have != 9 {
				t.Fatalf("receipt %+v", r)
			}
			rep, err := l.Verify(t.Context(), nil, s.checks[left])
			if err != nil || rep.Gaps != 2 || rep.Found != 2 {
				t.Fatalf("%d gaps and %+v, %v", rep.Gaps, rep.Problems, err)
			}
			rep, err = l.Verify(t.Context(), nil, s.checks[7])
			if err != nil || rep.Found == 0 {
				t.Fatalf("the checkpoint of the lost log: %+v, %v", rep, err)
			}
			closeLog(t, l)
			l = open(t, dir)
			if _, gaps := numbers(t, l); len(gaps) != 2 {
				t.Fatalf("%d gaps after another start", len(gaps))
			}
			closeLog(t, l)
		}
	}
}

// One flipped bit anywhere is found when the log is opened, or does no harm. The error names the file and the next
// step, and for records also the record.
func TestEachFlippedBitIsNamed(t *testing.T) {
	s := newSample(t)
	found := 0
	for _, name := range []string{recordsName, indexName, hashesName, stateName} {
		whole := load(t, s.dir, name)
		for at := range whole {
			if at%3 != 0 && at > headerSize {
				continue
			}
			dir := s.again(t)
			changed := slices.Clone(whole)
			changed[at] ^= 1 << (at % 8)
			store(t, dir, name, changed)
			l, err := openLog(dir, still, &faulty{quick: true})
			if err == nil {
				rep, verr := l.Verify(t.Context(), nil, s.checks[7])
				closeLog(t, l)
				if name == recordsName && at >= headerSize || verr != nil {
					t.Errorf("byte %d of %s: opened, %+v, %v", at, name, rep, verr)
				}
				continue
			}
			found++
			if text := err.Error(); !strings.Contains(text, dir+"/") || !strings.Contains(text, "; look at it with `ferry audit verify --dir "+dir+"`, then restore") ||
				name == recordsName && at >= headerSize && !strings.Contains(text, "record ") {
				t.Errorf("byte %d of %s: %v", at, name, err)
			}
		}
	}
	if found < 100 {
		t.Errorf("only %d flipped bits were found", found)
	}
}

// Damage that no crash causes is refused, and the error names the place.
func TestDamageRefuses(t *testing.T) {
	s := newSample(t)
	records := load(t, s.dir, recordsName)
	flip := func(b []byte, at int64) []byte {
		b = slices.Clone(b)
		b[at] ^= 0x40
		return b
	}
	for i, at := range s.at[:7] {
		for _, off := range []int64{0, 3, 4, frameHead, s.at[i+1] - at - 1} {
			dir := s.again(t)
			remove(t, dir, stateName) // or the start does not read the record
			store(t, dir, recordsName, flip(records, at+off))
			l, err := OpenLog(dir, still)
			if i == 6 && err == nil {
				closeLog(t, l)
				// The last record's length says that the file is too short, and no state has its former length: that is
				// a lost end, which is recorded.
				if off >= frameHead || off == 4 {
					t.Fatalf("record %d, byte %d: opened", i, off)
				}
				continue
			}
			wantKind(t, err, transfer.KindInternal, fmt.Sprintf("offset %d", at), fmt.Sprintf("record %d", i), "audit verify")
		}
	}
	// With a corrected checksum, so that only the hashes show the change.
	dir := s.again(t)
	remove(t, dir, stateName)
	store(t, dir, recordsName, rewrite(t, records, 2, func(b []byte) []byte { b[len(b)-20] ^= 1; return b }))
	_, err := OpenLog(dir, still)
	wantKind(t, err, transfer.KindInternal, "record 2", "not the one that was appended")
	// Without hashes, so that only the state shows the change.
	dir = s.again(t)
	remove(t, dir, hashesName)
	store(t, dir, recordsName, rewrite(t, records, 2, func(b []byte) []byte { b[len(b)-20] ^= 1; return b }))
	_, err = OpenLog(dir, still)
	wantKind(t, err, transfer.KindInternal, "first 7 records")
	// A hash below the state's size.
	dir = s.again(t)
	h := load(t, dir, hashesName)
	store(t, dir, hashesName, flip(h, headerSize+tlog.StoredHashIndex(2, 0)*cellSize))
	_, err = OpenLog(dir, still)
	wantKind(t, err, transfer.KindInternal, "the root at 7 records")
	// Bad and not covered by index or state, but longer than one append.
	dir = s.again(t)
	covers(t, dir, 5)
	store(t, dir, recordsName, append(flip(records, s.at[5]), make([]byte, maxAppend)...))
	_, err = OpenLog(dir, still)
	wantKind(t, err, transfer.KindInternal, fmt.Sprintf("offset %d", s.at[5]))
}

// rewrite changes the JSON of one record and corrects its checksum.
func rewrite(t *testing.T, records []byte, which int, change func([]byte) []byte) []byte {
	t.Helper()
	list := frames(t, records)
	list[which] = change(slices.Clone(list[which]))
	return join(records, list)
}

func frames(t *testing.T, records []byte) (list [][]byte) {
	t.Helper()
	for w := newWalker(bytes.NewReader(records), headerSize, int64(len(records))); ; {
		body, err := w.next()
		if err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		list = append(list, bytes.Clone(body))
	}
}

func join(records []byte, list [][]byte) []byte {
	b := slices.Clone(records[:headerSize])
	for _, body := range list {
		b = appendRecord(b, body)
	}
	return b
}
