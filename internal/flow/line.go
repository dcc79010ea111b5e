package flow

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Limits of a Line.
const (
	// lineWorth is the time for which data may be in flight, at the measured rate. If the round trip is longer than
	// half of it, the limit is twice the round trip.
	lineWorth = time.Second
	// backMost bounds the delay of acknowledgements on the way back, which is added to that time.
	backMost = 2 * time.Second
	// lineLeast is the least limit of in-flight bytes: two seconds of the slowest link. A Line of unknown speed begins
	// with it.
	lineLeast = 16 << 10
	// lineStale is the longest time without acknowledgements before a Line drops its measurements.
	lineStale = 10 * time.Second
	// lineLost is the least age of a message that no longer counts as in flight because later ones were acknowledged.
	// The age is four round trips if that is longer. The message waits at a destination that writes slowly, or it is
	// lost. So one transfer with a hanging disk does not block the link for others.
	lineLost = 2 * time.Second
	// paceShare is the fraction of the window that one message may take. So the peer sends several acknowledgements in
	// the time of a window.
	paceShare = 8
	// paceLeast is the least limit of a message in bytes.
	paceLeast = 4 << 10
	// lineSlowest is the slowest supported link, in bytes a second.
	lineSlowest = 64e3 / 8
	// beatBytes is the cost of a sign of life on the link: 110 bytes, and 90 bytes of the headers of TLS, TCP, IP and
	// Ethernet. The signs of all transfers take a beatShare of the rate, but the link is never silent for longer than
	// beatMost. The reason: a source that is silent for 10 s loses its slot at the destination, and the source must
	// notice a restart of its destination within 10 s. While other transfers on the link send, the destination waits 45
	// s for each transfer, and each is silent for at most beatTurn.
	beatBytes = 200
	beatShare = 0.02
	beatFirst = 2 * time.Second
	beatMost  = 8 * time.Second
	beatTurn  = 24 * time.Second
	// patienceLeast is how long an acknowledgement may take beside its round trips, before the sender asks for it. The
	// answer may take answerLeast more: meanwhile the system resends data lost on the link. Both together are at most
	// patienceMost: within 10 s a transfer must move or give a reason. tripUnknown is the assumed round trip of a link
	// of unknown speed.
	patienceLeast = 3 * time.Second
	answerLeast   = 3 * time.Second
	patienceMost  = 8 * time.Second
	tripUnknown   = 2 * time.Second
	tripMost      = 5 * time.Second // longest plausible round trip: beyond it another part is slow
)

// A Line has the in-flight data of all transfers from an agent to another one by one lane. It measures the rate of
// acknowledgements. It allows about a second's worth of bytes in flight, in messages of at most an eighth of that.
// Transfers that wait for room get it in turns.
//
// One fast acknowledgement proves little: many links buffer some bytes before their rate takes effect. So the limit of
// in-flight bytes begins with lineLeast. It grows by the acknowledged bytes as long as it is the bottleneck. A slower
// sample limits it to two seconds of that sample at once.
//
// The rate is measured as in congestion control by bottleneck bandwidth (BBR,
// draft-cardwell-iccrg-bbr-congestion-control). The sample of a message is the number of bytes acknowledged between its
// departure and its acknowledgement, divided by a time. The time is the longer one of two intervals: that of their
// departures, and that of their acknowledgements. If less than half of the allowed bytes were in flight, the sample can
// only raise the rate.
//
// Acknowledgements can be late because other data fills the way back. The wait of a message on the way there is
// measured separately, as LEDBAT does (RFC 6817): by the increase of the difference of both clocks over its minimum.
// The rest of a round trip, up to backMost, is added to the time that bytes may be in flight. If the rest is the
// larger part, the sample cannot lower the rate. A message that waited for longer than lineWorth shows that the link is
// full, even with few bytes in flight.
//
// All methods may be called from any goroutine.
type Line struct {
	mu      sync.Mutex
	rate    float64       // bytes a second; 0: unknown
	trip    time.Duration // smoothed round trip; 0: unknown
	least   time.Duration // shortest round trip
	lowered time.Time     // when the rate was lowered last
	apart   time.Duration // least difference of an arrival, by the clock of the other side, and the departure
	timed   bool          // apart is known
	back    time.Duration // smoothed part of round trips without the wait of messages on the way there

	under     int64     // bytes in flight
	delivered int64     // bytes acknowledged, ever
	at        time.Time // of the last acknowledgement, or of the first message after a pause
	first     time.Time // departure of the last acknowledged message
	unasked   int64     // bytes since a message asked for an acknowledgement
	left      time.Time // departure of the newest message of any transfer
	lives     time.Time // time of the last sign of life of any transfer beside the data
	heard     time.Time // time of the last acknowledgement of any transfer, or of other activity of the peer
	passed    time.Time // departure of the newest acknowledged message
	proven    int64     // limit of in-flight bytes, by the acknowledged bytes; 0: lineLeast

	sent    []*sent // in the order of departure; those at the front are in flight
	flights int
	waiting []*Flight
}

// A sent is a message from its departure to its acknowledgement.
type sent struct {
	flight    *Flight
	seq       uint64
	size      int64
	at        time.Time
	out       time.Time // when the lane accepted it; zero: not yet
	delivered int64     // Line.delivered, Line.at and Line.first at its departure
	then      time.Time //
	first     time.Time //
	full      bool      // at least half of the window was in flight
	bound     bool      // full, or the message had the largest allowed size
	over      bool      // acknowledged, lost or given up: no longer in flight
}

// A Flight is one epoch's part of a Line.
type Flight struct {
	line   *Line
	wake   func()
	sent   []*sent   // not acknowledged
	probed uint64    // the oldest message at the last request for an overdue acknowledgement
	lives  time.Time // time of the transfer's last sign of life beside the data
}

// Join adds an epoch to the line. The Line calls wake when there may be room for a message that had to wait. wake must
// not block.
func (l *Line) Join(wake func()) *Flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flights++
	return &Flight{line: l, wake: wake}
}

// Line returns the line of the flight.
func (f *Flight) Line() *Line { return f.line }

// Leave ends the epoch. Its messages no longer count as in flight.
func (f *Flight) Leave() {
	l := f.line
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flights--
	for _, s := range f.sent {
		l.forget(s)
	}
	f.sent = nil
	l.quit(f)
	l.next()
}

// May reports whether a message may leave. If not, the flight is in the queue of those that wait, and its wake is
// called when it should ask again.
func (f *Flight) May(now time.Time) bool {
	l := f.line
	l.mu.Lock()
	defer l.mu.Unlock()
	l.age(now)
	if !slices.Contains(l.waiting, f) {
		l.waiting = append(l.waiting, f)
	}
	if !l.room() || l.turn() != f {
		return false
	}
	l.quit(f)
	return true
}

// room reports whether one more message may be in flight. l.mu is held.
func (l *Line) room() bool { return l.under == 0 || l.under+l.pace() <= l.window() }

// turn returns the next flight of those that wait: the first one with messages acknowledged in time. A flight with
// overdue messages waits until no other does, because its next messages would take the room from the others again. l.mu
// is held.
func (l *Line) turn() *Flight {
	for _, w := range l.waiting {
		if len(w.sent) == 0 || !w.sent[0].over {
			return w
		}
	}
	if len(l.waiting) > 0 {
		return l.waiting[0]
	}
	return nil
}

// Send records that a message of size bytes leaves. It reports whether the message should ask for an acknowledgement at
// once.
func (f *Flight) Send(seq uint64, size int64, now time.Time) (ask bool) {
	l := f.line
	l.mu.Lock()
	defer l.mu.Unlock()
	l.age(now)
	if l.under == 0 {
		if !l.at.IsZero() && now.Sub(l.at) > lineStale {
			l.rate, l.trip, l.least, l.proven, l.timed, l.back = 0, 0, 0, 0, false, 0
		}
		l.at, l.first = now, now
	}

	l.left = now
	l.under += size
	l.unasked += size
	s := &sent{flight: f, seq: seq, size: size, at: now, delivered: l.delivered, then: l.at, first: l.first, full: 2*l.under >= l.window()}
	s.bound = s.full || size >= l.pace()
	f.sent = append(f.sent, s)
	l.sent = append(l.sent, s)
	ask = l.under+l.pace() > l.window() || l.unasked >= l.pace()
	if f.unprobed() && f.owes(now) > l.patience() {
		f.probed, ask = f.sent[0].seq, true
	}

	if ask {
		l.unasked = 0
	}

	l.next()
	return ask
}

// Out records that the lane has accepted the last message.
func (f *Flight) Out(now time.Time) {
	f.line.mu.Lock()
	defer f.line.mu.Unlock()
	if n := len(f.sent); n > 0 {
		f.sent[n-1].out = now
	}
}

// Acked records that the other side has processed every message up to seq. there is the time of that statement by the
// clock of the other side, or zero if it is unknown.
func (f *Flight) Acked(seq uint64, there, now time.Time) {
	l := f.line
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = now
	var newest *sent
	late := false
	for len(f.sent) > 0 && f.sent[0].seq <= seq {
		newest = f.sent[0]
		f.sent = f.sent[1:]
		late = newest.over
		l.forget(newest)
		l.delivered += newest.size
		if newest.bound && !late && l.proven < l.worth(l.rate) {
			l.proven = max(l.proven, lineLeast) + newest.size
		}
		if newest.at.After(l.passed) {
			l.passed = newest.at
		}
	}

	if newest != nil {
		l.at, l.first = now, newest.at
		l.measure(newest, late, there, now)
	}

	l.age(now)
	l.next()
}

// Arrived records that every message up to seq has arrived at the other side, which has not processed all of them yet.
// They are no longer on the link.
func (f *Flight) Arrived(seq uint64, now time.Time) {
	l := f.line
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = now
	for _, s := range f.sent {
		if s.seq <= seq {
			l.forget(s)
		}
	}
	l.next()
}

// Carries records that bytes arrive on the link, though no complete message yet.
func (l *Line) Carries(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = now
}

// measure takes a sample of rate and round trip. A message that is late, because the link or its destination has become
// slower, cannot raise the rate. l.mu is held.
func (l *Line) measure(s *sent, late bool, there, now time.Time) {
	trip := min(max(now.Sub(s.at), time.Microsecond), tripMost)
	if l.trip == 0 {
		l.trip = trip
	}

	if trip > l.trip {
		l.trip += (trip - l.trip) / 2
	} else {
		l.trip += (trip - l.trip) / 8
	}

	if l.least == 0 || trip < l.least {
		l.least = trip
	}

	waited, behind := trip, false
	if !there.IsZero() {
		waited = l.waited(s.at, there, trip)
		behind = waited > lineWorth
	}

	took := max(now.Sub(s.then), s.at.Sub(s.first), time.Microsecond)
	rate := float64(l.delivered-s.delivered) / took.Seconds()
	switch {
	case rate >= l.rate && !late:
		l.rate = rate
	case rate < l.rate && (s.full && 2*waited >= trip || behind):
		l.proven = min(l.proven, l.worth(2*rate))
		if now.Sub(l.lowered) >= max(l.trip/2, lineWorth/4) {
			l.rate, l.lowered = (l.rate+3*rate)/4, now
		}
	}
}

// waited returns how long a message waited on the way there, of a round trip. It adds the rest of the trip to back.
// l.mu is held.
func (l *Line) waited(left, there time.Time, trip time.Duration) time.Duration {
	apart := there.Sub(left)
	if !l.timed || apart < l.apart {
		l.apart, l.timed = apart, true
	}
	waited := min(max(apart-l.apart, 0), trip)
	l.back += (trip - waited - l.back) / 4
	return waited
}

// worth returns the bytes that may be in flight at a rate, at least lineLeast. l.mu is held.
func (l *Line) worth(rate float64) int64 {
	back := min(max(l.back-l.least, 0), backMost)
	return max(lineLeast, int64(rate*(max(lineWorth, 2*l.least)+back).Seconds()))
}

// window returns the limit of in-flight bytes. l.mu is held.
func (l *Line) window() int64 {
	return min(max(lineLeast, l.proven), l.worth(l.rate))
}

// pace returns the largest size of a message. l.mu is held.
func (l *Line) pace() int64 { return max(paceLeast, l.window()/paceShare) }

// age removes messages from the in-flight data: those that others passed long ago, and those that are overdue on a link
// without any sign of the peer. l.mu is held.
func (l *Line) age(now time.Time) {
	silent := now.Sub(l.heard) > l.patience()
	for len(l.sent) > 0 {
		s := l.sent[0]
		after := max(lineLost, 4*l.trip)
		if !s.at.Before(l.passed) {
			after = l.patience()
		}
		if !s.over && (now.Sub(s.at) <= after || !s.at.Before(l.passed) && !silent) {
			return
		}
		l.forget(s)
		l.sent[0] = nil
		l.sent = l.sent[1:]
	}
}

// forget removes a message from the in-flight data. l.mu is held.
func (l *Line) forget(s *sent) {
	if !s.over {
		s.over = true
		l.under -= s.size
	}
}

// quit removes a flight from the queue. l.mu is held.
func (l *Line) quit(f *Flight) {
	if n := slices.Index(l.waiting, f); n >= 0 {
		l.waiting = slices.Delete(l.waiting, n, n+1)
	}
}

// next wakes the next flight in turn if there is room. l.mu is held.
func (l *Line) next() {
	if f := l.turn(); f != nil && l.room() {
		f.wake()
	}
}

// Pace returns the largest size of a message in bytes, at least 4 KiB.
func (l *Line) Pace() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pace()
}

// Rate returns the measured rate in bytes a second, or 0 if it is unknown.
func (l *Line) Rate() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rate
}

// Beat returns the interval of silence before a transfer sends a sign of life. It is 2 s. On a slow link it is longer,
// at most 8 s: the signs of life of all transfers take a fiftieth of the rate. A measured rate below 64 kbit/s counts
// as 64 kbit/s: it was a pause of the other side.
func (l *Line) Beat() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(l.beats(), beatMost)
}

// beats returns the interval between signs of life of each transfer. All signs take a beatShare of the rate.
// l.mu is held.
func (l *Line) beats() time.Duration {
	if l.rate == 0 {
		return beatFirst
	}
	return max(time.Duration(float64(l.flights*beatBytes)/(beatShare*max(l.rate, lineSlowest))*float64(time.Second)), beatFirst)
}

// quiet returns how long a transfer may wait until its next sign of life. own is the time of its last one, and last
// that of any transfer on the line. l.mu is held.
func (l *Line) quiet(own, last, now time.Time) time.Duration {
	beats := l.beats()
	beat := min(beats, beatMost)
	return max(beat-now.Sub(own), min(beat-now.Sub(last), min(beats, beatTurn)-now.Sub(own)))
}

// Quiet returns how long the flight may wait after its last message, at last. If it is 0 or less, a sign of life is
// due. The interval is Beat, or longer while other transfers on the line send. It ends once when the oldest message is
// overdue: a message that is sent then shows the other side the gap.
func (f *Flight) Quiet(last, now time.Time) time.Duration {
	f.line.mu.Lock()
	defer f.line.mu.Unlock()
	beat := f.line.quiet(last, f.line.left, now)
	if f.unprobed() {
		beat = min(beat, f.line.patience()-f.owes(now)+1)
	}
	return beat
}

// unprobed reports whether the lane has accepted a message that is unacknowledged, and the flight has not asked for its
// acknowledgement. l.mu is held.
func (f *Flight) unprobed() bool {
	return len(f.sent) > 0 && !f.sent[0].out.IsZero() && f.probed != f.sent[0].seq
}

// patience returns how long an acknowledgement may take. l.mu is held.
func (l *Line) patience() time.Duration {
	return min(patienceLeast+2*cmp.Or(l.trip, tripUnknown), patienceMost)
}

// Overdue reports whether the other side counts as silent. It does if two conditions hold for longer than a limit. This
// transfer has received nothing from it, and the oldest message accepted by the lane is unacknowledged. Activity of
// other transfers on the line counts, too.
//
// The limit is 6 s and two round trips, at most 8 s. An unknown round trip counts as 2 s. A message waits behind
// earlier ones of other transfers. If later ones of other transfers were acknowledged meanwhile, the limit is 6 s and
// six round trips.
func (f *Flight) Overdue(heard, now time.Time) bool {
	l := f.line
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := min(l.patience()+answerLeast, patienceMost)
	if now.Sub(l.heard) < limit {
		if len(f.sent) == 0 || !f.sent[0].at.Before(l.passed) {
			return false
		}
		limit = 2*patienceLeast + 6*cmp.Or(l.trip, tripUnknown)
	}
	return f.owes(now) > limit && now.Sub(heard) > limit
}

// Lives reports whether the transfer must say now, beside the data, that the source lives. It must if one of its
// messages has been on the link for longer than the interval of signs of life. One transfer speaks for all on the line,
// as long as the other side waits for a silent one.
func (f *Flight) Lives(now time.Time) bool {
	l := f.line
	l.mu.Lock()
	defer l.mu.Unlock()
	if f.owes(now) <= beatFirst {
		return false
	}
	own := f.lives
	if out := f.sent[0].out; out.After(own) {
		own = out
	}
	if l.quiet(own, l.lives, now) > 0 {
		return false
	}
	f.lives, l.lives = now, now
	return true
}

// owes returns how long the oldest message of the epoch that the lane has accepted has been waiting for its
// acknowledgement. It is 0 if there is none. l.mu is held.
func (f *Flight) owes(now time.Time) time.Duration {
	if len(f.sent) == 0 || f.sent[0].out.IsZero() {
		return 0
	}
	return now.Sub(f.sent[0].out)
}

// Lines has the lines of an agent to all others. The zero value is ready.
type Lines struct {
	mu  sync.Mutex
	all map[string]*Line
}

// Line returns the line to an agent by a lane, and makes it if it is new. On nil Lines it returns an unshared line.
func (ls *Lines) Line(to, lane string) *Line {
	if ls == nil {
		return &Line{}
	}

	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.all == nil {
		ls.all = map[string]*Line{}
	}

	key := to + " " + lane
	l := ls.all[key]
	if l == nil {
		l = &Line{}
		ls.all[key] = l
	}
	return l
}
