package flow

import (
	"math/rand/v2"
	"slices"
	"testing"

	"ferry/internal/transfer"
)

func TestDefaultsAreTheReports(t *testing.T) {
	s := transfer.DefaultSettings()
	if RunAhead(s) != 50*256<<10 || Checkpoint(s) != 50*256<<10 {
		t.Fatalf("run-ahead %d, checkpoint %d; the reports have 50 chunks of 256 KiB for both", RunAhead(s), Checkpoint(s))
	}
	if AckEvery(s, 1<<30) != 10*256<<10 || AckEvery(s, 1000) != 500 || AckEvery(s, 0) != 1 {
		t.Fatal("acknowledge at the smaller of a window and half the credit")
	}
}

func TestNegotiateCapsTheChunkAndKeepsTheRunAhead(t *testing.T) {
	s := Negotiate(transfer.Settings{ChunkSize: 1 << 20}, 300_000)
	if s.ChunkSize > 300_000 || s.ChunkSize%4096 != 0 {
		t.Fatalf("chunk %d", s.ChunkSize)
	}
	if r := RunAhead(s); r < 40<<20 || r > 60<<20 {
		t.Fatalf("run-ahead %d, asked 50 MiB", r)
	}
}

// Scenario 8: 25 transfers share a pool smaller than 25 windows. Each can always send, none keeps only the floor for
// ever, and the sum stays within the pool.
func TestScenario8SharedPool(t *testing.T) {
	const message = 256 << 10
	p := NewPool(30<<20, 30<<20, 25, message)
	var accounts []*Account
	sent := map[*Account]int64{}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 25 {
		a := p.Open(50 * message)
		if a.Grant() < message {
			t.Fatalf("account %d begins with %d, less than a message", len(accounts), a.Ahead())
		}
		accounts = append(accounts, a)
	}
	for range 100_000 {
		a := accounts[rng.IntN(25)]
		if n := min(a.Ahead(), message); n > 0 {
			a.Use(n)
			sent[a] += n
		}
		if rng.IntN(3) == 0 {
			a.Grant()
		}
		if g := p.Granted(); g > 30<<20 {
			t.Fatalf("granted %d of %d", g, 30<<20)
		}
	}
	lo, hi := int64(1)<<62, int64(0)
	for _, a := range accounts {
		lo, hi = min(lo, sent[a]), max(hi, sent[a])
	}
	if lo*2 < hi {
		t.Fatalf("the least has sent %d, the most %d: not fair", lo, hi)
	}
}

func TestOldEpochIsHeldUntilTheNewOneSpeaks(t *testing.T) {
	p := NewPool(10<<20, 10<<20, 2, 1<<20)
	a := p.Open(8 << 20)
	a.Grant()
	held := p.Granted()
	a.NewEpoch()
	if p.Granted() != held {
		t.Fatal("credit of the old epoch was given back while its messages may still come")
	}
	if a.Grant() != 0 && p.Granted() > 10<<20 {
		t.Fatal("the new epoch's grant overdraws the pool")
	}
	a.Settle()
	if a.Grant() < 1<<20 {
		t.Fatal("no credit after the old epoch is gone")
	}
	a.Close()
	if p.Granted() != 0 {
		t.Fatal("a closed account still holds credit")
	}
}

// Transfers through the queue manager stay within their part of the pool, beside any direct transfers. All together
// stay within the pool.
func TestTheQueueManagersPart(t *testing.T) {
	const mib = 1 << 20
	p := NewPool(60*mib, 20*mib, 4, mib)
	q1, q2, d := p.Open(50*mib), p.Open(50*mib), p.Open(50*mib)
	q1.Grant()
	q2.Grant()
	if got := p.Granted(); got > 20*mib {
		t.Fatalf("%d bytes are granted through the queue manager", got)
	}
	d.Direct()
	d.Grant()
	if d.Ahead() < 15*mib || p.Granted() > 60*mib {
		t.Fatalf("the direct one has %d, all have %d", d.Ahead(), p.Granted())
	}
	d.NewEpoch()
	d.Settle()
	d.Grant() // without other information it uses the queue manager now
	if q := q1.Ahead() + q2.Ahead() + d.Ahead(); q > 20*mib {
		t.Fatalf("%d bytes are granted through the queue manager", q)
	}
}

// A run-ahead finds its own size: it grows while the sender waits for credit, once a round trip, up to the limit of
// memory.
func TestWiden(t *testing.T) {
	const mib = 1 << 20
	p := NewPool(64*mib, 30*mib, 1, mib)
	a := p.Open(4 * mib)
	a.Direct()
	a.Grant()
	var wants []int64
	for range 200 {
		a.Use(mib)
		a.Widen() // the sender reports in every message that it waits
		a.Grant()
		if w := a.Want(); len(wants) == 0 || wants[len(wants)-1] != w {
			wants = append(wants, w)
		}
		if a.Ahead() > 64*mib {
			t.Fatalf("%d bytes are granted", a.Ahead())
		}
	}
	if want := []int64{8 * mib, 16 * mib, 32 * mib, 64 * mib}; !slices.Equal(wants, want) {
		t.Fatalf("it grew to %v, not %v", wants, want)
	}
}

func TestAutoIsWhatNobodySet(t *testing.T) {
	for _, c := range []struct {
		s    transfer.Settings
		auto bool
	}{{transfer.Settings{}, true}, {transfer.Settings{CheckpointInterval: 4}, true}, {transfer.Settings{ChunkSize: 65536}, false},
		{transfer.Settings{WindowSize: 2}, false}, {transfer.Settings{FrameSize: 9}, false}} {
		if got := Negotiate(c.s, 1<<20).Auto; got != c.auto {
			t.Errorf("%+v: auto %v", c.s, got)
		}
	}
}

// On the direct lane chunks are larger, with about the same run-ahead, if no setting is explicit and the chunks fit.
func TestForDirect(t *testing.T) {
	s := ForDirect(Negotiate(transfer.Settings{}, 2<<20), 2<<20)
	if s.ChunkSize != 1<<20 || RunAhead(s) > RunAhead(transfer.DefaultSettings()) || RunAhead(s) < 10<<20 || !s.Auto {
		t.Errorf("%+v: a run-ahead of %d bytes", s, RunAhead(s))
	}
	if err := s.Check(); err != nil {
		t.Error(err)
	}
	for _, keep := range []struct {
		s   transfer.Settings
		max int
	}{{transfer.Settings{ChunkSize: 64 << 10}, 2 << 20}, {transfer.Settings{WindowSize: 3}, 2 << 20}, {transfer.Settings{}, 512 << 10}} {
		was := Negotiate(keep.s, keep.max)
		if got := ForDirect(was, keep.max); got != was {
			t.Errorf("%+v became %+v", was, got)
		}
	}
}
