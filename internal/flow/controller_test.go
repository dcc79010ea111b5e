package flow

import (
	"testing"
	"time"
)

// A wire is a simulated link for a Line. It carries messages one after the other at a rate, and their acknowledgements
// back, with half a round trip each way.
type wireline struct {
	t     *testing.T
	line  *Controller
	rate  float64 // bytes a second
	trip  time.Duration
	now   time.Time
	free  time.Time // when the last message will have left
	acks  []ack     // in the order of their arrival
	most  int64     // most bytes in flight at any time, once the rate is known
	known bool

	back    time.Duration // wait of acknowledgements behind other data
	disk    time.Duration // from the arrival of a message to its acknowledgement
	burst   int64         // bytes that the wire buffers before its rate takes effect
	heard   time.Time     // of the last acknowledgement
	silence time.Duration // the longest time between two acknowledgements
}

type ack struct {
	at      time.Time
	there   time.Time // when the message arrived
	f       *flight
	seq     uint64
	arrived bool // the message has arrived and is not processed
}

// A flight sends a number of bytes as fast as the line allows.
type flight struct {
	*Flight
	left  int64
	seq   uint64
	woken bool
	deaf  bool // its messages are lost
	hangs bool // its messages arrive and are not acknowledged
	done  time.Time
}

// clockApart is the difference between the clocks of both sides.
const clockApart = -7 * time.Hour

func newWireline(t *testing.T, rate float64, trip time.Duration) *wireline {
	return &wireline{t: t, line: &Controller{}, rate: rate, trip: trip, now: time.Unix(1e9, 0)}
}

func (w *wireline) join(bytes int64) *flight {
	f := &flight{left: bytes, woken: true}
	f.Flight = w.line.Join(func() { f.woken = true })
	return f
}

// run lets flights send until all bytes are acknowledged or the time is over.
func (w *wireline) run(limit time.Duration, flights ...*flight) {
	w.t.Helper()
	for end := w.now.Add(limit); w.now.Before(end); {
		for _, f := range flights {
			if f.woken && f.left > 0 {
				f.woken = false
				w.push(f)
			}
		}
		if len(w.acks) == 0 {
			waits := false
			for _, f := range flights { // they check again when a keepalive is due
				f.woken = f.left > 0
				waits = waits || f.woken
			}
			if !waits {
				return
			}
			w.now = w.now.Add(w.line.KeepaliveInterval())
			continue
		}
		a := w.acks[0]
		w.acks = w.acks[1:]
		w.now = a.at
		if !w.heard.IsZero() {
			w.silence = max(w.silence, w.now.Sub(w.heard))
		}
		w.heard = w.now
		if a.arrived {
			a.f.Arrived(a.seq, w.now)
			continue
		}
		a.f.Acked(a.seq, a.there.Add(clockApart), w.now)
		if a.f.left == 0 && a.seq == a.f.seq {
			a.f.done = w.now
		}
	}
	w.t.Fatalf("after %s there is still something under way", limit)
}

func (w *wireline) push(f *flight) {
	for f.left > 0 && f.May(w.now) {
		n := min(f.left, w.line.Pace())
		f.left -= n
		f.seq++
		f.Send(f.seq, n, w.now)
		f.Out(w.now)
		if w.free.Before(w.now) {
			w.free = w.now
		}
		slow := max(0, n-w.burst)
		w.burst -= n - slow
		w.free = w.free.Add(time.Duration(float64(slow) / w.rate * float64(time.Second)))
		if !f.deaf {
			w.acks = append(w.acks, ack{w.free.Add(w.trip + w.disk + w.back), w.free.Add(w.trip/2 + w.disk), f, f.seq, f.hangs})
		}
		if w.known {
			w.most = max(w.most, w.line.inFlight)
		}
	}
	w.known = w.known || w.line.rate > 0
}

// On a link of any speed the bytes take about the necessary time. In-flight data is worth at most two seconds, 16 KiB
// on the slowest link.
func TestControllerFollowsTheRate(t *testing.T) {
	for _, rate := range []float64{8e3, 16e3, 125e3, 1.25e6, 125e6} {
		for _, trip := range []time.Duration{100 * time.Microsecond, 20 * time.Millisecond, 300 * time.Millisecond} {
			w := newWireline(t, rate, trip)
			all := int64(30 * rate)
			start := w.now
			f := w.join(all)
			w.run(time.Hour, f)
			if took := w.now.Sub(start); took > 32*time.Second+10*trip {
				t.Errorf("%.0f B/s, %s: 30 s of bytes take %s", rate, trip, took)
			}
			if most := max(2*rate, minWindow+minPace); float64(w.most) > most {
				t.Errorf("%.0f B/s, %s: %d bytes were under way", rate, trip, w.most)
			}
		}
	}
}

// If other data fills the way back, acknowledgements are late. The way there is as fast as before, and is used.
func TestControllerWithLateAcknowledgements(t *testing.T) {
	for _, rate := range []float64{8e3, 16e3, 125e3, 1.25e6} {
		for _, back := range []time.Duration{500 * time.Millisecond, 1500 * time.Millisecond} {
			w := newWireline(t, rate, 20*time.Millisecond)
			w.run(time.Hour, w.join(int64(10*rate)))
			w.back = back
			start := w.now
			w.run(time.Hour, w.join(int64(30*rate)))
			if took := w.now.Sub(start); took > 33*time.Second+back {
				t.Errorf("%.0f B/s, acknowledgements %s late: 30 s of bytes take %s", rate, back, took)
			}
			if most := max(3*rate, minWindow+minPace); float64(w.most) > most {
				t.Errorf("%.0f B/s, acknowledgements %s late: %d bytes were under way", rate, back, w.most)
			}
		}
	}
}

// A line measured as fast is found to be slow, also if a transfer has much less to send than the line allowed: its
// messages wait on the way.
func TestLinkSlowerThanTheData(t *testing.T) {
	w := newWireline(t, 100e6, time.Millisecond)
	w.run(time.Hour, w.join(400e6))
	w.rate = 125e3
	f, most := w.join(0), int64(0)
	for end := w.now.Add(30 * time.Second); w.now.Before(end); w.now = w.now.Add(25 * time.Millisecond) {
		f.left = min(f.left+5000, 20_000) // 200 kB/s; little can wait
		w.push(f)
		for len(w.acks) > 0 && w.acks[0].at.Before(w.now) {
			a := w.acks[0]
			w.acks = w.acks[1:]
			a.f.Acked(a.seq, a.there.Add(clockApart), a.at)
		}
		most = max(most, w.line.inFlight)
	}
	if limit := int64(4 * w.rate); most > limit {
		t.Errorf("%d bytes were under way; %d may be", most, limit)
	}
}

// Transfers on one line get equal shares of it. All together have no more in flight than one.
func TestControllerIsShared(t *testing.T) {
	w := newWireline(t, 64e3, 50*time.Millisecond)
	var all []*flight
	for range 25 {
		all = append(all, w.join(200e3))
	}
	start := w.now
	w.run(time.Hour, all...)
	first, last := all[0].done, all[0].done
	for _, f := range all {
		if f.done.Before(first) {
			first = f.done
		}
		if f.done.After(last) {
			last = f.done
		}
	}
	if ideal := 25 * 200e3 / 64e3; last.Sub(start).Seconds() > 1.1*ideal {
		t.Errorf("it took %s; the bytes are worth %.0f s", last.Sub(start), ideal)
	}
	if last.Sub(first) > last.Sub(start)/5 {
		t.Errorf("the first ended after %s, the last after %s", first.Sub(start), last.Sub(start))
	}
	if w.most > 2*64e3 {
		t.Errorf("%d bytes were under way", w.most)
	}
}

// A change of the link to slower or faster is noticed while it is used.
func TestControllerFollowsDownAndUp(t *testing.T) {
	w := newWireline(t, 1e6, 10*time.Millisecond)
	w.run(time.Hour, w.join(20e6))
	before := w.line.Pace()
	w.rate = 50e3
	w.run(time.Hour, w.join(2e6))
	slow := w.line.Pace()
	if slow > before/8 {
		t.Errorf("a message may have %d bytes at 50 kB/s, %d at 1 MB/s", slow, before)
	}
	w.rate = 1e6
	w.run(time.Hour, w.join(20e6))
	if up := w.line.Pace(); up < before/2 {
		t.Errorf("a message may have %d bytes at 1 MB/s again, %d before", up, before)
	}
}

// One transfer with a destination that processes nothing does not block the others.
func TestOneTransferDoesNotBlockTheLink(t *testing.T) {
	w := newWireline(t, 64e3, 10*time.Millisecond)
	w.run(time.Hour, w.join(640e3))
	stuck, f := w.join(128e3), w.join(640e3) // 128 kB: its credit
	stuck.hangs = true
	start := w.now
	w.run(time.Hour, stuck, f)
	if took := w.now.Sub(start); took > 14*time.Second {
		t.Errorf("12 s of bytes beside a transfer with a hanging destination take %s", took)
	}

	stuck, f = w.join(128e3), w.join(640e3)
	stuck.deaf = true
	start = w.now
	w.run(time.Hour, stuck, f)
	if took := f.done.Sub(start); took > 20*time.Second {
		t.Errorf("10 s of bytes beside a transfer with lost messages take %s", took)
	}
	if !stuck.Overdue(start, w.now) {
		t.Error("the transfer with lost messages does not count as silent")
	}
}

// On a fast link the other side counts as silent after 6 s, also while other transfers are acknowledged. So lost data
// is sent again within 10 s of any pause.
func TestOverdue(t *testing.T) {
	for _, c := range []struct {
		others       bool
		before, then time.Duration
	}{{false, 5900 * time.Millisecond, 6200 * time.Millisecond}, {true, 5900 * time.Millisecond, 6500 * time.Millisecond}} {
		l := &Controller{}
		start := time.Unix(1e9, 0)
		lost, other := l.Join(func() {}), l.Join(func() {})
		other.Send(1, 100, start)
		other.Acked(1, time.Time{}, start.Add(time.Millisecond))
		lost.Send(1, 100, start)
		lost.Out(start)
		for after := time.Duration(0); c.others && after < c.then; after += 100 * time.Millisecond {
			other.Send(2, 100, start.Add(after))
			other.Acked(2, time.Time{}, start.Add(after+time.Millisecond))
		}
		if lost.Overdue(start, start.Add(c.before)) || !lost.Overdue(start, start.Add(c.then)) {
			t.Errorf("others are acknowledged: %v; after %s overdue: %v, after %s: %v", c.others,
				c.before, lost.Overdue(start, start.Add(c.before)), c.then, lost.Overdue(start, start.Add(c.then)))
		}
	}
}

// Keepalives of many transfers leave room for the data.
func TestKeepaliveInterval(t *testing.T) {
	w := newWireline(t, 8e3, 10*time.Millisecond)
	one := w.join(100e3)
	w.run(time.Hour, one)
	if d := w.line.KeepaliveInterval(); d != keepaliveFirst {
		t.Errorf("one transfer says every %s that it lives", d)
	}
	w.line.rate = 9 // measured while the other side stood still
	if d := w.line.KeepaliveInterval(); d != keepaliveFirst {
		t.Errorf("a transfer with a destination that stood still sends a keepalive every %s", d)
	}
	w.line.rate = 8e3
	var more []*flight
	for range 24 {
		more = append(more, w.join(1))
	}
	if d := w.line.KeepaliveInterval(); d != keepaliveMost {
		t.Errorf("25 transfers on 64 kbit/s say every %s that they live", d)
	}
	for _, f := range more {
		f.Leave()
	}
	if d := w.line.KeepaliveInterval(); d != keepaliveFirst {
		t.Errorf("when 24 of 25 have left, it is every %s", d)
	}
}

// A flight that leaves wakes the next one, from any place in the queue.
func TestLeave(t *testing.T) {
	l := &Controller{}
	now := time.Unix(1e9, 0)
	woken := map[string]int{}
	join := func(name string) *Flight { return l.Join(func() { woken[name]++ }) }
	a, b, c := join("a"), join("b"), join("c")
	if !a.May(now) {
		t.Fatal("the first may not send")
	}
	a.Send(1, minWindow, now)
	if b.May(now) || c.May(now) || b.May(now) {
		t.Fatal("there is no room for two more")
	}
	a.Leave()
	if woken["b"] != 1 || woken["c"] != 0 || c.May(now) {
		t.Errorf("woken: %v", woken)
	}
	b.Leave()
	if woken["c"] == 0 || !c.May(now) {
		t.Errorf("woken: %v", woken)
	}
	if l.inFlight != 0 || len(l.waiting) != 0 {
		t.Errorf("%d bytes under way, %d wait", l.inFlight, len(l.waiting))
	}
}

// On a slow link keepalives are rare. But the flight asks for the acknowledgement of the first overdue message at
// once, and once.
func TestControllerProbesOverdueMessages(t *testing.T) {
	w := newWireline(t, 8e3, 10*time.Millisecond)
	one := w.join(100e3)
	w.run(time.Hour, one)
	for range 24 {
		w.join(1)
	}
	beat := w.line.KeepaliveInterval()
	if d := one.Quiet(w.now, w.now); d != beat {
		t.Fatalf("with nothing under way it may be quiet for %s, not %s", d, beat)
	}
	start := w.now
	one.Send(1000, 500, start)
	one.Out(start)
	due := one.Quiet(start, start)
	if due >= beat || due < ackTimeLeast {
		t.Fatalf("with a message under way it may be quiet for %s", due)
	}
	now := start.Add(due)
	if d := one.Quiet(start, now); d > 0 {
		t.Errorf("once the message is overdue it may be quiet for another %s", d)
	}
	if !one.Send(1001, 60, now) {
		t.Error("the next message does not ask for an acknowledgement")
	}
	if d := one.Quiet(now, now); d != beat {
		t.Errorf("after that it may be quiet for %s, not %s", d, beat)
	}
}

// A link that buffers some bytes before its rate takes effect does not count as fast. The in-flight data is at most
// twice the buffered bytes, two seconds of the rate, and two messages.
func TestBurstDoesNotRaiseTheWindow(t *testing.T) {
	for _, burst := range []int64{4 << 10, 32 << 10, 128 << 10} {
		for _, rate := range []float64{8e3, 16e3, 64e3, 250e3} {
			w := newWireline(t, rate, time.Millisecond)
			w.burst = burst
			all := int64(20*rate) + burst
			start := w.now
			f := w.join(all)
			w.run(time.Hour, f)
			if took := w.now.Sub(start); took > 22*time.Second {
				t.Errorf("%.0f B/s after %d bytes at once: 20 s of bytes take %s", rate, burst, took)
			}
			if most := 2*burst + int64(2*rate) + 2*minPace; w.most > most {
				t.Errorf("%.0f B/s after %d bytes at once: %d bytes were under way; %d may be", rate, burst, w.most, most)
			}
			if w.silence > ackTimeLeast {
				t.Errorf("%.0f B/s after %d bytes at once: nothing was acknowledged for %s", rate, burst, w.silence)
			}
		}
	}
}

// While bytes arrive on the link, or the other side sends keepalives, no transfer on it counts as silent, and no
// more data is sent. Without both, the transfer counts as silent.
func TestActiveLinkIsNotSilent(t *testing.T) {
	w := newWireline(t, 250e3, 10*time.Millisecond)
	w.run(time.Hour, w.join(2500e3))
	one, two := w.join(1), w.join(1)
	start := w.now
	for seq := uint64(1); one.May(w.now); seq++ {
		one.Send(seq, w.line.Pace(), w.now)
		one.Out(w.now)
	}
	under := w.line.inFlight
	for after := time.Duration(0); after < 30*time.Second; after += time.Second {
		now := start.Add(after)
		if one.Overdue(start, now) || two.Overdue(start, now) {
			t.Fatalf("after %s on a line that carries a transfer is taken for silent", after)
		}
		if two.May(now) || w.line.inFlight != under {
			t.Fatalf("after %s more is put on a line that has %d bytes to carry", after, under)
		}
		w.line.NoteActivity(now)
	}
	if now := start.Add(29*time.Second + ackTimeMost + time.Millisecond); !one.Overdue(start, now) {
		t.Error("on a line that carries nothing any more the transfer is not taken for silent")
	}
}
