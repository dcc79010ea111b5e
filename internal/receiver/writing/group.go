package writing

import "time"

// A group is the items that are decided together. One group gathers while another one is committed.
type group struct {
	items []ending        // that gather
	size  int64           // bytes of them beyond their safe points
	due   time.Time       // latest time of the commit; zero: no item gathers, or the time is not set
	ended map[uint64]bool // items that gather or are being committed
	whole bool            // they are all items of a set

	running     chan CommitResult // of those that are being committed; nil: none
	runningSize int64
}

// add adds an item.
func (g *group) add(e ending) {
	g.ended[e.pending.Outcome.Item] = true
	g.items = append(g.items, e)
	g.size += e.size
}

// take returns the gathered items, to be committed, and the channel for the result.
func (g *group) take() ([]ending, chan<- CommitResult) {
	items := g.items
	done := make(chan CommitResult, 1)
	g.running, g.runningSize = done, g.size
	g.items, g.size, g.whole = nil, 0, false
	return items, done
}

// over removes the items of a finished commit from the group, and returns their bytes.
func (g *group) over(c CommitResult) (size int64) {
	for n := range c.group {
		delete(g.ended, c.group[n].pending.Outcome.Item)
	}
	size = g.runningSize
	g.running, g.runningSize = nil, 0
	return size
}

// drop empties the group and returns its items.
func (g *group) drop() (items []ending) {
	items = g.items
	g.items, g.size, g.whole, g.due = nil, 0, false, zeroTime
	clear(g.ended)
	return items
}

// idle reports whether no item gathers and no group is being committed.
func (g *group) idle() bool { return g.running == nil && len(g.items) == 0 }
