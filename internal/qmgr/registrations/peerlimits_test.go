package registrations

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The gate of an honest queue manager has delayed the messages of each member. None of them is dropped behind a
// channel, also if those of a second have waited for the link.
func TestPacesOfSpeakers(t *testing.T) { synctest.Test(t, pacesOfSpeakers) }

func pacesOfSpeakers(t *testing.T) {
	at := New(Config{Log: slog.New(slog.DiscardHandler)})
	pipe := transfer.StreamAgentOf("bob", transfer.ID{15: 1})
	at.streams[pipe.StreamUser()] = "bob"
	p := NewPeerFilter(at, "TWO")
	id := "01900000-0000-7000-8000-000000000000"
	for _, x := range []struct {
		subject string
		honest  int // in a second
		other   string
	}{
		{"ferry.reply.BETA.DELTA", 2_000, "ferry.reply.BETA.GAMMA"},
		{"ferry.ask.BETA.bob", 2_000, "ferry.ask.BETA.alice"},
		{"ferry.beat.EPSILON", 20_000, "ferry.beat.GAMMA"},
		{"ferry.progress.ZETA.bob", 20_000, "ferry.progress.GAMMA.bob"},
		{"ferry.inbox.BETA.ETA." + qmgrtest.Secret + ".1", 20_000, "ferry.inbox.BETA.GAMMA." + qmgrtest.Secret + ".1"},
		{"ferry.inbox.BETA.store-TWO." + qmgrtest.Secret + ".1", 20_000, "ferry.inbox.BETA.store-THREE." + qmgrtest.Secret + ".1"},
		{"ferry.manager.TWO", 20_000, "ferry.manager.THREE"},
		{"ferry.forward.ONE.TWO", 20_000, "ferry.forward.ONE.THREE"},
		{"ferry.trust", 20_000, "ferry.rules"},
		{"ferry.data.BETA.DELTA." + id, 500_000, ""},
		{"ferry.place.DELTA", 500_000, ""},
		{"ferry.reply.BETA.coordination", 500_000, ""},
	} {
		says := func(subject string, n int) (passed int) {
			for range n {
				if p.Admits(subject, 200) {
					passed++
				}
			}
			return passed
		}
		for range 20 {
			if n := says(x.subject, x.honest); n < x.honest {
				t.Errorf("of %d messages on %s in a second %d pass", x.honest, x.subject, n)
			}
			//house:sleep because it runs in a bubble
			time.Sleep(time.Second)
		}
		if x.other == "" {
			continue
		}
		if n := says(x.subject, 20*x.honest); n > 8*x.honest || n < 2*x.honest {
			t.Errorf("of %d messages at once on %s %d pass", 20*x.honest, x.subject, n)
		}
		if n := says(x.other, x.honest); n < x.honest {
			t.Errorf("behind them %d of %d messages on %s pass", n, x.honest, x.other)
		}
	}
	if who := p.speaker(wire.ReplySubject("BETA", pipe)); who != "bob" {
		t.Errorf("the messages of a pipe of bob are charged to %q", who)
	}
}
