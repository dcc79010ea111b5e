package protocol_test

import (
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// TestLongHoles sends a file of 8 MiB with few bytes between zeros, in messages of 4 KiB. The zeros travel as few holes,
// and are not sent as data.
func TestLongHoles(t *testing.T) {
	bubble(t, setup{settings: small, pool: 30 << 20}, func(w *world) {
		big := make([]byte, 8<<20)
		copy(big[3<<20+5:], "some bytes")
		files := map[string][]byte{"big": big}
		w.write(files)
		var holes, data atomic.Int64
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			if p.Kind == faulty.Chunk {
				_, frames, err := wire.ParseChunk(p.Data)
				if err != nil {
					t.Error(err)
				}
				for _, f := range frames {
					switch f.Type {
					case wire.FrameHole:
						holes.Add(1)
					case wire.FrameData:
						data.Add(int64(len(f.Data)))
					case wire.FrameCData:
						data.Add(f.Length)
					}
				}
			}
			return faulty.Handling{}
		}
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("big"), Dest: transfer.File("out/"), Compress: transfer.CompressNone})
		w.want(id, transfer.Successful, "out", files)
		w.finish(time.Minute)
		if holes.Load() > 20 || data.Load() > 32<<10 {
			t.Errorf("%d holes and %d bytes of data were sent, for 8 MiB with ten bytes", holes.Load(), data.Load())
		}
	})
}
