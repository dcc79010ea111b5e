package receiver

import (
	"time"

	"ferry/internal/transfer"
)

// results are the results of a writer that the source has yet to get. They are writing.Events.
type results struct {
	outcomeQueue
	news bool   // the source has yet to hear of a decision or a safe point
	tell func() // tells it
}

// Decided takes outcomes that are on record.
func (s *results) Decided(outcomes []transfer.Outcome) {
	s.waiting = append(s.waiting, outcomes...)
	s.news = s.news || len(outcomes) > 0
}

// ReportDue records that the source has yet to hear of a safe point, or of items that begin again.
func (s *results) ReportDue() { s.news = true }

// acknowledged returns how many of the decided outcomes the source has acknowledged.
func (s *results) acknowledged(decided uint64) uint64 {
	return decided - min(decided, uint64(len(s.waiting)))
}

// number returns the number of the outstanding batch, with the ledger's generation.
func (s *results) number(generation uint64) uint64 { return generation<<32 | s.batches }

// ReportNow sends pending news to the source.
func (s *results) ReportNow() {
	if s.news {
		s.news = false
		s.tell()
	}
}

// Bounds of a batch of outcomes, in items and in bytes of names.
const (
	maxBatch      = 512
	maxBatchBytes = 256 << 10
	slowAck       = 250 * time.Millisecond // a slower acknowledgement means a slow link
)

// An outcomeQueue is the outcomes that a source has not acknowledged, and the batch of them that is outstanding. At
// most one batch is outstanding, and its repeats are unchanged.
//
//	no batch            → propose: a batch with a number of its own
//	a batch outstanding → sent: it is repeated when due; acked with its number: no batch
type outcomeQueue struct {
	waiting []transfer.Outcome // decided, oldest first; the batch is the first of them
	size    int                // of the batch
	last    bool               // the batch is marked as the last one
	batches uint64             // made in this run
	sentAt  time.Time
	due     time.Time     // when it is repeated, or another one is made; zero: at the next outcome
	backoff time.Duration // of the repeats of this batch
}

// outstanding reports whether a batch waits for its answer.
func (o *outcomeQueue) outstanding() bool { return o.size > 0 || o.last }

// nextBatch returns the outstanding batch, or makes one. final says that the waiting outcomes are the last ones. It
// reports false if there is nothing to offer.
func (o *outcomeQueue) nextBatch(final bool) (batch []transfer.Outcome, ok bool) {
	if o.size == 0 && (!o.last || o.due.IsZero()) {
		// Each batch has a number of its own, over all runs: the answer to a smaller batch must not pass for the answer
		// to this one.
		o.batches++
		o.size = batchSize(o.waiting)
		o.backoff = 0
		o.last = o.size == len(o.waiting) && final
	}

	if !o.outstanding() {
		o.due = time.Time{}
		return nil, false
	}
	return o.waiting[:o.size], true
}

// batchSize returns how many of the outcomes the next batch has.
func batchSize(all []transfer.Outcome) (n int) {
	for size := 0; n < len(all) && n < maxBatch && size < maxBatchBytes; n++ {
		size += 300 + 3*(len(all[n].Path)+len(all[n].Source))
	}
	return n
}

// sent records that the batch was sent. It is due again after a time that doubles, plus margin.
func (o *outcomeQueue) sent(now time.Time, margin time.Duration) {
	o.backoff = min(max(2*o.backoff, repeatFirst), repeatMost)
	o.sentAt, o.due = now, now.Add(o.backoff+margin)
}

// acked removes the batch from the waiting outcomes.
func (o *outcomeQueue) acked() {
	o.waiting = append([]transfer.Outcome(nil), o.waiting[o.size:]...)
	o.size, o.last, o.due, o.backoff = 0, false, time.Time{}, 0
}

// gather reports whether the next batch is to wait for further outcomes. After a slow acknowledgement it waits as long
// again, at most repeatMost: many small batches would be more than a slow link carries.
func (o *outcomeQueue) gather(now time.Time) bool {
	took := now.Sub(o.sentAt)
	if took <= slowAck || len(o.waiting) >= maxBatch/2 {
		return false
	}
	o.due = now.Add(min(took, repeatMost))
	return true
}
