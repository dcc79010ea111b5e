package client_test

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A request that an agent may have taken is not sent again: an agent that was enrolled again has an empty ledger. One
// that was only queued, or refused, is sent again.
func TestRequestThatMayHaveRunIsNotSentAgain(t *testing.T) {
	type knowledge struct {
		state      transfer.State // "": coordination does not know the transfer
		taken, own bool
		silent     bool
	}
	var now atomic.Pointer[knowledge]
	connect := network(t.Context(), t)
	coordination, conn := connect(wire.Coordination), connect("user")
	c := &client.Client{Conn: conn, Clock: clock.System, Timeout: 5 * time.Second}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := coordination.Subscribe(wire.AllAsks(wire.Coordination), func(m qmgr.Message) {
		a, err := wire.DecodeAsk(m.Data)
		k := now.Load()
		if err != nil || k == nil || k.silent {
			return
		}
		ans := wire.Answer{V: wire.Version, Own: k.own}
		switch {
		case a.Kind == wire.AskTransfer && k.state == "":
			ans.Error = transfer.AsError(transfer.Errorf(transfer.KindNotFound, "none"))
		case a.Kind == wire.AskTransfer:
			ans.Transfers = []transfer.Progress{{State: k.state}}
		case a.Kind == wire.AskAudit && k.taken:
			ans.Records = []json.RawMessage{wire.Marshal(audit.Record{V: 1, Agent: "ALPHA", Incarnation: "0000000000000001", N: 1, Time: time.Now().UTC(), Event: audit.Submitted})}
		}
		coordination.Answer(wire.LastToken(m.Subject), m.Reply, wire.Marshal(ans))
	})
	must(err)
	until(t, "coordination can be asked", func() bool {
		now.Store(&knowledge{})
		_, err := c.Transfer(t.Context(), "x")
		return transfer.KindOf(err) == transfer.KindNotFound
	})

	n := 0
	for name, e := range map[string]struct {
		knowledge
		document, other bool
		want            transfer.Kind
	}{
		"unknown":                                {},
		"a document":                             {document: true},
		"queued":                                 {knowledge: knowledge{state: transfer.Queued}},
		"refused by its agent":                   {knowledge: knowledge{state: transfer.Failed}},
		"accepted":                               {knowledge: knowledge{state: transfer.Accepted}, want: transfer.KindConflict},
		"a document, accepted":                   {knowledge: knowledge{state: transfer.Accepted}, document: true, want: transfer.KindConflict},
		"successful":                             {knowledge: knowledge{state: transfer.Successful}, want: transfer.KindConflict},
		"failed":                                 {knowledge: knowledge{state: transfer.Failed, taken: true}, want: transfer.KindConflict},
		"cancelled":                              {knowledge: knowledge{state: transfer.Cancelled}, want: transfer.KindConflict},
		"withdrawn":                              {knowledge: knowledge{state: transfer.Withdrawn}, want: transfer.KindConflict},
		"another's, of one that sees all":        {other: true},
		"another's, of one that sees no others'": {knowledge: knowledge{own: true}, other: true, want: transfer.KindDenied},
		"coordination is silent":                 {knowledge: knowledge{silent: true}, want: transfer.KindTimeout},
	} {
		now.Store(&e.knowledge)
		c.Timeout = 5 * time.Second
		if e.silent {
			c.Timeout = 50 * time.Millisecond
		}
		from := conn.Self()
		if e.other {
			from = "other"
		}
		n++
		agent := transfer.AgentName(fmt.Sprint("GONE", n))
		data := wire.Marshal(wire.Submit{V: wire.Version, Request: transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(time.Now()),
			Source: agent, Destination: "BETA", Items: transfer.ItemsOf("a"), Dest: transfer.File("b")}})
		if e.document {
			data = []byte("<request/>")
		}
		_, err := conn.EnqueueFresh(t.Context(), "ferry.command."+agent.Token()+"."+from, func() []byte { return data })
		must(err)
		must(qmgr.ClearStored(t.Context(), conn, agent.Token()))
		letter := ""
		must(client.EachDeadLetter(t.Context(), c, agent, func(d *wire.DeadLetter) { letter = d.ID }))
		_, err = client.ResendDeadLetter(t.Context(), c, letter, requestIn)
		if kind := transfer.KindOf(err); kind != e.want || kind != transfer.KindNone && transfer.AsError(err).Hint == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// requestIn returns the ID of the request of a letter; a document has one that depends on its contents.
func requestIn(d *wire.DeadLetter) transfer.ID {
	if d.Transfer.IsZero() {
		return transfer.NewID(d.Stored)
	}
	return d.Transfer
}
