package attacks

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// TestQueuesOfThoseWithAnIdentity expects agents, users and coordination to do all their work at a queue manager
// without a right to JetStream's own interface.
func TestQueuesOfThoseWithAnIdentity(t *testing.T) {
	n := newNetwork(t)
	alpha, err := n.connect(n.identity(identity.Agent, "ALPHA", roles.Agent))
	must(t, err)
	bob, err := n.connect(n.identity(identity.User, "bob", roles.User))
	must(t, err)
	coordination, err := n.connect(n.identity(identity.Coordination, "", roles.Coordination))
	must(t, err)

	commands := streams.Commands("ALPHA")
	if _, err := bob.ReaderPosition(n.ctx, commands); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("before anybody has read: %v", err)
	}
	must(t, bob.Enqueue(n.ctx, wire.CommandSubject("ALPHA", bob.Self()), "", []byte("one")))
	must(t, alpha.Enqueue(n.ctx, wire.EventSubject("ALPHA"), "", []byte("event")))
	must(t, bob.Enqueue(n.ctx, wire.CommandSubject("NOBODY", bob.Self()), "", []byte("x")))

	got := make(chan string, 4)
	read := func(c *qmgr.Conn, q streams.Queue) {
		go c.Consume(n.ctx, q, func(d qmgr.Delivery) {
			got <- d.Subject
			d.Ack()
		})
	}
	read(alpha, commands)
	read(coordination, streams.Events())
	var heard []string
	for range 2 {
		select {
		case s := <-got:
			heard = append(heard, s)
		case <-n.ctx.Done():
			t.Fatalf("heard are %q alone", heard)
		}
	}
	slices.Sort(heard)
	if !slices.Equal(heard, []string{"ferry.command.ALPHA.bob", "ferry.event.ALPHA"}) {
		t.Errorf("heard are %q", heard)
	}
	if s, err := bob.ReaderPosition(n.ctx, commands); err != nil || s.Handed != 1 {
		t.Errorf("the reader of the commands stands at %+v, %v", s, err)
	}

	if _, revision, err := alpha.Owner(n.ctx, "ALPHA"); err != nil || revision != 0 {
		t.Errorf("nobody's name is owned at revision %d, %v", revision, err)
	}
	first, err := alpha.SetOwner(n.ctx, "ALPHA", []byte("me"), 0)
	must(t, err)
	if data, revision, err := alpha.Owner(n.ctx, "ALPHA"); err != nil || string(data) != "me" || revision != first {
		t.Errorf("the owner is %q at %d, %v", data, revision, err)
	}
	if _, err := alpha.SetOwner(n.ctx, "ALPHA", []byte("again"), 0); transfer.KindOf(err) != transfer.KindConflict {
		t.Errorf("an owner that was not seen is replaced: %v", err)
	}

	if gone, err := coordination.Relieve(n.ctx, func(string) bool { return false }); gone != 0 || err != nil {
		t.Errorf("with room enough %d commands are removed, %v", gone, err)
	}
	must(t, alpha.Forget(n.ctx, "ALPHA", commands, streams.Controls("ALPHA")))
	if _, revision, err := alpha.Owner(n.ctx, "ALPHA"); err != nil || revision != 0 {
		t.Errorf("a forgotten name is owned at revision %d, %v", revision, err)
	}
	// Its reader runs, and creates the durable again as soon as it misses it.
	if _, err := bob.ReaderPosition(n.ctx, commands); err != nil && transfer.KindOf(err) != transfer.KindNotFound {
		t.Error(err)
	}
}

// TestErrandsOfOthers asks the queue manager for errands on queues of others. It refuses them.
func TestErrandsOfOthers(t *testing.T) {
	n := newNetwork(t)
	who := map[string]*qmgr.Conn{}
	for name, i := range map[string]*identity.Identity{
		"agent": n.identity(identity.Agent, "ALPHA", roles.Agent), "user": n.identity(identity.User, "bob", roles.User),
		"operator": n.identity(identity.User, "ann", roles.Operator), "coordination": n.identity(identity.Coordination, "", roles.Coordination),
	} {
		c, err := n.connect(i)
		must(t, err)
		who[name] = c
	}
	long := strings.Repeat("A", 200<<10)
	for _, x := range []struct {
		who, errand string
		want        transfer.Kind
	}{
		{"agent", `{"v":1,"op":"ensure"}`, transfer.KindNone},
		{"agent", `{"v":1,"op":"durable","durable":"command-ALPHA"}`, transfer.KindNone},
		{"agent", `{"v":1,"op":"durable","durable":"control-ALPHA","idle":1}`, transfer.KindNone},
		{"agent", `{"v":1,"op":"durable","durable":"command-BETA"}`, transfer.KindDenied},
		{"agent", `{"v":1,"op":"durable","durable":"coordination"}`, transfer.KindDenied},
		{"agent", `{"v":1,"op":"durable","durable":"store-ALPHA"}`, transfer.KindDenied},
		{"agent", `{"v":1,"op":"durable"}`, transfer.KindDenied},
		{"agent", `{"v":1,"op":"standing","durable":"command-BETA"}`, transfer.KindNotFound},
		{"agent", `{"v":1,"op":"standing","durable":"coordination"}`, transfer.KindDenied},
		{"agent", `{"v":1,"op":"standing","durable":"command-*"}`, transfer.KindUsage},
		{"agent", `{"v":1,"op":"standing","durable":"command-A.B"}`, transfer.KindUsage},
		{"agent", `{"v":1,"op":"standing","durable":"command-beta"}`, transfer.KindUsage},
		{"agent", `{"v":1,"op":"strangers"}`, transfer.KindDenied},
		{"agent", `{"v":1,"op":"purge","tokens":["BETA"]}`, transfer.KindDenied},
		{"agent", `{"v":1,"op":"set-owner"}`, transfer.KindUsage},
		{"agent", `{"v":1,"op":"stream-delete"}`, transfer.KindDenied},
		{"agent", `{"v":2,"op":"ensure"}`, transfer.KindVersion},
		{"agent", `{"v":1,"op":"ensure","tokens":["` + long + `"]}`, transfer.KindTooLarge},
		{"agent", `{`, transfer.KindVersion},
		{"user", `{"v":1,"op":"ensure"}`, transfer.KindNone},
		{"user", `{"v":1,"op":"standing","durable":"command-BETA"}`, transfer.KindNotFound},
		{"user", `{"v":1,"op":"durable","durable":"command-bob"}`, transfer.KindDenied},
		{"user", `{"v":1,"op":"durable","durable":"command-BOB"}`, transfer.KindDenied},
		{"user", `{"v":1,"op":"forget"}`, transfer.KindDenied},
		{"user", `{"v":1,"op":"owner"}`, transfer.KindDenied},
		{"operator", `{"v":1,"op":"purge","tokens":["ALPHA"]}`, transfer.KindDenied},
		{"operator", `{"v":1,"op":"durable","durable":"coordination"}`, transfer.KindDenied},
		{"coordination", `{"v":1,"op":"strangers"}`, transfer.KindNone},
		{"coordination", `{"v":1,"op":"purge","tokens":["*",">"]}`, transfer.KindNone},
		{"coordination", `{"v":1,"op":"durable","durable":"command-ALPHA"}`, transfer.KindDenied},
		{"coordination", `{"v":1,"op":"set-owner","owner":{"value":"QQ=="}}`, transfer.KindDenied},
	} {
		c := who[x.who]
		data, err := c.Request(n.ctx, wire.AskSubject(wire.Manager, c.Self()), []byte(x.errand), 90*time.Second)
		must(t, err)
		var answer struct {
			V     int             `json:"v"`
			Error *transfer.Error `json:"error"`
		}
		must(t, json.Unmarshal(data, &answer))
		got := transfer.KindNone
		if answer.Error != nil {
			got = answer.Error.Kind
		}
		if got != x.want || answer.V != 1 {
			t.Errorf("%s asks for %.80s: %v; want %v", x.who, x.errand, answer.Error, x.want)
		}
	}

	// No queue was made by any of those.
	manager, err := n.connect(n.qm)
	must(t, err)
	for _, q := range []streams.Queue{streams.Commands("BETA"), streams.Commands("BOB"), streams.Events()} {
		if _, err := manager.ReaderPosition(n.ctx, q); transfer.KindOf(err) != transfer.KindNotFound {
			t.Errorf("the reader %s: %v", q.Durable, err)
		}
	}
	if _, revision, err := manager.Owner(n.ctx, "COORDINATION"); err != nil || revision != 0 {
		t.Errorf("coordination has an owner of revision %d, %v", revision, err)
	}
}
