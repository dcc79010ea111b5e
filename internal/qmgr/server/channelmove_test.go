package server

import (
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/authority"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
)

// movedWithin is the time in which messages must find an agent that has moved, on a busy host.
const movedWithin = 10 * time.Second

// hears has messages on a subject counted.
func hears(t *testing.T, c *qmgr.Conn, subject string) chan string {
	t.Helper()
	got := make(chan string, 10000)
	_, err := c.Subscribe(subject, func(m link.Message) { got <- string(m.Data) })
	must(t, err)
	return got
}

// reaches publishes until a message comes, and returns the time that this needed.
func reaches(t *testing.T, from *qmgr.Conn, subject string, got chan string) time.Duration {
	t.Helper()
	for len(got) > 0 {
		<-got
	}
	began := time.Now()
	qmgrtest.Eventually(t, subject+" passes", func() bool {
		from.Publish(subject, []byte("x")) // which fails while the connection is down
		return len(got) > 0
	})
	return time.Since(began)
}

// An agent that moves to another queue manager hears and is heard there, and gets its stored commands there. A compressed
// channel behaves alike.
func TestAnAgentMovesBetweenQueueManagers(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	hub := linked(t, a, "HUB")
	packed := to(hub)
	packed.Compress = true
	one, two := linked(t, a, "ONE", packed), linked(t, a, "TWO", to(hub))
	running(t, one)
	running(t, two)
	alpha := as(t, a, hub, "ALPHA")
	answers := hears(t, alpha, "ferry.reply.ALPHA.*")
	i := authoritytest.Identity(t, a, identity.Agent, "BETA", roles.Agent)
	user := connect(t, qmgr.ConnConfig{URL: hub.URL(), Asks: true, Identity: authoritytest.Identity(t, a, identity.User, "bob", roles.User)})
	for n, at := range []*Server{one, two, hub, one} {
		beta := connect(t, qmgr.ConnConfig{URL: at.URL(), Identity: i})
		got := hears(t, beta, "ferry.reply.BETA.*")
		if took := reaches(t, alpha, "ferry.reply.BETA.ALPHA", got) + reaches(t, beta, "ferry.reply.ALPHA.BETA", answers); took > movedWithin {
			t.Errorf("at %s messages pass after %v", at.Name(), took)
		}
		stored, stop := consume(t, beta, streams.Commands("BETA"))
		enqueue(t, user, "ferry.command.BETA.bob", "x")
		qmgrtest.Receive(t, "a command at "+at.Name(), stored)
		stop()
		beta.Close()
		if n == 0 && hub.channels.Registry.Where("BETA") != "ONE" {
			t.Errorf("BETA is at %q", hub.channels.Registry.Where("BETA"))
		}
	}
}

// A Conn that reconnects to another queue manager names the one that it has left. That one neither hears nor speaks for it.
func TestAConnThatMovesLeaves(t *testing.T) {
	a := authoritytest.New(t)
	hub := linked(t, a, "HUB")
	one, two := linked(t, a, "ONE", to(hub)), linked(t, a, "TWO", to(hub))
	running(t, one)
	running(t, two)
	i := authoritytest.Identity(t, a, identity.Agent, "BETA", roles.Agent)
	beta := connect(t, qmgr.ConnConfig{URL: one.URL() + "," + two.URL(), Identity: i})
	first := transferToken(beta)
	behind := func(peer string) bool { return hub.channels.Registry.Behind(peer, "BETA") }
	qmgrtest.Eventually(t, "BETA is behind the channel to "+first, func() bool { return behind(first) })
	got, _ := consume(t, beta, streams.Commands("BETA"))
	command := func() { // a queue manager that ends while it makes streams leaves goroutines behind
		t.Helper()
		enqueue(t, beta, "ferry.command.BETA.BETA", "x")
		qmgrtest.Receive(t, "a command", got)
	}
	command()
	left, other := one, "TWO"
	if first == "TWO" {
		left, other = two, "ONE"
	}
	left.Shutdown()
	qmgrtest.Eventually(t, "BETA is behind the other channel alone", func() bool { return behind(other) && !behind(first) })
	command()
}

func transferToken(c *qmgr.Conn) string { return controlOf(c).ConnectedServerName() }

// A hub that is started again asks its peers for the registrations behind them.
func TestAHubIsStartedAgain(t *testing.T) {
	a := authoritytest.New(t)
	claims, err := a.Claims()
	must(t, err)
	cfg := Config{Name: "HUB", Dir: t.TempDir(), Listen: qmgrtest.FreePort(t), ChannelListen: qmgrtest.FreePort(t), Log: qmgrtest.Log(t),
		Guard: &Guard{Identity: authoritytest.Identity(t, a, identity.Manager, "HUB", roles.Manager), Claims: claims}}
	hub, err := Start(qmgrtest.Context(t), cfg)
	must(t, err)
	one, two := linked(t, a, "ONE", to(hub)), linked(t, a, "TWO", to(hub))
	running(t, one)
	running(t, two)
	alpha, beta := as(t, a, one, "ALPHA"), as(t, a, two, "BETA")
	got, answers := hears(t, beta, "ferry.reply.BETA.*"), hears(t, alpha, "ferry.reply.ALPHA.*")
	reaches(t, alpha, "ferry.reply.BETA.ALPHA", got)
	hub.Shutdown()
	hub, err = Start(qmgrtest.Context(t), cfg)
	must(t, err)
	t.Cleanup(hub.Shutdown)
	running(t, one)
	running(t, two)
	if took := reaches(t, alpha, "ferry.reply.BETA.ALPHA", got) + reaches(t, beta, "ferry.reply.ALPHA.BETA", answers); took > movedWithin {
		t.Errorf("messages pass %v after the channels are up", took)
	}
}

// Messages pass several queue managers in a row.
func TestChannelsInARow(t *testing.T) {
	a := authoritytest.New(t)
	top := linked(t, a, "TOP")
	middle := linked(t, a, "MIDDLE", to(top))
	low := linked(t, a, "LOW", to(middle))
	side := linked(t, a, "SIDE", to(top))
	for _, s := range []*Server{middle, low, side} {
		running(t, s)
	}
	conns := map[string]*qmgr.Conn{"ALPHA": as(t, a, top, "ALPHA"), "BETA": as(t, a, middle, "BETA"), "GAMMA": as(t, a, low, "GAMMA"), "DELTA": as(t, a, side, "DELTA")}
	got := map[string]chan string{}
	for name, c := range conns {
		got[name] = hears(t, c, "ferry.reply."+name+".*")
	}
	for from, c := range conns {
		for to := range conns {
			if from != to {
				reaches(t, c, "ferry.reply."+to+"."+from, got[to])
			}
		}
	}
}

// A pipe is where its user is: it hears its peer through a channel, and the peer hears it.
func TestAPipeBehindAChannel(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	hub := linked(t, a, "HUB")
	one := linked(t, a, "ONE", to(hub))
	running(t, one)
	alpha := as(t, a, hub, "ALPHA")
	bob, id := authoritytest.Identity(t, a, identity.User, "bob", roles.User), transfer.ID{6: 0x70, 8: 0x80, 15: 1}
	ticket, err := authority.Ticket(a, bob.Name(), authority.Pipe{Transfer: id, Peer: "ALPHA", Right: transfer.AuthDest})
	must(t, err)
	self := transfer.StreamAgentOf(bob.Name().String(), id).Token()
	pipe := connect(t, qmgr.ConnConfig{URL: one.URL(), Identity: bob, Self: self, Ticket: func() identity.JWTs { return ticket }})
	got, answers := hears(t, pipe, "ferry.reply."+self+".*"), hears(t, alpha, "ferry.reply.ALPHA.*")
	reaches(t, alpha, "ferry.reply."+self+".ALPHA", got)
	reaches(t, pipe, "ferry.reply.ALPHA."+self, answers)
	carol := authoritytest.Identity(t, a, identity.User, "carol", roles.Operator)
	commands, _ := consume(t, pipe, streams.Commands(transfer.AgentName(self)))
	enqueue(t, connect(t, qmgr.ConnConfig{URL: hub.URL(), Identity: carol}), "ferry.command."+self+".carol", "x")
	qmgrtest.Receive(t, "a command of another user", commands)
}
