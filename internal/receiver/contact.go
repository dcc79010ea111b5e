package receiver

import "time"

// A contact is when the source of a transfer was heard of.
type contact struct {
	at     time.Time     // last, in this run; zero: not
	noted  time.Time     // the last one that the ledger has
	since  time.Time     // when this run took the transfer up
	before time.Duration // for how long it had not been heard of then
}

// silence is for how long the source was not heard of while this agent ran. It
// is counted in running time and by this process's readings: the time of day may
// jump.
func (c *contact) silence(now time.Time) time.Duration {
	if c.at.IsZero() {
		return c.before + now.Sub(c.since)
	}
	return now.Sub(c.at)
}
