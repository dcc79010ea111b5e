package agent

import (
	"context"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// maxSilent is the number of questions, a second each, that an instance may leave unanswered before it counts as living
// and stuck.
const maxSilent = 3

// refuseTwin asks whether the name is alive (R5). The queue manager says at once when there is no listener. Silence
// means that an instance listens, unless the network has lost the question or the answer.
func (a *Agent) refuseTwin(ctx context.Context) (silent bool, err error) {
	for unanswered := 0; unanswered < maxSilent; {
		data, asked, err := a.askTwin(ctx, wire.AskAgent(a.cfg.Name, a.cfg.Name.Token()))
		if transfer.KindOf(err) == transfer.KindUnreachable {
			return false, nil
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err != nil {
			if asked {
				unanswered++
			}
			continue
		}
		var who holder
		if ans, err := wire.DecodeAnswer(data); err == nil && ans.Beat != nil {
			who = holder{Instance: ans.Beat.Instance, Host: ans.Beat.Host, Since: ans.Beat.Started}
		}
		return false, a.own.taken(who)
	}
	return true, nil
}

// Displaced returns a channel for the reason why the agent must stop: another instance has its name. By then the agent
// takes no more work; Stop must follow.
func (a *Agent) Displaced() <-chan error { return a.own.lost }

// askTwin asks the listener on a subject, and waits for a second. asked reports, where no answer came, that the queue
// manager took the question and did not report a missing listener: it answered a later question on the same connection.
// Lost packets can delay the answer for longer than that.
func (c *core) askTwin(ctx context.Context, subject string) (data []byte, asked bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	later := make(chan error, 1)
	go func() {
		t := time.NewTimer(200 * time.Millisecond) // the question is on its way by then
		defer t.Stop()
		select {
		case <-t.C:
			later <- c.conn.Healthy(ctx)
		case <-ctx.Done():
			later <- ctx.Err()
		}
	}()

	data, err = c.conn.Request(ctx, subject, wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskPing}), 0)
	if err == nil || transfer.KindOf(err) == transfer.KindUnreachable {
		return data, true, err
	}

	<-ctx.Done() // a lost connection is not asked again at once
	return nil, <-later == nil, err
}
