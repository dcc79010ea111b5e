package client

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An asker asks questions over a client's connection, and waits for their answers.
type asker struct {
	conn    *qmgr.Conn
	clock   clock.Clock
	timeout time.Duration // of an answer
	network string        // for messages
	user    string        // as Client.For
}

// defaultTimeout is the default of Client.Timeout.
const defaultTimeout = 5 * time.Second

func (c *Client) asker() asker {
	return asker{c.Conn, c.Clock, cmp.Or(c.Timeout, defaultTimeout), c.Network, c.For}
}

func (l asker) sleep(ctx context.Context, d time.Duration) error {
	t := l.clock.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (l asker) ask(ctx context.Context, subject string, a wire.Ask, limit time.Duration) (*wire.Answer, error) {
	a.V, a.Room = wire.Version, qmgr.Room(l.conn)
	data, err := l.conn.Request(ctx, subject, l.signedAsk(subject, a), limit)
	if err != nil {
		return nil, err
	}
	return wire.DecodeAnswer(data)
}

// inbox returns a subject of this process's own for the answers of an agent, and the channel of the answers; answers
// without a waiter are dropped.
func (l asker) inbox(of transfer.AgentName) (subject string, answers <-chan []byte, stop func(), err error) {
	in := make(chan []byte, 4)
	subject = l.conn.NewInbox(of.Token())
	stop, err = l.conn.Subscribe(subject, func(m qmgr.Message) {
		select {
		case in <- m.Data:
		default:
		}
	})
	return subject, in, stop, err
}

// answerIn waits for an answer about an ID; nil without an error: none has come in time.
func (l asker) answerIn(ctx context.Context, answers <-chan []byte, about transfer.ID, d time.Duration) (*wire.Answer, error) {
	t := l.clock.NewTimer(d)
	defer t.Stop()
	for {
		select {
		case data := <-answers:
			if ans, ok, err := answer(data, about); ok {
				return ans, err
			}
		case <-t.C():
			return nil, nil
		case <-ctx.Done():
			return nil, nil
		}
	}
}

func (l asker) coordination(ctx context.Context, ask wire.Ask) (*wire.Answer, error) {
	return l.answered(ctx, wire.AskSubject(wire.Coordination, l.conn.Self()), "coordination", ask, l.timeout)
}

// busyPause is the pause between two tries while coordination is busy.
const busyPause = 200 * time.Millisecond

// whileBusy is coordination. A coordination that is busy is asked again, for as long as an answer may take.
func (l asker) whileBusy(ctx context.Context, ask wire.Ask) (*wire.Answer, error) {
	ans, err := l.coordination(ctx, ask)
	for end := l.clock.Now().Add(l.timeout); transfer.KindOf(err) == transfer.KindBusy && l.clock.Now().Before(end); {
		if err := l.sleep(ctx, busyPause); err != nil {
			return nil, err
		}
		ans, err = l.coordination(ctx, ask)
	}
	return ans, err
}

func (l asker) askAgent(ctx context.Context, name transfer.AgentName, ask wire.Ask) (*wire.Answer, error) {
	ans, err := l.answered(ctx, wire.AskAgent(name, l.conn.Self()), "agent "+string(name), ask, l.timeout)
	if ans == nil && transfer.KindOf(err) == transfer.KindTimeout && ctx.Err() == nil {
		return nil, l.slow(ctx, name, err)
	}
	return ans, err
}

// slow adds to the error of an agent that has not answered in time the state that coordination knows. Such an agent may
// be up under load.
func (l asker) slow(ctx context.Context, name transfer.AgentName, err error) error {
	e := transfer.Errorf(transfer.KindTimeout, "%w", err).WithHint("an agent under load, or behind a slow link, may need longer: give --timeout 1m")
	known, kerr := l.ask(ctx, wire.AskSubject(wire.Coordination, l.conn.Self()), wire.Ask{Kind: wire.AskAgents, Agent: name}, defaultTimeout)
	if kerr != nil || len(known.Agents) == 0 {
		return e
	}
	a := &known.Agents[0]
	text := fmt.Sprintf("; it is registered since %s, is %s, and was heard %s ago", a.Started.Local().Format(time.DateTime), a.Status, a.Age.Round(time.Second))
	return transfer.Errorf(transfer.KindTimeout, "%w%s", err, text).WithHint(e.Hint)
}

// answered asks, and names the party that has not answered in its error.
func (l asker) answered(ctx context.Context, subject, party string, ask wire.Ask, wait time.Duration) (*wire.Answer, error) {
	ans, err := l.ask(ctx, subject, ask, wait)
	switch kind := transfer.KindOf(err); {
	case ans != nil || err == nil: // an error that was answered
		return ans, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case kind == transfer.KindUnreachable:
		return nil, transfer.Errorf(kind, "%s does not answer: it is not connected to %s", party, l.network)
	case kind == transfer.KindTimeout:
		return nil, transfer.Errorf(kind, "%s has not answered within %s", party, wait)
	}
	return nil, err
}

// enqueue tries for as long as an answer to the message enqueued before may take. The message states how long it is
// valid, which is less at each try.
func (l asker) enqueue(ctx context.Context, limit time.Duration, subject string, message func() []byte) (qmgr.Storing, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return l.conn.EnqueueFresh(ctx, subject, message)
}

// tellCoordination publishes the transfer as queued, as withdrawn, or as failed if its agent has refused it. Nothing
// depends on it.
func (l asker) tellCoordination(q *transfer.Request, as transfer.State, why error) {
	code := as.Code()
	if why != nil {
		code = transfer.KindOf(why).Code()
	}
	l.conn.Publish(wire.AskSubject(wire.Coordination, l.conn.Self()), wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskQueued, Queued: &transfer.Progress{
		ID: q.ID, State: as, Code: code, Reason: transfer.AsError(why), Source: q.Source, Destination: q.Destination, Originator: q.Originator.String(),
		Job: q.Job, Priority: q.Priority, Submitted: q.Submitted}}))
}
