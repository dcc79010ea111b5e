package agent

import (
	"context"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// maxSilent is the number of questions, a second each, that an instance may leave unanswered before it counts as living
// and stuck.
const maxSilent = 3

// refuseSecondInstance asks whether the name is alive (R5). The queue manager says at once when there is no listener.
// Silence means that an instance listens, unless the network has lost the question or the answer.
func (a *Agent) refuseSecondInstance(ctx context.Context) (silent bool, err error) {
	for unanswered := 0; unanswered < maxSilent; {
		data, asked, err := a.askInstance(ctx, wire.AskAgent(a.cfg.Name, a.cfg.Name.Token()))
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
