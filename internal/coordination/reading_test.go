package coordination

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/coordination/status"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/server"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// One asker leaves a place for the long questions of others.
func TestLongQuestionsOfOneAsker(t *testing.T) {
	r := newSlowQuestions(readers - 1)
	for range 3 {
		if err := r.enter("eve"); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.enter("eve"); transfer.KindOf(err) != transfer.KindBusy {
		t.Errorf("eve takes the last place: %v", err)
	}
	if err := r.enter("bob"); err != nil {
		t.Errorf("bob is refused: %v", err)
	}
	r.leave("eve")
	r.leave("bob")
	if err := r.enter("eve"); err != nil || r.all != 3 || len(r.of) != 1 {
		t.Errorf("after two answers: %v, %+v", err, r.of)
	}
}

// An asker has one question about definitions at a time, and these keep neither the questions of agents about earlier
// runs waiting nor those that read the log.
func TestPlacesOfKinds(t *testing.T) {
	places := newPlaces()
	kept, ran := places[wire.AskKept], places[wire.AskRan]
	for n := range readers {
		asker := fmt.Sprint("user", n)
		if err := kept.enter(asker); err != nil {
			t.Fatal(err)
		}
		if err := kept.enter(asker); transfer.KindOf(err) != transfer.KindBusy {
			t.Errorf("%s has two questions at once: %v", asker, err)
		}
	}
	if err := kept.enter("bob"); transfer.KindOf(err) != transfer.KindBusy {
		t.Errorf("any number of questions are answered at once: %v", err)
	}
	if err := ran.enter("user0"); err != nil {
		t.Errorf("an agent waits: %v", err)
	}
	if places[wire.AskAudit] != nil {
		t.Error("questions that read the log have two bounds")
	}
}

// The questions that come in take the places of their kinds.
func TestQuestionsTakePlacesOfTheirKinds(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	quietLog := slog.New(slog.DiscardHandler)
	server, err := server.Start(ctx, server.Config{Dir: t.TempDir(), Log: quietLog})
	check(t, err)
	t.Cleanup(server.Shutdown)
	connect := func(name string) *qmgr.Conn {
		conn, err := qmgr.Connect(ctx, qmgr.ConnConfig{Server: server, Name: name, Self: name, Log: quietLog})
		check(t, err)
		t.Cleanup(conn.Close)
		return conn
	}
	log, err := audit.OpenLog(t.TempDir(), time.Now)
	check(t, err)
	t.Cleanup(func() { log.Close() })
	s := &Service{cfg: Config{Clock: clock.System, Log: quietLog}, conn: connect(wire.Coordination), log: log, picture: status.New(clock.System),
		definitions: openedDefinitions(t, t.TempDir()), reading: newSlowQuestions(readers - 1), places: newPlaces(), quiet: quiet.New(quietLog, time.Now)}
	stop, err := s.conn.Subscribe(wire.AllAsks(wire.Coordination), s.asked)
	check(t, err)
	t.Cleanup(stop)
	for n := range readers {
		check(t, s.reading.enter(fmt.Sprint("user", n)))
	}
	check(t, s.places[wire.AskKept].enter("bob"))
	pipe := func(n byte) string { return string(transfer.StreamAgentOf("ferry://n/user/eve", transfer.ID{15: n})) }
	check(t, s.places[wire.AskKept].enter(askerOf(pipe(1))))

	for _, c := range []struct {
		asker string
		ask   wire.Ask
		want  transfer.Kind
	}{
		{"ann", wire.Ask{Kind: wire.AskAudit}, transfer.KindBusy},
		{"ann", wire.Ask{Kind: wire.AskKept, Body: wire.Marshal(wire.KeptAsked{Noun: "monitor"})}, transfer.KindNone},
		{"bob", wire.Ask{Kind: wire.AskKept, Body: wire.Marshal(wire.KeptAsked{Noun: "monitor"})}, transfer.KindBusy},
		{pipe(2), wire.Ask{Kind: wire.AskKept, Body: wire.Marshal(wire.KeptAsked{Noun: "monitor"})}, transfer.KindBusy},
		{"ALPHA", wire.Ask{Kind: wire.AskRan, Body: wire.Marshal(wire.RanAsked{Transfer: transfer.NewID(time.Now())})}, transfer.KindNone},
	} {
		c.ask.V = wire.Version
		data, err := connect(c.asker).Request(ctx, wire.AskSubject(wire.Coordination, c.asker), wire.Marshal(c.ask), time.Minute)
		check(t, err)
		if _, err := wire.DecodeAnswer(data); transfer.KindOf(err) != c.want {
			t.Errorf("%s of %s: %v", c.ask.Kind, c.asker, err)
		}
	}
}
