//go:build linux

package protocol_test

import (
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// TestAcknowledgementsHaveTheTime expects each acknowledgement to have the time of its making at the destination. It
// shows the source how long its messages wait.
func TestAcknowledgementsHaveTheTime(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		files := map[string][]byte{"in/a": content(1, 20<<10)}
		w.write(files)
		var acks atomic.Int64
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			if p.Kind != wire.KindAck {
				return faulty.Handling{}
			}
			m, err := wire.Decode(p.Data)
			if err != nil || time.Since(m.Ack.Time()).Abs() > 2*time.Millisecond {
				t.Errorf("an acknowledgement of now is of %v: %v", m.Ack.Time(), err)
			}
			acks.Add(1)
			return faulty.Handling{}
		}
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}})
		w.want(id, transfer.Successful, "out", files)
		w.finish(time.Minute)
		if acks.Load() == 0 {
			t.Error("there was no acknowledgement")
		}
	})
}
