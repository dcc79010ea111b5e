package protocol_test

import (
	"math/rand/v2"
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

// TestZerosAreSentInTime sends a file with 80 MiB of zeros behind data that raises the pace. No message stands for more
// than 17 MiB of them, so the receiver hears the source while that reads them.
func TestZerosAreSentInTime(t *testing.T) {
	bubble(t, setup{settings: transfer.DefaultSettings(), pool: 30 << 20}, func(w *world) {
		zeros := make([]byte, 100<<20)
		rand.NewChaCha8([32]byte{}).Read(zeros[:20<<20])
		files := map[string][]byte{"zeros": zeros}
		w.write(files)
		var most, all atomic.Int64
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			if p.Kind == faulty.Chunk {
				_, frames, err := wire.ParseChunk(p.Data)
				if err != nil {
					t.Error(err)
				}
				zeros := int64(0)
				for _, f := range frames {
					if f.Type == wire.FrameHole {
						zeros += f.Length
					}
				}
				all.Add(zeros)
				most.Store(max(most.Load(), zeros))
			}
			return faulty.Handling{}
		}
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("zeros"), Dest: transfer.File("out/"), Compress: transfer.CompressNone})
		w.want(id, transfer.Successful, "out", files)
		w.finish(time.Minute)
		if all.Load() < 79<<20 || most.Load() > 17<<20 {
			t.Errorf("%d zeros were sent, up to %d in a message", all.Load(), most.Load())
		}
	})
}
