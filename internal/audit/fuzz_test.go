package audit

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// FuzzDecodeReceipt: an accepted receipt is written again as the same value.
func FuzzDecodeReceipt(f *testing.F) {
	b, err := EncodeReceipt(Receipt{Agent: "A1", Incarnation: FormatIncarnation(1), Have: 7, Index: 9})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"v":1}`))
	f.Add([]byte(`{"v":2,"agent":"A1"}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := DecodeReceipt(text)
		if err != nil {
			return
		}
		b, err := EncodeReceipt(r)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := DecodeReceipt(b); err != nil || again != r {
			t.Fatalf("%s became %+v, %v", b, again, err)
		}
	})
}

// FuzzAppend: the log accepts or refuses any batch. It stays sound, except for missing and repeated records, and
// accepts the further records of its agents.
func FuzzAppend(f *testing.F) {
	for _, b := range []Batch{batchOf(f, "A1", 1, 1, 1, 3), batchOf(f, "A1", 1, 3, 4, 5), forgedOf(f, "A1", 1, 1, 2, 4), batchOf(f, "A1", 1, 9, 9, 9),
		batchOf(f, "A1", 2, MaxNumber, 1, 0), batchOf(f, "B1", 1, 1<<40, 1<<40, 1<<40)} {
		text, err := EncodeBatch(&b)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(bytes.Replace(text, []byte(`{"v":1`), []byte(`{ "v":1`), 1))
		f.Add(text[:len(text)-1])
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := DecodeBatch(text)
		if err != nil {
			return
		}
		l := open(t, t.TempDir())
		defer closeLog(t, l)
		appendOK(t, l, batchOf(t, "A1", 1, 1, 1, 3))
		var last uint64
		if r, err := l.Append(b); err == nil && len(b.Records) > 0 {
			rec, err := Decode(b.Records[len(b.Records)-1])
			if last = rec.N; err != nil || r.Have > last {
				t.Fatalf("a batch up to record %d is receipted up to %d (%v)", last, r.Have, err)
			}
		}
		if r := appendOK(t, l, batchOf(t, "A1", 1, 4, 4, 6)); r.Have != 6 {
			t.Fatalf("the agent itself is receipted up to %d", r.Have)
		}
		own := kept(t, l, "A1", 1)
		for n := uint64(1); n <= 6; n++ {
			if !slices.Contains(own, n) {
				t.Fatalf("record %d of the agent is not in the log: %v", n, own)
			}
		}
		rep, err := l.Verify(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range rep.Problems {
			if !strings.Contains(p.Text, "missing") && !strings.Contains(p.Text, "twice") {
				t.Errorf("Verify: %+v", p)
			}
		}
	})
}

// FuzzFrames: the walker and the reader at an offset find the same records in any file, and only records that were
// written there.
func FuzzFrames(f *testing.F) {
	two := appendRecord(appendFrame(nil, []byte("first")), bytes.Repeat([]byte("second"), 1000))
	for _, b := range [][]byte{nil, two, appendFrame(nil, packed.Pack(bytes.Repeat([]byte("x"), 200))[:20]), two[:len(two)-1], two[:20], append(bytes.Clone(two), 0), {0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, make([]byte, 64)} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		w := newWalker(r, 0, int64(len(b)))
		for at := int64(0); ; {
			body, err := w.next()
			other, oerr := []byte(nil), error(nil)
			if at < int64(len(b)) {
				other, oerr = readRecord(r, at)
				if (err == nil) != (oerr == nil) || err == nil && !bytes.Equal(body, other) {
					t.Fatalf("at %d the one reads %x, %v, the other %x, %v", at, body, err, other, oerr)
				}
				if bad := new(badFrame); err != nil && !errors.As(err, &bad) {
					t.Fatalf("at %d: %v", at, err)
				}
			}
			if err != nil {
				return
			}
			stored := b[at+frameHead : w.at]
			plain, err := Unpack(stored)
			if err != nil || !bytes.Equal(appendFrame(nil, stored), b[at:w.at]) || !bytes.Equal(plain, body) {
				t.Fatalf("at %d a record is read that is not there: %x, %v", at, body, err)
			}
			at = w.at
		}
	})
}

// FuzzState: a state file is read as it was written, or is damaged.
func FuzzState(f *testing.F) {
	dir := f.TempDir()
	l := open(f, dir)
	appendOK(f, l, batchOf(f, "A1", 1, 1, 1, 20))
	closeLog(f, l)
	whole, err := os.ReadFile(filepath.Join(dir, stateName))
	if err != nil {
		f.Fatal(err)
	}
	log, err := parseHeader(whole[:headerSize], stateMagic, stateName)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole)
	f.Add(whole[:headerSize])
	f.Add(appendFrame(header(stateMagic, log), []byte(`{"v":1,"streams":[{"agent":"A","incarnation":"x"}]}`)))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, stateName), b, 0o600); err != nil {
			t.Fatal(err)
		}
		st, err := readState(osDisk{}, dir, log)
		if err == nil && st == nil {
			t.Fatal("there is a state file, and no state")
		}
	})
}

// FuzzLogFiles: one change anywhere in the files of a log. Verify finds it, or OpenLog refuses it, or it changes no
// record. Opening the log for writing does no further harm.
func FuzzLogFiles(f *testing.F) {
	from := f.TempDir()
	l := open(f, from)
	for n := uint64(1); n <= 60; n += 20 {
		appendOK(f, l, batchOf(f, "A1", 1, 1, n, n+19))
	}
	closeLog(f, l)
	entries, err := os.ReadDir(from)
	if err != nil {
		f.Fatal(err)
	}
	var names []string
	files := map[string][]byte{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			f.Fatal(err)
		}
		names, files[e.Name()] = append(names, e.Name()), b
	}
	for n := range names {
		f.Add(uint8(n), 0, []byte{0})
		f.Add(uint8(n), 40, []byte{0xff, 0xff, 0xff})
		f.Add(uint8(n), -1, []byte{})
		f.Add(uint8(n), 30, []byte("123456789"))
	}
	f.Fuzz(func(t *testing.T, which uint8, at int, change []byte) {
		name := names[int(which)%len(names)]
		b := bytes.Clone(files[name])
		switch {
		case at < 0:
			b = b[:max(len(b)+at, 0)]
		case at < len(b):
			copy(b[at:], change)
		}
		dir := t.TempDir()
		for other, content := range files {
			if other == name {
				content = b
			}
			if err := os.WriteFile(filepath.Join(dir, other), content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		look(t, dir)
	})
}

// look opens a log for reading and then for writing, verifies it, and reads all its records.
func look(t *testing.T, dir string) {
	l, err := OpenLogReadOnly(dir)
	if err == nil {
		l.Verify(context.Background(), nil)
		l.Close()
	}
	l, err = openLog(dir, still, &faulty{quick: true})
	if err != nil {
		return
	}
	defer l.Close()
	rep, err := l.Verify(context.Background(), nil)
	if err != nil || rep.Found > 0 {
		return
	}
	// A record that verifies is one of the written records.
	for i := range l.Size() {
		raw, r, err := l.Read(i)
		if err != nil {
			t.Fatalf("record %d of a log that is sound: %v", i, err)
		}
		if r.Agent != Coordination {
			want := recordOf("A1", 1, r.N)
			if !bytes.Equal(raw, encoded(t, want)) {
				t.Fatalf("record %d of a log that is sound is %s", i, raw)
			}
		}
	}
}
