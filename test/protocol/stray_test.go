package protocol_test

import (
	"testing"
	"time"

	"ferry/internal/transfer"
)

// TestASourceHearsThatNoEpochIsOpen restarts a destination without notice to its source. The source learns it with the
// next message that it sends. Neither outcomes that the new process repeats nor other transfers on the slow link, with
// its long time-outs, delay that.
func TestASourceHearsThatNoEpochIsOpen(t *testing.T) {
	for name, held := range map[string]int64{"nothing has come": 0, "a part has come": 8 << 10} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				w.write(map[string][]byte{"in/large": content(1, 300<<10)})
				w.slow(300 * time.Millisecond) // for each message
				id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}})
				w.want(id, transfer.Successful, "out", map[string][]byte{"in/large": content(1, 300<<10)})
				if held > 0 {
					w.point(id, held)
				} else {
					w.until(time.Minute, "it is not accepted", func() bool { in := w.incoming(id); return in != nil && in.Live })
				}
				before := w.source(id).Epoch
				w.dst.restart()
				took := w.until(time.Minute, "it is not opened again", func() bool { return w.source(id).Epoch > before })
				if took > 4*time.Second {
					t.Errorf("the source opens the transfer again after %v", took)
				}
				w.finish(10 * time.Minute)
			})
		})
	}
}
