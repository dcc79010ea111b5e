package qmgr

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A crawlingAdmin has one message of a queue, which the link carries at a rate. It breaks an answer once, in the
// middle.
type crawlingAdmin struct {
	streams.Admin
	data   []byte
	rate   int // bytes a second
	broken bool
	taken  bool // the message has gone when its rest is asked for
	rooms  []int
	given  int // bytes, of all answers
}

func (k *crawlingAdmin) Queue(ctx context.Context, _ string, t streams.QueueTask, some func(*streams.QueueResult)) (streams.QueueResult, error) {
	if t.Do == streams.QueuePublish {
		k.rooms = append(k.rooms, len(t.Behind))
		k.carry(ctx, len(t.Behind))
		return streams.QueueResult{Receipt: &wire.QueueReceipt{Messages: t.Before + len(t.Sizes)}}, nil
	}
	k.rooms = append(k.rooms, t.Room)
	n := min(t.Room, len(k.data)-t.Offset)
	res := streams.QueueResult{Pieces: [][2]uint64{{1, uint64(n)}}}
	if k.taken && t.Offset > 0 {
		res.Pieces[0][0] = 2
	}
	if t.Offset+n < len(k.data) {
		res.Next, res.Offset = 1, t.Offset+n
	}
	carry := func(bytes int) []byte {
		k.carry(ctx, bytes)
		k.given += bytes
		return k.data[t.Offset : t.Offset+bytes]
	}
	if t.Offset > len(k.data)/2 && !k.broken {
		k.broken = true
		res.Behind, res.Next = carry(n*3/4), 0
		if some != nil {
			some(&res)
		}
		return streams.QueueResult{}, transfer.Errorf(transfer.KindNoManager, "the connection is lost")
	}
	res.Behind = carry(n)
	return res, nil
}

// carry waits as long as the link needs for an amount, or until the asker has given up.
func (k *crawlingAdmin) carry(ctx context.Context, bytes int) {
	select {
	case <-time.After(time.Duration(bytes) * time.Second / time.Duration(k.rate)):
	case <-ctx.Done():
	}
}

// queues returns the application queues of the Admin.
func (k *crawlingAdmin) queues(t *testing.T) *Queues {
	c := &Conn{base: link.NewBase(link.Config{}, ""), control: &link.Link{Again: make(chan struct{})}, amounts: newAmounts(), admin: k}
	c.base.Ctx, c.base.End = context.WithCancel(t.Context())
	t.Cleanup(c.base.End)
	c.control.Up.Store(true)
	return QueuesOf(c)
}

// A reader of a queue asks for as many bytes as the link carries in 0.15 s, first for 8 KiB. It keeps the part of an
// answer that has arrived when the answer breaks, and asks for the rest alone.
func TestAReaderKeepsThePartThatArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate = 100_000
		k := &crawlingAdmin{data: qmgrtest.Noise(200_000), rate: rate}
		r := k.queues(t).Reader(wire.QueueSpan{Queue: "Q"}, 0)
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
		if !bytes.Equal(got, k.data) || !k.broken {
			t.Errorf("%d bytes of %d came, or others; broken: %v", len(got), len(k.data), k.broken)
		}
		if k.given != len(k.data) {
			t.Errorf("%d bytes were carried for %d", k.given, len(k.data))
		}
		for n, room := range k.rooms {
			if n == 0 && room != 8<<10 || room > rate*17/100 || n > 4 && room < rate*13/100 {
				t.Errorf("answer %d may have %d bytes", n+1, room)
			}
		}
	})
}

// Messages are stored in batches of 1.5 s of the link, of 8 KiB at first, with one message at least.
func TestBatchesOfMessagesFollowTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, messages, size = 20_000, 400, 1000
		k := &crawlingAdmin{rate: rate}
		q := k.queues(t)
		var have wire.QueueReceipt
		var err error
		for have.Messages < messages && err == nil {
			have, err = q.Publish(t.Context(), wire.QueueItem{Queue: "Q"}, nil, have, messages, func(most int) ([]byte, bool, error) { return make([]byte, size), size <= most, nil })
		}
		if err != nil {
			t.Fatal(err)
		}
		for n, bytes := range k.rooms {
			if n == 0 && bytes > 8<<10 || bytes > rate*15/10 || n > 3 && n < len(k.rooms)-1 && bytes < rate {
				t.Errorf("batch %d has %d bytes", n+1, bytes)
			}
		}
	})
}

// A message that another reader takes after its first part was read is not put together with the next one.
func TestAMessageThatIsTakenMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &crawlingAdmin{data: qmgrtest.Noise(20_000), rate: 1e6, broken: true, taken: true}
		r := k.queues(t).Reader(wire.QueueSpan{Queue: "Q"}, 0)
		defer r.Close()
		_, err := r.Next()
		for err == nil {
			_, err = r.Next()
		}
		qmgrtest.WantKind(t, err, transfer.KindConflict)
	})
}
