package protocol_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/flow"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A source is opened ahead of its turn where the digest is slow. What happens to it
// between that and its turn is seen: it goes as it is then, or is not there.
func TestSourceChangesAheadOfItsTurn(t *testing.T) {
	changes := map[string]func(path string) error{
		"rewritten": func(p string) error { return os.WriteFile(p, content(99, 5<<10), 0o644) },
		"replaced": func(p string) error {
			if err := os.WriteFile(p+".new", content(99, 5<<10), 0o644); err != nil {
				return err
			}
			return os.Rename(p+".new", p)
		},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				files, sources := map[string][]byte{}, []transfer.Path(nil)
				for n := range 10 {
					name := fmt.Sprint(n)
					files[name] = content(uint64(n), 5<<10)
					sources = append(sources, transfer.Path(name))
				}
				w.write(files)
				var done atomic.Bool
				w.fates = func(p *faulty.Parcel) faulty.Handling {
					// The third message has data of the first files; the last one is open.
					if p.Kind == faulty.Chunk && p.N > 2 && !done.Swap(true) {
						must(w.t, change(w.src.files("9")))
					}
					return faulty.Handling{}
				}
				id := w.submit(transfer.Request{Sources: sources, Dest: "out/", Checksum: "md5"})
				files["9"] = content(99, 5<<10)
				w.want(id, transfer.Successful, "out", files)
				w.finish(time.Minute)
				if !done.Load() {
					t.Error("nothing was changed")
				}
			})
		})
	}
}

// While the digest of a file that has come is still being taken, hardly anything of it
// is unsafe, so that the next file can come.
func TestSlowDigestKeepsNothingUnsafe(t *testing.T) {
	settings := transfer.Settings{ChunkSize: 4 << 10, WindowSize: 4, FrameSize: 4, CheckpointInterval: 1}
	interval := int(flow.Checkpoint(settings))
	for size := interval; size < 2*interval; size += interval / 7 {
		bubble(t, setup{settings: settings}, func(w *world) {
			var safe atomic.Int64
			w.fates = func(p *faulty.Parcel) faulty.Handling {
				if p.Kind == wire.KindAck {
					m, err := wire.Decode(p.Data)
					must(w.t, err)
					if m.Ack.Safe != nil {
						safe.Store(m.Ack.Safe.Offset)
					}
				}
				return faulty.Handling{}
			}
			files := map[string][]byte{"big": content(uint64(size), size)}
			w.write(files)
			id := w.submit(transfer.Request{Sources: []transfer.Path{"big"}, Dest: "out/", Checksum: "md5"})
			w.want(id, transfer.Successful, "out", files)
			w.finish(time.Minute)
			if unsafe := int64(size) - safe.Load(); unsafe > int64(interval/8) {
				w.t.Errorf("%d of %d bytes were not safe; an eighth of %d may not be", unsafe, size, interval)
			}
		})
	}
}
