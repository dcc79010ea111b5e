package protocol_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"ferry/internal/transfer"
)

// campaignEnv asks for more seeds, or for one: "5000", or "=17".
const campaignEnv = "FERRY_CAMPAIGN"

// TestCampaign sends small transfers while random things go wrong, then lets
// everything heal. Every transfer must end well, in bounded time, with every
// item committed exactly once; and a replay of everything that was ever said
// must change nothing.
func TestCampaign(t *testing.T) {
	first, last := uint64(1), uint64(300)
	if s := os.Getenv(campaignEnv); s != "" {
		one := s[0] == '='
		n, err := strconv.ParseUint(s[len(s)-len(digitsOf(s)):], 10, 64)
		must(t, err)
		if last = n; one {
			first = n
		}
	}
	for seed := first; seed <= last; seed++ {
		s := &script{r: rand.New(rand.NewPCG(seed, 7))}
		set := setup{settings: small, slots: 1 + s.n(4), nudge: s.n(2) == 0}
		if s.n(4) == 0 {
			set.settings = transfer.Settings{ChunkSize: 16 << 10, WindowSize: 1 + s.n(4), FrameSize: 1 + s.n(3), CheckpointInterval: 1 + s.n(3)}
		}
		bubble(t, set, func(w *world) {
			campaign(w, s)
			if t.Failed() {
				t.Logf("%s==%d", campaignEnv, seed)
			}
		})
		if t.Failed() {
			return
		}
	}
}

func digitsOf(s string) string {
	i := len(s)
	for i > 0 && s[i-1] >= '0' && s[i-1] <= '9' {
		i--
	}
	return s[i:]
}

// A script decides at random, from its seed, what goes wrong. How the two
// sides' goroutines interleave is not part of the seed: a failure may need
// several runs to come again.
type script struct {
	mu     sync.Mutex
	r      *rand.Rand
	healed bool
}

func (s *script) n(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.IntN(n)
}

func (s *script) heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.healed = true
}

func (s *script) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.healed
}

func campaign(w *world, s *script) {
	trouble := 3 + s.n(60) // of a thousand messages, how many meet with something
	w.net.keep = true
	w.net.slow = time.Duration(s.n(3)) * time.Millisecond
	w.net.strict = s.n(2) == 0
	w.net.decide = func(p *parcel) fate {
		if s.n(1000) >= trouble || s.over() {
			return fate{}
		}
		switch s.n(6) {
		case 0:
			return fate{copies: 1 + s.n(3)}
		case 1:
			return fate{delay: time.Duration(s.n(5000)) * time.Millisecond}
		case 2:
			return fate{delay: time.Duration(s.n(60)) * time.Second}
		case 3:
			return fate{corrupt: p.kind == chunkKind}
		case 4:
			return fate{fail: true}
		}
		return fate{drop: true}
	}
	// No more than two crashes of a side: at three without progress it would
	// set the transfer aside, as it should.
	crashes := map[*node]int{}
	if s.n(2) == 0 { // one of them is at a call to the disk
		side := []*node{w.src, w.dst, w.dst}[s.n(3)]
		crashes[side]++
		at, after := 1+s.n(120), s.n(2) == 0
		w.change(func(w *world) {
			w.crash = func(n *node, _, _ string, count int, is bool) bool {
				return n == side && count == at && is == after && !s.over()
			}
		})
	}
	if s.n(4) == 0 { // calls that fail now and then
		op := []string{"sync", "syncdata", "syncdir", "setmeta"}[s.n(4)]
		errno := []syscall.Errno{syscall.EIO, syscall.ENOSPC}[s.n(2)]
		w.change(func(w *world) {
			w.inject = func(n *node, is, _ string) error {
				if n == w.dst && is == op && s.n(8) == 0 && !s.over() {
					return errno
				}
				return nil
			}
		})
	}
	ids := w.submitRandom(s)
	for range s.n(6) {
		pass(time.Duration(s.n(3000)) * time.Millisecond / time.Duration(1+s.n(20)))
		side := []*node{w.src, w.dst}[s.n(2)]
		switch s.n(4) {
		case 0:
			w.net.set(func(c *courier) { c.cut = true })
			pass(time.Duration(s.n(20000)) * time.Millisecond)
			w.net.set(func(c *courier) { c.cut = false })
		case 1:
			side.restart()
		case 2:
			if crashes[side]++; crashes[side] <= 2 {
				side.kill()
			}
		case 3:
			w.net.replay()
		}
	}
	s.heal()
	start := time.Now()
	w.until(10*time.Minute, "not every transfer has ended", func() bool {
		for _, id := range ids {
			if !w.over(id) {
				return false
			}
		}
		return true
	})
	if took := time.Since(start); took > 90*time.Second {
		w.t.Errorf("it took %v after the last fault", took)
	}
	w.check()
	if w.t.Failed() {
		return
	}
	w.net.replay()
	pass(2 * time.Minute)
	w.check()
}

// submitRandom submits one to three transfers.
func (w *world) submitRandom(s *script) (ids []transfer.ID) {
	for k := range 1 + s.n(3) {
		files := map[string][]byte{}
		under := fmt.Sprintf("in%d", k)
		for f := range 1 + s.n(8) {
			size := []int{0, s.n(100), s.n(5000), s.n(40 << 10)}[s.n(4)]
			name := fmt.Sprintf("%s/f%d", under, f)
			if s.n(3) == 0 {
				name = fmt.Sprintf("%s/d%d/f%d", under, s.n(3), f)
			}
			files[name] = content(uint64(1000*k+f), size)
		}
		w.write(files)
		q := transfer.Request{Sources: []transfer.Path{transfer.Path(under)}, Dest: "out/", Recursive: true,
			Checksum: []string{"", "md5", "sha256", "none"}[s.n(4)], DeleteSrc: s.n(4) == 0,
			Durability: []string{"", transfer.DurabilityProcess}[s.n(2)]}
		id := w.submit(q)
		w.want(id, transfer.Successful, "out", files)
		ids = append(ids, id)
	}
	return ids
}
