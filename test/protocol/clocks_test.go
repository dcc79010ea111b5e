package protocol_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/transfer"
	"ferry/test/campaign"
)

// TestCampaignClocks lets the clocks of the agents jump by seconds to years during all phases of transfers and while
// outcomes are kept. Timers use monotonic time, as on a host. No action may be early, late or doubled, and no transfer
// may hang.
func TestCampaignClocks(t *testing.T) {
	campaign.Run(t, campaign.Spec{Name: "clocks",
		What: "the clock of an agent jumps by a second to ten years, ahead or back, while transfers are accepted, run, wait, end, and are remembered",
		Unit: "jumps", Full: 500, Short: 60, Packages: append([]string{"internal/agent", "internal/agent/outbox", "internal/agent/scheduler", "internal/agent/store", "internal/sys/clock"}, product...)}, func(t *testing.T, c *campaign.C) {
		c.Add(spreadMany(t, c.Seed, c.Count, jumpAbout))
		t.Log(&toll)
	})
}

// jumpAbout is one story with a few jumps in it.
func jumpAbout(t *testing.T, seed uint64, r *rand.Rand) int {
	s := &script{r: r}
	if s.one(6) {
		return acceptances(t, s)
	}
	stories := []struct {
		name string
		tell func(w *world, s *script) int
	}{
		{"running", jumpsWhileRunning}, {"waiting", jumpsWhileWaiting}, {"the source's deadline", sourceDeadline},
		{"the destination's deadline", destinationDeadline}, {"retention", jumpsAndRetention},
	}
	story, jumps := stories[s.n(len(stories))], 0
	bubble(t, setup{memory: true, clocks: true, wake: s.one(2)}, func(w *world) {
		jumps = story.tell(w, s)
		if w.t.Failed() {
			w.t.Logf("the story of %s", story.name)
		}
	})
	toll.add("jumps in "+story.name, jumps)
	return jumps
}

// leap returns the size of a jump: from a second to ten years, in either direction.
func leap(s *script) time.Duration {
	d := []time.Duration{time.Second, 10 * time.Second, time.Minute, 11 * time.Minute, 61 * time.Minute, 25 * time.Hour,
		40 * 24 * time.Hour, 366 * 24 * time.Hour, 3652 * 24 * time.Hour}[s.n(9)]
	d -= s.time(d / 10)
	if s.one(2) {
		d = -d
	}
	return d
}

// jump makes the clock of a side jump. Sometimes the agent restarts after it, so that it knows only recorded times.
func (w *world) jump(s *script, n *node) {
	d := leap(s)
	if off := n.jumpy.Off() + d; off > 11*365*24*time.Hour || off < -11*365*24*time.Hour {
		d = -d
	}
	n.jumpy.Jump(d)
	w.log.say(n, "the clock jumps by %v", d)
}

func (w *world) side(s *script) *node { return []*node{w.src, w.dst}[s.n(2)] }

// jumpsWhileRunning checks that a transfer takes as long as without jumps.
func jumpsWhileRunning(w *world, s *script) (jumps int) {
	w.slow(5 * time.Millisecond)
	ids := w.submitRandom(s, work{})
	for range 1 + s.n(4) {
		pass(s.time(200 * time.Millisecond))
		n := w.side(s)
		w.jump(s, n)
		jumps++
		switch s.n(4) {
		case 0:
			n.restart()
		case 1:
			n.kill()
		}
	}
	start := time.Now()
	w.until(10*time.Minute, "not every transfer has ended", func() bool { return w.allOver(ids) })
	if took := time.Since(start); took > bound {
		w.t.Errorf("it took %v after the last jump", took)
	}
	w.check()
	return jumps
}

func (w *world) allOver(ids []transfer.ID) bool {
	for _, id := range ids {
		if !w.over(id) {
			return false
		}
	}
	return true
}

// jumpsWhileWaiting lets a transfer wait for its destination for less than its recovery time-out. The transfer resumes
// when the destination is back.
func jumpsWhileWaiting(w *world, s *script) (jumps int) {
	w.slow(60 * time.Millisecond)
	files := map[string][]byte{"in/a": content(1, 500), "in/b": content(2, 100<<10)}
	w.write(files)
	w.expect("out", files)
	id := w.submit(transfer.Request{Items: transfer.ItemsOf("in"), Dest: transfer.File("out/"), Recovery: transfer.Duration(30 * time.Minute), Options: transfer.Options{Recursive: true}})
	w.want(id, transfer.Successful, "out", files)
	pass(s.time(300 * time.Millisecond))
	w.cut(true)
	for range 1 + s.n(5) {
		pass(s.time(5 * time.Minute))
		n := w.side(s)
		w.jump(s, n)
		jumps++
		if s.one(3) {
			n.restart()
		}
	}
	pass(s.time(time.Minute))
	if st := w.source(id).State; st.Final() && !w.over(id) || st == transfer.Failed {
		w.t.Errorf("it is %s before its time", st)
	}
	w.cut(false)
	w.until(10*time.Minute, "it has not ended", func() bool { return w.over(id) })
	w.check()
	return jumps
}

// sourceDeadline stops the destination permanently. The source gives up when the recovery time-out is over, counted in
// time during which it ran.
func sourceDeadline(w *world, s *script) (jumps int) {
	limit := []time.Duration{2 * time.Minute, 10 * time.Minute, 45 * time.Minute}[s.n(3)]
	w.slow(100 * time.Millisecond)
	files := map[string][]byte{"a": content(2, 200<<10)}
	w.write(files)
	id := w.submit(transfer.Request{Items: transfer.ItemsOf("a"), Dest: transfer.File("out/"), Recovery: transfer.Duration(limit)})
	pass(s.time(250 * time.Millisecond))
	w.dst.killed()
	from := time.Now()
	for range 1 + s.n(4) {
		pass(s.time(limit / 5))
		w.jump(s, w.src)
		jumps++
		if s.one(4) {
			w.src.restart()
			from = time.Now()
		}
		if st := w.source(id).State; st.Final() {
			w.t.Errorf("it is %s after %v of %v", st, time.Since(from), limit)
			return jumps
		}
	}
	w.until(limit+time.Hour, "the source does not give up", func() bool { return w.source(id).State.Final() })
	if took := time.Since(from); took < limit-5*time.Second || took > limit+2*time.Minute {
		w.t.Errorf("the source gave up after %v; the recovery time-out is %v", took, limit)
	}
	if p := w.source(id).Progress; p.Code != transfer.CodeRecovery {
		w.t.Errorf("it ended with code %d", p.Code)
	}
	return jumps
}

// destinationDeadline stops the source permanently. The destination gives the transfer up at its own deadline.
func destinationDeadline(w *world, s *script) (jumps int) {
	w.slow(50 * time.Millisecond)
	w.write(map[string][]byte{"big": content(1, 200<<10)})
	id := w.submit(transfer.Request{Items: transfer.ItemsOf("big"), Dest: transfer.File("out/"), Recovery: transfer.Duration(10 * time.Minute)})
	w.point(id, 20<<10)
	deadline := 80 * time.Minute // twice the recovery time-out and an hour
	w.src.killed()
	from := time.Now()
	for range 1 + s.n(4) {
		pass(s.time(deadline / 5))
		w.jump(s, w.dst)
		jumps++
		if s.one(3) {
			w.dst.restart()
		}
		pass(15 * time.Minute / 4)
		if in := w.incoming(id); in.State != transfer.Receiving && time.Since(from) < deadline {
			w.t.Errorf("the destination gave up after %v; the deadline is %v", time.Since(from), deadline)
			return jumps
		}
	}
	w.until(6*time.Hour, "the destination does not give up", func() bool { return w.incoming(id).State == transfer.Abandoned })
	if took := time.Since(from); took < deadline || took > deadline+20*time.Minute {
		w.t.Errorf("the destination gave up after %v; the deadline is %v", took, deadline)
	}
	if left := w.dst.leftovers(); len(left) > 0 {
		w.t.Errorf("left behind: %v", left)
	}
	return jumps
}

// jumpsAndRetention keeps an outcome for 30 days of running time. A replay of all messages changes nothing meanwhile.
func jumpsAndRetention(w *world, s *script) (jumps int) {
	w.net.Set(keeping)
	ids := w.submitRandom(s, work{})
	w.until(10*time.Minute, "not every transfer has ended", func() bool { return w.allOver(ids) })
	days := 0
	for range 2 + s.n(3) {
		w.jump(s, w.src)
		w.jump(s, w.dst)
		jumps += 2
		more := s.n(10)
		days += more
		for _, n := range []*node{w.src, w.dst} {
			if s.one(3) {
				n.restart()
			}
			must(w.t, n.living().ledger.AddRunning(time.Duration(more)*24*time.Hour))
			must(w.t, n.living().ledger.Forget(agent.Retention))
		}
		for _, id := range ids {
			if days < 30 && (w.source(id) == nil || w.incoming(id) == nil) {
				w.t.Errorf("after %d days of running time the outcome of %s is forgotten", days, id)
			}
		}
	}
	if days < 30 {
		w.net.Replay()
		pass(2 * time.Minute)
		w.check()
	}
	return jumps
}
