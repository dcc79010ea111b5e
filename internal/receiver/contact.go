package receiver

import "time"

// A contact keeps when the source of a transfer was last heard.
type contact struct {
	at     time.Time     // last, in this run; zero: not
	noted  time.Time     // the last one that the ledger has
	since  time.Time     // when this run took the transfer up
	before time.Duration // its silence before that
}

// silence returns how long the source was silent while this agent ran. It counts running time by this process's
// readings, as the time of day may jump.
func (c *contact) silence(now time.Time) time.Duration {
	if c.at.IsZero() {
		return c.before + now.Sub(c.since)
	}
	return now.Sub(c.at)
}
