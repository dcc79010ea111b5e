package client_test

import (
	"context"
	"testing"
	"time"

	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// An answer after half a second comes over a slow link. A request that is stored and not yet receipted is asked for
// every 15 s, and it is stored again after 32 s. If answers come at once it is stored again after 15 s.
func TestARequestIsRarelyRepeatedOverASlowLine(t *testing.T) {
	for _, c := range []struct {
		name          string
		took          time.Duration // an answer
		asked, stored int           // in 30 s
	}{
		{"a slow line", 500 * time.Millisecond, 2, 1},
		{"a fast line", time.Millisecond, 8, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			connect := network(ctx, t)
			agent := connect("ALPHA")
			began := time.Now()
			clk := &toldClock{now: began, resets: make(chan time.Duration, 16), rings: make(chan time.Time)}
			asked := make(chan struct{}, 100)
			if _, err := agent.Subscribe(wire.AllAsks("ALPHA"), func(m qmgr.Message) {
				clk.pass(c.took)
				ask, _ := wire.DecodeAsk(m.Data)
				asked <- struct{}{}
				agent.Answer(wire.LastToken(m.Subject), m.Reply, wire.Marshal(wire.Answer{V: wire.Version, ID: ask.ID,
					Error: transfer.Errorf(transfer.KindNotFound, "no such transfer")}))
			}); err != nil {
				t.Fatal(err)
			}
			stored, last := make(chan struct{}, 100), make(chan struct{})
			if _, err := agent.Subscribe(wire.AllCommands("ALPHA"), func(m qmgr.Message) {
				if string(m.Data) == "last" {
					close(last)
				} else {
					stored <- struct{}{}
				}
			}); err != nil {
				t.Fatal(err)
			}
			submitter := connect("submitter")
			s := &client.Client{Conn: submitter, Clock: clk, Who: transfer.Originator{User: "user", Host: "host"}}
			q := &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(began), Source: "ALPHA", Destination: "BETA", Items: transfer.ItemsOf("a"), Dest: transfer.File("b")}
			end := make(chan error, 1)
			ctx, stop := context.WithCancel(ctx)
			go func() {
				_, err := s.Submit(ctx, q, nil)
				end <- err
			}()
			for clk.Now().Sub(began) < 30*time.Second {
				select {
				case d := <-clk.resets:
					clk.pass(d)
				case err := <-end:
					t.Fatalf("the submission has ended: %v", err)
				}
				if clk.Now().Sub(began) < 30*time.Second {
					clk.rings <- clk.Now()
				}
			}
			stop()
			<-end
			if err := submitter.Enqueue(t.Context(), wire.CommandSubject("ALPHA", submitter.Self()), "last", []byte("last")); err != nil {
				t.Fatal(err)
			}
			select { // all that was stored has come
			case <-last:
			case <-time.After(90 * time.Second):
				t.Fatal("the agent has not heard the last command")
			}
			if len(asked) > c.asked || len(stored) != c.stored {
				t.Errorf("in 30 s the agent was asked %d times, and the request was stored %d times; %d and %d are right", len(asked), len(stored), c.asked, c.stored)
			}
		})
	}
}
