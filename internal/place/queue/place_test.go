package queue

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/place"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A journal keeps its arguments, and may call a function before a commit begins.
type journal struct {
	before  func()
	intents []transfer.Intent
	ended   []transfer.Outcome
	again   []uint64
}

func (j *journal) Committing(in []transfer.Intent) error {
	if j.before != nil {
		j.before()
	}
	j.intents = append(j.intents, in...)
	return nil
}
func (j *journal) Committed(o []transfer.Outcome) error { j.ended = append(j.ended, o...); return nil }
func (j *journal) Again(items []uint64) error           { j.again = append(j.again, items...); return nil }

func land(t *testing.T, q *queues, dir string, j *journal, dest transfer.Path) place.Landing {
	t.Helper()
	target := NewTarget(q.writer, dir)
	res, err := target.Resolve(transfer.Location{Place: transfer.Queues, Path: dest}, false, nil)
	must(t, err)
	return target.Land(place.LandConfig{Transfer: testID, Generation: 1, Durable: true, Journal: j, Destination: place.Destination{Dest: transfer.Location{Place: transfer.Queues, Path: dest}, Resolution: res}})
}

func arrives(t *testing.T, l place.Landing, content string) place.Pending {
	t.Helper()
	p, err := l.Create(3, place.Staging{Name: "f.txt", Size: int64(len(content))})
	must(t, err)
	must(t, p.Write([]byte(content)))
	return place.Pending{Part: p, Name: "f.txt", Outcome: transfer.Outcome{Item: 3, Type: transfer.ItemFile, Size: int64(len(content)), Digest: "xxh3:1"}}
}

func staged(t *testing.T, dir string) int {
	all, err := os.ReadDir(dir)
	must(t, err)
	return len(all)
}

// No message of a file is in the queue before the file is recorded as complete. Afterwards all of them are.
func TestFileBecomesMessages(t *testing.T) {
	q, dir := newQueues(), t.TempDir()
	j := &journal{before: func() {
		if n := len(q.texts()); n > 0 {
			t.Errorf("%d messages are there before it is on record", n)
		}
	}}
	l := land(t, q, dir, j, "queue:ORDERS?split-delimiter=%3B")
	done, err := l.Commit(t.Context(), []place.Pending{arrives(t, l, "a;b;c")})
	must(t, err)
	group := testID.String() + "-3"
	if len(done) != 1 || done[0].Err != nil || done[0].Path != transfer.Path("queue:ORDERS?group="+group) || !slices.Equal(q.texts(), []string{"a", "b", "c"}) {
		t.Fatalf("%+v, %q", done, q.texts())
	}
	if m := q.all[2]; m.Header[wire.HeaderLast] != "true" || m.Header[wire.HeaderSequence] != "3" || m.Header[wire.HeaderFile] != "f.txt" || m.Header[wire.HeaderDigest] != "xxh3:1" || m.Header[wire.HeaderFileSize] != "5" || m.Header[wire.HeaderGroup] != group {
		t.Errorf("%+v", m)
	}
	if len(q.receipts) > 0 || staged(t, dir) > 0 {
		t.Errorf("left are %v and %d files", q.receipts, staged(t, dir))
	}
}

// Messages are stored once, even if a Publish or its answer is lost, and even if a consumer takes the messages
// meanwhile.
func TestStoredOnce(t *testing.T) {
	for name, c := range map[string]struct {
		done, answered, taken, crash bool
	}{"not stored": {}, "answer lost": {done: true}, "answer lost and taken": {done: true, taken: true}, "crash": {done: true, crash: true}, "crash and taken": {done: true, crash: true, taken: true}, "crash before": {crash: true}} {
		t.Run(name, func(t *testing.T) {
			q, dir, j, tries := newQueues(), t.TempDir(), &journal{}, 0
			failing := true
			q.lost = func(wire.QueueItem, wire.QueueReceipt) (done, answered bool) {
				tries++
				if !failing || tries > 1 && !c.crash {
					return true, true
				}
				if c.crash {
					failing = false
					panic("crash")
				}
				return c.done, false
			}
			l := land(t, q, dir, j, "queue:ORDERS?split-size=2")
			func() {
				defer func() { recover() }()
				_, err := l.Commit(context.Background(), []place.Pending{arrives(t, l, "abcde")})
				must(t, err)
			}()
			if c.crash { // the queue manager had it, or had not
				if c.done {
					item := wire.QueueItem{Queue: "ORDERS", Transfer: testID, Item: 3}
					for _, s := range []string{"ab", "cd", "e"} {
						q.put(item.Group(), s, 0, false)
					}
					q.receipts[receiptOf(&item)] = wire.QueueReceipt{Messages: 3, Last: true, Number: 9}
				}
			}
			want := []string{"ab", "cd", "e"}
			if c.taken {
				must(t, q.Take(t.Context(), wire.QueueSpan{Queue: "ORDERS", Last: 99}))
				want = nil
			}
			if c.crash {
				again := land(t, q, dir, j, "queue:ORDERS?split-size=2")
				v, o, err := again.Recover(j.intents[0], "")
				if err != nil || v != place.Done || o.Err != nil {
					t.Fatalf("%v, %+v, %v", v, o, err)
				}
				must(t, again.RemoveLeftovers([]transfer.Path{"queue:ORDERS"}, true))
			}
			if got := q.texts(); !slices.Equal(got, want) || staged(t, dir) > 0 || len(q.receipts) > 0 {
				t.Errorf("there are %q, %d files, receipts %v", got, staged(t, dir), q.receipts)
			}
		})
	}
}

// A file of more messages than one Publish stores is complete with its last message. The commit waits for room in a
// full queue.
func TestStoredInParts(t *testing.T) {
	q, dir, j := newQueues(), t.TempDir(), &journal{}
	q.room = 1000
	l := land(t, q, dir, j, "queue:ORDERS?split-size=1")
	_, err := l.Commit(t.Context(), []place.Pending{arrives(t, l, strings.Repeat("x", 2500))})
	if pending, ok := err.(*place.PendingError); !ok || len(pending.Intents) != 1 {
		t.Fatalf("it ends with %v", err)
	}
	if g, _ := q.Groups(t.Context(), wire.QueueSpan{Queue: "ORDERS"}); len(g) != 1 || g[0].Complete {
		t.Errorf("%+v", g)
	}
	q.room = 1 << 20
	v, _, err := land(t, q, dir, j, "queue:ORDERS?split-size=1").Recover(j.intents[0], "")
	if g, _ := q.Groups(t.Context(), wire.QueueSpan{Queue: "ORDERS"}); err != nil || v != place.Done || len(q.texts()) != 2500 || !g[0].Complete {
		t.Errorf("%v, %v, %d messages, %+v", v, err, len(q.texts()), g)
	}
	q.mark = "second"
	if v, o, err := l.Recover(j.intents[0], ""); v != place.Moved || err != nil || o.Err == nil {
		t.Errorf("%v, %v, %v", v, o.Err, err)
	}
}

// A file that waits for room in a queue without any of its messages is not COMMITTING. It is sent again when there is
// room, and does not arrive after its transfer was abandoned.
func TestFullQueueOfNothing(t *testing.T) {
	q, dir, j := newQueues(), t.TempDir(), &journal{}
	q.room = 2
	l := land(t, q, dir, j, "queue:ORDERS?split-size=1")
	p := arrives(t, l, "abc")
	done, err := l.Commit(t.Context(), []place.Pending{p})
	wantKind(t, err, transfer.KindNoSpace)
	if errors.As(err, new(*place.PendingError)) || len(done) > 0 || !slices.Equal(j.again, []uint64{3}) {
		t.Errorf("%v is done, and the journal is told of %v to begin again: %v", done, j.again, err)
	}
	if v, _, err := l.Recover(j.intents[0], ""); v != place.Redo || err != nil {
		t.Errorf("after a crash it is %v, %v", v, err)
	}
	q.room = 3
	if done, err = l.Commit(t.Context(), []place.Pending{p}); err != nil || len(done) != 1 || len(q.texts()) != 3 {
		t.Errorf("with room %v, %v, %d messages", done, err, len(q.texts()))
	}
}

// A file that is larger than its queue's limit fails, and does not make other files of its group wait.
func TestLargerThanTheQueue(t *testing.T) {
	q, j := newQueues(), &journal{}
	q.bytes = 4
	l := land(t, q, t.TempDir(), j, "queue:ORDERS?split-size=1")
	done, err := l.Commit(t.Context(), []place.Pending{arrives(t, l, "abcde")})
	if err != nil || len(done) != 1 || transfer.KindOf(done[0].Err) != transfer.KindUnwritable {
		t.Errorf("%+v, %v", done, err)
	}
	if len(q.texts()) > 0 {
		t.Errorf("%q is stored", q.texts())
	}
}

func TestReopen(t *testing.T) {
	q, dir, j := newQueues(), t.TempDir(), &journal{}
	p := arrives(t, land(t, q, dir, j, "queue:ORDERS"), "abc")
	point := p.Part.Point()
	must(t, p.Part.Write([]byte("lost")))
	must(t, p.Part.Close())
	l := land(t, q, dir, j, "queue:ORDERS")
	for _, bad := range [][]byte{nil, {9, 1}, {1}, {1, 3, 3}} {
		_, err := l.Reopen(3, place.Staging{}, bad)
		wantKind(t, err, transfer.KindVersion)
	}
	var err error
	p.Part, err = l.Reopen(3, place.Staging{Name: "f.txt"}, point)
	must(t, err)
	must(t, p.Part.Write([]byte("def")))
	_, err = l.Commit(t.Context(), []place.Pending{p})
	if must(t, err); !slices.Equal(q.texts(), []string{"abcdef"}) {
		t.Errorf("%q", q.texts())
	}
	_, err = l.Reopen(4, place.Staging{}, point)
	wantKind(t, err, transfer.KindMissing)
	_, err = l.Create(5, place.Staging{Size: wire.MaxQueueMessage + 1})
	wantKind(t, err, transfer.KindTooLarge, "--split-size")
}

func FuzzIntent(f *testing.F) {
	f.Add((&intent{To: "queue:ORDERS", Mark: "m", Stage: "1-x-2", Name: "n", Messages: 3}).bytes())
	f.Add([]byte{1, '{', '}'})
	f.Fuzz(func(t *testing.T, b []byte) {
		in, _, err := readIntent(b)
		if err != nil {
			return
		}
		if strings.ContainsAny(in.Stage, "/") || in.Messages < 1 {
			t.Fatalf("%+v", in)
		}
	})
}

func FuzzVersion(f *testing.F) {
	f.Add(string((&Address{Picked: Picked{Mark: "m", Last: 9, Messages: 3, Bytes: 4}}).version()))
	f.Fuzz(func(t *testing.T, s string) {
		p, err := readVersion(transfer.Version(s))
		if again, err2 := readVersion((&Address{Picked: p}).version()); err == nil && (err2 != nil || again != p) {
			t.Fatalf("%+v became %+v, %v", p, again, err2)
		}
	})
}

func pick(t *testing.T, q *queues, source transfer.Path) transfer.Item {
	t.Helper()
	return pickOf(t, q, source, "")
}

func pickOf(t *testing.T, q *queues, source, picked transfer.Path) transfer.Item {
	t.Helper()
	var all []transfer.Item
	args := []place.Argument{{Source: transfer.Location{Place: transfer.Queues, Path: source}, Picked: picked}}
	_, err := NewSource(q.reader).Walk(t.Context(), place.WalkRequest{Args: args}, func(it transfer.Item) error { all = append(all, it); return nil })
	must(t, err)
	if len(all) != 1 {
		t.Fatalf("there are %d items", len(all))
	}
	return all[0]
}

// An item has the queue's name from the request, and the picked messages in a field of their own. So does a request
// item. A location never has picked messages.
func TestPickedMessagesAreNotInTheName(t *testing.T) {
	q := newQueues()
	q.put("", "a", 0, false)
	q.put("g", "b", 1, true)
	for _, c := range []struct {
		source, picked transfer.Path // of the request item
		want           transfer.Item
		kind           transfer.Kind
	}{
		{source: "queue:ORDERS", want: transfer.Item{Source: "queue:ORDERS", Picked: "queue:ORDERS?mark=first&picked=2-2-2"}},
		{source: "queue:ORDERS?delimiter=%7C", want: transfer.Item{Source: "queue:ORDERS?delimiter=%7C", Picked: "queue:ORDERS?delimiter=%7C&mark=first&picked=2-2-2"}},
		{source: "queue:ORDERS?group=g", want: transfer.Item{Source: "queue:ORDERS?group=g", Picked: "queue:ORDERS?group=g&mark=first&picked=2-1-1&writer=bob"}},
		{source: "queue:ORDERS?group=*", want: transfer.Item{Source: "queue:ORDERS?group=g", Picked: "queue:ORDERS?group=%2A&mark=first&picked=2-1-1&picked-group=g&writer=bob"}},
		{source: "queue:NONE", want: transfer.Item{Source: "queue:NONE"}, kind: transfer.KindMissing},

		{source: "queue:ORDERS?after=1", picked: "queue:ORDERS?after=1&mark=first&picked=2-1-1",
			want: transfer.Item{Source: "queue:ORDERS?after=1", Picked: "queue:ORDERS?after=1&mark=first&picked=2-1-1"}},
		{source: "queue:ORDERS", picked: "queue:ORDERS?mark=first&picked=1-1-1", want: transfer.Item{Source: "queue:ORDERS", Picked: "queue:ORDERS?mark=first&picked=1-1-1"}},
		{source: "queue:ORDERS", picked: "queue:OTHERS?mark=first&picked=1-1-1",
			want: transfer.Item{Source: "queue:ORDERS", Picked: "queue:OTHERS?mark=first&picked=1-1-1"}, kind: transfer.KindMalformed},
		{source: "queue:ORDERS", picked: "queue:ORDERS", want: transfer.Item{Source: "queue:ORDERS"}, kind: transfer.KindMalformed},
		{source: "queue:ORDERS", picked: "ORDERS", want: transfer.Item{Source: "queue:ORDERS", Picked: "ORDERS"}, kind: transfer.KindUsage},
		{source: "queue:ORDERS?mark=first&picked=1-1-1", want: transfer.Item{Source: "queue:ORDERS?mark=first&picked=1-1-1"}, kind: transfer.KindUsage},
	} {
		it := pickOf(t, q, c.source, c.picked)
		var kind transfer.Kind
		if it.Err != nil {
			kind = it.Err.Kind
		}
		if it.Source != c.want.Source || it.Picked != c.want.Picked || kind != c.kind {
			t.Errorf("%s, %s: the item is %s, read by %s: %v; want %s, %s, %v", c.source, c.picked, it.Source, it.Picked, it.Err, c.want.Source, c.want.Picked, c.kind)
		}
	}
}

// Messages that arrive after the walk are not sent, and not removed.
func TestMessagesBecomeAFile(t *testing.T) {
	q := newQueues()
	for _, s := range []string{"a", "", "ccc"} {
		q.put("", s, 0, false)
	}
	it := pick(t, q, "queue:ORDERS?delimiter=%7C")
	q.put("", "later", 0, false)
	s := NewSource(q.reader)
	f, err := s.Files(transfer.Location{}).Open(it.Reads(), false)
	must(t, err)
	got, err := io.ReadAll(f)
	if err != nil || string(got) != "a||ccc" || f.Unchanged() != nil || it.Size != 6 {
		t.Fatalf("%q of %+v, %v", got, it, err)
	}
	v := f.Facts().Version
	must(t, s.Delete(it.Reads(), v, "", false))
	if left := q.texts(); !slices.Equal(left, []string{"later"}) {
		t.Errorf("left are %q", left)
	}
	must(t, s.Delete(it.Reads(), v, "", true))
	wantKind(t, s.Delete(it.Reads(), v, "", false), transfer.KindMissing)
	if left := q.texts(); !slices.Equal(left, []string{"later"}) {
		t.Errorf("left are %q", left)
	}
}

// Messages after a number are sent and removed without those before it. An interrupted call continues.
func TestMessagesAfterOne(t *testing.T) {
	q := newQueues()
	for _, s := range []string{"a", "b", "c", "d"} {
		q.put("", s, 0, false)
	}
	s := NewSource(q.reader)
	w, err := s.Watch(t.Context(), Address{Queue: "ORDERS"})
	must(t, err)
	a, err := w.New(t.Context(), 2)
	must(t, err)
	q.put("", "later", 0, false)
	f, err := s.Files(transfer.Location{}).Open(a.Path(), false)
	must(t, err)
	got, err := io.ReadAll(f)
	if err != nil || string(got) != "cd" || f.Unchanged() != nil {
		t.Fatalf("%q of %s, %v", got, a.Path(), err)
	}
	v := f.Facts().Version
	must(t, q.Take(t.Context(), wire.QueueSpan{Queue: "ORDERS", First: 3, Last: 3})) // by a call that has not ended
	wantKind(t, s.Delete(a.Path(), v, "", false), transfer.KindChanging)
	must(t, s.Delete(a.Path(), v, "", true))
	if left := q.texts(); !slices.Equal(left, []string{"a", "b", "later"}) {
		t.Errorf("left are %q", left)
	}
	if a, err := w.New(t.Context(), 5); err != nil || a.Picked != (Picked{}) {
		t.Errorf("after the last message there is %s, %v", a.Path(), err)
	}
}

// A walk of items that failed before emits the messages that were picked then, also if a source names them itself.
func TestOnly(t *testing.T) {
	picked := transfer.Path("queue:ORDERS?after=2&mark=first&picked=4-2-2")
	for source, want := range map[transfer.Path]transfer.Path{
		"queue:ORDERS": "", "queue:ORDERS?after=2": picked, picked: picked, "queue:ORDERS?after=2&mark=first&picked=5-3-3": "",
	} {
		a, err := Parse(source)
		must(t, err)
		got, err := selectPicked(a, []transfer.Path{"in/file", picked})
		if must(t, err); want == "" && got.Queue != "" || want != "" && got.Path() != want {
			t.Errorf("of %s it gives %s, not %s", source, got.Path(), want)
		}
	}
}

// If another program takes messages meanwhile, the file is incomplete and the other messages stay.
func TestSomebodyElseTakes(t *testing.T) {
	q := newQueues()
	for _, s := range []string{"a", "b", "c"} {
		q.put("", s, 0, false)
	}
	it, s := pick(t, q, "queue:ORDERS"), NewSource(q.reader)
	f, err := s.Files(transfer.Location{}).Open(it.Reads(), false)
	must(t, err)
	must(t, q.Take(t.Context(), wire.QueueSpan{Queue: "ORDERS", Last: 1}))
	_, err = io.ReadAll(f)
	wantKind(t, err, transfer.KindChanging)
	wantKind(t, s.Delete(it.Reads(), f.Facts().Version, "", false), transfer.KindChanging, "stay")
	if len(q.texts()) != 2 {
		t.Errorf("left are %q", q.texts())
	}
}

func TestGroups(t *testing.T) {
	q := newQueues()
	q.put("g", "1", 1, false)
	q.put("", "x", 0, false)
	if it := pick(t, q, "queue:ORDERS?group=g"); it.Err == nil || it.Err.Kind != transfer.KindMissing || !strings.Contains(it.Err.Text, "not complete") {
		t.Errorf("%+v", it)
	}
	q.put("g", "2", 2, true)
	it, s := pick(t, q, "queue:ORDERS?group=g"), NewSource(q.reader)
	f, err := s.Files(transfer.Location{}).Open(it.Reads(), false)
	must(t, err)
	if got, err := io.ReadAll(f); err != nil || string(got) != "12" {
		t.Errorf("%q, %v", got, err)
	}
	must(t, s.Delete(it.Reads(), f.Facts().Version, "", false))
	if !slices.Equal(q.texts(), []string{"x"}) {
		t.Errorf("left are %q", q.texts())
	}
	for source, kind := range map[transfer.Path]transfer.Kind{"queue:ORDERS?group=none": transfer.KindMissing, "queue:NONE": transfer.KindMissing, "queue:ORDERS?split-size=3": transfer.KindUsage} {
		if it := pick(t, q, source); it.Type != transfer.ItemBad || it.Err.Kind != kind {
			t.Errorf("%s: %+v", source, it)
		}
	}
}

// A source with a time to wait takes the messages that come in that time. Without any it fails, as without the time.
func TestWaitsForMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueues()
		for _, of := range []string{"queue:ORDERS?wait=10s", "queue:ORDERS?group=*&wait=10s"} {
			began := time.Now()
			time.AfterFunc(4*time.Second, func() { q.put("g", "a", 1, true) })
			if it := pick(t, q, transfer.Path(of)); it.Err != nil || it.Size != 1 || time.Since(began) < 4*time.Second || time.Since(began) > 5*time.Second {
				t.Errorf("%s: %+v after %s", of, it, time.Since(began))
			}
			q.all = nil
		}
		began := time.Now()
		if it := pick(t, q, "queue:ORDERS?wait=10s"); it.Err == nil || it.Err.Kind != transfer.KindMissing || !strings.Contains(it.Err.Text, "after 10s") || time.Since(began) != 10*time.Second {
			t.Errorf("without a message: %+v after %s", it, time.Since(began))
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		over := errors.New("over")
		time.AfterFunc(time.Second, func() { cancel(over) })
		_, err := NewSource(q.reader).Walk(ctx, place.WalkRequest{Args: place.Args(false, transfer.Location{Place: transfer.Queues, Path: "queue:ORDERS?wait=10s"})}, func(transfer.Item) error { return nil })
		if !errors.Is(err, over) {
			t.Errorf("a cancelled walk ends with %v", err)
		}
	})
}

// The first complete group is picked once: after a restart, and for the removal of the messages, it stays the same
// group, even if others have become complete.
func TestFirstCompleteGroup(t *testing.T) {
	q, s := newQueues(), NewSource(newQueues().reader)
	s.queues = q
	if it := pick(t, q, "queue:ORDERS?group=*"); it.Err == nil || it.Err.Kind != transfer.KindMissing {
		t.Errorf("%+v", it)
	}
	q.put("early", "1", 1, false)
	q.put("g", "a", 1, false)
	if it := pick(t, q, "queue:ORDERS?group=*"); it.Err == nil || !strings.Contains(it.Err.Text, "no complete group") {
		t.Errorf("%+v", it)
	}
	q.put("g", "b", 2, true)
	it := pick(t, q, "queue:ORDERS?group=*&delimiter=%3B&delimiter-at=before")
	q.put("early", "2", 2, true)
	q.put("g", "c", 3, false)

	var again []transfer.Item
	_, err := s.Walk(t.Context(), place.WalkRequest{Args: place.Args(false, transfer.Location{Place: transfer.Queues, Path: "queue:ORDERS?group=*&delimiter=%3B&delimiter-at=before"}), Only: []transfer.Path{it.Reads()}},
		func(it transfer.Item) error { again = append(again, it); return nil })
	must(t, err)
	if len(again) != 1 || again[0].Reads() != it.Reads() {
		t.Errorf("a repeated walk picks %+v, not %s", again, it.Reads())
	}
	f, err := s.Files(transfer.Location{}).Open(it.Reads(), false)
	must(t, err)
	if got, err := io.ReadAll(f); err != nil || string(got) != ";a;b" || it.Size != int64(len(got)) {
		t.Errorf("%q of %d bytes, %v", got, it.Size, err)
	}
	must(t, s.Delete(it.Reads(), f.Facts().Version, "", false))
	if !slices.Equal(q.texts(), []string{"1", "2", "c"}) {
		t.Errorf("left are %q", q.texts())
	}
	if it := pick(t, q, "queue:ORDERS?group=*&delimiter=%3B&delimiter-at=after"); it.Size != 4 {
		t.Errorf("%+v", it)
	}
}

// A new epoch does not read the messages from their beginning: a file goes back to any offset that was read, and
// requests the bytes after it.
func TestGoesBack(t *testing.T) {
	for _, path := range []transfer.Path{"queue:ORDERS", "queue:ORDERS?delimiter=%3B%0A", "queue:ORDERS?delimiter=%3B&delimiter-at=before", "queue:ORDERS?delimiter=%3B&delimiter-at=after"} {
		q := newQueues()
		for n := range 2 * maxMarks {
			q.put("", strings.Repeat(string(rune('a'+n%26)), n%9), 0, false)
		}
		f, err := NewSource(q.reader).Files(transfer.Location{}).Open(path, false)
		must(t, err)
		want, err := io.ReadAll(f)
		must(t, err)
		if back := f.(place.Rewinder); back.SeekTo(int64(len(want))+1) || len(f.(*file).marks) > maxMarks {
			t.Errorf("%s: the file goes to an offset that was not read, or keeps %d marks", path, len(f.(*file).marks))
		}
		for k := range 20 {
			at := (k*k*37 + k) % len(want)
			before := q.read
			if !f.(place.Rewinder).SeekTo(int64(at)) {
				t.Fatalf("%s: the file does not go back to %d", path, at)
			}
			some := make([]byte, min(500, len(want)-at))
			if _, err := io.ReadFull(f, some); err != nil || string(some) != string(want[at:at+len(some)]) {
				t.Fatalf("%s: other bytes than before are read at %d: %v", path, at, err)
			}
			if again := q.read - before; again > len(some)+100 {
				t.Errorf("%s: %d bytes are asked for at %d; %d are read", path, again, at, len(some))
			}
			if rest, err := io.ReadAll(f); err != nil || string(rest) != string(want[at+len(some):]) {
				t.Fatalf("%s: other bytes than before follow: %v", path, err)
			}
			must(t, f.Unchanged())
		}
		must(t, f.Close())
	}
}
