package protocol_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// lineOf limits the link from each agent to the other to a rate in bytes a second, after a burst of bytes.
func (w *world) lineOf(rate, burst int) {
	w.net.Set(func(r *faulty.Rules) { r.Rate, r.Burst = rate, burst })
}

// worth returns files that together need the given number of seconds on the link.
func worth(seconds, rate, files int) map[string][]byte {
	all := map[string][]byte{}
	for n := range files {
		all[fmt.Sprintf("in/f%03d", n)] = content(uint64(n), seconds*rate/files)
	}
	return all
}

// A weighing counts the bytes of chunk messages on the link.
type weighing struct {
	now, most, largest atomic.Int64
}

// weigh weighs the chunk messages from now on.
func (w *world) weigh() *weighing {
	var x weighing
	w.change(func(w *world) {
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			if n := int64(len(p.Data)); p.Kind == faulty.Chunk {
				x.most.Store(max(x.most.Load(), x.now.Add(n)))
				x.largest.Store(max(x.largest.Load(), n))
			}
			return faulty.Handling{}
		}
		w.before = func(p *faulty.Parcel, _ *node) bool {
			if p.Kind == faulty.Chunk {
				x.now.Add(-int64(len(p.Data)))
			}
			return false
		}
	})
	return &x
}

// sendTree submits the directory in.
func (w *world) sendTree(dest string, files map[string][]byte) transfer.ID {
	id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File(transfer.Path(dest + "/")), Options: transfer.Options{Recursive: true}})
	w.want(id, transfer.Successful, dest, files)
	return id
}

// TestSlowLines sends over links of rates from 64 kbit/s, with a burst. No data are sent twice and no transfer is
// opened again. The transfers take the time that their bytes need. At most two seconds of the rate plus twice the burst
// are on the link, and a message is an eighth of that.
func TestSlowLines(t *testing.T) {
	const kbit = 1000 / 8
	for _, c := range []struct {
		name                        string
		rate, burst, seconds, files int
		transfers                   int
		worst                       float64 // times the ideal time
	}{
		{"one file at 64 kbit/s", 64 * kbit, 0, 20, 1, 1, 1.5},
		{"one file at 64 kbit/s behind a bucket of 32 KiB", 64 * kbit, 32 << 10, 20, 1, 1, 1.5},
		{"one file at 128 kbit/s behind a bucket of 128 KiB", 128 * kbit, 128 << 10, 40, 1, 1, 1.3},
		{"one file at 512 kbit/s", 512 * kbit, 4 << 10, 20, 1, 1, 1.3},
		{"100 files at 64 kbit/s", 64 * kbit, 4 << 10, 40, 100, 1, 1.5},
		{"100 files at 256 kbit/s", 256 * kbit, 32 << 10, 20, 100, 1, 1.3},
		{"four transfers at 128 kbit/s", 128 * kbit, 32 << 10, 15, 3, 4, 1.3},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, setup{settings: transfer.DefaultSettings(), pool: 64 << 20}, func(w *world) {
				w.lineOf(c.rate, c.burst)
				on := w.weigh()
				files := worth(c.seconds, c.rate, c.files)
				w.write(files)
				var ids []transfer.ID
				for n := range c.transfers {
					ids = append(ids, w.sendTree(fmt.Sprintf("out%d", n), files))
				}
				ideal := time.Duration(c.seconds*c.transfers) * time.Second
				if took := w.finish(10 * ideal); took.Seconds() > c.worst*ideal.Seconds() {
					t.Errorf("it took %s; the bytes are worth %s", took, ideal)
				}
				w.steady(ids, 0)
				most := max(int64(2*c.rate+2*c.burst), 16<<10)
				if n := on.most.Load(); n > most+10<<10 {
					t.Errorf("%d bytes were on the line at once; %d may be", n, most)
				}
				if n := on.largest.Load(); n > max(most/8, 4<<10)+1<<10 {
					t.Errorf("a message had %d bytes", n)
				}
			})
		})
	}
}

// steady checks that no transfer was opened again, and that at most a part of its bytes was sent twice.
func (w *world) steady(ids []transfer.ID, part float64) {
	w.t.Helper()
	for _, id := range ids {
		p := w.source(id).Progress
		if p.Resumes > 0 && part == 0 || float64(p.BytesResent) > part*float64(p.Bytes) {
			w.t.Errorf("%d of %d bytes were sent again, with %d resumes", p.BytesResent, p.Bytes, p.Resumes)
		}
	}
}

// TestTheRateOfALineFalls lets the rate fall during a file. The data waiting on the link are carried at the new rate,
// and at most 15 % are sent again.
func TestTheRateOfALineFalls(t *testing.T) {
	for _, to := range []int{8e3, 16e3} {
		t.Run(fmt.Sprint(to), func(t *testing.T) {
			bubble(t, setup{settings: transfer.DefaultSettings(), pool: 64 << 20}, func(w *world) {
				const fast = 250e3
				w.lineOf(fast, 4<<10)
				files := map[string][]byte{"in/large": content(1, 10*fast+30*to)}
				w.write(files)
				id := w.sendTree("out", files)
				pass(10 * time.Second)
				w.lineOf(to, 0)
				if took := w.finish(5 * time.Minute); took > 60*time.Second {
					t.Errorf("30 s of bytes take %s behind the fall", took)
				}
				w.steady([]transfer.ID{id}, 0.15)
			})
		})
	}
}

// TestAMessageThatTakesLong sends a message that takes 25 s on the link, with continuous progress. Its epoch does not
// end. The source sees that the link carries bytes, or the destination reports their arrival. The destination receives
// signs of life of the source.
func TestAMessageThatTakesLong(t *testing.T) {
	for _, c := range []struct {
		name         string
		blind, quiet bool
	}{{name: "both say so"}, {name: "the source does not see it", blind: true}, {name: "the destination is not heard", quiet: true}} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, setup{settings: transfer.DefaultSettings(), pool: 64 << 20}, func(w *world) {
				w.blind = c.blind
				w.lineOf(1e6, 0)
				files := map[string][]byte{"in/large": content(1, 6e6)}
				w.write(files)
				id := w.sendTree("out", files)
				pass(4 * time.Second)
				w.change(func(w *world) {
					w.fates = func(p *faulty.Parcel) faulty.Handling {
						return faulty.Handling{Drop: c.quiet && p.Kind == wire.KindAck}
					}
				})
				w.lineOf(4e3, 0)
				pass(25 * time.Second)
				w.change(func(w *world) { w.fates = nil })
				w.lineOf(1e6, 0)
				w.finish(time.Minute)
				w.steady([]transfer.ID{id}, 0)
			})
		})
	}
}

// TestTransfersOnASlowLineSayLittle runs 25 transfers of 24 KB together on 64 kbit/s. Each sends at most two signs of
// life, with the data or beside them, and the first message of an epoch. Each transfer opens once and acknowledges its
// outcomes once. The destination answers each message with one ACK. It sends four more for each transfer, for its safe
// points, and repeats one a second for all of them.
func TestTransfersOnASlowLineSayLittle(t *testing.T) {
	const (
		transfers, rate = 25, 8000
		firsts          = "first message, or a sign of life with the data"
	)
	bubble(t, setup{settings: transfer.DefaultSettings(), pool: 64 << 20, slots: transfers}, func(w *world) {
		w.lineOf(rate, 4<<10)
		var mu sync.Mutex
		sent := map[wire.Kind]int{}
		w.change(func(w *world) {
			w.fates = func(p *faulty.Parcel) faulty.Handling {
				mu.Lock()
				defer mu.Unlock()
				kind := p.Kind
				if kind == faulty.Chunk && len(p.Data) == wire.HeaderSize {
					kind = firsts
				}
				sent[kind]++
				return faulty.Handling{}
			}
		})
		files := worth(3, rate, 1)
		w.write(files)
		var ids []transfer.ID
		for n := range transfers {
			ids = append(ids, w.sendTree(fmt.Sprintf("out%d", n), files))
		}
		took := w.finish(3 * time.Minute)
		w.steady(ids, 0)
		mu.Lock()
		defer mu.Unlock()
		data := sent[faulty.Chunk] + sent[firsts]
		for kind, most := range map[wire.Kind]int{firsts: 2 * transfers, wire.KindAlive: transfers, wire.KindOpen: transfers, wire.KindOutcomesAck: transfers,
			faulty.Chunk: 8 * transfers, wire.KindAck: data + 4*transfers + int(took.Seconds()), wire.KindAccept: transfers, wire.KindOutcomes: transfers} {
			if sent[kind] > most {
				t.Errorf("%d messages of kind %s; at most %d are needed", sent[kind], kind, most)
			}
		}
	})
}
