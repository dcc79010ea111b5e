package protocol_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/transfer"
	"ferry/internal/wire"
	"ferry/test/campaign"
)

// A course is a transfer with an event during it, and the kinds of message that it causes.
type course struct {
	name  string
	setup setup
	kinds []wire.Kind
	run   func(w *world)
}

// The setups of the courses.
var (
	inMemory  = setup{memory: true}
	oneSlot   = setup{memory: true, slots: 1}
	fromStore = setup{memory: true, objects: objectsOf{srcName}}
	toStore   = setup{memory: true, objects: objectsOf{dstName}}
)

// courses together cause messages of every kind.
var courses = []course{
	{"plain", inMemory, []wire.Kind{wire.KindOpen, wire.KindAccept, faulty.Chunk, wire.KindAck, wire.KindOutcomes, wire.KindOutcomesAck},
		func(w *world) {
			w.sendMixed(nil)
			w.finish(5 * time.Minute)
		}},
	{"with a gap", inMemory, []wire.Kind{wire.KindResync, wire.KindAck, faulty.Chunk},
		func(w *world) {
			w.alsoLose(func(p *faulty.Parcel) bool { return p.Kind == faulty.Chunk && (p.N == 4 || p.N == 30) })
			w.sendMixed(nil)
			w.finish(5 * time.Minute)
		}},
	{"cancelled", inMemory, []wire.Kind{wire.KindCancel, wire.KindCancelled, wire.KindOutcomes, wire.KindOutcomesAck},
		func(w *world) { cancelInTheMiddle(w) }},
	{"two for one slot", oneSlot, []wire.Kind{wire.KindBusy, wire.KindOpen},
		func(w *world) {
			files := mixed()
			w.write(files)
			for _, dest := range []string{"one", "two"} {
				id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File(transfer.Path(dest + "/")), Options: transfer.Options{Recursive: true}})
				w.want(id, transfer.Successful, dest, files)
			}
			w.finish(5 * time.Minute)
		}},
	{"refused", inMemory, []wire.Kind{wire.KindOpen, wire.KindRefuse},
		func(w *world) {
			w.write(map[string][]byte{"a": content(1, 100)})
			id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("/elsewhere/")})
			w.want(id, transfer.Failed, "out", nil).lax = true
			w.finish(5 * time.Minute)
		}},
	{"both sides start anew", inMemory, []wire.Kind{wire.KindOpen, wire.KindAccept, wire.KindAck, faulty.Chunk, wire.KindOutcomes, wire.KindOutcomesAck},
		restarted},
	{"from an object store", fromStore, []wire.Kind{wire.KindAck, faulty.Chunk, wire.KindOutcomes}, restarted},
	{"to an object store", toStore, []wire.Kind{wire.KindAccept, wire.KindAck, faulty.Chunk, wire.KindOutcomes}, restarted},
	{"items of their own", inMemory, []wire.Kind{wire.KindOpen, wire.KindResolved, wire.KindAccept, faulty.Chunk, wire.KindOutcomes},
		func(w *world) {
			files := mixed()
			w.write(files)
			q := transfer.Request{}
			deletes := itemize(rand.New(rand.NewPCG(1, 2)), &q, "in", files)
			w.want(w.submit(q), transfer.Successful, "out", files).deletes = deletes
			w.finish(5 * time.Minute)
		}},
	{"no space for a while", inMemory, []wire.Kind{wire.KindBusy, wire.KindOpen, wire.KindAccept},
		func(w *world) {
			start := time.Now()
			w.change(func(w *world) {
				w.inject = func(n *node, op, _ string) error {
					if t := time.Since(start); n == w.dst && op == "write" && t > 100*time.Millisecond && t < 10*time.Second {
						return syscall.ENOSPC
					}
					return nil
				}
			})
			w.slow(20 * time.Millisecond)
			w.sendMixed(nil)
			w.finish(5 * time.Minute)
		}},
}

// restarted is a course with crashes of both sides.
func restarted(w *world) {
	w.slow(20 * time.Millisecond)
	id := w.sendMixed(func(q *transfer.Request) { q.Disposition = transfer.DispositionDelete })
	w.arrived(id, 2)
	w.dst.kill()
	w.arrived(id, 4)
	w.src.kill()
	w.finish(5 * time.Minute)
}

// alsoLose loses further messages in addition to those of the test.
func (w *world) alsoLose(which func(p *faulty.Parcel) bool) {
	w.change(func(w *world) {
		next := w.fates
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			if which(p) {
				return faulty.Handling{Drop: true}
			}
			if next != nil {
				return next(p)
			}
			return faulty.Handling{}
		}
	})
}

// arrived waits until the destination has decided the given number of items, or all.
func (w *world) arrived(id transfer.ID, items uint64) {
	w.t.Helper()
	for range 100_000 {
		if in := w.incoming(id); in != nil && (in.Counts.Items >= items || in.State != transfer.Receiving) {
			return
		}
		pass(3 * time.Millisecond)
	}
	w.t.Fatalf("fewer than %d items are decided; %s", items, w.picture())
}

// cancelInTheMiddle cancels once the first file is committed.
func cancelInTheMiddle(w *world) {
	w.write(map[string][]byte{"in/a": content(1, 100), "in/b": content(2, 300<<10)})
	w.slow(20 * time.Millisecond)
	id := w.submit(transfer.Request{Items: transfer.ItemsOf("in/a", "in/b"), Dest: transfer.File("out/")})
	w.want(id, transfer.Cancelled, "out", map[string][]byte{"a": content(1, 100)}).lax = true
	w.arrived(id, 1)
	if err := w.cancel(id); err != nil {
		w.t.Fatal(err)
	}
	w.finish(5 * time.Minute)
}

// faults are the possible fates of one message.
var faults = []struct {
	name string
	fate faulty.Handling
}{
	{"lost", faulty.Handling{Drop: true}},
	{"doubled", faulty.Handling{Copies: 2}},
	{"late", faulty.Handling{Delay: 1500 * time.Millisecond}},
	{"very late", faulty.Handling{Delay: 20 * time.Second}},
	{"damaged", faulty.Handling{Damage: faulty.Flip}},
	{"unsent", faulty.Handling{Fail: true}},
}

// TestEachMessageOnce is scenarios 4 and 5. Every single message of every kind is lost, doubled, delayed or damaged
// once, in each direction. One of the sides repeats it, and no transfer hangs.
func TestEachMessageOnce(t *testing.T) {
	for _, c := range courses {
		for _, f := range faults {
			for _, kind := range c.kinds {
				if f.fate.Damage != nil && kind != faulty.Chunk {
					continue // the connection has checksums; stored messages have their own
				}
				t.Run(fmt.Sprintf("%s/%s %s", c.name, kind, f.name), func(t *testing.T) {
					for n := 1; ; n++ {
						if !oneFault(t, c, kind, n, f.fate) || t.Failed() {
							return
						}
					}
				})
			}
		}
	}
}

// oneFault runs a course with a fate for the nth message of a kind. It returns false if there was no such message.
func oneFault(t *testing.T, c course, kind wire.Kind, n int, f faulty.Handling) bool {
	var met atomic.Bool
	bubble(t, c.setup, func(w *world) {
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			if p.Kind != kind || p.N != n {
				return faulty.Handling{}
			}
			met.Store(true)
			return f
		}
		c.run(w)
		if w.t.Failed() {
			w.t.Logf("%s: message %s %d", c.name, kind, n)
		}
	})
	return met.Load()
}

// A loss is one message of a course.
type loss struct {
	course
	kind wire.Kind
	n    int
}

// losses returns all messages of all courses in a run without a fault. Their number depends a little on the order of
// goroutines.
func losses(t *testing.T) (all []loss) {
	for _, c := range courses {
		bubble(t, c.setup, func(w *world) {
			c.run(w)
			for _, kind := range []wire.Kind{wire.KindOpen, wire.KindAccept, wire.KindBusy, wire.KindRefuse, wire.KindAck, wire.KindResync,
				wire.KindOutcomes, wire.KindOutcomesAck, wire.KindCancel, wire.KindCancelled, faulty.Chunk} {
				for n := range w.net.Count(kind) {
					all = append(all, loss{c, kind, n + 1})
				}
			}
		})
	}
	return all
}

// TestCampaignMessages loses each message of each course once. The order is mixed, so that a part of them covers
// different kinds.
func TestCampaignMessages(t *testing.T) {
	spec := campaign.Spec{Name: "messages", What: "each message of each kind, in both directions and several shapes of work, is lost once",
		Unit: "lost messages", Full: 275, Short: 60, Packages: product}
	campaign.Run(t, spec, func(t *testing.T, c *campaign.C) {
		all := losses(t)
		count := min(c.Count, len(all))
		if c.Count == spec.Full {
			count = len(all)
		}
		done := spreadMany(t, c.Seed, count, func(t *testing.T, seed uint64, _ *rand.Rand) int {
			l := all[seed*101%uint64(len(all))]
			for range 3 { // the existence of the message may depend on the order of goroutines
				if oneFault(t, l.course, l.kind, l.n, faulty.Handling{Drop: true}) {
					toll.add(l.name+"/"+string(l.kind), 1)
					return 1
				}
			}
			return 0
		})
		t.Logf("%d of %d messages were lost; %s", done, len(all), &toll)
		c.Add(done)
	})
}

// TestLastBatchAnsweredLate delays the answer to a batch. The destination must not take it for the answer to the same
// outcomes marked as the last. The test is the source.
func TestLastBatchAnsweredLate(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		w.src.stop()
		var mu sync.Mutex
		var heard []*wire.Message
		w.change(func(w *world) {
			w.before = func(p *faulty.Parcel, to *node) bool {
				if to != w.src {
					return false
				}
				m, err := wire.Decode(p.Data)
				must(t, err)
				mu.Lock()
				defer mu.Unlock()
				heard = append(heard, m)
				return true
			}
		})
		// hear waits for a matching message, and removes it.
		hear := func(what string, like func(*wire.Message) bool) (found *wire.Message) {
			t.Helper()
			w.until(time.Minute, "no "+what, func() bool {
				mu.Lock()
				defer mu.Unlock()
				for n, m := range heard {
					if like(m) {
						found, heard = m, heard[n+1:]
						return true
					}
				}
				return false
			})
			return found
		}
		id := transfer.NewID(time.Now())
		say := func(m *wire.Message) {
			m.From, m.Transfer = srcName, id
			data, err := m.Encode()
			must(t, err)
			must(t, w.net.Send(faulty.Parcel{From: srcName, To: dstName, Kind: m.Kind, Transfer: id, Data: data}))
		}
		say(&wire.Message{Kind: wire.KindOpen, Open: &wire.Open{Nonce: 1, Source: "00000000000000aa", MaxChunk: 1 << 20,
			Request: transfer.Request{Version: transfer.RequestVersion, ID: id, Source: srcName, Destination: dstName, Dest: transfer.File("out/"), Options: transfer.Options{Checksum: "none"}}}})
		epoch := hear("ACCEPT", func(m *wire.Message) bool { return m.Kind == wire.KindAccept }).Accept.Epoch
		seq := uint64(0)
		chunk := func(add func(*wire.Builder)) {
			seq++
			b := wire.NewBuilder(4096, nil)
			add(b)
			must(t, w.net.Send(faulty.Parcel{From: srcName, To: dstName, Kind: faulty.Chunk, Transfer: id,
				Data: b.Seal(wire.Header{Transfer: id, Epoch: epoch, Seq: seq})}))
		}
		chunk(func(b *wire.Builder) {
			b.Begin(0, &wire.Begin{Type: transfer.ItemFile, Mode: 0o644, Name: "a", Source: "/in/a", Again: true})
			b.End(0, 0)
			b.Sum(0, "", "")
		})
		first := hear("OUTCOMES", func(m *wire.Message) bool { return m.Kind == wire.KindOutcomes })
		if first.Outcomes.Last {
			t.Fatal("the batch is said to be the last before LAST")
		}
		chunk(func(b *wire.Builder) { b.Last(1) })
		w.until(time.Minute, "not decided", func() bool { return w.incoming(id).State == transfer.Decided })
		pass(3 * time.Second) // all messages until then are lost
		mu.Lock()
		heard = nil
		mu.Unlock()
		say(&wire.Message{Kind: wire.KindOutcomesAck, OutcomesAck: &wire.OutcomesAck{Batch: first.Outcomes.Batch}})
		last := hear("OUTCOMES that is the last", func(m *wire.Message) bool { return m.Kind == wire.KindOutcomes && m.Outcomes.Last })
		if s := w.incoming(id).State; s != transfer.Decided {
			t.Errorf("it is %s before the source has heard the last word", s)
		}
		say(&wire.Message{Kind: wire.KindOutcomesAck, OutcomesAck: &wire.OutcomesAck{Batch: last.Outcomes.Batch}})
		w.until(time.Minute, "it does not end", func() bool { return w.incoming(id).State == transfer.Done })
	})
}

// TestTwoAnswersToOneOpen restarts a destination, which then answers the repeated OPEN with another epoch. The source
// receives both answers. It must not stay with the first one until the destination counts as silent, not even if the
// second one is lost.
func TestTwoAnswersToOneOpen(t *testing.T) {
	for name, second := range map[string]faulty.Handling{"late": {Delay: 2100 * time.Millisecond}, "lost": {Drop: true}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, setup{}, func(w *world) {
				w.fates = func(p *faulty.Parcel) faulty.Handling {
					switch {
					case p.Kind == wire.KindAccept && p.N == 1:
						return faulty.Handling{Delay: 2500 * time.Millisecond} // after the second OPEN
					case p.Kind == wire.KindAccept && p.N == 2:
						return second
					}
					return faulty.Handling{}
				}
				id := w.sendMixed(nil)
				pass(100 * time.Millisecond)
				w.dst.restart()
				took := w.finish(time.Minute)
				if epoch := w.source(id).Epoch; epoch < 3 || took > 7*time.Second {
					w.t.Errorf("%v and %d epochs; 7 s at most, and an epoch beyond both answers", took, epoch)
				}
			})
		})
	}
}

// TestBrokenLane blocks only chunk messages, as the loss of the data connection does. The transfer gives the reason for
// its wait and asks the destination for a new epoch a few times, not thousands.
func TestBrokenLane(t *testing.T) {
	bubble(t, setup{}, func(w *world) {
		var broken atomic.Bool
		w.fates = func(p *faulty.Parcel) faulty.Handling {
			return faulty.Handling{Fail: broken.Load() && p.Kind == faulty.Chunk}
		}
		w.slow(20 * time.Millisecond)
		id := w.sendMixed(nil)
		w.arrived(id, 1)
		broken.Store(true)
		pass(10 * time.Second)
		rec := w.source(id)
		if rec.State != transfer.Waiting || transfer.KindOf(rec.Progress.Reason) != transfer.KindUnreachable {
			w.t.Errorf("it is %s, for %v", rec.State, rec.Progress.Reason)
		}
		pass(20 * time.Second)
		if opens := w.net.Count(wire.KindOpen); opens > 15 {
			w.t.Errorf("%d times OPEN in 30 s", opens)
		}
		broken.Store(false)
		if took := w.finish(time.Minute); took > 10*time.Second {
			w.t.Errorf("it took %v after the lane was there", took)
		}
	})
}

// TestBrokenLaneEnds expects the transfer to end at its recovery time-out, in spite of acknowledgements of first
// messages and new epochs. Its slot is free for others meanwhile. A rate limit, which delays each epoch, does not
// change that.
func TestBrokenLaneEnds(t *testing.T) {
	t.Run("fast", func(t *testing.T) { brokenLaneEnds(t, 0) })
	t.Run("limited", func(t *testing.T) { brokenLaneEnds(t, transfer.MinRate) })
}

func brokenLaneEnds(t *testing.T, rate int64) {
	bubble(t, setup{slots: 1}, func(w *world) {
		broken := transfer.NewID(time.Now()) // known before it begins, or a slow host would let its data through
		w.change(func(w *world) {
			w.fates = func(p *faulty.Parcel) faulty.Handling {
				return faulty.Handling{Fail: p.Kind == faulty.Chunk && p.Transfer == broken && p.N > 1 && len(p.Data) > wire.HeaderSize}
			}
		})
		files := map[string][]byte{"a": content(1, 30_000), "b": content(2, 30_000)}
		w.write(files)
		w.submit(transfer.Request{ID: broken, Items: transfer.ItemsOf("a"), Dest: transfer.File("one/"), Recovery: transfer.Duration(time.Minute), Scope: transfer.Scope{Terms: transfer.Terms{Rate: rate}}})
		pass(5 * time.Second)
		other := w.submit(transfer.Request{Items: transfer.ItemsOf("b"), Dest: transfer.File("two/")})
		w.until(30*time.Second, "the other one has no slot", func() bool { return w.over(other) })
		w.until(10*time.Minute, "it is not given up", func() bool { return w.source(broken).State.Final() })
		if p := w.source(broken).Progress; p.Code != transfer.CodeRecovery {
			w.t.Errorf("it ended with code %d: %v", p.Code, p.Reason)
		}
	})
}
