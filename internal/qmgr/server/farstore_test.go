package server

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/forward"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/quota"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Messages that an agent stores for one at another queue manager lie there, and nowhere else. They are read there.
// Their source looks at them, withdraws them, and learns that there is no room, as in a store at home. While the
// channel is down it gets an error.
func TestStoredAtAnotherQueueManager(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	hub := linked(t, a, "HUB")
	one, two := linked(t, a, "ONE", to(hub)), linked(t, a, "TWO", to(hub))
	running(t, one)
	running(t, two)
	ca, cb := as(t, a, one, "ALPHA"), as(t, a, two, "BETA")
	beats(t, cb, "BETA")
	ctx := qmgrtest.Context(t)
	alpha, beta := qmgr.StoreOf(ca, "ALPHA"), qmgr.StoreOf(cb, "BETA")
	var v qmgr.StoreView
	qmgrtest.Eventually(t, "it is known where BETA is", func() (ok bool) {
		var err error
		v, err = alpha.Outgoing(ctx, "BETA")
		return err == nil && v.At == "TWO"
	})

	sh := wire.StoredEpoch{From: "ALPHA", To: "BETA", ID: transfer.ID{1, 6: 0x70, 8: 0x80}, Epoch: 1}
	qmgrtest.Eventually(t, "the first message is stored", func() bool { return alpha.Put(v.At, sh.Subject(), []byte("0")).Wait(ctx) == nil })
	must(t, beta.Trim(ctx, sh, 0))
	var receipts []*qmgr.Receipt
	for n := range 40 {
		receipts = append(receipts, alpha.Put(v.At, sh.Subject(), bytes.Repeat([]byte{byte(n)}, 100_000)))
	}
	for _, r := range receipts {
		must(t, r.Wait(ctx))
	}
	in, err := beta.Incoming(ctx)
	must(t, err)
	if len(in.Epochs) != 1 || in.Epochs[0].Messages != 40 || in.Mark != v.Mark {
		t.Fatalf("at BETA's there are %+v, and ALPHA's view was %+v", in, v)
	}
	for n, m := range readAll(t, beta, in.Epochs[0].StoredEpoch, 0) {
		if len(m.Data) != 100_000 || m.Data[0] != byte(n) {
			t.Fatalf("message %d begins with %d and has %d bytes", n, m.Data[0], len(m.Data))
		}
	}
	if n := stored(t, one, streams.StreamStore) + stored(t, hub, streams.StreamStore); n != 0 {
		t.Errorf("%d messages are stored elsewhere", n)
	}
	sent, err := alpha.Sent(ctx, v.At)
	must(t, err)
	if len(sent.Epochs) != 1 || sent.Epochs[0].To != "BETA" {
		t.Errorf("ALPHA sees %+v as its sent messages there", sent)
	}
	if own, err := alpha.Sent(ctx, ""); err != nil || len(own.Epochs) != 0 {
		t.Errorf("and here it sees %+v, %v", own, err)
	}
	must(t, alpha.Purge(ctx, v.At, "BETA", sh.ID, 2))
	if n := stored(t, two, streams.StreamStore); n != 0 {
		t.Errorf("%d messages are left", n)
	}

	// A removed agent leaves nothing in any store.
	must(t, alpha.Put(v.At, sh.Subject(), []byte("x")).Wait(ctx))
	coordination := connect(t, qmgr.ConnConfig{URL: hub.URL(), Identity: authoritytest.Identity(t, a, identity.Coordination, "", roles.Coordination)})
	qmgrtest.Eventually(t, "nothing is left of an agent that was removed", func() bool { // once TWO has been heard
		must(t, qmgr.ClearStored(ctx, coordination, "ALPHA"))
		return stored(t, two, streams.StreamStore) == 0
	})

	qmgrtest.WantKind(t, alpha.Put(v.At, sh.Subject(), make([]byte, streams.MaxStoredMessage+1)).Wait(ctx), transfer.KindTooLarge)
	if _, err := alpha.OutgoingAt(ctx, "TWO.x"); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("a token that is none: %v", err)
	}
	if _, err := alpha.OutgoingAt(ctx, "NOWHERE"); transfer.KindOf(err) != transfer.KindUnreachable {
		t.Errorf("a queue manager that is none: %v", err)
	}

	must(t, two.Channels().Stop("HUB"))
	qmgrtest.Eventually(t, "the channel is down", func() bool {
		_, err := alpha.Outgoing(ctx, "BETA")
		return transfer.KindOf(err) == transfer.KindUnreachable
	})
	must(t, two.Channels().Start("HUB"))
	qmgrtest.Eventually(t, "the channel is up again", func() bool { _, err := alpha.Outgoing(ctx, "BETA"); return err == nil })
}

// A source at another queue manager gets the error of a full store, too.
func TestAFullStoreAtAnotherQueueManager(t *testing.T) {
	a := authoritytest.New(t)
	one := linked(t, a, "ONE")
	two := linked(t, a, "TWO", to(one))
	two.answers.registrar.Admin = streams.Library{JS: two.answers.JS, AckWait: streams.AckWait, MaxStored: streams.MinMaxStored}
	running(t, two)
	cb := as(t, a, two, "BETA")
	beats(t, cb, "BETA")
	ctx := qmgrtest.Context(t)
	alpha := qmgr.StoreOf(as(t, a, one, "ALPHA"), "ALPHA")
	qmgrtest.Eventually(t, "it is known where BETA is", func() bool { v, err := alpha.Outgoing(ctx, "BETA"); return err == nil && v.At == "TWO" })
	sh := wire.StoredEpoch{From: "ALPHA", To: "BETA", ID: transfer.ID{1, 6: 0x70, 8: 0x80}, Epoch: 1}
	var err error
	for n := 0; (err == nil || transfer.KindOf(err) == transfer.KindUnreachable) && n < 200; n++ { // a first answer may be lost while registrations are exchanged
		err = alpha.Put("TWO", sh.Subject(), make([]byte, streams.MaxStoredMessage)).Wait(ctx)
	}
	qmgrtest.WantKind(t, err, transfer.KindNoSpace, "a quarter of its store")
}

// A queue manager may ask another one only for tasks of agents that are not connected there, on their own sent
// messages. A message is not stored if it names another source than its subject does, or if its receipt would go to
// another agent.
func TestWhatAnotherQueueManagerMayNotStore(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	s := linked(t, a, "ONE")
	c := trusted(t, s)
	var proofs []json.RawMessage
	for _, name := range []string{"ALPHA", "HERE"} {
		proofs = append(proofs, placedAt(t, authoritytest.Identity(t, a, identity.Agent, name, roles.Agent), "TWO", time.Now()))
	}
	beats(t, as(t, a, s, "HERE"), "HERE")
	qmgrtest.Eventually(t, "it is known that HERE is here", func() bool { return s.forwarder.WhereIs("HERE") == "ONE" })
	ask := func(f forward.RemoteTask) errands.Result {
		data, err := json.Marshal(forward.Batch{V: 1, Store: &f, Proofs: proofs})
		must(t, err)
		answer, err := errands.Request(qmgrtest.Context(t), controlOf(c), wire.ForwardSubject("ONE", "TWO"), c.NewInbox(wire.Manager), data)
		must(t, err)
		var r errands.Result
		must(t, json.Unmarshal(answer, &r))
		return r
	}
	if r := ask(forward.RemoteTask{Asker: "ALPHA", Task: streams.StoreTask{Do: streams.StoreOutgoing, At: "THREE"}}); r.Error != nil || r.Store == nil || r.Store.Mark == "" {
		t.Errorf("a look at sent messages: %+v", r)
	}
	for what, f := range map[string]forward.RemoteTask{
		"no agent":       {Asker: "coordination", Task: streams.StoreTask{Do: streams.StoreOutgoing}},
		"small letters":  {Asker: "alpha", Task: streams.StoreTask{Do: streams.StoreOutgoing}},
		"a wildcard":     {Asker: "*", Task: streams.StoreTask{Do: streams.StorePurge, Peer: "BETA"}},
		"a look":         {Asker: "ALPHA", Task: streams.StoreTask{Do: streams.StoreIncoming}},
		"a reader":       {Asker: "ALPHA", Task: streams.StoreTask{Do: streams.StoreRead, Peer: "BETA"}},
		"a trim":         {Asker: "ALPHA", Task: streams.StoreTask{Do: streams.StoreTrim, Peer: "BETA"}},
		"all of ALPHA's": {Asker: "ALPHA", Task: streams.StoreTask{Do: streams.StoreClear}},
		"no proof":       {Asker: "GAMMA", Task: streams.StoreTask{Do: streams.StoreOutgoing}},
		"one of here":    {Asker: "HERE", Task: streams.StoreTask{Do: streams.StorePurge, Peer: "BETA", Epoch: 9}},
		"a bad peer":     {Asker: "ALPHA", Task: streams.StoreTask{Do: streams.StorePurge, Peer: "B TA"}},
	} {
		if r := ask(f); r.Error == nil {
			t.Errorf("%s: %+v", what, r)
		}
	}

	id := transfer.ID{1, 6: 0x70, 8: 0x80}
	good := wire.StoreSubject("BETA", "ALPHA", id, 1)
	inbox := wire.InboxSubject("ALPHA", errands.StoreToken+"ONE", errands.NewSecret(), 1)
	subject := wire.FarStoreSubject("ONE", "ALPHA", id)
	must(t, c.PublishData(subject, []byte("no line")))
	must(t, c.PublishData(subject, errands.RemoteMessage("ferry.command.BETA.ALPHA", inbox, nil)))
	must(t, c.PublishData(subject, errands.RemoteMessage(wire.StoreSubject("BETA", "GAMMA", id, 1), inbox, nil)))
	must(t, c.PublishData(subject, errands.RemoteMessage(good, wire.InboxSubject("GAMMA", errands.StoreToken+"ONE", errands.NewSecret(), 1), nil)))
	must(t, c.PublishData(subject, errands.RemoteMessage(good, wire.InboxSubject("ALPHA", wire.Manager, errands.NewSecret(), 1), nil)))
	must(t, c.PublishData(subject, errands.RemoteMessage(good, wire.InboxSubject("ALPHA", "GAMMA", errands.NewSecret(), 1), nil)))
	must(t, c.PublishData(subject, errands.RemoteMessage(good, "$JS.API.STREAM.DELETE.FERRY_STORE", nil)))
	must(t, c.PublishData(subject+".x", errands.RemoteMessage(good, inbox, nil)))
	must(t, c.PublishData(subject, errands.RemoteMessage(good, inbox, []byte("last"))))
	qmgrtest.Eventually(t, "what is right is stored", func() bool { return stored(t, s, streams.StreamStore) > 0 })
	if n := stored(t, s, streams.StreamStore); n != 1 {
		t.Errorf("%d messages are stored", n)
	}
}

// Data of agents at another queue manager is charged to that queue manager as well. Its agents together leave room for others. Data
// for an agent that is not enrolled is not stored.
func TestStoredFromElsewhereIsCharged(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	const stored = 1 << 30
	claims, err := a.Claims()
	must(t, err)
	s, err := Start(qmgrtest.Context(t), Config{Name: "ONE", Dir: t.TempDir(), Listen: "127.0.0.1:0", ChannelListen: "127.0.0.1:0", MaxStored: stored, Log: qmgrtest.Log(t),
		Guard: &Guard{Identity: authoritytest.Identity(t, a, identity.Manager, "ONE", roles.Manager), Claims: claims, Enrolled: func(token string) bool { return token != "NOSUCH" }}})
	must(t, err)
	t.Cleanup(s.Shutdown)
	c := trusted(t, s)
	_, err = qmgr.StoreOf(as(t, a, s, "BETA"), "BETA").Outgoing(qmgrtest.Context(t), "BETA") // makes the store
	must(t, err)
	for name, at := range map[string]string{"ALPHA": "TWO", "GAMMA": "TWO", "EPSILON": "TWO", "DELTA": "THREE"} {
		must(t, s.forwarder.TakeRegistration(placedAt(t, authoritytest.Identity(t, a, identity.Agent, name, roles.Agent), at, time.Now())))
	}
	id := transfer.ID{1, 6: 0x70, 8: 0x80}
	put := func(from, to transfer.AgentName) (code jetstream.ErrorCode, why string) {
		t.Helper()
		nc, inbox := controlOf(c), wire.InboxSubject(from.Token(), "store-ONE", qmgrtest.Secret, 1)
		sub, err := nc.SubscribeSync(inbox)
		must(t, err)
		defer sub.Unsubscribe()
		must(t, nc.FlushTimeout(qmgrtest.Patience))
		must(t, c.PublishData(wire.FarStoreSubject("ONE", from, id), errands.RemoteMessage(wire.StoreSubject(to, from, id, 1), inbox, make([]byte, large))))
		m, err := sub.NextMsg(qmgrtest.Patience)
		must(t, err)
		var ack struct {
			Error *jetstream.APIError `json:"error"`
		}
		must(t, json.Unmarshal(m.Data, &ack))
		if ack.Error != nil {
			return ack.Error.ErrorCode, ack.Error.Description
		}
		return 0, ""
	}
	if code, _ := put("ALPHA", "BETA"); code != 0 {
		t.Fatalf("a message of ALPHA is refused with %d", code)
	}
	if code, _ := put("ALPHA", "NOSUCH"); code != streams.CodeNotEnrolled {
		t.Errorf("a message for an agent that is not enrolled gets %d", code)
	}
	st := s.limits.stocks[wire.ClassStore]
	qmgrtest.Eventually(t, "TWO has stored its share, and THREE stores", func() bool {
		for from, to := range map[transfer.AgentName]transfer.AgentName{"ALPHA": "BETA", "GAMMA": "ZETA"} { // a third each, until the next look
			_ = st.Admit(quota.Message{Subject: wire.StoreSubject(to, from, id, 1), Member: from.Token(), Destination: to.Token(), Via: "TWO", Size: stored / 3})
		}
		code, why := put("EPSILON", "ETA")
		other, _ := put("DELTA", "THETA")
		return code == streams.CodeStoreMaxBytes && strings.Contains(why, "queue manager TWO has handed on") && other == 0
	})
}

func FuzzRemoteMessage(f *testing.F) {
	f.Add(errands.RemoteMessage("ferry.store.A.B.x.1", "ferry.inbox.A.qmgr.s.1", []byte("data")))
	for _, s := range []string{"", "1 a b\n", "1 a b", "2 a b\n", "1  \n", "1 a b c\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		subject, inbox, data, err := errands.ReadRemoteMessage(message)
		if err != nil {
			qmgrtest.WantKind(t, err, transfer.KindOf(err))
			return
		}
		if again := errands.RemoteMessage(subject, inbox, data); !bytes.Equal(again, message) {
			t.Errorf("%q is read, and is %q again", message, again)
		}
	})
}
