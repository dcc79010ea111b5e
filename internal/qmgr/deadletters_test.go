package qmgr

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A deadDesk is agent A with its queue, and the dead letters of its queue manager.
type deadDesk struct {
	*testing.T
	c *Conn
}

func newDeadDesk(t *testing.T) deadDesk {
	qmgrtest.NoLeaks(t)
	return deadDesk{t, connect(t, ConnConfig{Server: start(t, t.TempDir(), ""), Name: "A"})}
}

func (d deadDesk) do(t streams.DeadTask) ([]wire.DeadLetter, error) {
	res, err := DeadLetters(qmgrtest.Context(d), d.c, t)
	return res.Letters, err
}

// letters lists the letters, which must be as many.
func (d deadDesk) letters(want int) []wire.DeadLetter {
	d.Helper()
	all, err := d.do(streams.DeadTask{Do: streams.DeadList})
	must(d.T, err)
	if len(all) != want {
		d.Fatalf("there are %d dead letters and not %d: %+v", len(all), want, all)
	}
	return all
}

// next returns the next message of the agent's queue, which stays until the test settles it.
func (d deadDesk) next() Delivery {
	d.Helper()
	got := make(chan Delivery, 100)
	stop := consumeWith(d, d.c, commands, func(m Delivery) { got <- m })
	defer stop()
	return qmgrtest.Receive(d, "a message", got)
}

// bury makes a dead letter of a message, as an agent does.
func (d deadDesk) bury(m Delivery, why string) {
	d.Helper()
	must(d.T, m.Bury(qmgrtest.Context(d), errors.New(why), transfer.ID{}))
	must(d.T, m.Term())
}

func (d deadDesk) waiting(stream streams.Stream) uint64 {
	d.Helper()
	s, err := d.c.control.JS().Stream(qmgrtest.Context(d), string(stream))
	must(d.T, err)
	return s.CachedInfo().State.Msgs
}

// A message that is refused for ever is a dead letter before it leaves its queue. An agent that is killed between the
// two gets the message again, and the letter is there once.
func TestDeadLetterIsKeptOnce(t *testing.T) {
	d := newDeadDesk(t)
	id := transfer.NewID(time.Now())
	body := string(wire.Marshal(wire.Submit{V: wire.Version, Request: transfer.Request{ID: id}}))
	enqueue(t, d.c, "ferry.command.A.me", body)
	m := d.next()
	var number uint64
	s, err := d.c.control.JS().Stream(qmgrtest.Context(t), string(streams.StreamCommand))
	must(t, err)
	number = s.CachedInfo().State.LastSeq

	why := "the request is refused"
	for range 2 { // as by two runs of the agent, each killed before the message is ended
		_, err := d.do(streams.DeadTask{Do: streams.DeadKeep, Stream: streams.StreamCommand, Number: number, Reason: why})
		must(t, err)
		why += ", as it was before"
	}
	if n := d.waiting(streams.StreamCommand); n != 1 {
		t.Errorf("%d messages wait while the letter is kept", n)
	}
	d.bury(m, "the request is refused for ever")
	qmgrtest.Eventually(t, "the message has left its queue", func() bool { return d.waiting(streams.StreamCommand) == 0 })
	l := d.letters(1)[0]
	if l.Kind != wire.DeadRequest || l.Agent != "A" || l.From != "me" || l.Transfer != id || l.Reason != "the request is refused for ever" || len(l.Data) > 0 {
		t.Errorf("the letter is %+v", l)
	}
	all, err := d.do(streams.DeadTask{Do: streams.DeadShow, ID: l.ID})
	if err != nil || len(all) != 1 || string(errands.Unpacked(all[0].Data)) != body {
		t.Errorf("the letter has %+v, %v", all, err)
	}

	// A letter that is kept again when its message has gone is no error, and nothing is kept for another agent.
	_, err = d.do(streams.DeadTask{Do: streams.DeadKeep, Stream: streams.StreamCommand, Number: number, Reason: "again"})
	must(t, err)
	enqueue(t, d.c, "ferry.command.B.me", "x")
	_, err = d.do(streams.DeadTask{Do: streams.DeadKeep, Stream: streams.StreamCommand, Number: number + 1, Reason: "of another"})
	qmgrtest.WantKind(t, err, transfer.KindDenied, "not one for A")
	_, err = d.do(streams.DeadTask{Do: streams.DeadKeep, Stream: streams.StreamOwner, Number: 1})
	qmgrtest.WantKind(t, err, transfer.KindUsage)
	d.letters(1)
}

// Copies of a request that its submitter has repeated are one letter, the newest. Parts of a request are not the same as
// its head, and requests of two senders are not the same.
func TestCopiesAreOneLetter(t *testing.T) {
	d := newDeadDesk(t)
	l := d.c.admin.(streams.Library)
	id := transfer.NewID(time.Now())
	for n, c := range []struct {
		from string
		s    wire.Submit
	}{
		{"ann", wire.Submit{V: wire.Version, Request: transfer.Request{ID: id}}},
		{"ann", wire.Submit{V: wire.Version, Request: transfer.Request{ID: id}, Reply: "an inbox"}},
		{"ann", wire.Submit{V: wire.Version, Request: transfer.Request{ID: id}, Part: &transfer.Part{}}},
		{"eve", wire.Submit{V: wire.Version, Request: transfer.Request{ID: id}}},
	} {
		m := &jetstream.RawStreamMsg{Subject: "ferry.command.A." + c.from, Data: wire.Marshal(c.s), Time: time.Now()}
		must(t, l.Bury(qmgrtest.Context(t), m, fmt.Sprint("copy ", n), transfer.ID{}))
	}
	reasons := ""
	for _, letter := range d.letters(3) {
		reasons += letter.Reason + ";"
	}
	if reasons != "copy 1;copy 2;copy 3;" {
		t.Errorf("the letters are %s", reasons)
	}
}

// Documents in XML have no ID: two with one text are two letters. One that was sent again is the same one.
func TestDocumentsAreTheirOwnLetters(t *testing.T) {
	d := newDeadDesk(t)
	l := d.c.admin.(streams.Library)
	at := time.Now().Add(-time.Hour)
	for n, header := range []nats.Header{nil, nil, {streams.HeaderStored: {at.UTC().Format(time.RFC3339Nano)}}} {
		m := &jetstream.RawStreamMsg{Subject: "ferry.command.A.me", Data: []byte("<request/>"), Time: at.Add(time.Duration(n) * time.Minute), Header: header}
		must(t, l.Bury(qmgrtest.Context(t), m, "no", transfer.ID{}))
	}
	d.letters(2)
}

// The dead letters of a member that is removed are removed, so that none of its requests runs. Those of others stay.
func TestDeadLettersByARemovedMember(t *testing.T) {
	d := newDeadDesk(t)
	l := d.c.admin.(streams.Library)
	for _, subject := range []string{"ferry.command.A.bob", "ferry.control.B.bob", "ferry.command.A.ann", "ferry.command.BOB.ann"} {
		must(t, l.Bury(qmgrtest.Context(t), &jetstream.RawStreamMsg{Subject: subject, Data: []byte("x"), Time: time.Now()}, "no", transfer.ID{}))
	}
	must(t, ClearStored(qmgrtest.Context(t), d.c, "bob"))
	for _, letter := range d.letters(2) {
		if letter.From != "ann" {
			t.Errorf("a letter is %+v", letter)
		}
	}
}

// A message that is sent again is the same message: it has its bytes and its first time, which makes it neither younger
// nor another document. The letter is gone then.
func TestDeadLetterIsSentAgain(t *testing.T) {
	d := newDeadDesk(t)
	enqueue(t, d.c, "ferry.command.A.me", "<request/>")
	m := d.next()
	stored := m.Stored
	if m.Resent {
		t.Error("a message that is new is one that was a dead letter")
	}
	for n := range 2 { // also when it was sent again once before
		d.bury(m, "no")
		l := d.letters(1)[0]
		if !l.Stored.Equal(stored) {
			t.Errorf("round %d: it was stored at %s, and the letter says %s", n, stored, l.Stored)
		}
		_, err := d.do(streams.DeadTask{Do: streams.DeadResend, ID: l.ID})
		must(t, err)
		d.letters(0)
		if m = d.next(); string(m.Data) != "<request/>" || m.Subject != "ferry.command.A.me" || !m.Stored.Equal(stored) || !m.Resent {
			t.Fatalf("round %d: %s on %s, of %s, comes", n, m.Data, m.Subject, m.Stored)
		}
		_, err = d.do(streams.DeadTask{Do: streams.DeadResend, ID: l.ID})
		qmgrtest.WantKind(t, err, transfer.KindNotFound, "ferry queue dead ls")
	}
	d.bury(m, "no")
	_, err := d.do(streams.DeadTask{Do: streams.DeadRemove, ID: d.letters(1)[0].ID})
	must(t, err)
	d.letters(0)
	for _, id := range []string{"", "*", ">", "zz", "0123456789abcdef"} {
		_, err = d.do(streams.DeadTask{Do: streams.DeadShow, ID: id})
		qmgrtest.WantKind(t, err, transfer.KindNotFound)
	}
}

// A request is not sent again while a cancel of its transfer is a dead letter, unless the author of the cancel has no
// right to stop it. The letter of a cancel names its transfer.
func TestStoppedRequestIsNotSentAgain(t *testing.T) {
	d := newDeadDesk(t)
	l := d.c.admin.(streams.Library)
	request, other := transfer.NewID(time.Now()), transfer.NewID(time.Now())
	bury := func(class, from string, data []byte) (letter string) {
		t.Helper()
		m := &jetstream.RawStreamMsg{Subject: "ferry." + class + ".A." + from, Data: data, Time: time.Now()}
		must(t, l.Bury(qmgrtest.Context(t), m, "no", transfer.ID{}))
		all, err := d.do(streams.DeadTask{Do: streams.DeadList})
		must(t, err)
		return all[len(all)-1].ID
	}
	cancel := func(kind wire.Kind, from string, of transfer.ID) string {
		return bury("control", from, wire.Marshal(wire.Control{V: wire.Version, ID: transfer.NewID(time.Now()), Kind: kind, Body: wire.Marshal(wire.OfTransfer{Transfer: of})}))
	}
	again := func(want transfer.Kind) {
		t.Helper()
		letter := bury("command", "ann", wire.Marshal(wire.Submit{V: wire.Version, Request: transfer.Request{ID: request}}))
		_, err := l.Dead(qmgrtest.Context(t), "ann", streams.DeadTask{Do: streams.DeadResend, ID: letter,
			Stops: func(command, request *wire.DeadLetter) bool { return command.From == request.From }})
		if transfer.KindOf(err) != want {
			t.Errorf("sent again: %v; want %v", err, want)
		}
	}
	cancel(wire.ControlCancel, "ann", other)
	cancel(wire.ControlResume, "ann", request)
	cancel(wire.ControlCancel, "eve", request)
	again(transfer.KindNone)
	for _, kind := range []wire.Kind{wire.ControlCancel, wire.ControlWithdraw} {
		letter := cancel(kind, "ann", request)
		again(transfer.KindConflict)
		all, err := d.do(streams.DeadTask{Do: streams.DeadRemove, ID: letter})
		if err != nil || all[0].Transfer != request {
			t.Errorf("the letter of the cancel is %+v, %v", all, err)
		}
	}
}

// A document in XML is not sent again either beside the letter of its cancel. Its text has its ID, or the ID has the time
// when the document was stored.
func TestStoppedDocumentIsNotSentAgain(t *testing.T) {
	d := newDeadDesk(t)
	l := d.c.admin.(streams.Library)
	stored := time.Now().Add(-time.Hour)
	named, other := transfer.NewID(stored.Add(-time.Minute)), transfer.NewID(stored.Add(-2*time.Minute))
	for n, c := range []struct {
		of   transfer.ID
		from string
		want transfer.Kind
	}{{named, "ann", transfer.KindConflict}, {transfer.NewID(stored), "ann", transfer.KindConflict}, {other, "ann", transfer.KindNone}, {named, "eve", transfer.KindNone}} {
		data := map[string][]byte{"command": fmt.Appendf(nil, `<request ferry:id="%s"/>`, named),
			"control": wire.Marshal(wire.Control{V: wire.Version, ID: transfer.NewID(time.Now()), Kind: wire.ControlCancel, Body: wire.Marshal(wire.OfTransfer{Transfer: c.of})})}
		for class, from := range map[string]string{"command": "ann", "control": c.from} {
			must(t, l.Bury(qmgrtest.Context(t), &jetstream.RawStreamMsg{Subject: "ferry." + class + ".A." + from, Data: data[class], Time: stored}, "no", transfer.ID{}))
		}
		for _, letter := range d.letters(2) {
			if letter.Kind == wire.DeadRequest {
				_, err := l.Dead(qmgrtest.Context(t), "ann", streams.DeadTask{Do: streams.DeadResend, ID: letter.ID,
					Stops: func(command, request *wire.DeadLetter) bool { return command.From == request.From }})
				if transfer.KindOf(err) != c.want {
					t.Errorf("case %d: sent again: %v; want %v", n, err, c.want)
				}
			}
		}
		all, err := d.do(streams.DeadTask{Do: streams.DeadList})
		must(t, err)
		for _, letter := range all {
			_, err := d.do(streams.DeadTask{Do: streams.DeadRemove, ID: letter.ID})
			must(t, err)
		}
	}
}

// A header that makes a message younger is not believed.
func TestFirstTimeIsNeverLater(t *testing.T) {
	d := newDeadDesk(t)
	m := nats.NewMsg("ferry.command.A.me")
	m.Header.Set(streams.HeaderStored, time.Now().Add(time.Hour).UTC().Format(time.RFC3339Nano))
	_, err := d.c.control.JS().PublishMsg(qmgrtest.Context(t), m)
	must(t, err)
	if got := d.next(); got.Stored.After(time.Now().Add(time.Minute)) {
		t.Errorf("it was stored at %s", got.Stored)
	}
}

// A time that JSON cannot write is not believed: the queue manager would end when it keeps the letter.
func TestFirstTimeCanBeWritten(t *testing.T) {
	d := newDeadDesk(t)
	l := d.c.admin.(streams.Library)
	for n, first := range []string{"2020-01-01T00:00:00+24:00", "0000-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "9999-12-31T23:59:59-01:00", "?"} {
		m := &jetstream.RawStreamMsg{Subject: "ferry.command.A.me", Data: fmt.Append(nil, n), Time: time.Now(), Header: nats.Header{streams.HeaderStored: {first}}}
		must(t, l.Bury(qmgrtest.Context(t), m, "no", transfer.ID{}))
	}
	if got := d.letters(5)[0].Stored; !got.Equal(time.Date(2019, 12, 31, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("the first one was stored at %s", got)
	}
}

// The commands of an agent that is removed become dead letters, and its epochs of stored delivery are told.
func TestDeadLettersOfARemovedAgent(t *testing.T) {
	d := newDeadDesk(t)
	s := StoreOf(d.c, "ALPHA")
	must(t, s.Ready(qmgrtest.Context(t)))
	_, err := s.Outgoing(qmgrtest.Context(t), "GONE")
	must(t, err)
	epoch := wire.StoredEpoch{From: "ALPHA", To: "GONE", ID: transfer.NewID(time.Now()), Epoch: 1}
	for range 3 {
		must(t, s.Put("", epoch.Subject(), []byte("data")).Wait(qmgrtest.Context(t)))
	}
	for n := range 3 {
		enqueue(t, d.c, "ferry.command.GONE.me", fmt.Sprint("request ", n))
	}
	enqueue(t, d.c, "ferry.control.GONE.me", "cancel")
	enqueue(t, d.c, "ferry.command.A.GONE", "of the removed agent itself")
	enqueue(t, d.c, "ferry.command.A.me", "of others")
	must(t, ClearStored(qmgrtest.Context(t), d.c, "GONE"))
	kinds := map[string]int{}
	for _, l := range d.letters(5) {
		kinds[l.Kind]++
		if l.Agent != "GONE" || !strings.Contains(l.Reason, "agent GONE was removed from the network") {
			t.Errorf("a letter is %+v", l)
		}
		if l.Kind == wire.DeadStored {
			if l.Messages != 3 || l.Transfer != epoch.ID || l.From != "ALPHA" {
				t.Errorf("the letter of the epoch is %+v", l)
			}
			_, err := d.do(streams.DeadTask{Do: streams.DeadResend, ID: l.ID})
			qmgrtest.WantKind(t, err, transfer.KindUsage, "ferry transfer retry "+epoch.ID.String())
		}
	}
	if kinds[wire.DeadRequest] != 3 || kinds[wire.DeadCommand] != 1 || kinds[wire.DeadStored] != 1 {
		t.Errorf("the kinds are %v", kinds)
	}
	if n := d.waiting(streams.StreamCommand); n != 1 {
		t.Errorf("%d commands are left", n)
	}
}

// shut makes the store of letters one that takes none above a size.
func (d deadDesk) shut(most int32) {
	d.Helper()
	must(d.T, d.c.admin.(streams.Library).Bury(qmgrtest.Context(d), &jetstream.RawStreamMsg{Subject: "ferry.command.A.x", Data: []byte("x"), Time: time.Now()}, "no", transfer.ID{}))
	s, err := d.c.control.JS().Stream(qmgrtest.Context(d), string(streams.StreamDead))
	must(d.T, err)
	cfg := s.CachedInfo().Config
	cfg.MaxMsgSize = most
	_, err = d.c.control.JS().UpdateStream(qmgrtest.Context(d), cfg)
	must(d.T, err)
}

// A removed agent is removed, and an old command too, where no letter can be kept.
func TestRemovalNeedsNoRoomForLetters(t *testing.T) {
	d := newDeadDesk(t)
	d.shut(10)
	s := StoreOf(d.c, "ALPHA")
	must(t, s.Ready(qmgrtest.Context(t)))
	_, err := s.Outgoing(qmgrtest.Context(t), "GONE")
	must(t, err)
	epoch := wire.StoredEpoch{From: "ALPHA", To: "GONE", ID: transfer.NewID(time.Now()), Epoch: 1}
	must(t, s.Put("", epoch.Subject(), []byte("data")).Wait(qmgrtest.Context(t)))
	for n := range 3 {
		enqueue(t, d.c, "ferry.command.GONE.me", fmt.Sprint("request ", n))
	}
	must(t, ClearStored(qmgrtest.Context(t), d.c, "GONE"))
	if n, m := d.waiting(streams.StreamCommand), d.waiting(streams.StreamStore); n != 0 || m != 0 {
		t.Errorf("%d commands and %d stored messages are left", n, m)
	}
	d.letters(1)
}

// A hookedJS is a JetStream with a function that runs before each purge of a stream.
type hookedJS struct {
	jetstream.JetStream
	before func()
}

func (j hookedJS) Stream(ctx context.Context, name string) (jetstream.Stream, error) {
	s, err := j.JetStream.Stream(ctx, name)
	return hookedStream{s, j.before}, err
}

type hookedStream struct {
	jetstream.Stream
	before func()
}

func (s hookedStream) Purge(ctx context.Context, opts ...jetstream.StreamPurgeOpt) error {
	if s.CachedInfo().Config.Name == string(streams.StreamCommand) {
		s.before()
	}
	return s.Stream.Purge(ctx, opts...)
}

// A message that is stored between the last letter and the removal is not removed.
func TestMessageBehindTheLastLetterStays(t *testing.T) {
	d := newDeadDesk(t)
	enqueue(t, d.c, "ferry.command.GONE.me", "before")
	l, once := d.c.admin.(streams.Library), 0
	l.JS = func() jetstream.JetStream {
		return hookedJS{d.c.control.JS(), func() {
			if once++; once == 2 { // the first purge is that of the agent's own requests
				enqueue(t, d.c, "ferry.command.GONE.me", "behind")
			}
		}}
	}
	_, err := l.Store(qmgrtest.Context(t), "GONE", streams.StoreTask{Do: streams.StoreClear})
	must(t, err)
	d.letters(1)
	if n := d.waiting(streams.StreamCommand); n != 1 {
		t.Errorf("%d commands are left", n)
	}
}

// A command that no agent has read becomes a dead letter before the age of its stream removes it.
func TestOldCommandsBecomeDeadLetters(t *testing.T) {
	d := newDeadDesk(t)
	for n := range 3 {
		enqueue(t, d.c, "ferry.command.AWAY.me", fmt.Sprint("request ", n))
	}
	l := d.c.admin.(streams.Library)
	if n, err := l.BuryExpiring(qmgrtest.Context(t), time.Now().Add(13*24*time.Hour)); n != 0 || err != nil {
		t.Errorf("after 13 days %d are dead letters, %v", n, err)
	}
	if n, err := l.BuryExpiring(qmgrtest.Context(t), time.Now().Add(14*24*time.Hour-time.Hour)); n != 3 || err != nil {
		t.Errorf("an hour before their end %d are dead letters, %v", n, err)
	}
	if d.waiting(streams.StreamCommand) != 0 {
		t.Error("they are still in their queue")
	}
	if l := d.letters(3)[0]; l.Reason != "agent AWAY has not read it for 14 days" {
		t.Errorf("the reason is %q", l.Reason)
	}
}

// An old command that cannot be kept holds up no other.
func TestOldCommandHoldsUpNone(t *testing.T) {
	d := newDeadDesk(t)
	d.shut(2000)
	large := ""
	for range 300 { // it cannot be packed
		large += rand.Text()
	}
	enqueue(t, d.c, "ferry.control.AWAY.me", large)
	enqueue(t, d.c, "ferry.command.AWAY.me", large)
	enqueue(t, d.c, "ferry.control.AWAY.me", "small")
	enqueue(t, d.c, "ferry.command.AWAY.me", "small")
	n, err := d.c.admin.(streams.Library).BuryExpiring(qmgrtest.Context(t), time.Now().Add(14*24*time.Hour-time.Hour))
	if n != 2 || err != nil {
		t.Errorf("%d are dead letters, %v", n, err)
	}
	if n, m := d.waiting(streams.StreamControl), d.waiting(streams.StreamCommand); n != 1 || m != 1 {
		t.Errorf("%d commands and %d requests wait", n, m)
	}
}

// One author cannot push out the letters of another: the oldest letter of the author with the most gives way.
func TestDeadLettersGiveWay(t *testing.T) {
	d := newDeadDesk(t)
	l := d.c.admin.(streams.Library)
	bury := func(from string, n, size int) {
		t.Helper()
		m := &jetstream.RawStreamMsg{Subject: "ferry.command.A." + from, Data: fmt.Appendf(nil, "%d %s", n, bytes.Repeat([]byte("-"), size)), Time: time.Now()}
		must(t, l.Bury(qmgrtest.Context(t), m, "no", transfer.ID{}))
	}
	bury("ann", 1, 10)
	s, err := d.c.control.JS().Stream(qmgrtest.Context(t), string(streams.StreamDead))
	must(t, err)
	cfg := s.CachedInfo().Config
	cfg.MaxMsgs = 5
	_, err = d.c.control.JS().UpdateStream(qmgrtest.Context(t), cfg)
	must(t, err)
	bury("ann", 2, 10)
	for n := range 20 {
		bury("eve", n, 10)
	}
	of := map[string]int{}
	for _, l := range d.letters(5) {
		of[l.From]++
	}
	if of["ann"] != 2 || of["eve"] != 3 {
		t.Errorf("the letters are of %v", of)
	}
	bury("bob", 1, 20<<10) // by their number, however large
	bury("eve", 99, 10)
	of = map[string]int{}
	for _, l := range d.letters(5) {
		of[l.From]++
	}
	if of["ann"] != 2 || of["bob"] != 1 || of["eve"] != 2 {
		t.Errorf("beside a large one, the letters are of %v", of)
	}

	cfg.MaxMsgs, cfg.MaxBytes = 100, 200<<10
	_, err = d.c.control.JS().UpdateStream(qmgrtest.Context(t), cfg)
	must(t, err)
	for n := range 10 {
		bury("eve", 100+n, 60<<10)
	}
	of = map[string]int{}
	all, err := d.do(streams.DeadTask{Do: streams.DeadList})
	must(t, err)
	for _, l := range all {
		of[l.From]++
	}
	if of["ann"] != 2 || of["eve"] < 2 {
		t.Errorf("by bytes, the letters are of %v", of)
	}
}

// A long list comes in parts.
func TestManyDeadLetters(t *testing.T) {
	d := newDeadDesk(t)
	l := d.c.admin.(streams.Library)
	const many = 300
	for n := range many {
		m := &jetstream.RawStreamMsg{Subject: "ferry.control.A.ann", Data: fmt.Append(nil, n), Time: time.Now()}
		must(t, l.Bury(qmgrtest.Context(t), m, "no", transfer.ID{}))
	}
	seen := map[string]bool{}
	for from := uint64(0); ; {
		res, err := DeadLetters(qmgrtest.Context(t), d.c, streams.DeadTask{Do: streams.DeadList, Number: from})
		must(t, err)
		for _, l := range res.Letters {
			seen[l.ID] = true
		}
		if from = res.Next; from == 0 {
			break
		}
	}
	if len(seen) != many {
		t.Errorf("%d letters are listed", len(seen))
	}
}
