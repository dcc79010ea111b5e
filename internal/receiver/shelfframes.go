package receiver

import (
	"encoding/json"
	"slices"

	"ferry/internal/flow"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// takeMessage takes the next message.
func (i taking) takeMessage(p *shelved) bool {
	frames, err := wire.ParseFrames(p.head, p.Data, wire.Intact(p.Data))
	if err != nil {
		i.w.log.Warn("stored message rejected", "error", err)
		i.ep.again = err.Error()
		return false
	}

	i.w.absent = nil
	mark := shelfMark{seq: p.head.Seq, number: p.Number}
	for n := range frames {
		f := &frames[n]
		if f.Type == wire.FrameBegin || f.Type == wire.FrameFail {
			i.awaitTurn(f.Item)
		}
		if err := i.w.frame(f); err != nil {
			i.w.stumbled(f, err)
			return false
		}
		if i.w.ending() {
			return false
		}
		cost := f.Cost(flow.BeginCost)
		i.ep.account.Use(cost)
		i.ep.unacked += cost
		if mark.last = mark.last || f.Type == wire.FrameLast; f.Type != wire.FrameLast {
			i.shelf.top = max(i.shelf.top, f.Item+1)
		}
	}

	i.ep.next++
	mark.top = i.shelf.top
	if c := i.w.files.cur; c != nil && c.item+1 == mark.top {
		mark.open, mark.offset = true, c.offset()
	}
	if len(i.shelf.marks) >= mostMarks { // every second one will do
		half := i.shelf.marks[:0]
		for n := 1; n < len(i.shelf.marks); n += 2 {
			half = append(half, i.shelf.marks[n])
		}
		i.shelf.marks = half
	}
	i.shelf.marks = append(i.shelf.marks, mark)
	return true
}

// awaitTurn waits until an item is not too far ahead of the first undecided one. In other lanes the source ensures
// that; it stores messages without that knowledge. awaitTurn waits only for files with a known digest. The source
// stores a missing digest before it goes on, and later messages of the store cannot come during the wait.
func (i taking) awaitTurn(item uint64) {
	w := i.w
	for !w.entry.In.Decided.Fits(item) && item <= w.entry.In.Decided.Below()+2*transfer.MaxUndecided {
		w.settleSums()
		w.com.drain()
		if w.ending() || w.entry.In.Decided.Fits(item) || !slices.ContainsFunc(w.files.held, func(c *file) bool { return c.summed }) {
			return
		}
		w.tell()
		select {
		case <-w.wake: // a digest may have ended
		case c := <-w.cp.running:
			w.checkpointed(c)
		case <-w.r.ctx.Done():
		}
	}
}

// beginOf returns the BEGIN of an item, for its checkpoint.
func (w *writer) beginOf(c *file) []byte {
	if !w.ep.shelved {
		return nil
	}
	data, err := json.Marshal(c.begin)
	if err != nil {
		return nil // then it cannot be resumed
	}
	return data
}

// reopenShelved resumes an item with a beginning that an earlier process took, or that came before the transfer had to
// wait.
func (w *writer) reopenShelved(item uint64) error {
	pt, err := w.entry.Items.Point(item)
	if err != nil {
		return w.entry.Unwritable(err)
	}
	b := new(wire.Begin)
	if pt == nil || len(pt.Begin) == 0 || json.Unmarshal(pt.Begin, b) != nil || pt.NoReadBack {
		return w.forgetPoint(item)
	}
	b.Offset, b.Again = pt.Source, false
	return w.beginItem(&wire.Frame{Type: wire.FrameBegin, Item: item, Begin: b})
}

// beyond cuts off the part of a frame that the file already has. A shelf is read again from the position in the ledger,
// and a file may be further.
func (w *writer) beyond(c *file, f *wire.Frame) (done bool) {
	has := c.offset()
	switch f.Type {
	case wire.FrameData:
		cut := min(max(has-f.Offset, 0), int64(len(f.Data)))
		f.Offset, f.Data = f.Offset+cut, f.Data[cut:]
		return len(f.Data) == 0 && cut > 0
	case wire.FrameHole:
		cut := min(max(has-f.Offset, 0), f.Length)
		f.Offset, f.Length = f.Offset+cut, f.Length-cut
		return f.Length == 0 && cut > 0
	case wire.FrameCData:
		return f.Offset+f.Length <= has
	}
	return false
}
