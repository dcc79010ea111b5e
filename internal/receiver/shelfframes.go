package receiver

import (
	"ferry/internal/flow"
	"ferry/internal/wire"
)

// takeMessage takes the next message.
func (i taking) takeMessage(p *shelved) bool {
	frames, err := wire.ParseFrames(p.head, p.Data, wire.Intact(p.Data))
	if err != nil {
		i.log.Warn("stored message rejected", "error", err)
		i.ep.Again = err.Error()
		return false
	}

	mark := shelfMark{seq: p.head.Seq, number: p.Number}
	for n := range frames {
		f := &frames[n]
		if f.Type == wire.FrameBegin || f.Type == wire.FrameFail {
			i.w.AwaitTurn(f.Item)
		}
		if !i.w.Write(f, nil) {
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
	if item, offset, ok := i.w.Current(); ok && item+1 == mark.top {
		mark.open, mark.offset = true, offset
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
