package protocol_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"ferry/internal/faulty"
	"ferry/internal/flow"
	"ferry/internal/transfer"
	"ferry/internal/wire"
	"ferry/test/campaign"
)

// fastOnes is the number of transfers beside the slow one.
const fastOnes = 20

// TestCampaignSlowReceiver runs one transfer to a slow disk beside twenty to a fast one, in the same destination agent.
// The granted credit bounds the agent's memory, and the fast transfers always have credit of their own. The test checks
// the counters, not the clock.
func TestCampaignSlowReceiver(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "slow-receiver",
		What: "a transfer to a slow disk runs beside twenty to a fast one in the same agent, in simulated time; the counters of the credit are checked at each message",
		Unit: "transfers", Full: 40, Short: 4, Packages: product}, func(t *testing.T, c *campaign.C) {
		each(beside)(t, c)
		t.Log(&toll)
	})
}

// An account is the externally visible part of a transfer's credit.
type account struct {
	epoch uint32
	sent  []int64 // the cost of all messages up to each sequence
	data  int64   // bytes that the destination was given
	kept  int64   // bytes that it has written
}

// An auditor adds up credit, from the messages and from the writes.
type auditor struct {
	slots    int64
	pool     int64
	message  int64
	mu       sync.Mutex
	accounts map[transfer.ID]*account
	slow     transfer.ID
	most     int64 // bytes that were held at once
	broken   []string
}

// floor returns the credit that each transfer can always have.
func (a *auditor) floor() int64 { return min(a.message, a.pool/2/a.slots) }

func (a *auditor) of(id transfer.ID) *account {
	if a.accounts[id] == nil {
		a.accounts[id] = &account{}
	}
	return a.accounts[id]
}

// hear adds up the source's messages, and checks the credit that the destination grants.
func (a *auditor) hear(p *faulty.Parcel) faulty.Handling {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p.Kind == faulty.Chunk {
		h, frames, err := wire.ParseChunk(bytes.Clone(p.Data))
		if err != nil {
			return faulty.Handling{}
		}
		x := a.of(h.Transfer)
		if h.Epoch > x.epoch {
			x.epoch, x.sent = h.Epoch, []int64{0}
		}
		cost := x.sent[len(x.sent)-1]
		for k := range frames {
			cost += frames[k].Cost(flow.BeginCost)
		}
		x.sent = append(x.sent, cost)
		return faulty.Handling{}
	}
	if p.Kind == wire.KindAck {
		a.granted(p)
	}
	return faulty.Handling{}
}

// granted checks an ACK: a transfer that is not slow has at least its floor left.
func (a *auditor) granted(p *faulty.Parcel) {
	m, err := wire.Decode(p.Data)
	if err != nil {
		return
	}
	x := a.of(m.Transfer)
	if m.Ack.Epoch != x.epoch || m.Ack.Seq >= uint64(len(x.sent)) {
		return
	}
	if left := m.Ack.Credit - x.sent[m.Ack.Seq]; m.Transfer != a.slow && left < a.floor() {
		a.broken = append(a.broken, fmt.Sprintf("a fast transfer has %d bytes of credit left, and %d are its own", left, a.floor()))
	}
}

// arrives counts the bytes given to the destination, and those that it holds at once.
func (a *auditor) arrives(p *faulty.Parcel, _ *node) bool {
	if p.Kind != faulty.Chunk {
		return false
	}
	h, frames, err := wire.ParseChunk(bytes.Clone(p.Data))
	a.mu.Lock()
	defer a.mu.Unlock()
	for k := range frames {
		if err == nil {
			a.of(h.Transfer).data += int64(len(frames[k].Data))
		}
	}
	var held int64
	for _, x := range a.accounts {
		held += x.data - x.kept
	}
	if a.most = max(a.most, held); held > a.pool {
		a.broken = append(a.broken, fmt.Sprintf("%d bytes are held, and the pool has %d", held, a.pool))
	}
	return false
}

// written counts the bytes of a transfer's files that are on disk.
func (a *auditor) written(id transfer.ID, n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.of(id).kept += n
}

// beside is one slow transfer with the fast ones beside it.
func beside(t *testing.T, _ uint64, r *rand.Rand) {
	s := &script{r: r}
	set := setup{memory: true, slots: fastOnes + 1 + s.n(8), pool: int64(256<<10 + s.n(1<<20)), settings: small}
	if s.one(2) {
		set.settings = transfer.Settings{ChunkSize: 8 << 10, WindowSize: 4, FrameSize: 4, CheckpointInterval: 2}
	}
	bubble(t, set, func(w *world) {
		a := &auditor{slots: int64(set.slots), pool: set.pool, message: int64(set.settings.ChunkSize), accounts: map[transfer.ID]*account{}}
		w.fates, w.before = a.hear, a.arrives
		w.net.Set(func(r *faulty.Rules) { r.Latency = time.Duration(1+s.n(5)) * time.Millisecond })
		each := s.time(3*time.Second) + time.Second
		owners := map[string]transfer.ID{}
		w.linger = func(n *node, op, name string) time.Duration {
			if n == w.dst && strings.Contains(name, "/out/slow/") && (op == "write" || op == "syncdata" || op == "sync") {
				return each
			}
			return 0
		}
		w.wrote = func(n *node, name string, size int) {
			if n != w.dst {
				return
			}
			rel := strings.SplitN(strings.TrimPrefix(name, "/files/out/"), "/", 2)[0]
			w.mu.Lock()
			id := owners[rel]
			w.mu.Unlock()
			a.written(id, int64(size))
		}
		slow := w.oneOf(s, a, owners, "slow", 150<<10)
		pass(s.time(10 * time.Second)) // it may have the pool to itself for a while
		var fast []transfer.ID
		for k := range fastOnes {
			fast = append(fast, w.oneOf(s, a, owners, fmt.Sprint("fast", k), 30<<10+s.n(60<<10)))
		}
		w.until(10*time.Minute, "the fast ones do not end", func() bool { return w.allOver(fast) })
		if w.over(slow) {
			w.t.Error("the slow one has ended first: it was not slow")
		}
		w.finish(2 * time.Hour)
		a.judge(w, append(fast, slow))
	})
}

// oneOf submits one transfer of one file, and records the owner of its directory.
func (w *world) oneOf(s *script, a *auditor, owners map[string]transfer.ID, dir string, size int) transfer.ID {
	files := map[string][]byte{dir + "/f": content(uint64(size), size)}
	w.write(files)
	id := transfer.NewID(time.Now())
	w.mu.Lock()
	owners[dir] = id
	w.mu.Unlock()
	if dir == "slow" {
		a.mu.Lock()
		a.slow = id
		a.mu.Unlock()
	}
	w.submit(transfer.Request{ID: id, Items: transfer.ItemsOf(transfer.Path(dir)), Dest: transfer.File("out/"), Options: transfer.Options{Recursive: true}})
	w.want(id, transfer.Successful, "out", files)
	return id
}

func (a *auditor) judge(w *world, ids []transfer.ID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for k, what := range a.broken {
		if k < 5 {
			w.t.Error(what)
		}
	}
	for _, id := range ids {
		if in := w.incoming(id); in.Epoch != 1 {
			w.t.Errorf("a transfer needed %d epochs: something was dropped, or was thought to be away", in.Epoch)
		}
	}
	if peak := w.dst.living().pool.Peak(); peak > a.pool || a.most > peak+int64(a.slots)*a.message {
		w.t.Errorf("%d bytes were granted at once and %d held, of a pool of %d", peak, a.most, a.pool)
	}
	toll.add("fast transfers", len(ids)-1)
}
