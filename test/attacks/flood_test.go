package attacks

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/identity"
	"ferry/internal/wire"
)

// TestFloodsOfMembers lets members without rights publish messages as fast as they can on each captured subject that
// they may use. The requests and cancels of another user are stored and reach their agent. A revocation then removes
// the messages of both members, while a third member asks the authority without a pause.
//
// FLOOD is the number of messages of each subject. Requests and cancels are a fifth of that and 20,000 at most: the
// gate lets 100 a second of a member through.
func TestFloodsOfMembers(t *testing.T) {
	messages := 2_000
	if n, err := strconv.Atoi(os.Getenv("FLOOD")); err == nil {
		messages = n
	}
	n, _ := attended(t)
	n.ctx = t.Context() // the whole form takes longer than the deadline of the others
	admin := n.asker(n.identity(identity.User, "admin", roles.Admin))
	bob, err := n.connect(n.identity(identity.User, "bob", roles.User))
	must(t, err)
	must(t, bob.Healthy(n.ctx))
	alpha, err := n.connect(n.identity(identity.Agent, "ALPHA", roles.Agent))
	must(t, err)
	coordination, err := n.connect(n.identity(identity.Coordination, "", roles.Coordination))
	must(t, err)
	heard := make(chan string, 16)
	for conn, queues := range map[*qmgr.Conn][]streams.Queue{alpha: {streams.Commands("ALPHA"), streams.Controls("ALPHA")}, coordination: {streams.Events()}} {
		for _, q := range queues {
			go conn.Consume(t.Context(), q, func(d qmgr.Delivery) {
				d.Ack()
				if strings.HasSuffix(d.Subject, ".bob") {
					number, _, _ := strings.Cut(string(d.Data), " ")
					heard <- d.Subject + " " + number
				}
			})
		}
	}
	eve := n.identity(identity.User, "eve", roles.Auditor)
	mallory := n.identity(identity.Agent, "MALLORY", roles.Agent)
	_, err = qmgr.StoreOf(alpha, "ALPHA").Outgoing(n.ctx, "BETA") // makes the store
	must(t, err)
	many := func(format string, over int) func(int) string {
		return func(i int) string { return fmt.Sprintf(format, i%over) }
	}
	one := func(subject string) func(int) string { return func(int) string { return subject } }
	var floods sync.WaitGroup
	for _, f := range []struct {
		as      *identity.Identity
		subject func(int) string
	}{
		{eve, many("ferry.command.NOSUCH%d.eve", 3_000)},
		{eve, one("ferry.command.ALPHA.eve")},
		{eve, many("ferry.control.NOSUCH%d.eve", 3_000)},
		{eve, one("ferry.control.ALPHA.eve")},
		{mallory, one("ferry.command.MALLORY.MALLORY")},
		{mallory, many("ferry.store.ALPHA.MALLORY.01a21cd8-b2f1-7524-8461-%012d.1", 3_000)},
		{mallory, one("ferry.event.MALLORY")},
	} {
		conn := n.library(f.as, nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {})) // the refusals
		many := messages
		if class, _ := wire.ClassOf(f.subject(0)); class == wire.ClassCommand || class == wire.ClassControl {
			many = min(many/5, 20_000)
		}
		floods.Go(func() { flood(t, conn, many, f.subject) })
	}
	ended := make(chan struct{})
	go func() { floods.Wait(); close(ended) }()

	asking, quit := context.WithCancel(n.ctx)
	defer quit()
	carol := n.identity(identity.User, "carol", roles.Auditor)
	asks := n.library(carol, nats.NoReconnect(), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	asked := make(chan int, 1)
	go func() { asked <- question(asking, asks, "carol") }()

	turns, slowest, all := 0, time.Duration(0), time.Duration(0)
	for over := false; !over; turns++ {
		select {
		case <-ended:
			over = true // once more
		case <-time.After(200 * time.Millisecond):
		}
		for subject, size := range map[string]int{wire.CommandSubject("ALPHA", "bob"): 100_000, wire.ControlSubject("ALPHA", "bob"): 1_000} {
			began := time.Now()
			ctx, cancel := context.WithTimeout(n.ctx, time.Minute)
			if err := bob.Enqueue(ctx, subject, "", fmt.Appendf(nil, "%d %s", turns, noise(size))); err != nil {
				t.Fatalf("bob is refused on %s: %v", subject, err)
			}
			for want, got := fmt.Sprint(subject, " ", turns), ""; got != want; { // a message is stored twice where its receipt is late
				select {
				case got = <-heard:
				case <-ctx.Done():
					t.Fatalf("ALPHA has not heard the message %s", want)
				}
			}
			cancel()
			slowest, all = max(slowest, time.Since(began)), all+time.Since(began)
		}
	}
	t.Logf("%d messages of each subject; %d requests and %d cancels of bob meanwhile took %s on average, the slowest %s; the process had %s at most", messages, turns, turns,
		(all / time.Duration(2*turns)).Round(time.Millisecond), slowest.Round(time.Millisecond), peak(t))

	began := time.Now()
	must(t, admin.Revoke(n.ctx, eve.Name()))
	must(t, admin.Revoke(n.ctx, mallory.Name()))
	took := time.Since(began)
	must(t, admin.Revoke(n.ctx, carol.Name()))
	quit()
	t.Logf("the revocations took %s while the authority was asked, %d times in all", took.Round(time.Millisecond), <-asked)
	js, err := jetstream.New(n.library(n.qm))
	must(t, err)
	for stream, subjects := range map[string][]string{
		roles.StreamCommand: {"ferry.command.*.eve", "ferry.command.*.MALLORY"},
		roles.StreamControl: {"ferry.control.*.eve"},
		roles.StreamStore:   {"ferry.store.*.MALLORY.>"},
	} {
		s, err := js.Stream(n.ctx, stream)
		must(t, err)
		for _, subject := range subjects {
			info, err := s.Info(n.ctx, jetstream.WithSubjectFilter(subject))
			must(t, err)
			if len(info.State.Subjects) > 0 {
				t.Errorf("%s has messages on %d subjects of %s after the revocation", stream, len(info.State.Subjects), subject)
			}
		}
	}
}

// flood publishes messages without waiting for an answer. Each hundredth has 200,000 bytes, the others 100.
func flood(t *testing.T, conn *nats.Conn, messages int, subject func(int) string) {
	small, large := noise(100), noise(200_000)
	for i := range messages {
		data := small
		if i%100 == 0 {
			data = large
		}
		if err := conn.Publish(subject(i), data); err != nil {
			t.Errorf("message %d on %s: %v", i, subject(i), err)
			return
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if err := conn.FlushWithContext(ctx); err != nil {
		t.Errorf("after %d messages on %s: %v", messages, subject(0), err)
	}
}

// question asks the authority for a renewal until ctx ends or the connection is closed, and returns the number of
// questions.
func question(ctx context.Context, conn *nats.Conn, as string) (n int) {
	for ctx.Err() == nil {
		if err := conn.PublishRequest(wire.AskSubject(wire.Authority, as), wire.InboxSubject(as, wire.Authority, strings.Repeat("a", wire.InboxSecret), uint64(n)), []byte(`{"v":1,"op":"renew"}`)); err != nil {
			return n
		}
		if n++; n%1000 == 0 && conn.FlushTimeout(time.Minute) != nil {
			return n
		}
	}
	return n
}

// peak returns the largest resident set of this process so far.
func peak(t *testing.T) string {
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, after, ok := strings.Cut(string(status), "VmHWM:")
	if !ok {
		t.Fatal("/proc/self/status has no VmHWM")
	}
	line, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(line)
}
