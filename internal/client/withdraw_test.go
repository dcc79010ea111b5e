package client_test

import (
	"context"
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

// The client reports a withdrawal only for a request that was never delivered to its agent. It does not for a delivered
// request if the agent has gone without an answer: the request may have run.
func TestWhatIsSaidToBeWithdrawnNeverRan(t *testing.T) {
	for _, c := range []struct {
		name      string
		before    int  // requests that the agent reads before, and goes
		takes     bool // the agent comes, accepts the request and goes
		withdrawn bool
	}{
		{name: "an agent that was never there", withdrawn: true},
		{name: "an agent that went before", before: 2, withdrawn: true},
		{name: "an agent that took it and went", takes: true},
		{name: "an agent that came back, took it and went", before: 2, takes: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			connect := network(ctx, t)
			agent := connect("agent")
			conn := connect("submitter")
			take := func(n int) {
				reading, stop := context.WithCancel(ctx)
				defer stop()
				agent.Consume(reading, streams.Commands("ALPHA"), func(d qmgr.Delivery) {
					d.Ack()
					if n--; n == 0 {
						stop()
					}
				})
			}
			if c.before > 0 {
				for range c.before {
					if err := conn.Enqueue(ctx, wire.CommandSubject("ALPHA", "other"), "", []byte("x")); err != nil {
						t.Fatal(err)
					}
				}
				take(c.before)
				// The age of the agent's reader is compared with that of the request, less the time of the answer.
				until(t, "the reader is much older than the request will be", func() bool {
					at, err := conn.ReaderPosition(ctx, streams.Commands("ALPHA"))
					return err == nil && at.Age > 2*time.Second
				})
			}
			taken := make(chan struct{})
			go func() {
				defer close(taken)
				if c.takes {
					take(1)
				}
			}()
			s := &client.Client{Conn: conn, Clock: clock.System, Who: transfer.Originator{User: "user", Host: "host"}}
			submit := func() (withdrawn bool, err error) {
				q := &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA",
					Items: transfer.ItemsOf("a"), Dest: transfer.File("b"), Recovery: transfer.Duration(time.Second)}
				_, err = s.SubmitInTime(ctx, q, nil)
				return transfer.KindOf(err) == transfer.KindRecovery && strings.Contains(err.Error(), "it is withdrawn"), err
			}
			if c.withdrawn {
				until(t, "a request is withdrawn", func() bool { // of a slow queue manager the client does not learn it
					withdrawn, err := submit()
					if !withdrawn {
						t.Log(err)
					}
					return withdrawn
				})
				return
			}
			withdrawn, err := submit()
			<-taken
			if withdrawn || transfer.KindOf(err) != transfer.KindRecovery {
				t.Errorf("%v", err)
			}
		})
	}
}
