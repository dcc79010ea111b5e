package ledger

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/transfer"
)

// grown makes a database of many pages, some longer than one, some free.
func grown(t testing.TB, dir string, records int) (file string) {
	t.Helper()
	s, err := openBolt(dir, time.Second)
	mustDo(t, err)
	r := rand.New(rand.NewPCG(1, 7))
	for round := range 3 {
		mustDo(t, s.Update(func(tx StoreTx) error {
			for _, b := range buckets {
				mustDo(t, tx.Make(b))
			}
			for n := range records {
				size := 20 + r.IntN(200)
				if n%97 == 0 {
					size = 20_000
				}
				mustDo(t, tx.Bucket(bItems).Put(fmt.Appendf(nil, "key %06d", n), bytes.Repeat([]byte{byte(n + round)}, size)))
			}
			_, err := tx.Bucket(bOutbox).NextSequence()
			return err
		}))
		mustDo(t, s.Update(func(tx StoreTx) error {
			for n := 0; n < records; n += 3 {
				mustDo(t, tx.Bucket(bItems).Delete(fmt.Appendf(nil, "key %06d", n)))
			}
			return nil
		}))
	}
	mustDo(t, s.Close())
	return filepath.Join(dir, "ledger.db")
}

// contents returns all data of a store, as text.
func contents(t testing.TB, dir string) (all string, err error) {
	t.Helper()
	s, err := openBolt(dir, time.Second)
	if err != nil {
		return "", err
	}
	defer s.Close()
	var b strings.Builder
	err = s.View(func(tx StoreTx) error {
		for _, name := range buckets {
			fmt.Fprintf(&b, "%s %d\n", name, tx.Bucket(name).Sequence())
			c := tx.Bucket(name).Cursor()
			for k, v := c.Seek(nil); k != nil; k, v = c.Next() {
				fmt.Fprintf(&b, "%s %x\n", k, v)
			}
		}
		return nil
	})
	return b.String(), err
}

// After any change of the file, the ledger reads the written data, or refuses and names the file.
func TestDamageIsFound(t *testing.T) {
	dir := t.TempDir()
	file := grown(t, dir, 400)
	want, err := contents(t, dir)
	mustDo(t, err)
	whole, err := os.ReadFile(file)
	mustDo(t, err)
	r := rand.New(rand.NewPCG(2, 7))
	found := 0
	for n := range 600 {
		b := bytes.Clone(whole)
		at := r.IntN(len(b))
		switch n % 6 {
		case 0:
			b = b[:at]
		case 1:
			clear(b[at:min(at+512, len(b))])
		case 2: // the heads of pages are a small part of the bytes
			at = at/4096*4096 + r.IntN(48)
			b[at] ^= 1 << r.IntN(8)
		default:
			b[at] ^= 1 << r.IntN(8)
		}
		mustDo(t, os.WriteFile(file, b, 0o600))
		got, err := contents(t, dir)
		switch {
		case err == nil && got != want:
			t.Fatalf("change %d at %d is believed", n, at)
		case err != nil && (transfer.KindOf(err) != transfer.KindInternal || !strings.Contains(err.Error(), file)):
			t.Fatalf("change %d at %d: %v", n, at, err)
		case err != nil:
			found++
		}
	}
	if found < 150 { // the others changed free pages
		t.Errorf("only %d of 600 changes were found", found)
	}
}

// A file that a power cut has left without contents begins anew; a file with contents does not.
func TestUnbornDatabase(t *testing.T) {
	for size, ok := range map[int]bool{0: true, 16 << 10: true, 32 << 10: false} {
		dir := t.TempDir()
		mustDo(t, os.WriteFile(filepath.Join(dir, "ledger.db"), make([]byte, size), 0o600))
		s, err := openBolt(dir, time.Second)
		if (err == nil) != ok {
			t.Errorf("%d zeros: %v", size, err)
		}
		if err == nil {
			mustDo(t, s.Close())
		}
	}
}

// A ledger of a host with the other byte order is not called damaged: that error would make an operator move it away.
func TestDatabaseOfOtherByteOrder(t *testing.T) {
	dir := t.TempDir()
	file := grown(t, dir, 10)
	data, err := os.ReadFile(file)
	mustDo(t, err)
	for at := 0; at+4 <= len(data); at += 4 {
		slices.Reverse(data[at : at+4])
	}
	mustDo(t, os.WriteFile(file, data, 0o600))
	_, err = openBolt(dir, time.Second)
	if err == nil || strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "other byte order") || !strings.Contains(err.Error(), file) {
		t.Errorf("%v", err)
	}
}

// Damage during an open ledger is an error of the transaction.
func TestDamageWhileOpen(t *testing.T) {
	dir := t.TempDir()
	file := grown(t, dir, 400)
	s, err := openBolt(dir, time.Second)
	mustDo(t, err)
	defer s.Close()
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	mustDo(t, err)
	defer f.Close()
	info, err := f.Stat()
	mustDo(t, err)
	for at := int64(2 * os.Getpagesize()); at < info.Size(); at += 64 {
		_, err := f.WriteAt([]byte{0xff, 0xff, 0xff, 0xff}, at)
		mustDo(t, err)
	}
	err = s.View(func(tx StoreTx) error {
		c := tx.Bucket(bItems).Cursor()
		for k, _ := c.Seek(nil); k != nil; k, _ = c.Next() {
		}
		return nil
	})
	if transfer.KindOf(err) != transfer.KindInternal || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("a damaged page is read: %v", err)
	}
}

// A panic of the caller is not taken for damage.
func TestOwnPanicGoesOn(t *testing.T) {
	s, err := openBolt(t.TempDir(), time.Second)
	mustDo(t, err)
	defer s.Close()
	defer func() {
		if p := recover(); p != "mine" {
			t.Errorf("recovered %v", p)
		}
	}()
	s.View(func(StoreTx) error { panic("mine") })
}

func FuzzInspect(f *testing.F) {
	dir := f.TempDir()
	whole, err := os.ReadFile(grown(f, dir, 30))
	mustDo(f, err)
	f.Add(0, []byte("x"))
	f.Add(4096+16, []byte{0xed})
	f.Add(3*4096+8, []byte{2, 0, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, at int, change []byte) {
		b := bytes.Clone(whole)
		if at >= 0 && at < len(b) {
			copy(b[at:], change)
		}
		inspectPages(bytes.NewReader(b), int64(len(b))) // it must only return
	})
}

func mustDo(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
