package flow

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"ferry/internal/failpoint"
)

// Limits of a Line.
const (
	// lineWorth is how much time the bytes under way may be worth at the measured
	// rate. A path whose round trip is longer than half of it gets twice its
	// round trip.
	lineWorth = time.Second
	// backMost is how much of the time of acknowledgements on their way back comes on top of it.
	backMost = 2 * time.Second
	// lineLeast is the least that may be under way: two seconds of the slowest line.
	// A line of unknown speed begins with it.
	lineLeast = 16 << 10
	// lineStale is after how long without a word what was measured is forgotten.
	lineStale = 10 * time.Second
	// lineLost is when a message that later ones have passed no longer counts as under
	// way: it waits at a destination that is slow to write, or it is lost. One transfer
	// whose disk hangs does not take the line from the others.
	lineLost = 2 * time.Second
	// paceShare is the part of the window that one message may have: so
	// many acknowledgements come while it is carried.
	paceShare = 8
	// paceLeast is the least that a message may be bounded to.
	paceLeast = 4 << 10
	// lineSlowest is the slowest line that is meant to work, in bytes a second.
	lineSlowest = 64e3 / 8
	// beatBytes is what a sign of life costs on the line: 110 bytes, and 90 bytes of the headers of TLS, TCP, IP
	// and Ethernet. Those of all transfers take a beatShare of the rate, but the line is not silent for longer than
	// beatMost: the destination gives the slot of a source that is silent for 10 s to another, and
	// the source must find within 10 s that its destination has started anew. While other transfers on the line
	// send, the destination waits 45 s for one of them, and this one is silent for beatTurn at most.
	beatBytes = 200
	beatShare = 0.02
	beatFirst = 2 * time.Second
	beatMost  = 8 * time.Second
	beatTurn  = 24 * time.Second
	// patienceLeast is how long an acknowledgement may take beside its round trips before it
	// is asked for. The answer may take answerLeast more, in which the system sends again what the
	// line has dropped. Both together are patienceMost at most: within 10 s a transfer must move
	// or say why. tripUnknown is the round trip that is assumed of a line of unknown speed.
	patienceLeast = 3 * time.Second
	answerLeast   = 3 * time.Second
	patienceMost  = 8 * time.Second
	tripUnknown   = 2 * time.Second
	tripMost      = 5 * time.Second // that is believed: beyond it something else is slow
)

// A Line is what an agent has under way to another one by one lane, all its
// transfers together. It measures at which rate acknowledgements come in, and lets
// as many bytes be under way as are worth about a second of it, in messages of an
// eighth of that at most. Transfers that wait for room get it by turns.
//
// One fast acknowledgement proves little: many lines carry some bytes at once before
// their rate holds. So what may be under way begins with lineLeast, and grows by as much
// as is acknowledged while that is the bound. A sample that is slower bounds it to two
// seconds of that sample at once.
//
// The rate is measured as congestion control by bottleneck bandwidth does (BBR,
// draft-cardwell-iccrg-bbr-congestion-control): for each message the bytes that were
// acknowledged between its departure and its acknowledgement, over the longer of
// the times in which they were sent and in which they were acknowledged. Where less
// was under way than the line allows, the sample can only raise the rate.
//
// Acknowledgements can be late because other data fill the way back. The time that a message
// waited on the way there is measured alone, as LEDBAT does (RFC 6817): by how much more than
// the least the clocks of both sides differ. The rest of a round trip, up to backMost, comes on top of
// the time that bytes may be under way. Where it is the larger part, the sample cannot lower the rate. A message that
// waited for longer than lineWorth shows that the line is full, however little was under way.
//
// All methods may be called from any goroutine.
type Line struct {
	mu      sync.Mutex
	rate    float64       // bytes a second; 0: unknown
	trip    time.Duration // smoothed round trip; 0: unknown
	least   time.Duration // shortest round trip
	lowered time.Time     // when the rate was lowered last
	apart   time.Duration // least difference of an arrival, by the clock of the other side, and its departure
	timed   bool          // apart is known
	back    time.Duration // smoothed part of round trips, less the wait of messages on the way there

	under     int64     // bytes under way
	delivered int64     // bytes acknowledged, ever
	at        time.Time // of the last acknowledgement, or of the first message after a pause
	first     time.Time // departure of the message that was acknowledged last
	unasked   int64     // bytes since a message asked for an acknowledgement
	left      time.Time // departure of the newest message of any transfer
	lives     time.Time // when a transfer last said beside the data that the source lives
	heard     time.Time // of the last acknowledgement of any transfer, or other proof that the line carries
	passed    time.Time // departure of the newest message that was acknowledged
	proven    int64     // bytes that may be under way at most, by what was acknowledged; 0: lineLeast

	sent    []*sent // in the order of departure; those at the front are under way
	flights int
	waiting []*Flight
}

// A sent message, until it is acknowledged.
type sent struct {
	flight    *Flight
	seq       uint64
	size      int64
	at        time.Time
	out       time.Time // when the lane had it; zero: not yet
	delivered int64     // Line.delivered, Line.at and Line.first when it left
	then      time.Time //
	first     time.Time //
	full      bool      // as much was under way as may be
	bound     bool      // that, or it was as large as a message may be
	over      bool      // acknowledged, lost or given up: it no longer counts
}

// A Flight is one epoch's part of a Line.
type Flight struct {
	line   *Line
	wake   func()
	sent   []*sent   // not acknowledged
	probed uint64    // the oldest message when an acknowledgement was asked for since it is overdue
	lives  time.Time // when the transfer last said beside the data that the source lives
}

// Join adds an epoch to the line. wake is called when there may be room for a
// message that had to wait; it must not block.
func (l *Line) Join(wake func()) *Flight {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flights++
	return &Flight{line: l, wake: wake}
}

// Line is what the flight is a part of.
func (f *Flight) Line() *Line { return f.line }

// Leave ends the epoch: what it has under way counts no longer.
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

// May reports whether a message may leave. If not, the flight has a place in the
// queue of those that wait, and is woken when it should ask again.
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

// room reports whether one more message may be under way. l.mu is held.
func (l *Line) room() bool { return l.under == 0 || l.under+l.pace() <= l.window() }

// turn is the flight whose turn it is: of those that wait, the first whose messages
// are acknowledged in time. A flight whose messages are overdue waits until no other
// does, as its next ones would take the room from the others again. l.mu is held.
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

// Send says that a message of size bytes leaves. It reports whether the message
// should ask for an acknowledgement at once.
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

// Out says that the lane has the message that was sent last.
func (f *Flight) Out(now time.Time) {
	f.line.mu.Lock()
	defer f.line.mu.Unlock()
	if n := len(f.sent); n > 0 {
		f.sent[n-1].out = now
	}
}

// Acked takes in that the other side has every message up to seq, and when it said so by its own clock; zero: it
// does not say.
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

// Arrived takes in that every message up to seq is at the other side, which has not
// dealt with all of them yet: the line carries them no longer.
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

// Carries takes in that bytes move on the line, though no message is through yet.
func (l *Line) Carries(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = now
}

// measure takes a sample of rate and round trip. A message that comes late, because
// the line has become slower or its destination has, cannot raise the rate. l.mu is
// held.
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

// waited is for how long a message waited on the way there, of a round trip. The rest of the trip goes into back. l.mu is
// held.
func (l *Line) waited(left, there time.Time, trip time.Duration) time.Duration {
	apart := there.Sub(left)
	if !l.timed || apart < l.apart {
		l.apart, l.timed = apart, true
	}
	waited := min(max(apart-l.apart, 0), trip)
	l.back += (trip - waited - l.back) / 4
	return waited
}

// worth is how many bytes a rate is worth in the time for which they may be under way, and at
// least lineLeast. l.mu is held.
func (l *Line) worth(rate float64) int64 {
	back := min(max(l.back-l.least, 0), backMost)
	return max(lineLeast, int64(rate*(max(lineWorth, 2*l.least)+back).Seconds()))
}

// window is how many bytes may be under way. l.mu is held.
func (l *Line) window() int64 {
	if failpoint.Planted("line-unmeasured") {
		return max(256<<10, l.worth(l.rate))
	}
	return min(max(lineLeast, l.proven), l.worth(l.rate))
}

// pace is how large a message may be. l.mu is held.
func (l *Line) pace() int64 { return max(paceLeast, l.window()/paceShare) }

// age lets messages count no longer that others have passed long ago, or that are overdue
// on a line of which nothing is heard. l.mu is held.
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

// forget ends that a message counts as under way. l.mu is held.
func (l *Line) forget(s *sent) {
	if !s.over {
		s.over = true
		l.under -= s.size
	}
}

// quit takes a flight out of the queue. l.mu is held.
func (l *Line) quit(f *Flight) {
	if n := slices.Index(l.waiting, f); n >= 0 {
		l.waiting = slices.Delete(l.waiting, n, n+1)
	}
}

// next wakes the flight whose turn it is if there is room. l.mu is held.
func (l *Line) next() {
	if f := l.turn(); f != nil && l.room() {
		f.wake()
	}
}

// Pace is how many bytes a message may have at most, at least 4 KiB.
func (l *Line) Pace() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pace()
}

// Rate is the measured rate in bytes a second; 0 where it is unknown.
func (l *Line) Rate() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rate
}

// Beat is after how long without a message a transfer says that it lives: 2 s, and
// on a slow line as long as the signs of life of all its transfers take a fiftieth
// of it, 8 s at most. A rate below 64 kbit/s is not believed: what was measured was a
// pause of the other side.
func (l *Line) Beat() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return min(l.beats(), beatMost)
}

// beats is after how long each transfer says that it lives, where all of them take a beatShare of the rate. l.mu is held.
func (l *Line) beats() time.Duration {
	if l.rate == 0 {
		return beatFirst
	}
	return max(time.Duration(float64(l.flights*beatBytes)/(beatShare*max(l.rate, lineSlowest))*float64(time.Second)), beatFirst)
}

// quiet is for how long a transfer need not say that it lives, where it did at a time own, and any transfer on the line
// at a time last. l.mu is held.
func (l *Line) quiet(own, last, now time.Time) time.Duration {
	beats := l.beats()
	beat := min(beats, beatMost)
	return max(beat-now.Sub(own), min(beat-now.Sub(last), min(beats, beatTurn)-now.Sub(own)))
}

// Quiet is for how long the flight need not send after it did at a time last; 0 or less:
// it is time for a sign of life. That is Beat, or longer while other transfers on the line send, but no longer than
// until the oldest message is overdue, once: a message that is sent then shows the other side the gap.
func (f *Flight) Quiet(last, now time.Time) time.Duration {
	f.line.mu.Lock()
	defer f.line.mu.Unlock()
	beat := f.line.quiet(last, f.line.left, now)
	if f.unprobed() {
		beat = min(beat, f.line.patience()-f.owes(now)+1)
	}
	return beat
}

// unprobed reports whether the lane has a message that is not acknowledged, and nobody
// has asked for that. l.mu is held.
func (f *Flight) unprobed() bool {
	return len(f.sent) > 0 && !f.sent[0].out.IsZero() && f.probed != f.sent[0].seq
}

// patience is how long an acknowledgement may take. l.mu is held.
func (l *Line) patience() time.Duration {
	return min(patienceLeast+2*cmp.Or(l.trip, tripUnknown), patienceMost)
}

// Overdue reports whether the other side is taken for silent: neither anything of
// it was heard, by this transfer or another one on the line, nor the oldest message that
// the lane has taken acknowledged for longer than 6 s and two round trips, of 2 s where none
// was measured, 8 s at most. A message waits behind those that left before it; where
// later ones of other transfers were acknowledged meanwhile, it is 6 s and six round trips.
func (f *Flight) Overdue(heard, now time.Time) bool {
	l := f.line
	l.mu.Lock()
	defer l.mu.Unlock()
	limit := min(l.patience()+answerLeast, patienceMost)
	if failpoint.Planted("line-unmeasured") {
		return f.owes(now) > 4*time.Second && now.Sub(heard) > 4*time.Second
	}
	if now.Sub(l.heard) < limit {
		if len(f.sent) == 0 || !f.sent[0].at.Before(l.passed) {
			return false
		}
		limit = 2*patienceLeast + 6*cmp.Or(l.trip, tripUnknown)
	}
	return f.owes(now) > limit && now.Sub(heard) > limit
}

// Lives reports whether the transfer is to say now, beside the data, that the source lives: one of its messages has been
// on the line for longer than a sign of life may take. One transfer says it for all on the line, for as long as the other
// side waits for one that is silent.
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

// owes is for how long the oldest message of the epoch that the lane has taken has
// been waiting for its acknowledgement; 0 where none does. l.mu is held.
func (f *Flight) owes(now time.Time) time.Duration {
	if len(f.sent) == 0 || f.sent[0].out.IsZero() {
		return 0
	}
	return now.Sub(f.sent[0].out)
}

// Lines are the lines of an agent to all others. The zero value is ready.
type Lines struct {
	mu  sync.Mutex
	all map[string]*Line
}

// Line is the line to an agent by a lane, made where it is new. Nil Lines give a
// line that nobody shares.
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
