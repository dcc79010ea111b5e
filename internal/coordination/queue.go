package coordination

import (
	"context"
	"fmt"

	"ferry/internal/audit"
	"ferry/internal/qmgr"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// askQueue answers a question about an application queue of coordination's queue manager. Coordination checks the
// rights, because the queue manager has no rules.
func askQueue(s *Service, a *receivedQuestion, ans *wire.Answer) error {
	q, err := wire.ReadBody[wire.QueueAsk](a.Kind, a.Body)
	if err == nil && q.Do != wire.QueueList && q.Do != wire.QueueShow && q.Do != wire.QueuePeek {
		err = s.obeyed.once(a)
	}
	if err != nil {
		return err
	}
	ctx := context.Background() // each step has its time
	var did queueDone
	do := func() error {
		did, err = answerQueue(ctx, qmgr.QueuesOf(s.conn), q, a.Principal)
		return err
	}
	if q.Do == wire.QueueRemove {
		err = s.queues.removing(q.Queue, do)
	} else {
		err = do()
	}
	if err == nil && did.act != "" {
		err = s.log.AppendOwn(audit.Record{Event: audit.Changed, Principal: a.Principal, Text: did.act, Vouched: audit.Vouched{Author: a.author}})
		s.learn()
	}
	if err == nil {
		ans.Body = wire.Marshal(did.QueueAnswer)
	}
	return err
}

// A queueDone is an answer with the act that is recorded in the audit log; empty: none.
type queueDone struct {
	wire.QueueAnswer
	act string
}

func answerQueue(ctx context.Context, queues *qmgr.Queues, q *wire.QueueAsk, who string) (done queueDone, err error) {
	var v wire.QueueView
	switch q.Do {
	case wire.QueueCreate:
		v, err = queues.Create(ctx, q.Queue, q.MaxBytes, q.Replicas)
		done.Queues, done.act = []wire.QueueView{v}, fmt.Sprintf("made the queue %s", q.Queue)
	case wire.QueueList:
		done.Queues, err = queues.List(ctx)
	case wire.QueueShow:
		v, err = queues.Show(ctx, q.Queue)
		done.Queues = []wire.QueueView{v}
	case wire.QueueRemove:
		if v, err = queues.Show(ctx, q.Queue); err == nil {
			err = queues.Remove(ctx, q.Queue)
		}
		done.act = fmt.Sprintf("removed the queue %s with %d messages", q.Queue, v.Messages)
	case wire.QueuePut:
		done.Number, err = queues.Put(ctx, wire.QueueSpan{Queue: q.Queue, Writer: who, Group: q.Group}, q.Last, q.Data)
	case wire.QueuePeek, wire.QueueClaim:
		err = peek(ctx, queues, q, &done.QueueAnswer)
	case wire.QueueTake:
		if q.Number == 0 || q.Mark == "" || q.Hold == 0 {
			return done, transfer.Errorf(transfer.KindUsage, "which message of the queue %s is taken is not said", q.Queue)
		}
		err = queues.Got(ctx, q.Queue, q.Mark, q.Number, q.Hold)
		done.act = fmt.Sprintf("took message %d of the queue %s", q.Number, q.Queue)
	default:
		err = transfer.Errorf(transfer.KindVersion, "nothing can be done with a queue that is called %.40q", q.Do)
	}
	return done, err
}

// peek reads the oldest message of a queue, or of a group, and reserves it for an asker that asks to take it.
func peek(ctx context.Context, queues *qmgr.Queues, q *wire.QueueAsk, ans *wire.QueueAnswer) error {
	v, err := queues.Show(ctx, q.Queue)
	if err != nil {
		return err
	}
	ans.Queues = []wire.QueueView{v}
	var m *wire.QueueMessage
	of := wire.QueueSpan{Queue: q.Queue, Mark: v.Mark, Group: q.Group}
	if q.Do == wire.QueueClaim {
		m, ans.Hold, err = queues.Claim(ctx, of)
	} else {
		m, err = queues.Oldest(ctx, of)
	}
	if err != nil || m == nil {
		return err
	}
	if m.Size > wire.MaxQueuePeek {
		return transfer.Errorf(transfer.KindTooLarge, "the oldest message of the queue %s has %d bytes; `ferry queue get` takes %d at most", q.Queue, m.Size, wire.MaxQueuePeek).
			WithHint(fmt.Sprintf("`ferry send --delete-source AGENT:queue:%s AGENT:FILE` writes all that is there into a file", q.Queue))
	}
	ans.Message, ans.Data = m, m.Data
	return nil
}
