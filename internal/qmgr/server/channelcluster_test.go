package server

import (
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
)

// A channel leads to all members of a cluster: messages pass, and commands are forwarded, with the agent at any member.
func TestAChannelToACluster(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	c := newTrio(t, a)
	for n := range c.up {
		cfg := c.config(n)
		if n == 0 {
			cfg.ChannelListen = "127.0.0.1:0"
		}
		s, err := Start(qmgrtest.Context(t), cfg)
		must(t, err)
		t.Cleanup(s.Shutdown)
		c.up[n] = s
	}
	c.whole(0, 1, 2)
	spoke := linked(t, a, "SPOKE", to(c.up[0]))
	running(t, spoke)
	alpha, beta := as(t, a, spoke, "ALPHA"), as(t, a, c.up[1], "BETA")
	for _, x := range []struct {
		from, to *qmgr.Conn
		reply    string
		data     string
	}{{alpha, beta, "ferry.reply.BETA.ALPHA", "ferry.data.BETA.ALPHA.x"}, {beta, alpha, "ferry.reply.ALPHA.BETA", "ferry.data.ALPHA.BETA.x"}} {
		replies, data := make(chan string, 1000), make(chan string, 1000)
		_, err := x.to.Subscribe(x.reply, func(m link.Message) { replies <- string(m.Data) })
		must(t, err)
		_, err = x.to.SubscribeData(x.data[:len("ferry.data.ALPHA")-len("ALPHA")+len(x.to.Self())]+".>", func(m link.Message) { data <- string(m.Data) })
		must(t, err)
		qmgrtest.Eventually(t, "a reply passes", func() bool { must(t, x.from.Publish(x.reply, []byte("x"))); return len(replies) > 0 })
		qmgrtest.Eventually(t, "data passes", func() bool { must(t, x.from.PublishData(x.data, []byte("x"))); return len(data) > 0 })
	}
	user := authoritytest.Identity(t, a, identity.User, "bob", roles.User)
	for _, x := range []struct {
		at  *Server
		to  *qmgr.Conn
		who string
	}{{spoke, beta, "BETA"}, {c.up[2], alpha, "ALPHA"}} {
		got, _ := consume(t, x.to, streams.Queue{Stream: streams.StreamCommand, Durable: "command-" + x.who, Filter: "ferry.command." + x.who + ".>"})
		bob := connect(t, qmgr.ConnConfig{URL: x.at.URL(), Identity: user, Asks: true, Timeout: time.Minute})
		enqueue(t, bob, "ferry.command."+x.who+".bob", "for "+x.who)
		if m := qmgrtest.Receive(t, "a command", got); m != "for "+x.who {
			t.Errorf("it is %q", m)
		}
	}
	store := qmgr.StoreOf(alpha, "ALPHA")
	qmgrtest.Eventually(t, "the store of BETA is the cluster's", func() bool { v, err := store.Outgoing(qmgrtest.Context(t), "BETA"); return err == nil && v.At == "X" })
}
