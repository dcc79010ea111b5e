package qmgr

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A scripted is a keeper that answers tasks with queues as a test says.
type scripted struct {
	keeper
	answer func(t queueTask, some func(*queueResult)) (queueResult, error)
}

func (s scripted) queue(_ context.Context, _ string, t queueTask, some func(*queueResult)) (queueResult, error) {
	return s.answer(t, some)
}

func queuesWith(ctx context.Context, answer func(t queueTask, some func(*queueResult)) (queueResult, error)) *Queues {
	c := &Conn{ctx: ctx, amounts: newAmounts(), keeper: scripted{answer: answer}}
	c.control = newLink(c, roleControl)
	c.control.up.Store(true)
	return QueuesOf(c)
}

// The first answer is small, since no rate is known. The part of an answer that has come when the line breaks is not
// asked for again.
func TestReaderKeepsParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := noise(100)
		asked := 0
		q := queuesWith(t.Context(), func(task queueTask, some func(*queueResult)) (queueResult, error) {
			res := queueResult{Pieces: [][2]uint64{{1, uint64(len(want) - task.Offset)}}, behind: want[task.Offset:]}
			if asked++; asked == 1 {
				if task.Room != amountFirst {
					t.Errorf("%d bytes are asked for when no rate is known", task.Room)
				}
				res.behind = want[:40]
				some(&res)
				return queueResult{}, transfer.Errorf(transfer.KindTimeout, "the line broke")
			}
			if task.Span.First != 1 || task.Offset != 40 {
				t.Errorf("the reader goes on at byte %d of message %d", task.Offset, task.Span.First)
			}
			return res, nil
		})
		r := q.Reader(wire.QueueSpan{Queue: "Q"}, 0)
		defer r.Close()
		var got []byte
		for {
			p, err := r.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, p.Data...)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes of %d came, or others", len(got), len(want))
		}
	})
}

// The first messages that are stored at once are few, since no rate is known.
func TestPublishBeginsSmall(t *testing.T) {
	q := queuesWith(t.Context(), func(task queueTask, _ func(*queueResult)) (queueResult, error) {
		if n := len(task.behind); n > amountFirst+1000 {
			t.Errorf("%d bytes are stored at once when no rate is known", n)
		}
		return queueResult{Receipt: &wire.QueueReceipt{Messages: len(task.Sizes), Number: 1}}, nil
	})
	if r, err := q.Publish(t.Context(), wire.QueueItem{Queue: "Q"}, nil, wire.QueueReceipt{}, 500, func(int) ([]byte, bool, error) { return make([]byte, 1000), true, nil }); err != nil || r.Messages == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}
