package protocol_test

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"ferry/internal/place/pipe"
	"ferry/internal/transfer"
)

// A dribble is a stream that gives some bytes at intervals.
type dribble struct {
	s    *script
	left []byte
}

func (d *dribble) Read(b []byte) (int, error) {
	if len(d.left) == 0 {
		return 0, io.EOF
	}
	if d.s.one(4) && !d.s.over() {
		pass(d.s.time(8 * time.Second)) // longer than the time after which the other side counts a peer as silent
	}
	n := min(1+d.s.n(20_000), len(d.left), len(b))
	copy(b, d.left[:n])
	d.left = d.left[n:]
	return n, nil
}

// TestPipedSource sends standard input. It arrives whole in spite of faults of messages, crashes of the destination,
// and pauses of the stream.
func TestPipedSource(t *testing.T) { spread(t, 1, 60, pipedSource) }

func pipedSource(t *testing.T, seed uint64, r *rand.Rand) {
	s := &script{r: r}
	data := content(seed, s.n(200<<10))
	bubble(t, setup{settings: small, memory: true, wake: s.one(2), stdin: &dribble{s, data}}, func(w *world) {
		w.messages(s)
		safe := watchSafety(w)
		w.expect("out", map[string][]byte{"stdin": data})
		id := w.submit(transfer.Request{Items: transfer.ItemsAt(pipe.Stdio), Dest: transfer.File("out/"), Options: transfer.Options{Checksum: []string{"", "md5", "none"}[s.n(3)]}})
		w.want(id, transfer.Successful, "out", map[string][]byte{"stdin": data})
		for range s.n(maxCrashes) { // one more parks the transfer, and an operator cannot resume a stream
			pass(s.time(10 * time.Second))
			w.dst.kill()
		}
		w.heal(s, []transfer.ID{id})
		safe.report(w.t)
		w.check()
	})
}

// TestPipedTarget sends a file to standard output. It arrives whole and once in spite of faults of messages and crashes
// of the source.
func TestPipedTarget(t *testing.T) { spread(t, 1, 60, pipedTarget) }

func pipedTarget(t *testing.T, seed uint64, r *rand.Rand) {
	s := &script{r: r}
	data := content(seed, s.n(200<<10))
	var out bytes.Buffer
	set := setup{settings: small, memory: true, stdout: &out, id: transfer.NewID(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))}
	bubble(t, set, func(w *world) {
		w.messages(s)
		w.slow(s.time(20 * time.Millisecond))
		w.write(map[string][]byte{"f": data})
		id := w.submit(transfer.Request{ID: set.id, Items: transfer.ItemsOf("f"), Dest: pipe.Stdio, Options: transfer.Options{Checksum: []string{"", "md5", "none"}[s.n(3)]}})
		for range s.n(4) {
			pass(s.time(time.Second))
			w.src.kill()
		}
		w.heal(s, []transfer.ID{id})
		if p := w.source(id).Progress; p.State != transfer.Successful || !bytes.Equal(out.Bytes(), data) {
			w.t.Errorf("%s: %d bytes were written of %d: %s; %v", p.State, out.Len(), len(data), firstDifference(out.Bytes(), data), p.Reason)
		}
		w.checkIdle()
	})
}
