package client

import (
	"context"
	"fmt"
	"time"

	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An Away describes the agent of an object that coordination has shown, because the agent itself is away or does not
// answer.
type Away struct {
	State string    `json:"state"`          // of the agent, as of an agent in a list
	Since time.Time `json:"since,omitzero"` // when coordination heard it last; none: not since coordination started
	Told  time.Time `json:"as_of,omitzero"` // when the agent changed one of its objects of all kinds last
	Busy  bool      `json:"-"`              // it is up, and has refused the question because it has too much to do
}

// Up reports whether the agent is up, but has not answered.
func (a *Away) Up() bool { return a.State != wire.AgentStopped && a.State != wire.AgentUnreachable }

// AwayOf describes an agent of an answer to wire.AskKept.
func (c *Client) AwayOf(of *wire.KeptAgent) *Away {
	a := &Away{State: of.Status, Told: of.Told}
	if of.Age > 0 {
		a.Since = c.Clock.Now().Add(-of.Age).UTC().Truncate(time.Second)
	}
	return a
}

// String describes to users that the agent is away, or why it has not answered.
func (a *Away) String() string {
	since := a.Since.Local().Format(time.DateTime)
	switch {
	case a.Up() && a.Busy:
		return "agent is busy; as of " + a.Told.Local().Format(time.DateTime)
	case a.Up():
		return "agent does not answer; as of " + a.Told.Local().Format(time.DateTime)
	case a.Since.IsZero():
		return "agent away, and not heard of since coordination started"
	case a.State == wire.AgentStopped:
		return fmt.Sprintf("agent away since %s: it was stopped", since)
	}
	return "agent away since " + since
}

// Kept asks coordination for definitions that agents have told it. It calls fn for each agent of the answer, with the
// definitions that this user may see; for an agent with many definitions several times. A coordination that is busy is
// asked again: it answers one such question of a user at a time.
func (c *Client) Kept(ctx context.Context, ask wire.KeptAsked, fn func(of *wire.KeptAgent) error) error {
	for {
		ans, err := c.asker().whileBusy(ctx, wire.Ask{Kind: wire.AskKept, Body: wire.Marshal(ask)})
		if err != nil {
			return err
		}
		page, err := wire.ReadBody[wire.Kept](wire.AskKept, ans.Body)
		if err != nil {
			return err
		}
		for n := range page.Agents {
			if err := fn(&page.Agents[n]); err != nil {
				return err
			}
		}
		if ask.After = page.Next; len(ask.After) == 0 {
			return nil
		}
	}
}

// Silent reports whether an error says that an agent has not answered, so that coordination's copy of its definitions
// is all there is.
func Silent(err error) bool {
	kind := transfer.KindOf(err)
	return kind == transfer.KindTimeout || kind == transfer.KindUnreachable || kind == transfer.KindBusy
}
