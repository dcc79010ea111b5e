package qmgr

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
)

func TestEnqueueAndConsume(t *testing.T) {
	qmgrtest.NoLeaks(t)
	c := connect(t, ConnConfig{Server: start(t, t.TempDir(), "")})
	const n = 100
	for i := range n {
		enqueue(t, c, "ferry.command.A.me", fmt.Sprint(i))
	}
	enqueue(t, c, "ferry.command.B.me", "not ours")
	got, stop := consume(t, c, commands)
	for i := range n {
		if m := qmgrtest.Receive(t, "command", got); m != fmt.Sprint(i) {
			t.Fatalf("command %d is %q", i, m)
		}
	}
	stop()
	control := streams.Queue{Stream: streams.StreamControl, Durable: "control-A", Filter: "ferry.control.A.>"}
	got, _ = consume(t, c, control)
	enqueue(t, c, "ferry.control.A.me", "cancel")
	if m := qmgrtest.Receive(t, "control", got); m != "cancel" {
		t.Errorf("the control message is %q", m)
	}
	events, _ := consume(t, c, streams.Queue{Stream: streams.StreamEvent, Durable: "coordination", Filter: "ferry.event.>"})
	big := strings.Repeat("x", 1<<20)
	enqueue(t, c, "ferry.event.A", big)
	if m := qmgrtest.Receive(t, "event", events); m != big {
		t.Errorf("the event has %d bytes", len(m))
	}
}

func TestSameIDIsStoredOnce(t *testing.T) {
	c := connect(t, ConnConfig{Server: start(t, t.TempDir(), "")})
	for _, id := range []string{"1", "1", "2"} {
		if err := c.Enqueue(t.Context(), "ferry.command.A.me", id, []byte(id)); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := consume(t, c, commands)
	if a, b := qmgrtest.Receive(t, "the first", got), qmgrtest.Receive(t, "the second", got); a != "1" || b != "2" {
		t.Errorf("got %s and %s", a, b)
	}
}

func TestEnqueueRefusals(t *testing.T) {
	c := connect(t, ConnConfig{Server: start(t, t.TempDir(), "")})
	qmgrtest.WantKind(t, c.Enqueue(t.Context(), "ferry.command.A.me", "", make([]byte, streams.MaxMsgSize+1)), transfer.KindTooLarge, fmt.Sprint(streams.MaxMsgSize))
	qmgrtest.WantKind(t, c.Enqueue(t.Context(), "ferry.command.A.me", "", make([]byte, 3<<20)), transfer.KindTooLarge, fmt.Sprint(2<<20))
	qmgrtest.WantKind(t, c.Enqueue(t.Context(), "ferry. x", "", nil), transfer.KindInternal)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	qmgrtest.WantKind(t, c.Enqueue(ctx, "no.stream.has.this", "", nil), transfer.KindNoManager, "no.stream.has.this")
}

func TestNakTermAndSilence(t *testing.T) {
	qmgrtest.NoLeaks(t)
	c := connect(t, ConnConfig{Server: start(t, t.TempDir(), "")})
	type seen struct {
		what     string
		attempts int
	}
	got := make(chan seen, 100)
	consumeWith(t, c, commands, func(d Delivery) {
		got <- seen{string(d.Data), d.Attempts}
		switch string(d.Data) {
		case "nak":
			if d.Attempts < 3 {
				d.Nak(50 * time.Millisecond)
				return
			}
		case "term":
			d.Term()
			return
		case "silent":
			if d.Attempts < 2 {
				return
			}
		}
		d.Ack()
	})
	for what, times := range map[string]int{"nak": 3, "term": 1, "silent": 2} {
		enqueue(t, c, "ferry.command.A.me", what)
		for i := range times {
			if m := qmgrtest.Receive(t, what, got); m != (seen{what, i + 1}) {
				t.Fatalf("%s: got %+v; want attempt %d", what, m, i+1)
			}
		}
	}
}

// A handler may take longer than a message is otherwise held back.
func TestSlowHandlerKeepsItsMessage(t *testing.T) {
	short := times{time.Second, time.Second, 4 * time.Second, defaultTimes.pullHeartbeat}
	c := connect(t, ConnConfig{Server: start(t, t.TempDir(), ""), times: short})
	got := make(chan int, 10)
	consumeWith(t, c, commands, func(d Delivery) {
		if string(d.Data) == "slow" {
			<-time.After(2 * short.ackWait)
		}
		d.Ack()
		got <- d.Attempts
	})
	enqueue(t, c, "ferry.command.A.me", "slow")
	enqueue(t, c, "ferry.command.A.me", "next")
	for range 2 {
		if n := qmgrtest.Receive(t, "command", got); n != 1 {
			t.Errorf("it was delivered %d times", n)
		}
	}
}

// A message that comes directly after heartbeats, before the reader has looked at those, is not lost.
func TestMessageBehindHeartbeats(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := start(t, t.TempDir(), "127.0.0.1:0")
	p := newProxy(t, s.URL()[len("nats://"):])
	reader, writer := connect(t, ConnConfig{URL: "nats://" + p.Addr().String(), times: defaultTimes}), connect(t, ConnConfig{Server: s})
	got := make(chan int, 10)
	consumeWith(t, reader, commands, func(d Delivery) {
		d.Ack()
		got <- d.Attempts
	})
	enqueue(t, writer, "ferry.command.A.me", "the first")
	qmgrtest.Receive(t, "the first", got)
	message := regexp.MustCompile(`(?m)^MSG ferry\.command\.A\.me (\d+) `)
	for i := range 20 {
		p.hold()
		enqueue(t, writer, "ferry.command.A.me", "another")
		qmgrtest.Eventually(t, "a message is on its way", func() bool {
			return p.release(func(b []byte) []byte {
				at := message.FindSubmatchIndex(b)
				if at == nil {
					return nil
				}
				life := fmt.Appendf(nil, "HMSG _INBOX %s 31 31\r\nNATS/1.0 100 Idle Heartbeat\r\n\r\n\r\n", b[at[2]:at[3]])
				return slices.Concat(b[:at[0]], bytes.Repeat(life, 4), b[at[0]:])
			})
		})
		if n := qmgrtest.Receive(t, "it", got); n != 1 {
			t.Fatalf("message %d came at its %d. attempt only", i, n)
		}
	}
}

func TestRedeliveryAfterRestart(t *testing.T) {
	qmgrtest.NoLeaks(t)
	dir, addr := t.TempDir(), qmgrtest.FreePort(t)
	s := start(t, dir, addr)
	c := connect(t, ConnConfig{URL: s.URL()})
	got := make(chan int, 10)
	consumeWith(t, c, commands, func(d Delivery) {
		got <- d.Attempts
		if d.Attempts > 1 {
			d.Ack()
		}
	})
	enqueue(t, c, "ferry.command.A.me", "one")
	qmgrtest.Receive(t, "the first delivery", got)
	s.Shutdown()
	start(t, dir, addr)
	if n := qmgrtest.Receive(t, "the second delivery", got); n < 2 {
		t.Errorf("attempt %d after the restart", n)
	}
	enqueue(t, c, "ferry.command.A.me", "two")
	qmgrtest.Receive(t, "the next command", got)
}

func TestDeletedStore(t *testing.T) {
	qmgrtest.NoLeaks(t)
	dir, addr := t.TempDir(), qmgrtest.FreePort(t)
	s := start(t, dir, addr)
	ons := make(chan bool, 10)
	c := connect(t, ConnConfig{URL: s.URL(), OnConnect: func() { ons <- true }})
	qmgrtest.Receive(t, "the first OnConnect", ons)
	got, _ := consume(t, c, commands)
	for i := range 5 {
		enqueue(t, c, "ferry.command.A.me", fmt.Sprint("before ", i))
		qmgrtest.Receive(t, "a command before", got)
	}
	s.Shutdown()
	if err := os.RemoveAll(filepath.Join(dir, "jetstream")); err != nil {
		t.Fatal(err)
	}
	queued := make(chan error, 1)
	go func() { queued <- c.Enqueue(qmgrtest.Context(t), "ferry.command.A.me", "", []byte("meanwhile")) }()
	start(t, dir, addr)
	if err := qmgrtest.Receive(t, "Enqueue returned", queued); err != nil {
		t.Fatal(err)
	}
	if m := qmgrtest.Receive(t, "the command sent meanwhile", got); m != "meanwhile" {
		t.Errorf("got %q", m)
	}
	qmgrtest.Receive(t, "OnConnect", ons)
	enqueue(t, c, "ferry.command.A.me", "after")
	if m := qmgrtest.Receive(t, "a command after", got); m != "after" {
		t.Errorf("got %q", m)
	}
	if _, err := c.SetOwner(t.Context(), "k", []byte("v"), 0); err != nil {
		t.Error(err)
	}
}

// Streams and consumers may vanish under a running server, too.
func TestDeletedStreams(t *testing.T) {
	qmgrtest.NoLeaks(t)
	c := connect(t, ConnConfig{Server: start(t, t.TempDir(), "")})
	got, _ := consume(t, c, commands)
	enqueue(t, c, "ferry.command.A.me", "one")
	qmgrtest.Receive(t, "the first command", got)
	qmgrtest.Eventually(t, "the first command is acknowledged", func() bool { // a consumer that is made anew delivers it again otherwise
		stream, err := c.control.JS().Stream(t.Context(), string(streams.StreamCommand))
		return err == nil && stream.CachedInfo().State.Msgs == 0
	})
	if err := c.control.JS().DeleteConsumer(t.Context(), string(streams.StreamCommand), commands.Durable); err != nil {
		t.Fatal(err)
	}
	enqueue(t, c, "ferry.command.A.me", "two")
	if m := qmgrtest.Receive(t, "a command after the consumer was deleted", got); m != "two" {
		t.Errorf("got %q", m)
	}
	for _, s := range streams.All {
		if err := c.control.JS().DeleteStream(t.Context(), s.Name); err != nil {
			t.Fatal(err)
		}
	}
	enqueue(t, c, "ferry.command.A.me", "three")
	if m := qmgrtest.Receive(t, "a command after the stream was deleted", got); m != "three" {
		t.Errorf("got %q", m)
	}
	enqueue(t, c, "ferry.event.A", "event")
	if _, err := c.SetOwner(t.Context(), "k", nil, 0); err != nil {
		t.Error(err)
	}
	if err := c.control.JS().DeleteStream(t.Context(), string(streams.StreamOwner)); err != nil {
		t.Fatal(err)
	}
	if _, revision, err := c.Owner(t.Context(), "k"); err != nil || revision != 0 {
		t.Errorf("of a stream that was lost: revision %d, %v", revision, err)
	}
}

// A message that states its validity is made again for each try.
func TestEnqueueFresh(t *testing.T) {
	qmgrtest.NoLeaks(t)
	c := connect(t, ConnConfig{Server: start(t, t.TempDir(), "")})
	if err := c.control.JS().DeleteStream(t.Context(), string(streams.StreamCommand)); err != nil {
		t.Fatal(err)
	}
	tries := 0
	fresh := func() []byte {
		tries++
		return []byte(fmt.Sprint("try ", tries))
	}
	stored, err := c.EnqueueFresh(t.Context(), "ferry.command.A.me", fresh)
	if err != nil || stored.Seq != 1 {
		t.Fatalf("%+v, %v", stored, err)
	}
	got, _ := consume(t, c, commands) // not before: it makes the stream anew, too
	if m := qmgrtest.Receive(t, "the command", got); m != fmt.Sprint("try ", tries) || tries < 2 {
		t.Errorf("%q is stored after %d tries", m, tries)
	}
}

// A power cut may put a stream back to an earlier state than its consumer's.
func TestConsumerAheadOfItsStream(t *testing.T) {
	for name, keep := range map[string]bool{"the stream alone": true, "the whole store": false} {
		t.Run(name, func(t *testing.T) {
			qmgrtest.NoLeaks(t)
			dir, addr := t.TempDir(), qmgrtest.FreePort(t)
			store := filepath.Join(dir, "jetstream")
			s := start(t, dir, addr)
			c := connect(t, ConnConfig{URL: s.URL()})
			got, _ := consume(t, c, commands)
			step := func(what string) {
				t.Helper()
				enqueue(t, c, "ferry.command.A.me", what)
				for {
					m := qmgrtest.Receive(t, what, got)
					if m == what {
						return
					}
					t.Logf("%s came again", m)
				}
			}
			step("one")
			s.Shutdown()
			old := t.TempDir()
			if err := os.CopyFS(old, os.DirFS(store)); err != nil {
				t.Fatal(err)
			}
			s = start(t, dir, addr)
			for i := range 10 {
				step(fmt.Sprint("later ", i))
			}
			s.Shutdown()
			if err := restore(store, old, keep); err != nil {
				t.Fatal(err)
			}
			start(t, dir, addr)
			step("after the cut")
			step("and on")
		})
	}
}

// A queue manager that does not repair this itself: its answers are the test's.
func TestConsumerAheadIsReplaced(t *testing.T) {
	qmgrtest.NoLeaks(t)
	url := external(t, &server.Options{})
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	calls := make(chan string, 100)
	answer := func(subject, format string, made *uint64) {
		nc.Subscribe(subject, func(m *nats.Msg) {
			select {
			case calls <- strings.Split(m.Subject, ".")[3]:
			default: // the test counts no more; a handler that waited here would outlive the test
			}
			if made != nil {
				m.Respond(fmt.Appendf(nil, format, *made))
				*made = 0
			} else if format != "" {
				m.Respond([]byte(format))
			}
		})
	}
	delivered := uint64(12) // of the consumer as it is found; the one that is made anew has 0
	answer("$JS.API.STREAM.INFO.*", `{"config":{"name":"S"},"state":{"last_seq":3}}`, nil)
	answer("$JS.API.CONSUMER.CREATE.>", `{"stream_name":"FERRY_COMMAND","name":"command-A","delivered":{"stream_seq":%d}}`, &delivered)
	answer("$JS.API.CONSUMER.DELETE.>", `{"success":true}`, nil)
	answer("$JS.API.CONSUMER.INFO.>", `{"stream_name":"FERRY_COMMAND","name":"command-A","config":{"durable_name":"command-A","filter_subject":"ferry.command.A.>"}}`, nil)
	answer("$JS.API.CONSUMER.MSG.NEXT.>", "", nil) // there is none: an answer would have it ask again at once
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	c := connect(t, ConnConfig{URL: url})
	consume(t, c, commands)
	want := strings.Repeat("INFO ", len(streams.All)) + "CREATE INFO DELETE CREATE INFO MSG" // Ensure asks for each stream; then the consumer
	var have []string
	for range strings.Fields(want) {
		have = append(have, qmgrtest.Receive(t, "a call", calls))
	}
	if s := strings.Join(have, " "); s != want {
		t.Errorf("the calls are %s; want %s", s, want)
	}
}

// restore puts a store back to an older copy, the consumers excepted if
// keepConsumers is set.
func restore(store, old string, keepConsumers bool) error {
	return fs.WalkDir(os.DirFS(store), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || keepConsumers && strings.Contains(path, "/obs/") {
			return err
		}
		now := filepath.Join(store, path)
		was, err := os.ReadFile(filepath.Join(old, path))
		if os.IsNotExist(err) {
			return os.Remove(now)
		}
		if err != nil {
			return err
		}
		if is, err := os.ReadFile(now); err == nil && bytes.Equal(is, was) {
			return nil
		}
		return os.WriteFile(now, was, 0o600)
	})
}

// A name may have any bytes, and its value 64 KiB.
func TestOwnersOfOddNames(t *testing.T) {
	qmgrtest.NoLeaks(t)
	c := connect(t, ConnConfig{Server: start(t, t.TempDir(), "")})
	for _, name := range []string{"AGENT", "A%20B.run", ".a..b.", "ü x*>", "a/b=c"} {
		seen := uint64(0)
		for _, v := range []string{"one", "two"} {
			var err error
			if seen, err = c.SetOwner(t.Context(), name, []byte(v), seen); err != nil {
				t.Fatal(err)
			}
			if got, revision, err := c.Owner(t.Context(), name); err != nil || string(got) != v || revision != seen {
				t.Errorf("%q is %q at %d, %v; want %q at %d", name, got, revision, err, v, seen)
			}
		}
	}
	if _, err := c.SetOwner(t.Context(), "k", make([]byte, streams.MaxOwnerSize), 0); err != nil {
		t.Error(err)
	}
	_, err := c.SetOwner(t.Context(), "l", make([]byte, streams.MaxOwnerSize+1), 0)
	qmgrtest.WantKind(t, err, transfer.KindTooLarge, "65536")
}

func TestMalformedQueue(t *testing.T) {
	c := connect(t, ConnConfig{Server: start(t, t.TempDir(), "")})
	for _, q := range []streams.Queue{{}, {Stream: streams.StreamCommand, Durable: "a.b", Filter: "x"}, {Stream: streams.StreamCommand, Durable: "a"}} {
		qmgrtest.WantKind(t, c.Consume(t.Context(), q, func(Delivery) {}), transfer.KindInternal)
	}
}

func BenchmarkEnqueue(b *testing.B) {
	c := connect(b, ConnConfig{Server: start(b, b.TempDir(), "")})
	data := make([]byte, 512)
	for b.Loop() {
		if err := c.Enqueue(b.Context(), "ferry.event.A", "", data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkConsume(b *testing.B) {
	c := connect(b, ConnConfig{Server: start(b, b.TempDir(), "")})
	got, _ := consume(b, c, commands)
	data := make([]byte, 512)
	for b.Loop() {
		if err := c.Enqueue(b.Context(), "ferry.command.A.x", "", data); err != nil {
			b.Fatal(err)
		}
		<-got
	}
}

// An agent that does not come back leaves nothing behind: no reader, no holder.
func TestForgetAnAgent(t *testing.T) {
	c := connect(t, ConnConfig{Server: start(t, t.TempDir(), "")})
	ctx := qmgrtest.Context(t)
	enqueue(t, c, "ferry.command.A.me", "one")
	got, stop := consume(t, c, commands)
	qmgrtest.Receive(t, "command", got)
	stop()
	if _, err := c.SetOwner(ctx, "A", []byte("{}"), 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Forget(ctx, "A", commands); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.ReaderPosition(ctx, commands); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("the reader is still there: %v", err)
	}
	if data, _, err := c.Owner(ctx, "A"); err != nil || len(data) > 0 {
		t.Errorf("the holder is still %q: %v", data, err)
	}
}

// Messages that were refused, and come again later, hold up no message behind them, however many they are.
func TestRefusedMessagesHoldUpNobody(t *testing.T) {
	qmgrtest.NoLeaks(t)
	c := connect(t, ConnConfig{Server: start(t, t.TempDir(), "")})
	const most = 1100 // the server's own limit is 1,000
	for range most {
		enqueue(t, c, "ferry.command.A.eve", "eve's")
	}
	enqueue(t, c, "ferry.command.A.bob", "bob's")
	ctx, cancel := context.WithCancel(t.Context())
	ended, came := make(chan error, 1), make(chan string, 1)
	go func() {
		ended <- c.Consume(ctx, commands, func(d Delivery) {
			if string(d.Data) == "eve's" {
				d.Nak(time.Hour)
				return
			}
			d.Ack()
			came <- string(d.Data)
		})
	}()
	if m := qmgrtest.Receive(t, "the message of bob", came); m != "bob's" {
		t.Errorf("%q came", m)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
