//go:build linux

package flow_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"ferry/internal/client"
	"ferry/internal/security/identity"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
	"ferry/test/flow/network"
)

// TestMalformedRequestStopsNoOther sends requests that cannot be decoded. Each is refused once, and later requests are
// taken as usual.
func TestMalformedRequestStopsNoOther(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 1, mib)
	w := n.Wire()
	malformed := [][]byte{
		nil,
		[]byte("this is not JSON"),
		[]byte(`{"v":1,"request":`),
		[]byte(`{"v":99,"request":{}}`),
		[]byte(`{"v":1,"request":{"v":99,"id":"01890000-0000-7000-8000-000000000001"}}`),
		[]byte(`{"v":1,"request":null}`),
		[]byte(`[` + strings.Repeat("[", 10000)),
		bytes.Repeat([]byte("x"), 1100000),
	}
	for _, subject := range []string{"ferry.command.ALPHA.mallory", "ferry.control.ALPHA.mallory"} {
		for _, data := range malformed {
			w.Say(subject, data)
		}
	}
	w.Say("ferry.control.ALPHA.mallory", []byte(`{"v":1,"id":"01890000-0000-7000-8000-000000000002","kind":"explode"}`))

	n.Send("ALPHA:a", "BETA:out/").Ends("successful", 0)

	n.Same("ALPHA", "a", "BETA", "out/a")
	if got := n.Logged("ALPHA", "a request is refused"); got != 1 {
		t.Errorf("%d poisonous requests in one minute are %d lines in the log", len(malformed), got)
	}
	n.Stop("ALPHA")
	n.Start("ALPHA")
	n.Send("ALPHA:a", "BETA:again/").Ends("successful", 0)
	if got := n.Logged("ALPHA", "a request is refused"); got != 1 {
		t.Errorf("poisonous requests came again after a restart: %d lines about them", got)
	}
	n.Sound()
}

// TestDamagedMessagesAreDropped sends damaged, truncated and repeated messages, messages of another version, and data
// that are no messages. They do not harm a running transfer.
func TestDamagedMessagesAreDropped(t *testing.T) {
	t.Parallel()
	n := network.Up(t, network.Setup{Ferry: ferry, Agents: []string{"ALPHA", "BETA"}, Direct: "off"})
	n.File("ALPHA", "big", 2, 72*mib)
	w := n.Wire()
	chunks := w.Samples("ferry.data.BETA.ALPHA.>", 3)

	s := n.SendAsync(paced, "ALPHA:big", "BETA:out/")
	n.Growing("BETA", 10*mib)
	id := s.ID()
	n.Until("a chunk message has passed", func() bool { return len(chunks()) == 3 })
	data := "ferry.data.BETA.ALPHA." + id
	for _, m := range chunks() {
		w.Say(data, m) // a replay
		w.Say(data, m[:len(m)/2])
	}
	wrong := chunks()[0]
	wrong[len(wrong)-1] ^= 1
	w.Say(data, wrong)
	other := chunks()[1]
	other[0] = 200
	w.Say(data, other)
	w.Say(data, nil)
	w.Say(data, []byte("x"))
	w.Say("ferry.data.BETA.ALPHA", chunks()[2])
	w.Say("ferry.data.BETA.%zz."+id, chunks()[2])
	for _, subject := range []string{"ferry.reply.BETA.ALPHA", "ferry.reply.ALPHA.BETA", "ferry.ask.BETA", "ferry.progress.BETA", "ferry.ask.coordination"} {
		for _, text := range []string{
			"", "not JSON", `{"v":99,"kind":"ack","transfer":"` + id + `"}`, `{"v":1,"kind":"explode","from":"ALPHA","transfer":"` + id + `"}`,
			`{"v":1,"kind":"ack","from":"BETA","transfer":"` + id + `"}`, `{"v":1,"kind":"open","from":"ALPHA"}`,
			`{"v":1,"kind":"outcomes-ack","from":"ALPHA","transfer":"` + id + `","body":{"batch":999}}`,
			`{"v":1,"kind":"ack","from":"BETA","transfer":"` + id + `","body":{"epoch":77,"seq":1,"credit":1}}`,
		} {
			w.Say(subject, []byte(text))
		}
	}

	sum := s.Wait().Ends("successful", 0).Summary
	n.Same("ALPHA", "big", "BETA", "out/big")
	once(t, n, sum.ID, 1)
	n.Send("ALPHA:big", "BETA:again/").Ends("successful", 0)
}

// TestStrangersAreNotHeard sends messages of an agent that has no part in a transfer. They neither end it nor slow it
// down.
func TestStrangersAreNotHeard(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "big", 3, 72*mib)
	w := n.Wire()

	s := n.SendAsync(paced, "ALPHA:big", "BETA:out/")
	n.Growing("BETA", 10*mib)
	id, err := transfer.ParseID(s.ID())
	must(t, err)
	say := func(to transfer.AgentName, m wire.Message) {
		m.From, m.Transfer = "MALLORY", id
		text, err := m.Encode()
		must(t, err)
		w.Say(wire.ReplySubject(to, "MALLORY"), text)
	}
	reason := transfer.Errorf(transfer.KindBusy, "go away")
	say("BETA", wire.Message{Kind: wire.KindCancel, Cancel: &wire.Cancel{}})
	say("BETA", wire.Message{Kind: wire.KindOutcomesAck, OutcomesAck: &wire.OutcomesAck{Batch: 1}})
	say("ALPHA", wire.Message{Kind: wire.KindCancelled})
	say("ALPHA", wire.Message{Kind: wire.KindRefuse, Refuse: &wire.Refuse{Nonce: 1, Error: reason}})
	for epoch := range uint32(4) {
		say("ALPHA", wire.Message{Kind: wire.KindBusy, Busy: &wire.Busy{Epoch: epoch, Place: 1, Reason: reason}})
		say("ALPHA", wire.Message{Kind: wire.KindResync, Resync: &wire.Resync{Epoch: 1000 + epoch}})
	}
	say("ALPHA", wire.Message{Kind: wire.KindOutcomes, Outcomes: &wire.Outcomes{Batch: 1, Last: true}})

	sum := s.Wait().Ends("successful", 0).Summary
	n.Same("ALPHA", "big", "BETA", "out/big")
	if sum.Resumes != 0 {
		t.Errorf("a stranger's words have interrupted the transfer %d times", sum.Resumes)
	}
	once(t, n, sum.ID, 1)
}

// TestForgedOutcomesLeaveNoHistory sends outcomes of an unknown transfer, from an agent and from a pipe. They do not
// appear in the history of a file. The log is sound, and one record counts them.
func TestForgedOutcomesLeaveNoHistory(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	w := n.Wire()
	for _, speaker := range []transfer.AgentName{"BETA", "PIPE-0123456789AB"} {
		m := wire.Message{Kind: wire.KindOutcomes, From: speaker, Transfer: transfer.NewID(time.Now()), Outcomes: &wire.Outcomes{Batch: 1, Last: true,
			Outcomes: []transfer.Outcome{{Item: 1, Type: transfer.ItemFile, Source: "/srv/out/pay80", Path: "/srv/in/pay80", Size: 7, Digest: "xxh3:00"}}}}
		text, err := m.Encode()
		must(t, err)
		w.Say(wire.ReplySubject("ALPHA", speaker), text)
	}
	n.Until("the outcomes are on record", func() bool {
		return strings.Contains(n.Ferry("audit", "ls").Stdout, "has received outcomes of transfers that the ledger does not know: 1 from")
	})
	if r := n.Ferry("audit", "find", "pay80"); r.Code != 26 {
		t.Errorf("`ferry audit find` ends with %d: %s", r.Code, r.Stdout)
	}
	if r := n.Ferry("transfer", "ls", "--json"); r.Code != 0 || r.Stdout != "" {
		t.Errorf("`ferry transfer ls` ends with %d: %s", r.Code, r.Stdout)
	}
	if r := n.Ferry("audit", "verify"); r.Code != 0 || !strings.HasPrefix(r.Stdout, "sound") {
		t.Errorf("`ferry audit verify` ends with %d: %s", r.Code, r.Stdout)
	}
}

// TestRequestThatComesAgainRunsOnce repeats a request under its ID, which runs once. The same ID with other content is
// refused.
func TestRequestThatComesAgainRunsOnce(t *testing.T) {
	t.Parallel()
	n := up(t, "ALPHA", "BETA")
	n.File("ALPHA", "a", 4, 5000)
	n.File("ALPHA", "b", 5, 5000)
	w := n.Wire()
	requests := w.Samples("ferry.command.ALPHA.>", 1)

	sum := n.Send("ALPHA:a", "BETA:out/").Ends("successful", 0).Summary
	n.Until("the request has passed", func() bool { return len(requests()) == 1 })
	landed := n.Landed("BETA", "out")
	again := wire.CommandSubject("ALPHA", identity.Name{Role: identity.User, Name: strings.ToLower(client.Me().User)}.Token())
	for range 5 {
		w.Say(again, requests()[0])
	}
	var other map[string]any
	_, body, err := word.Open(requests()[0])
	must(t, err)
	must(t, json.Unmarshal(body, &other))
	other["request"].(map[string]any)["sources"] = []string{"b"}
	text, err := json.Marshal(other)
	must(t, err)
	id, err := transfer.ParseID(fmt.Sprint(sum.ID))
	must(t, err)
	w.Say(wire.CommandSubject("ALPHA", wire.Manager), n.Signed(word.Submit, "ALPHA", id, text))

	n.Send("ALPHA:b", "BETA:later/").Ends("successful", 0)
	n.Stop("ALPHA")
	n.Start("ALPHA")
	for range 5 {
		w.Say(again, requests()[0])
	}
	n.Send("ALPHA:b", "BETA:last/").Ends("successful", 0)

	n.Untouched("BETA", "out", landed)
	if len(n.Landed("BETA", "out")) != 1 {
		t.Error("the same ID with other content was run")
	}
	once(t, n, sum.ID, 1)
	if all := n.Transfers(); len(all) != 3 {
		t.Errorf("there are %d transfers, not 3: %s", len(all), fmt.Sprint(all))
	}
}
