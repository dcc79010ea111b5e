package server

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/storage"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A fakeDisk sets a server's free space.
type fakeDisk struct{ left atomic.Uint64 }

func newFakeDisk(left uint64) *fakeDisk {
	d := &fakeDisk{}
	d.left.Store(left)
	return d
}

func (d *fakeDisk) has(_ string, bytes, _ uint64) bool { return d.left.Load() >= bytes }

func (d *fakeDisk) start(t *testing.T, dir string) (*Server, error) {
	t.Helper()
	s, err := Start(qmgrtest.Context(t), Config{Dir: dir, Listen: qmgrtest.FreePort(t), Log: qmgrtest.Log(t), has: d.has})
	if err == nil {
		t.Cleanup(s.Shutdown)
	}
	return s, err
}

const ample = 1 << 40

// crashedWithBatch returns a store with the queue Q. The queue has the first two messages of a batch; of the batch
// three messages are staged. Half: the process died before it had written the second message.
func crashedWithBatch(t *testing.T, half bool) string {
	t.Helper()
	dir := t.TempDir()
	s := start(t, dir, qmgrtest.FreePort(t))
	c := connect(t, qmgr.ConnConfig{URL: s.URL(), Self: wire.Coordination})
	if _, err := qmgr.QueuesOf(c).Create(t.Context(), "Q", 0, 0); err != nil {
		t.Fatal(err)
	}
	subject := wire.QueueSubject("Q", "A", "g")
	publish := func(n int, commit bool) {
		t.Helper()
		m := &nats.Msg{Subject: subject, Data: fmt.Append(nil, "message ", n), Header: nats.Header{
			"Nats-Batch-Id": {"one"}, "Nats-Batch-Sequence": {fmt.Sprint(n)}}}
		if commit {
			m.Header.Set("Nats-Batch-Commit", "1")
		}
		if _, err := controlOf(c).RequestMsg(m, qmgrtest.Patience); err != nil {
			t.Fatal(err)
		}
	}
	publish(1, false)
	publish(2, true)
	for n := range 3 {
		publish(n+1, false)
	}
	qmgrtest.Eventually(t, "the staged messages are written", func() bool {
		names, err := filepath.Glob(filepath.Join(s.StreamDir(dir, streams.QueueStream("Q")), storage.BatchesDir, "*", "msgs", "1.blk"))
		if err != nil || len(names) != 1 {
			return false
		}
		data, err := os.ReadFile(names[0])
		return err == nil && bytes.Contains(data, []byte("message 3"))
	})
	copied := t.TempDir()
	must(t, os.CopyFS(copied, os.DirFS(dir)))
	publish(9, false) // the server drops the batch, and the goroutines that it has for it
	if half {
		msgs := filepath.Join(s.StreamDir(copied, streams.QueueStream("Q")), "msgs")
		data, err := os.ReadFile(filepath.Join(msgs, "1.blk"))
		must(t, err)
		first := int64(binary.LittleEndian.Uint32(data) &^ (1 << 31)) // bytes of the first record; the bit marks headers
		must(t, os.Truncate(filepath.Join(msgs, "1.blk"), first))
		for _, name := range []string{filepath.Join(msgs, "index.db"), filepath.Join(copied, storage.MarksFile)} {
			if err := os.Remove(name); !os.IsNotExist(err) {
				must(t, err)
			}
		}
	}
	return copied
}

// messagesOf returns the messages of the queue Q.
func messagesOf(t *testing.T, s *Server) (all []string) {
	t.Helper()
	c := connect(t, qmgr.ConnConfig{URL: s.URL(), Self: wire.Coordination})
	st, err := jsOf(c).Stream(t.Context(), streams.QueueStream("Q"))
	must(t, err)
	must(t, storage.Each(t.Context(), st, func(m *jetstream.RawStreamMsg) error { all = append(all, string(m.Data)); return nil }))
	return all
}

// A batch that is in its queue in part is completed at the start. If the disk has no room for its rest, the server does
// not start and forgets nothing of the batch.
func TestHalfStoredBatchWaitsForSpace(t *testing.T) {
	qmgrtest.NoLeaks(t)
	dir, drive := crashedWithBatch(t, true), newFakeDisk(0)
	for range 2 {
		_, err := drive.start(t, dir)
		qmgrtest.WantKind(t, err, transfer.KindNoManager, "APP_Q", "disk of "+dir)
		if !transfer.Full(err) {
			t.Errorf("the error %v is not that of a full disk", err)
		}
	}
	drive.left.Store(ample)
	s, err := drive.start(t, dir)
	must(t, err)
	if got, want := messagesOf(t, s), []string{"message 1", "message 2", "message 3"}; !slices.Equal(got, want) {
		t.Errorf("the queue has %q; want %q", got, want)
	}
	if why := s.Degraded(); why != "" {
		t.Errorf("degraded: %s", why)
	}
}

// A server starts on a full disk if no message of a staged batch is in the queue. It drops the batch.
func TestStagedBatchIsDroppedOnFullDisk(t *testing.T) {
	qmgrtest.NoLeaks(t)
	dir := crashedWithBatch(t, false)
	s, err := newFakeDisk(0).start(t, dir)
	must(t, err)
	if got, want := messagesOf(t, s), []string{"message 1", "message 2"}; !slices.Equal(got, want) {
		t.Errorf("the queue has %q; want %q", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, storage.HeldDir)); !os.IsNotExist(err) {
		t.Errorf("batches are held: %v", err)
	}
}

// A disk without room accepts no message of a queue, and messages are removed. Room that is reserved for other messages
// counts.
func TestFullDiskRefusesMessages(t *testing.T) {
	qmgrtest.NoLeaks(t)
	drive := newFakeDisk(ample)
	s, err := drive.start(t, t.TempDir())
	must(t, err)
	r := s.answers.registrar
	ask := func(task streams.QueueTask) error {
		t.Helper()
		task.Span = wire.QueueSpan{Queue: "Q", Group: "g", Last: task.Span.Last}
		_, err := r.Do(qmgrtest.Context(t), wire.Coordination, wire.Marshal(errands.Errand{V: 1, Op: errands.OpQueue, Queue: &task}))
		return err
	}
	must(t, ask(streams.QueueTask{Do: streams.QueueCreate}))
	must(t, ask(streams.QueueTask{Do: streams.QueuePut, Data: []byte("one")}))
	drive.left.Store(storage.MarginBytes - 1)
	qmgrtest.WantKind(t, ask(streams.QueueTask{Do: streams.QueuePut, Data: []byte("two")}), transfer.KindNoSpace, "the disk of queue manager")
	_, err = r.Store(qmgrtest.Context(t), "ALPHA", streams.StoreTask{Do: streams.StoreOutgoing})
	qmgrtest.WantKind(t, err, transfer.KindNoSpace, "the disk of queue manager")
	must(t, ask(streams.QueueTask{Do: streams.QueueTake, Span: wire.QueueSpan{Last: 1}}))

	drive.left.Store(storage.MarginBytes + 2*(3000+storage.FrameBytes))
	done, err := r.Room(3000, 1)
	must(t, err)
	if _, err := r.Room(0, 0); err != nil {
		t.Errorf("the room that is exactly taken: %v", err)
	}
	_, err = r.Room(1, 1)
	qmgrtest.WantKind(t, err, transfer.KindNoSpace)
	done()
	done, err = r.Room(3000, 1)
	must(t, err)
	done()
}

// A refusal for want of disk space reaches the writer as it is, and only a queue at its limit is called full. The
// answers of the queue manager pass over the wire, and the library of a server that is not Ferry's gives the same errors.
func TestFullDiskIsNotFullQueue(t *testing.T) {
	qmgrtest.NoLeaks(t)
	drive := newFakeDisk(ample)
	s, err := drive.start(t, t.TempDir())
	must(t, err)
	ctx := qmgrtest.Context(t)
	manager, agent := connect(t, qmgr.ConnConfig{URL: s.URL(), Self: wire.Coordination}), connect(t, qmgr.ConnConfig{URL: s.URL(), Name: "ALPHA"})
	for _, q := range []transfer.QueueName{"Q", "SMALL"} {
		_, err := qmgr.QueuesOf(manager).Create(ctx, q, 64<<10, 0)
		must(t, err)
	}
	_, err = qmgr.QueuesOf(manager).Create(ctx, "HUGE", 1<<40, 0)
	qmgrtest.WantKind(t, err, transfer.KindNoSpace, "no room for the queue HUGE of 1.0 TiB")
	for _, name := range []string{"library", "asked"} {
		if name == "asked" {
			qmgr.AskAlways(manager)
			qmgr.AskAlways(agent)
		}
		put := func(q transfer.QueueName) error {
			_, err := qmgr.QueuesOf(manager).Put(ctx, wire.QueueSpan{Queue: q}, false, make([]byte, 65<<10))
			return err
		}
		publish := func(q transfer.QueueName) error {
			to := wire.QueueItem{Queue: q, Transfer: transfer.ID{1, 6: 0x70, 8: 0x80}, Item: 1}
			_, err := qmgr.QueuesOf(agent).Publish(ctx, to, nil, wire.QueueReceipt{}, 1, func(int) ([]byte, bool, error) { return make([]byte, 65<<10), true, nil })
			return err
		}
		for _, store := range []func(transfer.QueueName) error{put, publish} {
			drive.left.Store(ample)
			err := store("SMALL")
			qmgrtest.WantKind(t, err, transfer.KindNoSpace, "the queue SMALL is full", "ferry queue show")
			if name == "library" { // which stores without a look at the disk
				continue
			}
			drive.left.Store(storage.MarginBytes - 1)
			err = store("Q")
			qmgrtest.WantKind(t, err, transfer.KindNoSpace, "the disk of queue manager "+s.cfg.Name)
			if strings.Contains(err.Error(), "queue Q") {
				t.Errorf("a full disk is said to be a full queue: %v", err)
			}
		}
	}
}

// The text of a failed system call in the server's answer is not the limit of a queue.
func TestFailedWriteIsNotFullQueue(t *testing.T) {
	for text, full := range map[string]bool{"maximum bytes exceeded": true, "write x.blk: no space left on device": false, "write x.blk: input/output error": false} {
		err := streams.FullQueue(&jetstream.APIError{ErrorCode: streams.CodeStoreMaxBytes, Description: text}, "Q")
		if is := transfer.KindOf(err) == transfer.KindNoSpace; is != full {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Copies of a stream that was put aside stay, up to a bound.
func TestCopiesOfDamagedStreamsStay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), storage.DamagedDir)
	for n := range storage.MaxDamaged {
		aside, err := storage.AsideOf(dir, "APP_Q")
		must(t, err)
		if want := map[bool]string{true: "APP_Q", false: fmt.Sprint("APP_Q.", n+1)}[n == 0]; filepath.Base(aside) != want {
			t.Errorf("copy %d is %s; want %s", n+1, aside, want)
		}
		must(t, os.Mkdir(aside, 0o700))
	}
	_, err := storage.AsideOf(dir, "APP_Q")
	qmgrtest.WantKind(t, err, transfer.KindNoManager, "APP_Q", dir)
	if aside, err := storage.AsideOf(dir, "APP_R"); err != nil || filepath.Base(aside) != "APP_R" {
		t.Errorf("another stream: %s, %v", aside, err)
	}
}
