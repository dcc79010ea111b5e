package client

import (
	"context"
	"fmt"
	"time"

	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// AtAgent speaks to one agent.
type AtAgent struct {
	*Client
	Agent transfer.AgentName
	Away  *Away // of an agent that has not answered itself: its objects are as coordination has them
}

// Command sends the agent a command and waits for its answer; the command is durable, and repeated under the same ID
// meanwhile. If ctx ends first, the error is a HandoverError. It is one, too, after the cancel of a transfer is stored for
// an agent that was stopped.
func (c AtAgent) Command(ctx context.Context, kind wire.Kind, body any) (*wire.Answer, error) {
	inbox, answers, stop, err := c.asker().inbox(c.Agent)
	if err != nil {
		return nil, err
	}
	defer stop()

	command := wire.Control{V: wire.Version, ID: transfer.NewID(c.Clock.Now()), Kind: kind, Body: wire.Marshal(body), Originator: c.Who, Reply: inbox}
	pause, at := repeatFirst, NotSent
	for {
		stored, unstored := c.Conn.EnqueueFresh(ctx, wire.ControlSubject(c.Agent, c.Conn.Self()), func() []byte {
			return c.asker().signed(word.Control, c.Agent, command.ID, wire.Marshal(command))
		})
		if at = at.after(stored, unstored); at != Stored && ctx.Err() == nil {
			return nil, unstored // such as of a command that is too large
		} else if at != Stored {
			return nil, c.unfinished(ctx, at, unstored)
		}
		ans, err := c.asker().answerIn(ctx, answers, command.ID, pause)
		switch {
		case ctx.Err() != nil:
			return nil, c.unfinished(ctx, at, nil)
		case err != nil:
			return nil, err
		case ans != nil:
			return ans, nil
		}
		if kind == wire.ControlCancel {
			if err := stopped(ctx, c); err != nil {
				return nil, c.unfinished(ctx, at, err)
			}
		}
		pause = min(2*pause, repeatMost)
	}
}

// unfinished returns the error of a command at a stage of its handover.
func (c AtAgent) unfinished(ctx context.Context, at Handover, last error) error {
	return &HandoverError{At: at, Name: "the command", Agent: c.Agent, Err: why(ctx, last), Hint: "look whether agent " + string(c.Agent) + " has done it before you give it again"}
}

// Question asks the agent a question that one of its duties answers.
func (c AtAgent) Question(ctx context.Context, kind wire.Kind, body any) (*wire.Answer, error) {
	return c.asker().askAgent(ctx, c.Agent, wire.Ask{Kind: kind, Body: wire.Marshal(body)})
}

// Known refuses an agent that coordination is certain not to know (R4).
func (c AtAgent) Known(ctx context.Context) error { return c.asker().known(ctx, c.Agent) }

// stopped returns an error if coordination knows that the agent was stopped and that no instance stands by. Such an
// agent answers a command after its next start.
func stopped(ctx context.Context, c AtAgent) error {
	known, err := c.asker().ask(ctx, wire.AskSubject(wire.Coordination, c.Conn.Self()), wire.Ask{Kind: wire.AskAgents, Agent: c.Agent}, askTimeout)
	if err != nil || len(known.Agents) == 0 {
		return nil
	}
	if a := &known.Agents[0]; a.Agent == c.Agent && a.Status == wire.AgentStopped && len(a.Standbys) == 0 {
		return fmt.Errorf("it was stopped at %s", c.Clock.Now().Add(-a.Age).Local().Format(time.DateTime))
	}
	return nil
}
