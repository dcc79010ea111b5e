package client

import (
	"context"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// AtAgent speaks to one agent.
type AtAgent struct {
	*Client
	Agent transfer.AgentName
}

// Command gives the agent a command and waits for its answer; the command is durable, and repeated
// under the same ID meanwhile.
func (c AtAgent) Command(ctx context.Context, kind wire.Kind, body any) (*wire.Answer, error) {
	inbox, answers, stop, err := c.inbox(c.Agent)
	if err != nil {
		return nil, err
	}
	defer stop()

	command := wire.Control{V: wire.Version, ID: transfer.NewID(c.Clock.Now()), Kind: kind, Body: wire.Marshal(body), Originator: c.Who, Reply: inbox}
	pause, stored := repeatFirst, false
	for {
		err := c.Conn.Enqueue(ctx, wire.ControlSubject(c.Agent, c.Conn.Self()), "", wire.Marshal(command))
		if stored = stored || err == nil; !stored {
			return nil, err
		}
		ans, err := c.answerIn(ctx, answers, command.ID, pause)
		switch {
		case ctx.Err() != nil:
			return nil, transfer.Errorf(transfer.KindTimeout, "agent %s has not answered; it gets the command when it is there: %w", c.Agent, context.Cause(ctx))
		case err != nil:
			return nil, err
		case ans != nil:
			return ans, nil
		}
		pause = min(2*pause, repeatMost)
	}
}

// Question asks the agent what one of its duties answers.
func (c AtAgent) Question(ctx context.Context, kind wire.Kind, body any) (*wire.Answer, error) {
	return c.askAgent(ctx, c.Agent, wire.Ask{Kind: kind, Body: wire.Marshal(body)})
}

// Known refuses an agent that coordination is sure never to have heard of (R4).
func (c AtAgent) Known(ctx context.Context) error { return c.known(ctx, c.Agent) }
