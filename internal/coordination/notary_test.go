package coordination

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/audit/witness"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// An office is a notary with its log, a clock that is set, and one witness.
type office struct {
	*testing.T
	dir   string
	self  *identity.Identity
	alpha *witness.Key
	now   time.Time
	log   *audit.Log
	*notary
}

func newOffice(t *testing.T) *office {
	t.Helper()
	a := authoritytest.New(t)
	o := &office{T: t, dir: t.TempDir(), now: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)}
	o.self = authoritytest.Identity(t, a, identity.Coordination, "", roles.Coordination)
	var err error
	o.alpha, err = witness.OpenKey(authoritytest.Identity(t, a, identity.Agent, "ALPHA", roles.Agent), time.Now())
	o.must(err)
	o.open()
	t.Cleanup(func() { o.log.Close() })
	return o
}

func (o *office) must(err error) {
	o.Helper()
	if err != nil {
		o.Fatal(err)
	}
}

func (o *office) open() {
	o.Helper()
	var err error
	o.log, err = audit.OpenLog(filepath.Join(o.dir, "audit"), func() time.Time { return o.now })
	o.must(err)
	o.notary, err = newNotary(o.self, o.dir, o.log, func() time.Time { return o.now })
	o.must(err)
}

func (o *office) grow(n int) {
	o.Helper()
	for range n {
		o.must(o.log.AppendOwn(audit.Record{Event: audit.Warning}))
	}
}

// size is that of the newest checkpoint.
func (o *office) size(asked bool) int64 {
	o.Helper()
	k, err := o.newest(asked)
	o.must(err)
	if c, err := witness.OpenNote(k.Note, o.key.Party()); err != nil || c != k.At {
		o.Fatalf("%v, %v", c, err)
	}
	return k.At.Size
}

// A checkpoint is made every 100 records or 60 s, and at shorter intervals while a caller waits.
func TestWhenCheckpointsAreMade(t *testing.T) {
	o := newOffice(t)
	want := func(what string, asked bool, size int64) {
		t.Helper()
		if got := o.size(asked); got != size {
			t.Errorf("%s: the checkpoint has %d records, want %d", what, got, size)
		}
	}
	want("at the start", false, 0)
	o.grow(99)
	want("99 records", false, 0)
	o.grow(1)
	want("100 records", false, 100)
	o.grow(1)
	o.now = o.now.Add(noteEvery - time.Second)
	want("59 s", false, 100)
	o.now = o.now.Add(time.Second)
	want("60 s", false, 101)
	o.now = o.now.Add(time.Hour)
	want("nothing new", true, 101)
	o.grow(1)
	want("an agent waits", true, 102)
	o.grow(1)
	want("an agent waits again", true, 102)
	o.now = o.now.Add(noteAsked)
	want("a moment later", true, 103)
	o.grow(1)
	o.now = o.now.Add(-time.Hour) // the clock is set back
	want("an earlier time", false, 104)
}

// Cosigned checkpoints are kept, also over a restart. When there are too many notes, those without a cosignature go
// first.
func TestCosignedNotesAreKept(t *testing.T) {
	o := newOffice(t)
	if err := o.bind(o.alpha.Binding().Encode(), "BETA"); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("another's binding: %v", err)
	}
	o.must(o.bind(o.alpha.Binding().Encode(), "ALPHA"))
	o.must(o.bind(o.alpha.Binding().Encode(), "ALPHA"))
	if n := o.log.Size(); n != 1 {
		t.Errorf("%d records for one binding", n)
	}
	by, ok := o.latest("ALPHA")
	if !ok {
		t.Fatal("the key is not known")
	}

	o.now = o.now.Add(time.Minute)
	first, err := o.newest(false)
	o.must(err)
	line, err := o.alpha.Cosign(first.Note, o.now)
	o.must(err)
	o.must(o.cosigned(by, first.At.Size, line))
	o.must(o.cosigned(by, first.At.Size, line))
	if err := o.cosigned(by, 77, line); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("a note that there is not: %v", err)
	}
	for range 2 * maxNotes {
		o.grow(1)
		o.now = o.now.Add(time.Minute)
		o.size(false)
	}
	check := func(what string) {
		t.Helper()
		k, err := o.best(0)
		o.must(err)
		if len(o.notes) > maxNotes || k.At.Size != 1 || !o.has(k, "ALPHA") || o.has(k, "BETA") {
			t.Errorf("%s: %d notes are kept, and the best for the first record is of %d, by %v", what, len(o.notes), k.At.Size, k.Witnesses)
		}
	}
	check("as it runs")
	o.must(o.save(true))
	o.must(o.log.Close())
	o.open()
	o.know(0, o.alpha.Binding()) // as when the log is read
	check("after a start")

	// Notes of another log, or damaged ones, are left out.
	o.must(o.log.Close())
	o.must(os.RemoveAll(filepath.Join(o.dir, "audit")))
	o.open()
	if len(o.notes) != 1 || o.notes[0].At.Size != 0 {
		t.Errorf("%d notes of a new log", len(o.notes))
	}
	o.must(os.WriteFile(filepath.Join(o.dir, "checkpoints.json"), []byte("{"), 0o600))
	o.must(o.log.Close())
	o.open()
	if len(o.notes) != 1 {
		t.Errorf("%d notes", len(o.notes))
	}
}

// The keys of one agent that are on record are bounded.
func TestBindingsAreBounded(t *testing.T) {
	o := newOffice(t)
	for n := range maxBindings {
		b := *o.alpha.Binding()
		o.bound[fmt.Sprint(n)] = checkedBinding{&b, audit.Sealer{Party: o.alpha.Party()}}
	}
	if err := o.bind(o.alpha.Binding().Encode(), "ALPHA"); transfer.KindOf(err) != transfer.KindBusy {
		t.Errorf("one more: %v", err)
	}
}
