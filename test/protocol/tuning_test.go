package protocol_test

import (
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/flow"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// TestRunAheadFindsItsSize lets the run-ahead grow on a long path until it fills the path or the memory. On a short
// path, and where it was set, it keeps its size. The transfer shows it.
func TestRunAheadFindsItsSize(t *testing.T) {
	const mib = 1 << 20
	begins := flow.RunAhead(transfer.DefaultSettings())
	for _, c := range []struct {
		name    string
		latency time.Duration
		set     transfer.Settings
		size    int
		grows   bool
	}{
		{"long", 100 * time.Millisecond, transfer.Settings{CheckpointInterval: 1}, 160 * mib, true},
		{"short", 200 * time.Microsecond, transfer.Settings{CheckpointInterval: 1}, 30 * mib, false},
		{"long and set", 100 * time.Millisecond, transfer.Settings{ChunkSize: 256 << 10, WindowSize: 10, FrameSize: 5}, 40 * mib, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, setup{settings: c.set, pool: 60 * mib, memory: true}, func(w *world) {
				w.net.Set(func(r *faulty.Rules) { r.Latency = c.latency })
				data := map[string][]byte{"in/big": content(1, c.size)}
				w.write(data)
				id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}})
				w.want(id, transfer.Successful, "out", data)
				w.finish(time.Hour)
				got := w.source(id).Progress.RunAhead
				switch {
				case c.grows && got < 2*begins:
					w.t.Errorf("the run-ahead came to %d bytes only", got)
				case c.grows && got > 60*mib:
					w.t.Errorf("the run-ahead came to %d bytes, beyond the memory", got)
				case !c.grows && got != begins:
					w.t.Errorf("the run-ahead came to %d bytes, not %d", got, begins)
				}
			})
		})
	}
}

// TestRunAheadWithoutAcknowledgement ends a transfer before any acknowledgement. It shows its run-ahead, too.
func TestRunAheadWithoutAcknowledgement(t *testing.T) {
	bubble(t, setup{settings: transfer.Settings{ChunkSize: 64 << 10, WindowSize: 4, FrameSize: 2}}, func(w *world) {
		w.alsoLose(func(p *faulty.Parcel) bool { return p.Kind == wire.KindAck })
		data := map[string][]byte{"in/a": content(1, 1000)}
		w.write(data)
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}})
		w.want(id, transfer.Successful, "out", data)
		w.finish(time.Minute)
		if got := w.source(id).Progress.RunAhead; got != 512<<10 {
			w.t.Errorf("the run-ahead is shown as %d bytes, not 524288", got)
		}
	})
}
