package protocol_test

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
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

// A source that could not be opened ahead, for want of descriptors say, is opened when
// its turn comes.
func TestSourceThatCannotBeOpenedAhead(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		files := map[string][]byte{}
		for n := range 10 {
			files[fmt.Sprint(n)] = content(uint64(n), 5<<10)
		}
		w.write(files)
		var refused atomic.Int64
		w.reads = func(n *node, op, name string) error {
			if n == w.src && op == "open" && strings.HasSuffix(name, "7") && refused.Add(1) == 1 {
				return syscall.EMFILE
			}
			return nil
		}
		id := w.submit(transfer.Request{Sources: []transfer.Path{"*"}, Dest: "out/", Checksum: "md5"})
		w.want(id, transfer.Successful, "out", files)
		w.finish(time.Minute)
		if refused.Load() < 2 {
			t.Errorf("it was opened %d times", refused.Load())
		}
	})
}

// A source that cannot be read to its end fails, after three tries, for what it is and
// not as one that changes; one that can be read the second time arrives.
func TestSourceThatCannotBeRead(t *testing.T) {
	for _, checksum := range []string{"xxh3", "md5", "none"} {
		for _, bad := range []int64{1, 1 << 30} {
			t.Run(fmt.Sprint(checksum, " ", bad), func(t *testing.T) {
				bubble(t, setup{}, func(w *world) {
					files := map[string][]byte{"good": content(1, 5<<10), "torn": content(2, 50<<10), "whole": content(3, 5<<10)}
					w.write(files)
					var failed atomic.Int64
					w.reads = func(n *node, op, name string) error {
						if n == w.src && op == "read" && strings.HasSuffix(name, "torn") && failed.Add(1) <= bad {
							return syscall.EIO
						}
						return nil
					}
					id := w.submit(transfer.Request{Sources: []transfer.Path{"*"}, Dest: "out/", Checksum: checksum})
					state := transfer.Successful
					if bad > 1 {
						state = transfer.Partial
						delete(files, "torn")
					}
					x := w.want(id, state, "out", files)
					x.failed = int64(3 - len(files))
					w.finish(time.Minute)
					for _, all := range outcomes(w, w.src, id) {
						if o := all[0]; !o.OK() && (o.Err.Kind != transfer.KindUnreadable || !strings.Contains(o.Err.Error(), "input/output error")) {
							t.Errorf("it failed with %v", o.Err)
						}
					}
				})
			})
		}
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
