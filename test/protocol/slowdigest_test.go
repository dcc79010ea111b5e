package protocol_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// frames returns the frames of a chunk message.
func frames(w *world, p *faulty.Parcel) []wire.Frame {
	_, all, err := wire.ParseChunk(append([]byte(nil), p.Data...))
	must(w.t, err)
	return all
}

// has reports whether one of the frames has the given type and item.
func has(all []wire.Frame, t wire.FrameType, item uint64) bool {
	for n := range all {
		if all[n].Type == t && all[n].Item == item {
			return true
		}
	}
	return false
}

// TestDigestOutlivesItsEpoch ends the epoch while a large file waits for its digest at either side. The next epoch
// continues there: no data are sent again, and no data of the source are read again.
func TestDigestOutlivesItsEpoch(t *testing.T) {
	for _, checksum := range []string{"xxh3", "md5", "none"} {
		t.Run(checksum, func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				size := 3 << 20
				files := map[string][]byte{"a": content(1, size), "b": content(2, 50<<10)}
				w.write(files)
				var reads, begun, lost atomic.Int64
				w.reads = func(n *node, op, name string) error {
					if n == w.src && op == "read" && (name == "a" || strings.HasSuffix(name, "/a")) {
						reads.Add(1)
					}
					return nil
				}
				w.fates = func(p *faulty.Parcel) faulty.Handling {
					if p.Kind != faulty.Chunk {
						return faulty.Handling{}
					}
					all := frames(w, p)
					if has(all, wire.FrameBegin, 0) {
						begun.Add(1)
					}
					return faulty.Handling{Drop: has(all, wire.FrameSum, 0) && lost.Add(1) <= 3}
				}
				id := w.submit(transfer.Request{Items: transfer.ItemsOf("a", "b"), Dest: transfer.File("out/"), Options: transfer.Options{Checksum: checksum}})
				w.want(id, transfer.Successful, "out", files)
				w.finish(time.Minute)
				rec := w.source(id)
				if lost.Load() < 4 || begun.Load() < 4 {
					t.Errorf("the digest was sent %d times, in %d epochs", lost.Load(), begun.Load())
				}
				if again := rec.Progress.BytesResent; again > 100<<10 {
					t.Errorf("%d bytes were sent again", again)
				}
				chunk := int64(rec.Progress.Settings.ChunkSize)
				if most := int64(size)/chunk*11/10 + 4*begun.Load(); reads.Load() > most {
					t.Errorf("the source was read %d times; %d are enough", reads.Load(), most)
				}
			})
		})
	}
}

// TestDigestBeforeTheEnd sends the digest of a file before its end. The destination treats it as a misplaced frame, and
// does not commit the file.
func TestDigestBeforeTheEnd(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		files := map[string][]byte{"a": content(1, 50<<10)}
		w.write(files)
		var early atomic.Int64
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			if p.Kind != faulty.Chunk || early.Load() > 0 || !has(frames(w, p), wire.FrameBegin, 0) {
				return faulty.Handling{}
			}
			early.Add(1)
			return faulty.Handling{Damage: func(m []byte) []byte {
				h, err := wire.PeekHeader(m)
				must(w.t, err)
				b := wire.NewBuilder(64<<10, nil)
				all := frames(w, &faulty.Parcel{Data: m})
				b.Begin(0, all[0].Begin)
				b.Sum(0, "xxh3:00112233445566778899aabbccddeeff", "")
				return b.Seal(h)
			}}
		}
		id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/")})
		w.want(id, transfer.Successful, "out", files)
		w.finish(time.Minute)
		if rec := w.source(id); early.Load() != 1 || rec.Progress.Resumes == 0 {
			t.Errorf("%d messages were changed, and the transfer was resumed %d times", early.Load(), rec.Progress.Resumes)
		}
	})
}

// TestSourceThatCannotBeRead fails a source with read errors after three tries, with the kind of the read error and not
// as a changing file. If the second read succeeds, the file arrives.
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
					id := w.submit(transfer.Request{Items: transfer.ItemsAt(transfer.Match("*")), Dest: transfer.File("out/"), Options: transfer.Options{Checksum: checksum}})
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

// TestDigestsLeaveAPlace uses a destination with a slot for one item only. The source sends the digest of a file before
// another item begins. The destination does not wait for a source that fails to do so: the epoch begins anew.
func TestDigestsLeaveAPlace(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("late ", late), func(t *testing.T) {
			bubble(t, setup{slots: 1, places: 1}, func(w *world) {
				files := map[string][]byte{}
				for n := range 12 {
					files[fmt.Sprint(n)] = content(uint64(n), 400<<10)
				}
				w.write(files)
				var dropped atomic.Int64
				w.fates = func(p *faulty.Parcel) faulty.Handling {
					if !late || p.Kind != faulty.Chunk || dropped.Load() == 3 {
						return faulty.Handling{}
					}
					return faulty.Handling{Damage: func(m []byte) []byte { return withoutSums(w, m, &dropped) }}
				}
				id := w.submit(transfer.Request{Items: transfer.ItemsAt(transfer.Match("*")), Dest: transfer.File("out/"), Options: transfer.Options{Checksum: "md5"}})
				w.want(id, transfer.Successful, "out", files)
				w.finish(time.Minute)
				if n := w.source(id).Progress.Resumes; late != (n > 0) || late != (dropped.Load() > 0) {
					t.Errorf("%d digests were late, and the transfer was resumed %d times", dropped.Load(), n)
				}
			})
		})
	}
}

// withoutSums returns the chunk message without its digests.
func withoutSums(w *world, m []byte, dropped *atomic.Int64) []byte {
	h, err := wire.PeekHeader(m)
	must(w.t, err)
	b := wire.NewBuilder(1<<20, nil)
	for _, f := range frames(w, &faulty.Parcel{Data: m}) {
		switch f.Type {
		case wire.FrameBegin:
			b.Begin(f.Item, f.Begin)
		case wire.FrameData:
			copy(b.Data(f.Item, f.Offset, len(f.Data)), f.Data)
		case wire.FrameEnd:
			b.End(f.Item, f.Length)
		case wire.FrameSum:
			dropped.Add(1)
		case wire.FrameLast:
			b.Last(f.Item)
		}
	}
	return b.Seal(h)
}

// TestCheckpointsLeaveAPlace uses few item slots and slow syncs. Files that wait for the end of a checkpoint must not
// block their transfer for ever.
func TestCheckpointsLeaveAPlace(t *testing.T) {
	for _, places := range []int{1, 2, 4, 6} {
		bubble(t, setup{slots: 1, places: places, memory: true}, func(w *world) {
			files := map[string][]byte{}
			for n := range 40 {
				files[fmt.Sprint(n)] = content(uint64(n), 20<<10)
			}
			w.write(files)
			w.linger = func(n *node, op, _ string) time.Duration {
				if n == w.dst && (op == "syncdata" || op == "sync") {
					return 500 * time.Millisecond
				}
				return 0
			}
			id := w.submit(transfer.Request{Items: transfer.ItemsAt(transfer.Match("*")), Dest: transfer.File("out/"), Options: transfer.Options{Checksum: "md5"}})
			w.want(id, transfer.Successful, "out", files)
			w.finish(10 * time.Minute)
		})
	}
}
