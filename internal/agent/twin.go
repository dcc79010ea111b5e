package agent

import (
	"context"
	"fmt"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// refuseTwin asks whether the name is alive (R5). The queue manager says at once
// when nobody listens; silence means that somebody does, if it is the agent's and
// not the network's.
func (a *Agent) refuseTwin(ctx context.Context) error {
	where := "and does not answer"
	for silent := 0; silent < 3; {
		data, asked, err := a.askTwin(ctx)
		if transfer.KindOf(err) == transfer.KindUnreachable {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			if asked {
				silent++
			}
			continue
		}
		if ans, err := wire.DecodeAnswer(data); err == nil && ans.Beat != nil {
			where = fmt.Sprintf("on %s since %s", ans.Beat.Host, ans.Beat.Started.Format(time.RFC3339))
		}
		break
	}
	return transfer.Errorf(transfer.KindAlive, "agent %s is already running %s", a.cfg.Name, where).
		WithHint("stop it first, or give this agent another name")
}

// askTwin asks for whoever has the name, for a second. asked reports, where nobody
// answered, that the queue manager took the question and did not say that nobody
// listens: it answered what was put to it later, on the same connection. Lost
// packets can keep the answer away for longer than that.
func (a *Agent) askTwin(ctx context.Context) (data []byte, asked bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	later := make(chan error, 1)
	go func() {
		t := time.NewTimer(200 * time.Millisecond) // the question is on its way by then
		defer t.Stop()
		select {
		case <-t.C:
			later <- a.conn.Healthy(ctx)
		case <-ctx.Done():
			later <- ctx.Err()
		}
	}()
	data, err = a.conn.Request(ctx, wire.AskSubject(a.cfg.Name), wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskPing}), 0)
	if err == nil || transfer.KindOf(err) == transfer.KindUnreachable {
		return data, true, err
	}
	<-ctx.Done() // a lost connection is not asked again at once
	return nil, <-later == nil, err
}
