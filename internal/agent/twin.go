package agent

import (
	"context"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// maxSilent is how often somebody may leave a question unanswered, a second each
// time, before that means that it lives and is stuck.
const maxSilent = 3

// refuseTwin asks whether the name is alive (R5). The queue manager says at once
// when nobody listens; silence means that somebody does, if it is the agent's and
// not the network's.
func (a *Agent) refuseTwin(ctx context.Context) (silent bool, err error) {
	for unanswered := 0; unanswered < maxSilent; {
		data, asked, err := a.askTwin(ctx, wire.AskSubject(a.cfg.Name))
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

// Displaced gives the reason where the agent must stop because another instance has its
// name. By then it takes no more work; Stop must follow.
func (a *Agent) Displaced() <-chan error { return a.own.lost }
