package client

import (
	"context"
	"path"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Agents calls fn for the agents that coordination knows, by name, until fn fails.
func (c *Client) Agents(ctx context.Context, fn func(*wire.AgentStatus) error) error {
	for after, more := "", true; more; {
		ans, err := c.asker().coordination(ctx, wire.Ask{Kind: wire.AskAgents, Suffix: after})
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
	ans, err := c.asker().coordination(ctx, wire.Ask{Kind: wire.AskAgents, Agent: name})
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
	b, err := c.asker().beat(ctx, name, wire.Ask{Kind: wire.AskPing})
	return b, c.Clock.Now().Sub(began), err
}

// SetRates changes the sending rates of an agent until it is started again. It returns the state with the new rates.
func (c *Client) SetRates(ctx context.Context, name transfer.AgentName, rates map[transfer.AgentName]string) (*wire.Beat, error) {
	return c.asker().beat(ctx, name, wire.Ask{Kind: wire.AskSet, Body: wire.Marshal(wire.SetRates{Rates: rates})})
}

// beat asks an agent a question that it answers with its state.
func (l asker) beat(ctx context.Context, name transfer.AgentName, ask wire.Ask) (*wire.Beat, error) {
	ans, err := l.askAgent(ctx, name, ask)
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
	ans, err := c.asker().askAgent(ctx, name, wire.Ask{Kind: wire.AskList, Path: prefix})
	if err != nil || ans.Preview == nil {
		return nil, err
	}
	return ans.Preview.List, nil
}

// Directory calls fn for the names in a directory of an agent that this user may see, in the order of their bytes, until
// fn fails. at is the path of a name as a request takes it. A file is a directory with one name.
func (c *Client) Directory(ctx context.Context, name transfer.AgentName, dir transfer.Path, fn func(at transfer.Path, e *wire.DirEntry) error) error {
	for after := transfer.Path(""); ; {
		ans, err := c.asker().askAgent(ctx, name, wire.Ask{Kind: wire.AskDir, Body: wire.Marshal(wire.ListDir{Path: dir, After: after})})
		if err != nil {
			return err
		}
		l, err := wire.ReadBody[wire.Listing](wire.AskDir, ans.Body)
		if err != nil {
			return err
		}
		for n := range l.Entries {
			at := dir
			if !l.File {
				at = transfer.Path(path.Join(string(dir), string(l.Entries[n].Name)))
			}
			if err := fn(at, &l.Entries[n]); err != nil {
				return err
			}
		}
		if l.Next <= after {
			return nil
		}
		after = l.Next
	}
}

// May asks an agent whether a principal has an authority there. The agent knows its own sandbox and roots.
func (c *Client) May(ctx context.Context, name transfer.AgentName, about wire.MayAsked) (*wire.May, error) {
	ans, err := c.asker().askAgent(ctx, name, wire.Ask{Kind: wire.AskMay, Body: wire.Marshal(about)})
	if err != nil {
		return nil, err
	}
	return wire.ReadBody[wire.May](wire.AskMay, ans.Body)
}

// RemoveAgent removes an absent agent from the registry. KindAlive: the agent is there.
func (c *Client) RemoveAgent(ctx context.Context, name transfer.AgentName) error {
	_, err := c.asker().coordination(ctx, wire.Ask{Kind: wire.AskRemove, Body: wire.Marshal(wire.RemoveAgent{Agent: name})})
	return err
}

func (l asker) known(ctx context.Context, a transfer.AgentName) error {
	ping := wire.Marshal(wire.Ask{V: wire.Version, Kind: wire.AskPing})
	for {
		// Coordination first: the agent may be at the end of a slow link.
		ans, err := l.ask(ctx, wire.AskSubject(wire.Coordination, l.conn.Self()), wire.Ask{Kind: wire.AskKnown, Agent: a}, askTimeout)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil || ans.Known == nil || ans.Known.Known:
			return nil // known, or coordination does not answer
		}
		if _, err := l.conn.Request(ctx, wire.AskAgent(a, l.conn.Self()), ping, askTimeout); err == nil {
			return nil
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case ans.Known.Sure && !ans.Known.Removed.IsZero():
			return transfer.Errorf(transfer.KindUnknownAgent, "agent %s is unknown: it was removed from the network on %s", a, ans.Known.Removed.Local().Format("2006-01-02 15:04:05")).
				WithHint("`ferry agent ls` lists the agents")
		case ans.Known.Sure:
			return transfer.Errorf(transfer.KindUnknownAgent, "agent %s is unknown: it has never registered with this network", a).
				WithHint("`ferry agent ls` lists the agents")
		}
		if err := l.sleep(ctx, min(ans.Known.Wait+50*time.Millisecond, time.Second)); err != nil {
			return err
		}
	}
}
