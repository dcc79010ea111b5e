package flow

import (
	"testing"
	"time"
)

// lineStart is the start of the tests of single rules of a Line.
var lineStart = time.Unix(1e9, 0)

func at(after time.Duration) time.Time { return lineStart.Add(after) }

// leaves sends a message that the lane accepts at once.
func leaves(f *Flight, seq uint64, size int64, now time.Time) (ask bool) {
	ask = f.Send(seq, size, now)
	f.Out(now)
	return ask
}

// fill sends the largest messages until the line has no room, and returns the sequence of the last one.
func fill(f *Flight, seq uint64, now time.Time) uint64 {
	for f.May(now) {
		seq++
		leaves(f, seq, f.controller.Pace(), now)
	}
	return seq
}

// Quick acknowledgements of small messages prove a rate, and not that the link carries more at once. The limit of
// in-flight bytes may grow by the bytes acknowledged while it was the bottleneck, up to a second of the rate.
func TestWindowGrowsByAcknowledgedBytes(t *testing.T) {
	l := &Controller{}
	f := l.Join(func() {})
	seq, now := uint64(0), lineStart
	for range 1000 {
		seq++
		leaves(f, seq, 1000, now)
		now = now.Add(time.Millisecond)
		f.Acked(seq, time.Time{}, now)
	}
	if n := l.window(); n != minWindow {
		t.Errorf("after small messages %d bytes may be under way, not %d", n, minWindow)
	}

	for n := int64(minWindow); n < 256<<10; {
		seq = fill(f, seq, now)
		under := l.inFlight
		now = now.Add(time.Millisecond)
		f.Acked(seq, time.Time{}, now)
		if w := l.window(); w <= n || w > n+under {
			t.Fatalf("%d bytes were acknowledged, and %d may be under way instead of %d", under, w, n)
		}
		n = l.window()
	}

	w := newWireline(t, 64e3, 10*time.Millisecond)
	w.run(time.Hour, w.join(640e3))
	if most := w.line.bytesAt(w.line.rate); w.line.provenWindow > most+most/windowMessages {
		t.Errorf("on a line of 64 kB/s %d bytes are taken for proven", w.line.provenWindow)
	}
}

// A message that others passed long ago proves nothing by its late acknowledgement.
func TestLateMessageIsNoSample(t *testing.T) {
	l := &Controller{}
	f, other := l.Join(func() {}), l.Join(func() {})
	leaves(f, 1, minPace, lineStart)
	for n := range 8 {
		sent := at(time.Duration(n+1) * time.Millisecond)
		leaves(other, uint64(n+1), 100, sent)
		other.Acked(uint64(n+1), time.Time{}, sent.Add(time.Millisecond))
	}
	f.May(at(3 * time.Second))
	f.Acked(1, time.Time{}, at(3*time.Second))
	if l.provenWindow != 0 {
		t.Errorf("%d bytes are taken for proven", l.provenWindow)
	}
}

// A full line with a lower rate of acknowledgements has at most two seconds of that rate in flight from then on.
func TestSlowSampleBoundsTheWindow(t *testing.T) {
	w := newWireline(t, 1e6, 10*time.Millisecond)
	w.run(time.Hour, w.join(20e6))
	f := w.line.Join(func() {})
	seq := fill(f, 0, w.now)
	bytes := w.line.inFlight
	f.Acked(seq, time.Time{}, w.now.Add(time.Duration(float64(bytes)/50e3*float64(time.Second))))
	if n := w.line.window(); n < 99e3 || n > 101e3 {
		t.Errorf("after a sample of 50 kB/s %d bytes may be under way", n)
	}
}

// While a transfer reads its source over the link, half a second of the rate is in flight. The delay of acknowledgements
// behind the data that it reads does not count. Both count again after its end.
func TestReadingOverTheLinkBoundsTheWindow(t *testing.T) {
	w := newWireline(t, 1e6, 10*time.Millisecond)
	w.run(time.Hour, w.join(20e6))
	l := w.line
	l.back = time.Second
	second := l.window()
	f, other := l.Join(func() {}), l.Join(func() {})
	f.ReadsLink()
	f.ReadsLink()
	if n := l.window(); n < 450e3 || n > 550e3 || second < n {
		t.Errorf("while a source is read over the link of 1 MB/s, %d bytes may be in flight, and %d otherwise", n, second)
	}
	fill(other, 0, w.now)
	if l.inFlight > 550e3 {
		t.Errorf("%d bytes are in flight beside a transfer that reads over the link", l.inFlight)
	}
	f.Leave()
	if n := l.window(); n != second {
		t.Errorf("after the reading %d bytes may be in flight, not %d", n, second)
	}
	other.Leave()
	slow := Controller{rate: 8e3, provenWindow: 1e6, readers: 1}
	if n := slow.window(); n != minWindow {
		t.Errorf("on a link of 64 kbit/s %d bytes may be in flight, not %d", n, minWindow)
	}
}

// While a transfer reads its source over the link, a destination that acknowledges slowly does not lower the rate. A link
// that becomes slower does.
func TestReadingOverTheLinkKeepsTheRate(t *testing.T) {
	for _, disk := range []time.Duration{600 * time.Millisecond, 950 * time.Millisecond} {
		w := newWireline(t, 1e6, 10*time.Millisecond)
		w.run(time.Hour, w.join(20e6))
		w.disk = disk
		f := w.join(30e6)
		f.ReadsLink()
		w.run(time.Hour, f)
		if l := w.line; l.rate < 0.95e6 || l.window() < 450e3 {
			t.Errorf("acknowledgements take %s: the rate is %.0f B/s, and %d bytes may be in flight", disk, l.rate, l.window())
		}
	}

	w := newWireline(t, 1e6, 10*time.Millisecond)
	w.run(time.Hour, w.join(20e6))
	w.rate = 50e3
	f := w.join(1e6)
	f.ReadsLink()
	w.run(time.Hour, f)
	if l := w.line; l.window() > 80e3 {
		t.Errorf("on a link that has fallen to 50 kB/s %d bytes may be in flight", l.window())
	}
}

// A message counts as in flight until one of three events: it has arrived, others have passed it 2 s ago, or the line
// is silent for as long as an acknowledgement may take.
func TestControllerCountsInFlightBytes(t *testing.T) {
	const size = 1000
	for _, c := range []struct {
		name   string
		deed   func(f, other *Flight)
		now    time.Duration
		counts bool
	}{
		{"it was sent", func(f, _ *Flight) {}, time.Second, true},
		{"an earlier one has arrived", func(f, _ *Flight) { f.Arrived(6, at(time.Second)) }, time.Second, true},
		{"it has arrived", func(f, _ *Flight) { f.Arrived(7, at(time.Second)) }, time.Second, false},
		{"another transfer has passed it a second ago", passes, time.Second, true},
		{"another transfer has passed it 2 s ago", passes, 2200 * time.Millisecond, false},
		{"an earlier one of another transfer is acknowledged, and the line carries", func(f, other *Flight) { f.controller.NoteActivity(at(59 * time.Second)) }, time.Minute, true},
		{"the line is silent for less than an acknowledgement may take", func(f, _ *Flight) {}, 6900 * time.Millisecond, true},
		{"the line is silent for longer", func(f, _ *Flight) {}, 7100 * time.Millisecond, false},
	} {
		l := &Controller{}
		f, other := l.Join(func() {}), l.Join(func() {})
		l.heard = lineStart
		leaves(f, 7, size, lineStart)
		c.deed(f, other)
		l.mu.Lock()
		l.age(at(c.now))
		l.mu.Unlock()
		if counts := l.inFlight >= size; counts != c.counts {
			t.Errorf("%s: after %s it counts as under way: %v", c.name, c.now, counts)
		}
	}
}

// passes lets a message of another transfer leave later and be acknowledged.
func passes(_, other *Flight) {
	leaves(other, 1, 100, at(10*time.Millisecond))
	other.Acked(1, time.Time{}, at(20*time.Millisecond))
}

// An acknowledgement may take 3 s and two round trips until the flight asks for it. After 3 s more, 8 s in all at most,
// the other side counts as silent. An unknown round trip counts as 2 s.
func TestAckTime(t *testing.T) {
	for _, c := range []struct{ trip, question, silent time.Duration }{
		{0, 7 * time.Second, 8 * time.Second},
		{10 * time.Millisecond, 3020 * time.Millisecond, 6020 * time.Millisecond},
		{500 * time.Millisecond, 4 * time.Second, 7 * time.Second},
		{5 * time.Second, 8 * time.Second, 8 * time.Second},
	} {
		l := &Controller{trip: c.trip, rate: slowestLink}
		f := l.Join(func() {})
		for range 24 { // keepalives are rare
			l.Join(func() {})
		}
		leaves(f, 1, 1000, lineStart)
		if d := f.Quiet(lineStart, lineStart); d != min(c.question+1, keepaliveMost) {
			t.Errorf("round trip %s: the question comes after %s, not %s", c.trip, d, c.question)
		}
		if f.Overdue(lineStart, at(c.silent)) || !f.Overdue(lineStart, at(c.silent+1)) {
			t.Errorf("round trip %s: the other side is not taken for silent after %s", c.trip, c.silent)
		}
	}
}

// The other side is not silent in these cases: it sends anything to this transfer, it acknowledges a message of another
// one, it has a message that it has not processed, or the lane has not accepted the message yet.
func TestLinkIsNotSilent(t *testing.T) {
	const late = 20 * time.Second
	for _, c := range []struct {
		name   string
		heard  time.Duration // by the transfer
		deed   func(f, other *Flight)
		silent bool
	}{
		{"nothing was heard", 0, func(f, _ *Flight) { f.Out(at(time.Second)) }, true},
		{"the transfer has heard something", late - time.Second, func(f, _ *Flight) { f.Out(at(time.Second)) }, false},
		{"another transfer was acknowledged", 0, func(f, other *Flight) { f.Out(at(time.Second)); other.Acked(1, time.Time{}, at(late-time.Second)) }, false},
		{"a message has arrived", 0, func(f, _ *Flight) { f.Out(at(time.Second)); f.Arrived(1, at(late-time.Second)) }, false},
		{"the lane has not taken the message", 0, func(f, _ *Flight) {}, false},
	} {
		l := &Controller{trip: time.Millisecond}
		f, other := l.Join(func() {}), l.Join(func() {})
		leaves(other, 1, 100, lineStart)
		f.Send(1, 100, at(time.Second))
		c.deed(f, other)
		if silent := f.Overdue(at(c.heard), at(late)); silent != c.silent {
			t.Errorf("%s: the other side is taken for silent: %v", c.name, silent)
		}
	}
}

// A measured rate holds for 10 s without a message. After that the speed of the line is unknown.
func TestControllerDropsOldMeasurements(t *testing.T) {
	for pause, kept := range map[time.Duration]bool{staleAfter - time.Second: true, staleAfter + time.Second: false} {
		w := newWireline(t, 1e6, 10*time.Millisecond)
		w.run(time.Hour, w.join(20e6))
		f := w.line.Join(func() {})
		now := w.now.Add(pause)
		leaves(f, 1, 1000, now)
		f.Acked(1, time.Time{}, now.Add(time.Microsecond))
		if is := w.line.window() > minWindow; is != kept {
			t.Errorf("after a pause of %s %d bytes may be under way", pause, w.line.window())
		}
	}
}

// A message asks for an acknowledgement after a full pace of bytes without one, and when the line has no room for
// another message. A message that does not fit waits.
func TestControllerAsksInTime(t *testing.T) {
	l := &Controller{}
	f := l.Join(func() {})
	for n, c := range []struct {
		size int64
		ask  bool
	}{{1000, false}, {3096, true}, {4000, false}, {96, true}, {4095, false}, {4, true}} {
		if !f.May(lineStart) {
			t.Fatalf("message %d has no room, and %d bytes are under way", n+1, l.inFlight)
		}
		if ask := leaves(f, uint64(n+1), c.size, lineStart); ask != c.ask {
			t.Errorf("message %d, of %d bytes, asks for an acknowledgement: %v", n+1, c.size, ask)
		}
	}
	if ask := leaves(f, 7, 50, lineStart); !ask {
		t.Error("a message that fills the line does not ask for an acknowledgement")
	}
	if f.May(lineStart) {
		t.Errorf("with %d bytes under way there is room for %d more", l.inFlight, l.pace())
	}
}

// A line with a long round trip is used fully.
func TestLongPath(t *testing.T) {
	w := newWireline(t, 125e3, 2*time.Second)
	start := w.now
	w.run(time.Hour, w.join(100*125e3))
	if took := w.now.Sub(start); took > 130*time.Second {
		t.Errorf("100 s of bytes take %s", took)
	}
}
