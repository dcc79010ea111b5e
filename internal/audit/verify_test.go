package audit

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/sumdb/tlog"

	"ferry/internal/transfer"
)

func contains(s, sub string) bool { return strings.Contains(s, sub) }

func verifyReadOnly(t *testing.T, dir string, against ...Checkpoint) Report {
	t.Helper()
	l, err := OpenLogReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog(t, l)
	rep, err := l.Verify(context.Background(), nil, against...)
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// overwrite changes a file that a log has open.
func overwrite(t *testing.T, dir, name string, b []byte) {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteAt(b, 0)
	}
	if err == nil {
		err = f.Truncate(int64(len(b)))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// build makes all files of a log anew from its records, as an attacker with write access and knowledge of the format
// would.
func build(t *testing.T, records []byte, dir string) {
	t.Helper()
	id := binary.BigEndian.Uint64(records[12:])
	store(t, dir, recordsName, records)
	s := &stage{tip: tip{end: headerSize}, streams: streams{}}
	for _, body := range frames(t, records) {
		r, err := Decode(body)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.add(body, int64(len(appendRecord(nil, body))), &r)
	}
	store(t, dir, indexName, append(header(indexMagic, id), s.cells...))
	store(t, dir, hashesName, append(header(hashesMagic, id), s.hashes...))
	err := writeState(osDisk{}, dir, id, &state{Size: s.tip.tree.size, Root: s.tip.tree.root(), End: s.tip.end, Streams: s.streams.save()})
	if err != nil {
		t.Fatal(err)
	}
}

// Each way of tampering, at each record, on a closed log with its hashes, and on an open one behind the writer's back.
func TestTampering(t *testing.T) {
	s := newSample(t)
	records := load(t, s.dir, recordsName)
	list := frames(t, records)
	edit := func(i int, old, new string) []byte {
		c := slices.Clone(list)
		c[i] = bytes.Replace(c[i], []byte(old), []byte(new), 1)
		if bytes.Equal(c[i], list[i]) {
			t.Fatalf("%s has no %s", c[i], old)
		}
		return join(records, c)
	}
	type tampering struct {
		name string
		at   int
		out  []byte
	}
	var ways []tampering
	for i := range list {
		add := func(name string, out []byte) { ways = append(ways, tampering{name, i, out}) }
		flipped := slices.Clone(records)
		flipped[s.at[i]+frameHead+5] ^= 1
		add("flip a byte", flipped)
		long := slices.Clone(records)
		long[s.at[i]+3] ^= 2
		add("change a length", long)
		add("edit", edit(i, `"role":"destination"`, `"role":"destinatiom"`))
		add("edit, longer", edit(i, `"role":"destination"`, `"role":"destination-of-it"`))
		add("renumber", edit(i, `"n":`, `"n":1`))
		add("no record any more", edit(i, `{"v":1`, `{"v":9`))
		add("delete", join(records, slices.Delete(slices.Clone(list), i, i+1)))
		add("double", join(records, slices.Insert(slices.Clone(list), i, list[i])))
		forged := encoded(t, recordOf("B1", 1, 1))
		add("insert", join(records, slices.Insert(slices.Clone(list), i, []byte(forged))))
		add("replace", join(records, slices.Replace(slices.Clone(list), i, i+1, []byte(forged))))
		for j := range i {
			c := slices.Clone(list)
			c[i], c[j] = c[j], c[i]
			add("swap", join(records, c))
		}
		add("truncate", records[:s.at[i]])
		add("truncate inside", records[:s.at[i]+frameHead+3])
	}
	for _, w := range ways {
		closed := copyDir(t, s.dir)
		store(t, closed, recordsName, w.out)
		// A record added at the end is reported as an unfinished append.
		if rep := verifyReadOnly(t, closed); rep.Found == 0 && rep.Pending == 0 {
			t.Errorf("%s %d: not found in a closed log", w.name, w.at)
		}
		dir := copyDir(t, s.dir)
		l := open(t, dir)
		overwrite(t, dir, recordsName, w.out)
		if rep, err := l.Verify(t.Context(), nil); err != nil || rep.Found == 0 {
			t.Errorf("%s %d: not found by the writer: %v", w.name, w.at, err)
		}
		closeLog(t, l)
		// All other files agree: only a witness shows the change.
		if w.name == "no record any more" || w.name == "flip a byte" || w.name == "change a length" || w.name == "truncate inside" {
			continue
		}
		build(t, w.out, dir)
		if rep := verifyReadOnly(t, dir, s.checks[7]); rep.Found == 0 {
			t.Errorf("%s %d: not found by a witness", w.name, w.at)
		}
		if i := w.at + 1; w.name == "edit" && verifyReadOnly(t, dir).Found != 0 {
			t.Errorf("%s %d: found without a witness, which the doc comment says is impossible", w.name, i)
		}
	}
	if len(ways) < 70 {
		t.Errorf("only %d ways", len(ways))
	}
}

// Every byte of index, hashes and state matters.
func TestTamperingWithTheRest(t *testing.T) {
	t.Parallel()
	s := newSample(t)
	for _, name := range []string{indexName, hashesName, stateName} {
		b := load(t, s.dir, name)
		try := func(what string, i int, out []byte) {
			t.Helper()
			dir := s.again(t)
			store(t, dir, name, out)
			l, err := OpenLogReadOnly(dir)
			if err != nil {
				return // a header: refused
			}
			defer closeLog(t, l)
			if rep, err := l.Verify(t.Context(), nil); err != nil || rep.Found == 0 {
				t.Errorf("%s: %s at %d is not found: %v", name, what, i, err)
			}
		}
		for i := range b {
			out := slices.Clone(b)
			out[i] ^= 1
			try("a change", i, out)
			if name != stateName || i > 0 { // a log without its state is valid
				try("a cut", i, b[:i])
			}
		}
		try("a cell more", len(b), append(slices.Clone(b), bytes.Repeat([]byte{1}, cellSize)...))
	}
}

// One bad record is one problem, and the others are still checked.
func TestProblemsAreNamed(t *testing.T) {
	s := newSample(t)
	dir := copyDir(t, s.dir)
	records := load(t, dir, recordsName)
	records[s.at[1]+20] ^= 1
	records[s.at[4]+20] ^= 1
	store(t, dir, recordsName, records)
	rep := verifyReadOnly(t, dir)
	var at []int64
	for _, p := range rep.Problems {
		at = append(at, p.Index)
	}
	// The two records, the missing numbers after each, and the state.
	if !slices.Contains(at, 1) || !slices.Contains(at, 4) || slices.Contains(at, 0) || slices.Contains(at, 3) || rep.Records != 5 {
		t.Errorf("%+v", rep)
	}
	l, err := OpenLogReadOnly(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = l.Read(4)
	wantKind(t, err, transfer.KindInternal, "record 4", "checksum")
	wantKind(t, l.Scan(2, func(int64, []byte, *Record) error { return nil }), transfer.KindInternal, "record 4")
	closeLog(t, l)
}

func TestFileReplacedUnderWriter(t *testing.T) {
	for _, name := range []string{recordsName, indexName, hashesName} {
		s := newSample(t)
		l := open(t, s.dir)
		if os.PathSeparator == '/' { // elsewhere an open file cannot be replaced
			store(t, s.dir, name, load(t, s.dir, name))
			rep, err := l.Verify(t.Context(), nil)
			if err != nil || rep.Found != 1 || !contains(rep.Problems[0].Text, "replaced") {
				t.Errorf("%s: %+v, %v", name, rep, err)
			}
		}
		closeLog(t, l)
	}
}

func TestVerifyProblemsAreBounded(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	appendOK(t, l, batchOf(t, "A1", 1, 1, 1, 300))
	h := load(t, dir, hashesName)
	overwrite(t, dir, hashesName, append(slices.Clone(h[:headerSize]), make([]byte, len(h)-headerSize)...))
	rep, err := l.Verify(t.Context(), nil)
	if err != nil || rep.Found < 300 || len(rep.Problems) != maxProblems {
		t.Errorf("%d found, %d listed, %v", rep.Found, len(rep.Problems), err)
	}
	closeLog(t, l)
}

func TestCheckpoints(t *testing.T) {
	s := newSample(t)
	if rep := verifyReadOnly(t, s.dir, s.checks...); rep.Found != 0 {
		t.Errorf("%+v", rep)
	}
	for _, c := range []Checkpoint{{7, s.checks[6].Root}, {3, s.checks[7].Root}, {8, s.checks[7].Root}, {0, s.checks[7].Root}, {-1, ""}, {2, "x"}} {
		if rep := verifyReadOnly(t, s.dir, c); rep.Found != 1 {
			t.Errorf("%+v: %+v", c, rep)
		}
	}
}

func TestVerifyProgressAndCancel(t *testing.T) {
	s := newSample(t)
	l, err := OpenLogReadOnly(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer closeLog(t, l)
	var last [2]int64
	if _, err := l.Verify(t.Context(), func(done, total int64) { last = [2]int64{done, total} }); err != nil || last != [2]int64{7, 7} {
		t.Errorf("progress ended at %v, %v", last, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Verify(ctx, nil)
	if wantKind(t, err, transfer.KindCancelled); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A reader beside a writer finds the log in order, at any step of the writer. An append that a crash has interrupted is
// no problem of the log.
func TestReadOnlyBesideWriter(t *testing.T) {
	s := newSample(t)
	dir := copyDir(t, s.dir)
	covers(t, dir, 5)
	store(t, dir, recordsName, load(t, dir, recordsName)[:s.at[6]+9])
	rep := verifyReadOnly(t, dir, s.checks[5])
	if rep.Found != 0 || rep.Records != 5 || rep.Pending != s.at[6]+9-s.at[5] {
		t.Errorf("%+v", rep)
	}
	dir = t.TempDir()
	l := open(t, dir)
	done := make(chan error)
	go func() {
		for n := uint64(1); n <= 100; n++ {
			if _, err := l.Append(batchOf(t, "A1", 1, 1, n, n)); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	for running := true; running; {
		select {
		case err := <-done:
			if running = false; err != nil {
				t.Error(err)
			}
		default:
		}
		ro, err := OpenLogReadOnly(dir)
		if err != nil {
			t.Error(err)
			continue
		}
		// The writer's own view may be a record behind: it waits for the syncs.
		for log, against := range map[*Log][]Checkpoint{ro: {ro.Checkpoint()}, l: nil} {
			if rep, err := log.Verify(context.Background(), nil, against...); err != nil || rep.Found != 0 {
				t.Errorf("%+v, %v", rep, err)
			}
		}
		closeLog(t, ro)
	}
	closeLog(t, l)
}

func TestProofs(t *testing.T) {
	s := newSample(t)
	l := open(t, s.dir)
	defer closeLog(t, l)
	for size := int64(1); size <= 7; size++ {
		for i := range size {
			p, err := l.Proof(i, size)
			if err != nil {
				t.Fatal(err)
			}
			raw, _, err := l.Read(i)
			if err != nil {
				t.Fatal(err)
			}
			if err := CheckProof(p, s.checks[size], i, raw); err != nil {
				t.Error(err)
			}
			wantKind(t, CheckProof(p, s.checks[size], i, append(raw, ' ')), transfer.KindDigest)
			wantKind(t, CheckProof(p, Checkpoint{size, "zz"}, i, raw), transfer.KindDigest)
		}
		p, err := l.ProofBetween(size, 7)
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckProofBetween(p, s.checks[size], s.checks[7]); err != nil {
			t.Error(err)
		}
		if size < 7 {
			wantKind(t, CheckProofBetween(p, Checkpoint{size, s.checks[7].Root}, s.checks[7]), transfer.KindDigest)
		}
	}
	for _, c := range [][2]int64{{7, 7}, {-1, 3}, {0, 8}} {
		_, err := l.Proof(c[0], c[1])
		wantKind(t, err, transfer.KindNotFound)
	}
	_, err := l.ProofBetween(0, 3)
	wantKind(t, err, transfer.KindNotFound)
}

// The tree is that of RFC 6962, as another implementation computes it.
func TestTreeAgreesWithTlog(t *testing.T) {
	var tr tree
	var stored []tlog.Hash
	all := tlog.HashReaderFunc(func(x []int64) (list []tlog.Hash, _ error) {
		for _, i := range x {
			list = append(list, stored[i])
		}
		return list, nil
	})
	for n := range int64(200) {
		data := []byte{byte(n)}
		want, err := tlog.StoredHashes(n, data, all)
		if err != nil {
			t.Fatal(err)
		}
		if got := tr.add(tlog.RecordHash(data)); !slices.Equal(got, want) {
			t.Fatalf("leaf %d: other hashes", n)
		}
		stored = append(stored, want...)
		root, err := tlog.TreeHash(n+1, all)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := parseRoot(tr.root()); got != root {
			t.Fatalf("size %d: another root", n+1)
		}
		if got := recordsIn(int64(len(stored))); got != n+1 {
			t.Fatalf("%d hashes are %d records", len(stored), got)
		}
		if got := recordsIn(int64(len(stored)) - 1); got != n {
			t.Fatalf("%d hashes are %d records", len(stored)-1, got)
		}
	}
}

func TestFilesAreTheOwners(t *testing.T) {
	s := newSample(t)
	for _, name := range []string{recordsName, indexName, hashesName, stateName} {
		info, err := os.Stat(filepath.Join(s.dir, name))
		if err != nil || os.PathSeparator == '/' && info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}
