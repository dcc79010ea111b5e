package client

import (
	"context"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Agents calls fn for the agents that coordination knows, by name, until fn fails.
func (c *Client) Agents(ctx context.Context, fn func(*wire.AgentStatus) error) error {
	for after, more := "", true; more; {
		ans, err := c.coordination(ctx, wire.Ask{Kind: wire.AskAgents, Suffix: after})
		if err != nil {
			return err
		}
		for n := range ans.Agents {
			if err := fn(&ans.Agents[n]); err != nil {
				return err
			}
			after = string(ans.Agents[n].Agent)
		}
		more = ans.More && len(ans.Agents) > 0
	}
	return nil
}

// Agent returns coordination's status of an agent. KindNotFound: coordination does not know the agent.
func (c *Client) Agent(ctx context.Context, name transfer.AgentName) (*wire.AgentStatus, error) {
	ans, err := c.coordination(ctx, wire.Ask{Kind: wire.AskAgents, Agent: name})
	if err != nil {
		return nil, err
	}
	if len(ans.Agents) == 0 {
		return nil, transfer.Errorf(transfer.KindNotFound, "coordination says nothing of agent %s", name)
	}
	return &ans.Agents[0], nil
}

// Ping asks an agent itself for its present state, and returns the state and the time of the round trip.
func (c *Client) Ping(ctx context.Context, name transfer.AgentName) (*wire.Beat, time.Duration, error) {
	began := c.Clock.Now()
	b, err := c.beat(ctx, name, wire.Ask{Kind: wire.AskPing})
	return b, c.Clock.Now().Sub(began), err
}

// SetRates changes the sending rates of an agent until it is started again. It returns the state with the new rates.
func (c *Client) SetRates(ctx context.Context, name transfer.AgentName, rates map[transfer.AgentName]string) (*wire.Beat, error) {
	return c.beat(ctx, name, wire.Ask{Kind: wire.AskSet, Body: wire.Marshal(wire.SetRates{Rates: rates})})
}

// beat asks an agent a question that it answers with its state.
func (c *Client) beat(ctx context.Context, name transfer.AgentName, ask wire.Ask) (*wire.Beat, error) {
	ans, err := c.askAgent(ctx, name, ask)
	if err == nil && ans.Beat == nil {
		err = transfer.Errorf(transfer.KindVersion, "agent %s has answered without its state", name)
	}
	if err != nil {
		return nil, err
	}
	return ans.Beat, nil
}

// Names lists the files and directories of an agent with paths that begin with a prefix.
func (c *Client) Names(ctx context.Context, name transfer.AgentName, prefix transfer.Path) ([]wire.PreviewItem, error) {
	ans, err := c.askAgent(ctx, name, wire.Ask{Kind: wire.AskList, Path: prefix})
	if err != nil || ans.Preview == nil {
		return nil, err
	}
	return ans.Preview.List, nil
}

// RemoveAgent removes an absent agent from the registry. KindAlive: the agent is there.
func (c *Client) RemoveAgent(ctx context.Context, name transfer.AgentName) error {
	_, err := c.coordination(ctx, wire.Ask{Kind: wire.AskRemove, Body: wire.Marshal(wire.RemoveAgent{Agent: name})})
	return err
}

// defaultTimeout is the default of Client.Timeout.
const defaultTimeout = 5 * time.Second

func (c *Client) timeout() time.Duration {
	if c.Timeout == 0 {
		return defaultTimeout
	}
	return c.Timeout
}

func (c *Client) coordination(ctx context.Context, ask wire.Ask) (*wire.Answer, error) {
	return c.answered(ctx, wire.AskSubject(wire.Coordination, c.Conn.Self()), "coordination", ask, c.timeout())
}

func (c *Client) askAgent(ctx context.Context, name transfer.AgentName, ask wire.Ask) (*wire.Answer, error) {
	return c.answered(ctx, wire.AskAgent(name, c.Conn.Self()), "agent "+string(name), ask, c.timeout())
}

// answered asks, and names the party that has not answered in its error.
func (c *Client) answered(ctx context.Context, subject, whom string, ask wire.Ask, wait time.Duration) (*wire.Answer, error) {
	ans, err := c.ask(ctx, subject, ask, wait)
	switch kind := transfer.KindOf(err); {
	case ans != nil || err == nil: // an error that was answered
		return ans, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case kind == transfer.KindUnreachable:
		return nil, transfer.Errorf(kind, "%s does not answer: it is not connected to %s", whom, c.Network)
	case kind == transfer.KindTimeout:
		return nil, transfer.Errorf(kind, "%s has not answered within %s", whom, wait)
	}
	return nil, err
}
