package attacks

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/channel"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/server"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/wire"
)

// TestAHostileQueueManager attacks through a channel. The hostile queue manager receives only messages for its own
// agents, and can send only in their names. Its operator has its identity, and with that all rights at the queue
// manager itself: its leafnode asks for any subject, and publishes on any.
func TestAHostileQueueManager(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	n := &network{Authority: authoritytest.New(t), t: t, ctx: ctx}
	start := func(name string, to ...channel.Channel) (*server.Server, *identity.Identity) {
		claims, err := n.Claims()
		must(t, err)
		i := n.identity(identity.Manager, name, roles.Manager)
		s, err := server.Start(n.ctx, server.Config{Name: name, Dir: t.TempDir(), Listen: "127.0.0.1:0", ChannelListen: "127.0.0.1:0", Channels: to,
			Guard: &server.Guard{Identity: i, Claims: claims}})
		must(t, err)
		t.Cleanup(s.Shutdown)
		return s, i
	}
	hub, _ := start("HUB")
	hostile, hostileID := start("MALLORY", channel.Channel{Name: "HUB", URL: "nats://" + hub.Channels().Addr()})
	at := func(s *server.Server, i *identity.Identity) *qmgr.Conn {
		t.Helper()
		c, err := qmgr.Connect(n.ctx, qmgr.ConnConfig{URL: s.URL(), Identity: i, Timeout: 30 * time.Second})
		must(t, err)
		t.Cleanup(c.Close)
		return c
	}
	mallory, eve := at(hostile, hostileID), at(hostile, n.identity(identity.Agent, "EVE", roles.Agent))
	alpha, beta := at(hub, n.identity(identity.Agent, "ALPHA", roles.Agent)), at(hub, n.identity(identity.Agent, "BETA", roles.Agent))
	bob := at(hub, n.identity(identity.User, "bob", roles.User))
	authority := at(hub, n.identity(identity.Authority, "", roles.Authority))

	subscribe := func(heard chan string, c *qmgr.Conn, subjects ...string) {
		t.Helper()
		take := func(m qmgr.Message) {
			if strings.HasPrefix(string(m.Data), "secret") || strings.HasPrefix(string(m.Data), "forged") || strings.HasPrefix(string(m.Data), "last") {
				heard <- m.Subject + " " + string(m.Data)
			}
		}
		for _, s := range subjects {
			var err error
			if strings.HasPrefix(s, "ferry.data.") {
				_, err = c.SubscribeData(s, take)
			} else {
				_, err = c.Subscribe(s, take)
			}
			must(t, err)
		}
	}
	// until repeats a message until it has arrived, and fails for each other message.
	until := func(heard chan string, publish func() error, want string) {
		t.Helper()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			publish()
			select {
			case got := <-heard:
				if got == want {
					return
				}
				if !strings.HasSuffix(got, " last") {
					t.Errorf("passed is %q", got)
				}
			case <-tick.C:
			case <-n.ctx.Done():
				t.Fatalf("%q has not come", want)
			}
		}
	}

	heard := make(chan string, 10000)
	subscribe(heard, mallory, "ferry.data.>", "ferry.data.BETA.>", "ferry.data.BETA.ALPHA.>", "ferry.reply.*.*", "ferry.reply.BETA.*", "ferry.reply.BETA.ALPHA", "ferry.inbox.ALPHA.>", "ferry.inbox.bob.>",
		"ferry.progress.>", "ferry.progress.*.bob", "ferry.ask.BETA.*", "ferry.ask.*.*", "ferry.reply.EVE.*", "ferry.ask.EVE.*", "ferry.data.EVE.>")
	toEve := func() { // after all messages of each of them
		for subject, c := range map[string]*qmgr.Conn{"ferry.reply.EVE.ALPHA": alpha, "ferry.reply.EVE.BETA": beta, "ferry.ask.EVE.bob": bob} {
			until(heard, func() error { return c.Publish(subject, []byte("last")) }, subject+" last")
		}
	}
	toEve()
	for subject, c := range map[string]*qmgr.Conn{"ferry.reply.BETA.ALPHA": alpha, "ferry.inbox.ALPHA.BETA.x": beta, "ferry.progress.BETA.bob": beta, "ferry.ask.BETA.bob": bob, "ferry.inbox.bob.BETA.x": beta} {
		must(t, c.Publish(subject, []byte("secret")))
	}
	must(t, alpha.PublishData("ferry.data.BETA.ALPHA.x", []byte("secret")))
	until(heard, func() error { return alpha.PublishData("ferry.data.EVE.ALPHA.x", []byte("last")) }, "ferry.data.EVE.ALPHA.x last")
	toEve()

	heard = make(chan string, 10000)
	subscribe(heard, alpha, "ferry.reply.ALPHA.*", "ferry.inbox.ALPHA.>", "ferry.beat.*")
	subscribe(heard, beta, "ferry.reply.BETA.*", "ferry.ask.BETA.*", "ferry.data.BETA.>")
	subscribe(heard, bob, "ferry.inbox.bob.>", "ferry.progress.*.bob")
	subscribe(heard, authority, "ferry.ask.authority.*", "ferry.manager.*")
	for _, subject := range []string{"ferry.ask.authority.root", "ferry.ask.BETA.ALPHA", "ferry.reply.BETA.ALPHA", "ferry.inbox.bob.BETA.x", "ferry.inbox.ALPHA.coordination.x.1", "ferry.beat.ALPHA", "ferry.progress.ALPHA.bob",
		"ferry.command.BETA.root", "ferry.control.BETA.root", "ferry.event.ALPHA", "ferry.manager.HUB", "ferry.owner.ALPHA"} {
		must(t, mallory.Publish(subject, []byte("forged")))
	}
	must(t, mallory.PublishData("ferry.data.BETA.ALPHA.x", []byte("forged")))
	until(heard, func() error { return mallory.PublishData("ferry.data.BETA.EVE.x", []byte("last")) }, "ferry.data.BETA.EVE.x last")
	until(heard, func() error { return eve.Publish("ferry.reply.BETA.EVE", []byte("last")) }, "ferry.reply.BETA.EVE last")

	// A request that it forwards in another's name is not stored, because it has no proof.
	batch, err := json.Marshal(map[string]any{"v": 1, "messages": []map[string]any{{"subject": "ferry.command.BETA.bob", "data": []byte("forged")}, {"subject": "ferry.control.BETA.root", "data": []byte("forged")}}})
	must(t, err)
	for _, from := range []string{"MALLORY", "HUB", "OTHER"} {
		must(t, mallory.Publish(wire.ForwardSubject("HUB", from), batch))
	}
	must(t, bob.Enqueue(n.ctx, wire.CommandSubject("BETA", bob.Self()), "", []byte("the only one")))
	got := make(chan string, 10)
	go beta.Consume(n.ctx, streams.Commands("BETA"), func(d qmgr.Delivery) { got <- fmt.Sprint(d.Subject, " ", string(d.Data)); d.Ack() })
	select {
	case first := <-got:
		if first != "ferry.command.BETA.bob the only one" {
			t.Errorf("BETA gets %q", first)
		}
	case <-n.ctx.Done():
		t.Fatal("BETA gets nothing")
	}
	var refused uint64
	for _, c := range hub.Channels().List() {
		refused += c.Refused
	}
	if refused < 5 {
		t.Errorf("%d messages were refused", refused)
	}
}
