package pipe

import (
	"bytes"
	"errors"
	"io"
	"testing"

	"ferry/internal/place"
	"ferry/internal/transfer"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, s *Source) place.File {
	t.Helper()
	f, err := s.Files(transfer.File(Name)).Open(Name, false)
	must(t, err)
	return f
}

// readFull reads so many bytes, waiting as the sender does.
func readFull(t *testing.T, f place.File, n int) []byte {
	t.Helper()
	b := make([]byte, n)
	for at := 0; at < n; {
		for w := f.(place.Waiter).Wait(); w != nil; w = f.(place.Waiter).Wait() {
			<-w
		}
		k, err := f.Read(b[at:])
		if at += k; err != nil && at < n {
			t.Fatal(err)
		}
	}
	return b
}

// Bytes that were read can be read again, except those that the destination has made safe.
func TestSourceKeepsWhatIsNotSafe(t *testing.T) {
	in := bytes.Repeat([]byte("0123456789"), 100_000)
	s := NewSource(bytes.NewReader(in))
	f := open(t, s)
	readFull(t, f, 600_000)
	s.Forget(400_000)
	if !f.(place.Seeker).SeekTo(400_000) || f.(place.Seeker).SeekTo(399_999) {
		t.Fatal("it goes on elsewhere than where it can")
	}
	if got := readFull(t, f, 600_000); !bytes.Equal(got, in[400_000:]) {
		t.Error("other bytes are read the second time")
	}
	if n, err := f.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("behind the end %d bytes are read: %v", n, err)
	}
	if version := open(t, s).Facts().Version; version != f.Facts().Version || len(version) > transfer.MaxVersion {
		t.Errorf("the version is %q", version)
	}
	_, err := open(t, s).Read(make([]byte, 1))
	if transfer.KindOf(err) != transfer.KindUnreadable {
		t.Errorf("from its start it is read with %v", err)
	}
}

type broken struct{ left int }

func (b *broken) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errors.New("the cable is out")
	}
	n := min(b.left, len(p))
	b.left -= n
	return n, nil
}

func TestSourceThatBreaks(t *testing.T) {
	f := open(t, NewSource(&broken{1000}))
	readFull(t, f, 1000)
	for w := f.(place.Waiter).Wait(); w != nil; w = f.(place.Waiter).Wait() {
		<-w
	}
	if _, err := f.Read(make([]byte, 1)); transfer.KindOf(err) != transfer.KindUnreadable {
		t.Errorf("it ends with %v", err)
	}
}

// A file that begins again is written once; one that is another then fails.
func TestTargetWritesOnce(t *testing.T) {
	id := transfer.ID{1}
	var out bytes.Buffer
	target := NewTarget(&out, id)
	l := target.Land(place.LandConfig{Transfer: id})
	create := func() place.Part {
		p, err := l.Create(0, place.Staging{Name: "x"})
		must(t, err)
		return p
	}
	must(t, create().Write([]byte("one two")))
	again := create()
	must(t, errors.Join(again.Write([]byte("one ")), again.Write([]byte("two three")), again.Skip(2)))
	if out.String() != "one two three\x00\x00" {
		t.Fatalf("%q is written", out.String())
	}
	point := again.Point()
	for n := range point {
		if _, err := l.Reopen(0, place.Staging{}, point[:n]); err == nil {
			t.Errorf("the first %d bytes of a point are one", n)
		}
	}
	on, err := l.Reopen(0, place.Staging{}, point)
	must(t, err)
	must(t, on.Write([]byte("!")))
	if out.Len() != 16 || on.Offset() != 16 {
		t.Errorf("%q is written, up to %d", out.String(), on.Offset())
	}
	if err := create().Write([]byte("another text, and longer than that")); transfer.KindOf(err) != transfer.KindChanging || out.Len() != 16 {
		t.Errorf("another file is written: %v", err)
	}
	short := create()
	target.failed = nil
	must(t, short.Write([]byte("one")))
	j := &journal{}
	l.(*landing).cfg.Journal = j
	if _, err := l.Commit(t.Context(), []place.Pending{{Part: short, Outcome: transfer.Outcome{Type: transfer.ItemFile}}}); err != nil || transfer.KindOf(j.done[0].Err) != transfer.KindChanging {
		t.Errorf("a file that has become shorter arrives: %+v, %v", j.done, err)
	}
	if _, err := l.Create(1, place.Staging{Name: "y"}); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("a second file is taken: %v", err)
	}
	if _, err := target.Land(place.LandConfig{Transfer: transfer.ID{2}}).Locate("x", "x"); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("another transfer is taken: %v", err)
	}
}

// A journal has the outcomes that were recorded last.
type journal struct{ done []transfer.Outcome }

func (j *journal) Committing([]transfer.Intent) error          { return nil }
func (j *journal) Again([]uint64) error                        { return nil }
func (j *journal) Committed(outcomes []transfer.Outcome) error { j.done = outcomes; return nil }

// A reader that does not read blocks a process no longer than intended.
func TestTargetIsAbandoned(t *testing.T) {
	in, out := io.Pipe()
	defer in.Close()
	target := NewTarget(out, transfer.ID{1})
	p, err := target.Land(place.LandConfig{Transfer: transfer.ID{1}}).Create(0, place.Staging{Name: "x"})
	must(t, err)
	ended := make(chan error)
	go func() { ended <- p.Write([]byte("nobody reads this")) }()
	target.Abandon()
	target.Abandon()
	if err := <-ended; transfer.KindOf(err) != transfer.KindUnwritable {
		t.Errorf("it ends with %v", err)
	}
}

// A process that only receives sends nothing, and one that only sends receives nothing, at any request.
func TestStreamsHaveOneDirection(t *testing.T) {
	if several, unnamed := (NoSource{}).Expands(transfer.Match("*")); several || unnamed {
		t.Error("a source of a process that only receives is more than one file")
	}
	_, err := NoSource{}.Walk(t.Context(), place.WalkRequest{Args: place.Args(false, transfer.File(Name))}, nil)
	if transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("it sends: %v", err)
	}
	if _, err := (NoTarget{}).Resolve(transfer.File("x"), false, nil); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("it receives: %v", err)
	}
	if _, err := (NoTarget{}).Resolved(transfer.Resolution{Base: "x"}, nil); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("it receives a retry: %v", err)
	}
}
