package client_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A cancel drops the dead letter of the transfer's author, and not the letter of another member about the same ID.
func TestCancelLeavesLettersOfStrangers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	connect := network(ctx, t)
	agent, coordination, conn := connect("ALPHA"), connect(wire.Coordination), connect("ann")
	q := transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA", Items: transfer.ItemsOf("a"), Dest: transfer.File("b")}
	if _, err := coordination.Subscribe(wire.AllAsks(wire.Coordination), func(m qmgr.Message) {
		if m.Reply != "" {
			coordination.Answer(wire.LastToken(m.Subject), m.Reply, wire.Marshal(wire.Answer{V: wire.Version,
				Transfers: []transfer.Progress{{ID: q.ID, Source: q.Source, Destination: q.Destination, Principal: "ann", State: transfer.Queued}}}))
		}
	}); err != nil {
		t.Fatal(err)
	}
	for _, from := range []string{"mallory", "ann"} {
		if err := conn.Enqueue(ctx, wire.CommandSubject("ALPHA", from), "", wire.Marshal(wire.Submit{V: wire.Version, Request: q})); err != nil {
			t.Fatal(err)
		}
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	buried := 0
	agent.Consume(reading, streams.Commands("ALPHA"), func(d qmgr.Delivery) {
		if err := d.Bury(ctx, errors.New("the agent was removed"), q.ID); err != nil {
			t.Error(err)
		}
		d.Term()
		if buried++; buried == 2 {
			stop()
		}
	})

	net := &client.Client{Conn: conn, Clock: clock.System, Who: transfer.Originator{User: "ann", Host: "box"}}
	until(t, "coordination answers", func() bool { return len(net.StatesOf(ctx, "ALPHA", []transfer.ID{q.ID})) == 1 })
	left := func() (from []string) {
		t.Helper()
		if err := client.EachDeadLetter(ctx, net, "ALPHA", func(d *wire.DeadLetter) { from = append(from, d.From) }); err != nil {
			t.Fatal(err)
		}
		return from
	}
	if all := left(); len(all) != 2 {
		t.Fatalf("there are letters of %v", all)
	}
	waits, end := context.WithTimeout(ctx, time.Minute) // with a letter of ann left it would wait for the agent
	defer end()
	if p, err := net.Cancel(waits, client.Of(&q)); err != nil { // of a slow queue manager that does not store the cancel in time
		t.Logf("the transfer is %+v, %v", p, err)
	}
	if all := left(); len(all) != 1 || all[0] != "mallory" {
		t.Errorf("letters of %v are left", all)
	}
}

// A cancel for an agent that was stopped ends as soon as it is stored. For other agents it is repeated until they answer.
func TestCancelForAStoppedAgentEndsSoon(t *testing.T) {
	for name, c := range map[string]struct {
		agent wire.AgentStatus
		ends  bool
	}{
		"stopped":                  {wire.AgentStatus{Beat: wire.Beat{Agent: "ALPHA"}, Status: wire.AgentStopped, Age: time.Hour}, true},
		"stopped beside a standby": {wire.AgentStatus{Beat: wire.Beat{Agent: "ALPHA"}, Status: wire.AgentStopped, Standbys: []wire.Standby{{Agent: "ALPHA"}}}, false},
		"not heard":                {wire.AgentStatus{Beat: wire.Beat{Agent: "ALPHA"}, Status: wire.AgentUnreachable, Age: time.Hour}, false},
		"another one is stopped":   {wire.AgentStatus{Beat: wire.Beat{Agent: "BETA"}, Status: wire.AgentStopped}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			late := errors.New("the test has waited for a minute")
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, late)
			defer cancel()
			connect := network(ctx, t)
			agent, coordination := connect("ALPHA"), connect(wire.Coordination)
			if _, err := coordination.Subscribe(wire.AllAsks(wire.Coordination), func(m qmgr.Message) {
				coordination.Answer(wire.LastToken(m.Subject), m.Reply, wire.Marshal(wire.Answer{V: wire.Version, Agents: []wire.AgentStatus{c.agent}}))
			}); err != nil {
				t.Fatal(err)
			}
			net := &client.Client{Conn: connect("ann"), Clock: clock.System, Who: transfer.Originator{User: "ann", Host: "box"}}
			until(t, "coordination answers", func() bool { _, err := net.Agent(ctx, "ALPHA"); return err == nil })

			first := make(chan struct{}, 1)
			if !c.ends {
				go agent.Consume(ctx, streams.Controls("ALPHA"), func(d qmgr.Delivery) {
					if got, err := wire.DecodeControl(d.Data); err == nil {
						select {
						case first <- struct{}{}:
						default:
							agent.Publish(got.Reply, wire.Marshal(wire.Answer{V: wire.Version, ID: got.ID}))
						}
					}
					d.Ack()
				})
			}
			p, err := net.Cancel(ctx, client.Transfer{Source: "ALPHA", ID: transfer.NewID(time.Now())})
			if !c.ends {
				if err != nil || p.State != transfer.Cancelled {
					t.Errorf("the agent has answered the second copy: %+v, %v", p, err)
				}
				return
			}
			if client.HandoverOf(err) != client.Stored || transfer.KindOf(err) != transfer.KindTimeout ||
				!strings.Contains(err.Error(), "agent ALPHA has not answered; it gets the command when it is there: it was stopped at 20") {
				t.Errorf("%v", err)
			}
		})
	}
}
