package flow

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// Limits of a Controller.
const (
	// windowTime is the time for which data may be in flight, at the measured rate. If the round trip is longer than
	// half of it, the limit is twice the round trip.
	windowTime = time.Second
	// readTime takes the place of windowTime, and of the delay of acknowledgements, while a transfer reads its source
	// over the same link. See Flight.ReadsLink.
	readTime = 500 * time.Millisecond
	// maxReturnDelay bounds the delay of acknowledgements on the way back, which is added to that time.
	maxReturnDelay = 2 * time.Second
	// minWindow is the least limit of in-flight bytes: two seconds of the slowest link. A Controller of unknown speed
	// begins with it.
	minWindow = 16 << 10
	// staleAfter is the longest time without acknowledgements before a Controller drops its measurements.
	staleAfter = 10 * time.Second
	// minLossAge is the least age of a message that no longer counts as in flight because later ones were acknowledged.
	// The age is four round trips if that is longer. The message waits at a destination that writes slowly, or it is
	// lost. So one transfer with a hanging disk does not block the link for others.
	minLossAge = 2 * time.Second
	// windowMessages is the fraction of the window that one message may take. So the peer sends several
	// acknowledgements in the time of a window.
	windowMessages = 8
	// minPace is the least limit of a message in bytes.
	minPace = 4 << 10
	// slowestLink is the slowest supported link, in bytes a second.
	slowestLink = 64e3 / 8
	// keepaliveBytes is the cost of a keepalive on the link: 110 bytes, and 90 bytes of the headers of TLS, TCP, IP and
	// Ethernet. The keepalives of all transfers take a keepaliveShare of the rate, but the link is never silent for
	// longer than keepaliveMost. The reason: a source that is silent for 10 s loses its slot at the destination, and
	// the source must notice a restart of its destination within 10 s. While other transfers on the link send, the
	// destination waits 45 s for each transfer, and each is silent for at most keepaliveShared.
	keepaliveBytes  = 200
	keepaliveShare  = 0.02
	keepaliveFirst  = 2 * time.Second
	keepaliveMost   = 8 * time.Second
	keepaliveShared = 24 * time.Second
	// ackTimeLeast is how long an acknowledgement may take beside its round trips, before the sender asks for it. The
	// answer may take probeTimeLeast more: meanwhile the system resends data lost on the link. Both together are at
	// most ackTimeMost: within 10 s a transfer must move or give a reason. tripUnknown is the assumed round trip of a
	// link of unknown speed.
	ackTimeLeast   = 3 * time.Second
	probeTimeLeast = 3 * time.Second
	ackTimeMost    = 8 * time.Second
	tripUnknown    = 2 * time.Second
	tripMost       = 5 * time.Second // longest plausible round trip: beyond it another part is slow
)

// A Controller limits the in-flight data of all transfers from an agent to another one by one lane. It measures the
// rate of acknowledgements. It allows about a second's worth of bytes in flight, in messages of at most an eighth of
// that. Transfers that wait for room get it one after the other.
//
// One fast acknowledgement proves little: many links buffer some bytes before their rate takes effect. So the limit of
// in-flight bytes begins with minWindow. It grows by the acknowledged bytes as long as it is the bottleneck. A slower
// sample limits it to two seconds of that sample at once.
//
// The rate is measured as in congestion control by bottleneck bandwidth (BBR,
// draft-cardwell-iccrg-bbr-congestion-control). The sample of a message is the number of bytes acknowledged between its
// departure and its acknowledgement, divided by a time. The time is the longer one of two intervals: that of their
// departures, and that of their acknowledgements. If less than half of the allowed bytes were in flight, the sample can
// only raise the rate. The same holds if readTime limited these bytes: a destination that acknowledges after a second,
// as with a slow disk, would otherwise halve the rate again and again.
//
// Acknowledgements can be late because other data fills the way back. The wait of a message on the way there is
// measured separately, as LEDBAT does (RFC 6817): by the increase of the difference of both clocks over its minimum.
// The rest of a round trip, up to maxReturnDelay, is added to the time that bytes may be in flight. If the rest is the
// larger part, the sample cannot lower the rate. A message that waited for longer than windowTime shows that the link
// is full, even with few bytes in flight. If readTime limits them, that time is readTime longer: a message may wait behind
// all others in flight, and then a second for a slow disk. If the wait is unknown, the round trip takes its place.
//
// All methods may be called from any goroutine.
type Controller struct {
	mu       sync.Mutex
	rate     float64       // bytes a second; 0: unknown
	trip     time.Duration // smoothed round trip; 0: unknown
	least    time.Duration // shortest round trip
	lowered  time.Time     // when the rate was lowered last
	clockGap time.Duration // least difference of an arrival, by the clock of the other side, and the departure
	timed    bool          // clockGap is known
	back     time.Duration // smoothed part of round trips without the wait of messages on the way there

	inFlight     int64     // bytes in flight
	delivered    int64     // bytes acknowledged, ever
	at           time.Time // of the last acknowledgement, or of the first message after a pause
	first        time.Time // departure of the last acknowledged message
	unasked      int64     // bytes since a message asked for an acknowledgement
	left         time.Time // departure of the newest message of any transfer
	keepalive    time.Time // time of the last keepalive of any transfer beside the data
	heard        time.Time // time of the last acknowledgement of any transfer, or of other activity of the peer
	passed       time.Time // departure of the newest acknowledged message
	provenWindow int64     // limit of in-flight bytes, by the acknowledged bytes; 0: minWindow

	sent    []*sent // in the order of departure; those at the front are in flight
	flights int
	readers int // flights that read their sources over the link
	waiting []*Flight
}

// A sent is a message from its departure to its acknowledgement.
type sent struct {
	flight    *Flight
	seq       uint64
	size      int64
	at        time.Time
	out       time.Time // when the lane accepted it; zero: not yet
	delivered int64     // Controller.delivered, at and first at its departure
	then      time.Time //
	first     time.Time //
	full      bool      // at least half of the window was in flight
	bound     bool      // full, or the message had the largest allowed size
	halved    bool      // readTime limited the window
	over      bool      // acknowledged, lost or given up: no longer in flight
}

// A Flight is one epoch's part of a Controller.
type Flight struct {
	controller *Controller
	wake       func()
	sent       []*sent   // not acknowledged
	reads      bool      // it reads its source over the link
	probed     uint64    // the oldest message at the last request for an overdue acknowledgement
	keepalive  time.Time // time of the transfer's last keepalive beside the data
}

// Join adds an epoch. The Controller calls wake when there may be room for a message that had to wait. wake must
// not block.
func (c *Controller) Join(wake func()) *Flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flights++
	return &Flight{controller: c, wake: wake}
}

// Controller returns the controller of the flight.
func (f *Flight) Controller() *Controller { return f.controller }

// ReadsLink records that the transfer reads its source over the link that its messages take, in the other direction.
// Acknowledgements of its packets wait behind the data that it reads, and the system sends few packets without them. So
// with much in flight the reading fills its direction for seconds while the other one is idle, and then waits itself.
func (f *Flight) ReadsLink() {
	c := f.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	if !f.reads {
		f.reads = true
		c.readers++
	}
}

// Leave ends the epoch. Its messages no longer count as in flight.
func (f *Flight) Leave() {
	c := f.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flights--
	if f.reads {
		f.reads = false
		c.readers--
	}
	for _, s := range f.sent {
		c.forget(s)
	}
	f.sent = nil
	c.dequeue(f)
	c.next()
}

// May reports whether a message may leave. If not, the flight is in the queue of those that wait, and its wake is
// called when it should ask again.
func (f *Flight) May(now time.Time) bool {
	c := f.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	c.age(now)
	if !slices.Contains(c.waiting, f) {
		c.waiting = append(c.waiting, f)
	}
	if !c.hasRoom() || c.nextFlight() != f {
		return false
	}
	c.dequeue(f)
	return true
}

// hasRoom reports whether one more message may be in flight. c.mu is held.
func (c *Controller) hasRoom() bool { return c.inFlight == 0 || c.inFlight+c.pace() <= c.window() }

// nextFlight returns the next flight of those that wait: the first one with messages acknowledged in time. A flight
// with overdue messages waits until no other does, because its next messages would take the room from the others again.
// c.mu is held.
func (c *Controller) nextFlight() *Flight {
	for _, w := range c.waiting {
		if len(w.sent) == 0 || !w.sent[0].over {
			return w
		}
	}
	if len(c.waiting) > 0 {
		return c.waiting[0]
	}
	return nil
}

// Send records that a message of size bytes leaves. It reports whether the message should ask for an acknowledgement at
// once.
func (f *Flight) Send(seq uint64, size int64, now time.Time) (ask bool) {
	c := f.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	c.age(now)
	if c.inFlight == 0 {
		if !c.at.IsZero() && now.Sub(c.at) > staleAfter {
			c.rate, c.trip, c.least, c.provenWindow, c.timed, c.back = 0, 0, 0, 0, false, 0
		}
		c.at, c.first = now, now
	}

	c.left = now
	c.inFlight += size
	c.unasked += size
	s := &sent{flight: f, seq: seq, size: size, at: now, delivered: c.delivered, then: c.at, first: c.first, full: 2*c.inFlight >= c.window()}
	s.bound = s.full || size >= c.pace()
	s.halved = c.halved()
	f.sent = append(f.sent, s)
	c.sent = append(c.sent, s)
	ask = c.inFlight+c.pace() > c.window() || c.unasked >= c.pace()
	if f.unprobed() && f.unackedFor(now) > c.ackTime() {
		f.probed, ask = f.sent[0].seq, true
	}

	if ask {
		c.unasked = 0
	}

	c.next()
	return ask
}

// Out records that the lane has accepted the last message.
func (f *Flight) Out(now time.Time) {
	f.controller.mu.Lock()
	defer f.controller.mu.Unlock()
	if n := len(f.sent); n > 0 {
		f.sent[n-1].out = now
	}
}

// Acked records that the other side has processed every message up to seq. there is the time of that statement by the
// clock of the other side, or zero if it is unknown.
func (f *Flight) Acked(seq uint64, there, now time.Time) {
	c := f.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = now
	var newest *sent
	late := false
	for len(f.sent) > 0 && f.sent[0].seq <= seq {
		newest = f.sent[0]
		f.sent = f.sent[1:]
		late = newest.over
		c.forget(newest)
		c.delivered += newest.size
		if newest.bound && !late && c.provenWindow < c.bytesAt(c.rate) {
			c.provenWindow = max(c.provenWindow, minWindow) + newest.size
		}
		if newest.at.After(c.passed) {
			c.passed = newest.at
		}
	}

	if newest != nil {
		c.at, c.first = now, newest.at
		c.measure(newest, late, there, now)
	}

	c.age(now)
	c.next()
}

// Arrived records that every message up to seq has arrived at the other side, which has not processed all of them yet.
// They are no longer on the link.
func (f *Flight) Arrived(seq uint64, now time.Time) {
	c := f.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = now
	for _, s := range f.sent {
		if s.seq <= seq {
			c.forget(s)
		}
	}
	c.next()
}

// NoteActivity records that bytes arrive on the link, though no complete message yet.
func (c *Controller) NoteActivity(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = now
}

// measure takes a sample of rate and round trip. A message that is late, because the link or its destination has become
// slower, cannot raise the rate. c.mu is held.
func (c *Controller) measure(s *sent, late bool, there, now time.Time) {
	trip := min(max(now.Sub(s.at), time.Microsecond), tripMost)
	if c.trip == 0 {
		c.trip = trip
	}

	if trip > c.trip {
		c.trip += (trip - c.trip) / 2
	} else {
		c.trip += (trip - c.trip) / 8
	}

	if c.least == 0 || trip < c.least {
		c.least = trip
	}

	waited, full, behind := trip, s.full, false
	if !there.IsZero() {
		waited = c.waited(s.at, there, trip)
		behind = waited > windowTime
	}
	if s.halved {
		full, behind = false, waited > windowTime+readTime
	}

	took := max(now.Sub(s.then), s.at.Sub(s.first), time.Microsecond)
	rate := float64(c.delivered-s.delivered) / took.Seconds()
	switch {
	case rate >= c.rate && !late:
		c.rate = rate
	case rate < c.rate && (full && 2*waited >= trip || behind):
		c.provenWindow = min(c.provenWindow, c.bytesAt(2*rate))
		if now.Sub(c.lowered) >= max(c.trip/2, windowTime/4) {
			c.rate, c.lowered = (c.rate+3*rate)/4, now
		}
	}
}

// waited returns how long a message waited on the way there, of a round trip. It adds the rest of the trip to back.
// c.mu is held.
func (c *Controller) waited(left, there time.Time, trip time.Duration) time.Duration {
	apart := there.Sub(left)
	if !c.timed || apart < c.clockGap {
		c.clockGap, c.timed = apart, true
	}
	waited := min(max(apart-c.clockGap, 0), trip)
	c.back += (trip - waited - c.back) / 4
	return waited
}

// bytesAt returns the bytes that may be in flight at a rate, at least minWindow. c.mu is held.
func (c *Controller) bytesAt(rate float64) int64 {
	back := min(max(c.back-c.least, 0), maxReturnDelay)
	return max(minWindow, int64(rate*(max(windowTime, 2*c.least)+back).Seconds()))
}

// window returns the limit of in-flight bytes. c.mu is held.
func (c *Controller) window() int64 {
	whole := c.wholeWindow()
	if c.readers > 0 {
		return min(whole, max(minWindow, int64(c.rate*max(readTime, 2*c.least).Seconds())))
	}
	return whole
}

// wholeWindow is the window without readers. c.mu is held.
func (c *Controller) wholeWindow() int64 {
	return min(max(minWindow, c.provenWindow), c.bytesAt(c.rate))
}

// halved reports whether readTime limits the window. c.mu is held.
func (c *Controller) halved() bool { return c.window() < c.wholeWindow() }

// pace returns the largest size of a message. c.mu is held.
func (c *Controller) pace() int64 { return max(minPace, c.window()/windowMessages) }

// age removes messages from the in-flight data: those that others passed long ago, and those that are overdue on a link
// without any sign of the peer. c.mu is held.
func (c *Controller) age(now time.Time) {
	silent := now.Sub(c.heard) > c.ackTime()
	for len(c.sent) > 0 {
		s := c.sent[0]
		after := max(minLossAge, 4*c.trip)
		if !s.at.Before(c.passed) {
			after = c.ackTime()
		}
		if !s.over && (now.Sub(s.at) <= after || !s.at.Before(c.passed) && !silent) {
			return
		}
		c.forget(s)
		c.sent[0] = nil
		c.sent = c.sent[1:]
	}
}

// forget removes a message from the in-flight data. c.mu is held.
func (c *Controller) forget(s *sent) {
	if !s.over {
		s.over = true
		c.inFlight -= s.size
	}
}

// dequeue removes a flight from the queue. c.mu is held.
func (c *Controller) dequeue(f *Flight) {
	if n := slices.Index(c.waiting, f); n >= 0 {
		c.waiting = slices.Delete(c.waiting, n, n+1)
	}
}

// next wakes the next flight if there is room. c.mu is held.
func (c *Controller) next() {
	if f := c.nextFlight(); f != nil && c.hasRoom() {
		f.wake()
	}
}

// Pace returns the largest size of a message in bytes, at least 4 KiB.
func (c *Controller) Pace() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pace()
}

// Rate returns the measured rate in bytes a second, or 0 if it is unknown.
func (c *Controller) Rate() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rate
}

// KeepaliveInterval returns the interval of silence before a transfer sends a keepalive. It is 2 s. On a slow link it
// is longer, at most 8 s: the keepalives of all transfers take a fiftieth of the rate. A measured rate below 64 kbit/s
// counts as 64 kbit/s: it was a pause of the other side.
func (c *Controller) KeepaliveInterval() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return min(c.keepaliveIntervalOfAll(), keepaliveMost)
}

// keepaliveIntervalOfAll returns the interval between keepalives of each transfer. The keepalives of all transfers take
// a keepaliveShare of the rate. c.mu is held.
func (c *Controller) keepaliveIntervalOfAll() time.Duration {
	if c.rate == 0 {
		return keepaliveFirst
	}
	return max(time.Duration(float64(c.flights*keepaliveBytes)/(keepaliveShare*max(c.rate, slowestLink))*float64(time.Second)), keepaliveFirst)
}

// quiet returns how long a transfer may wait until its next keepalive. own is the time of its last one, and last
// that of any transfer with the same Controller. c.mu is held.
func (c *Controller) quiet(own, last, now time.Time) time.Duration {
	beats := c.keepaliveIntervalOfAll()
	beat := min(beats, keepaliveMost)
	return max(beat-now.Sub(own), min(beat-now.Sub(last), min(beats, keepaliveShared)-now.Sub(own)))
}

// Quiet returns how long the flight may wait after its last message, at last. If it is 0 or less, a keepalive is
// due. The interval is KeepaliveInterval, or longer while other transfers send. It ends once when the oldest message is
// overdue: a message that is sent then shows the other side the gap.
func (f *Flight) Quiet(last, now time.Time) time.Duration {
	f.controller.mu.Lock()
	defer f.controller.mu.Unlock()
	beat := f.controller.quiet(last, f.controller.left, now)
	if f.unprobed() {
		beat = min(beat, f.controller.ackTime()-f.unackedFor(now)+1)
	}
	return beat
}

// unprobed reports whether the lane has accepted a message that is unacknowledged, and the flight has not asked for its
// acknowledgement. c.mu is held.
func (f *Flight) unprobed() bool {
	return len(f.sent) > 0 && !f.sent[0].out.IsZero() && f.probed != f.sent[0].seq
}

// ackTime returns how long an acknowledgement may take. c.mu is held.
func (c *Controller) ackTime() time.Duration {
	return min(ackTimeLeast+2*cmp.Or(c.trip, tripUnknown), ackTimeMost)
}

// Overdue reports whether the other side counts as silent. It does if two conditions hold for longer than a limit. This
// transfer has received nothing from it, and the oldest message accepted by the lane is unacknowledged. Activity of
// other transfers counts, too.
//
// The limit is 6 s and two round trips, at most 8 s. An unknown round trip counts as 2 s. A message waits behind
// earlier ones of other transfers. If later ones of other transfers were acknowledged meanwhile, the limit is 6 s and
// six round trips.
func (f *Flight) Overdue(heard, now time.Time) bool {
	c := f.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := min(c.ackTime()+probeTimeLeast, ackTimeMost)
	if now.Sub(c.heard) < limit {
		if len(f.sent) == 0 || !f.sent[0].at.Before(c.passed) {
			return false
		}
		limit = 2*ackTimeLeast + 6*cmp.Or(c.trip, tripUnknown)
	}
	return f.unackedFor(now) > limit && now.Sub(heard) > limit
}

// KeepaliveDue reports whether the transfer must send a keepalive now, beside the data. It must if one of its
// messages has been on the link for longer than the interval of keepalives. One transfer does it for all,
// as long as the other side waits for a silent one.
func (f *Flight) KeepaliveDue(now time.Time) bool {
	c := f.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.unackedFor(now) <= keepaliveFirst {
		return false
	}
	own := f.keepalive
	if out := f.sent[0].out; out.After(own) {
		own = out
	}
	if c.quiet(own, c.keepalive, now) > 0 {
		return false
	}
	f.keepalive, c.keepalive = now, now
	return true
}

// unackedFor returns how long the oldest message of the epoch that the lane has accepted has been waiting for its
// acknowledgement. It is 0 if there is none. c.mu is held.
func (f *Flight) unackedFor(now time.Time) time.Duration {
	if len(f.sent) == 0 || f.sent[0].out.IsZero() {
		return 0
	}
	return now.Sub(f.sent[0].out)
}

// Controllers has the controllers of an agent for all others. The zero value is ready.
type Controllers struct {
	mu  sync.Mutex
	all map[string]*Controller
}

// Controller returns the controller for an agent and a lane, and makes a missing one. On nil Controllers it returns an
// unshared one.
func (ls *Controllers) Controller(to, lane string) *Controller {
	if ls == nil {
		return &Controller{}
	}

	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.all == nil {
		ls.all = map[string]*Controller{}
	}

	key := to + " " + lane
	l := ls.all[key]
	if l == nil {
		l = &Controller{}
		ls.all[key] = l
	}
	return l
}
