package client_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/streams"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The outcome of a transfer is its source's answer to a question. Reports that are published on its subject do not
// count, nor do answers about another transfer, about another request, or by another agent.
func TestOnlyTheSourcesAnswerIsTheOutcome(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	connect := network(ctx, t)
	stranger, source := connect("stranger"), connect("ALPHA")
	s := &client.Client{Conn: connect("submitter"), Clock: clock.System, Who: transfer.Originator{User: "user", Host: "host"}}
	q := &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA", Items: transfer.ItemsOf("a"), Dest: transfer.File("b")}
	other := *q
	other.Dest = transfer.File("elsewhere")
	picture := func(mod func(*transfer.Progress)) *transfer.Progress {
		p := &transfer.Progress{ID: q.ID, Source: "ALPHA", Destination: "BETA", Request: q.Hash(), State: transfer.Successful}
		mod(p)
		return p
	}
	wrong := []*transfer.Progress{
		picture(func(p *transfer.Progress) { p.ID = transfer.NewID(time.Now()) }),
		picture(func(p *transfer.Progress) { p.Source = "MALLORY" }),
		picture(func(p *transfer.Progress) { p.Request = other.Hash() }),
		picture(func(p *transfer.Progress) { p.Request = "" }),
	}
	// The source's answers: all that is wrong first, then that it runs, then the end.
	var asked, answered atomic.Int64
	var over atomic.Bool
	if _, err := source.Subscribe(wire.AllAsks("ALPHA"), func(m qmgr.Message) {
		n := int(asked.Add(1)) - 1
		a := wire.Answer{V: wire.Version, ID: q.ID, Progress: picture(func(p *transfer.Progress) { p.State = transfer.Failed })}
		switch {
		case n < len(wrong):
			a.Progress = wrong[n]
		case n == len(wrong):
			a.ID = transfer.NewID(time.Now())
		case !over.Load():
			a.Progress.State = transfer.Running
		}
		source.Answer(wire.LastToken(m.Subject), m.Reply, wire.Marshal(a))
		answered.Add(1)
	}); err != nil {
		t.Fatal(err)
	}
	type outcome struct {
		p   *transfer.Progress
		err error
	}
	done := make(chan outcome, 1)
	go func() {
		p, err := s.Watch(ctx, client.Of(q), nil, nil)
		done <- outcome{p, err}
	}()
	publish := func() {
		for _, p := range append(wrong, picture(func(*transfer.Progress) {})) {
			if err := stranger.Publish(wire.ProgressSubject("ALPHA", "x"), wire.Marshal(wire.Report{V: wire.Version, Kind: wire.ProgressKind, Progress: p})); err != nil {
				t.Error(err)
			}
		}
	}
	until(t, "the source is asked whether it is true", func() bool {
		publish()
		return answered.Load() > int64(len(wrong)+3)
	})
	select {
	case o := <-done:
		t.Fatalf("a stranger's word is the outcome: %+v, %v", o.p, o.err)
	default:
	}
	over.Store(true)
	until(t, "the source's own word is taken", func() bool {
		publish()
		select {
		case o := <-done:
			if o.err != nil || o.p.State != transfer.Failed {
				t.Errorf("the outcome is %+v, %v", o.p, o.err)
			}
			return true
		default:
			return false
		}
	})
}

// A receipt is for the request that was submitted, or is none.
func TestOnlyItsOwnReceiptIsTaken(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	conn := network(ctx, t)("ALPHA")
	s := &client.Client{Conn: conn, Clock: clock.System, Who: transfer.Originator{User: "user", Host: "host"}}
	q := &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA", Items: transfer.ItemsOf("a"), Dest: transfer.File("b")}
	go conn.Consume(ctx, streams.Queue{Stream: streams.StreamCommand, Durable: "command-ALPHA", Filter: wire.AllCommands("ALPHA")}, func(d qmgr.Delivery) {
		m, err := wire.DecodeSubmit(d.Data)
		if err != nil {
			t.Error(err)
			return
		}
		good := wire.Answer{V: wire.Version, ID: q.ID, Progress: &transfer.Progress{ID: q.ID, Source: "ALPHA", Destination: "BETA", Request: q.Hash(), State: transfer.Accepted, Queueing: transfer.Queueing{Place: 7}}}
		refusal := wire.Answer{V: wire.Version, Error: transfer.Errorf(transfer.KindUsage, "no")}
		another := good
		another.Progress = &transfer.Progress{ID: q.ID, Source: "ALPHA", Destination: "BETA", Request: "0", State: transfer.Successful}
		empty := wire.Answer{V: wire.Version, ID: q.ID}
		for _, a := range []wire.Answer{refusal, another, empty, good} {
			conn.Answer(conn.Self(), m.Reply, wire.Marshal(a))
		}
		d.Ack()
	})
	p, err := s.Submit(ctx, q, nil)
	if err != nil || p == nil || p.Place != 7 {
		t.Errorf("the receipt is %+v, %v", p, err)
	}
}
