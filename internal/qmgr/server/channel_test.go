package server

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/channel"
	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/forward"
	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/qmgrtest"
	"ferry/internal/qmgr/registrations"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/authority"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/sys/sleep"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// linked runs a queue manager that may link to others; with a nil authority it admits every client.
func linked(t *testing.T, a *authority.Authority, name string, to ...channel.Channel) *Server {
	t.Helper()
	return linkedIn(t, a, name, t.TempDir(), to...)
}

func linkedIn(t *testing.T, a *authority.Authority, name, dir string, to ...channel.Channel) *Server {
	t.Helper()
	cfg := Config{Name: name, Dir: dir, Listen: "127.0.0.1:0", ChannelListen: "127.0.0.1:0", Channels: to, Log: qmgrtest.Log(t)}
	if a != nil {
		claims, err := a.Claims()
		must(t, err)
		cfg.Guard = &Guard{Identity: authoritytest.Identity(t, a, identity.Manager, name, roles.Manager), Claims: claims}
	}
	s, err := Start(qmgrtest.Context(t), cfg)
	must(t, err)
	t.Cleanup(s.Shutdown)
	return s
}

// to returns a channel to a queue manager.
func to(s *Server) channel.Channel {
	return channel.Channel{Name: s.Name(), URL: "nats://" + s.Channels().Addr()}
}

// running waits until the channels of a queue manager are up.
func running(t *testing.T, s *Server) {
	t.Helper()
	qmgrtest.Eventually(t, "the channels of "+s.Name()+" run", func() bool {
		for _, c := range s.Channels().List() {
			if c.State != channel.ChannelRunning {
				return false
			}
		}
		return true
	})
}

// as connects as an agent.
func as(t *testing.T, a *authority.Authority, s *Server, name string) *qmgr.Conn {
	t.Helper()
	cfg := qmgr.ConnConfig{URL: s.URL(), Name: name}
	if a != nil {
		cfg.Identity = authoritytest.Identity(t, a, identity.Agent, name, roles.Agent)
	}
	return connect(t, cfg)
}

// beats publishes the heartbeats of an agent until the test ends.
func beats(t *testing.T, c *qmgr.Conn, name transfer.AgentName) {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !sleep.For(ctx, 50*time.Millisecond, nil) {
			c.Publish(wire.BeatSubject(name), wire.Marshal(wire.Report{V: wire.Version, Kind: wire.BeatKind, Beat: &wire.Beat{V: wire.Version, Kind: wire.BeatKind, Agent: name, Manager: c.Facts().ServerName}}))
		}
	}()
	t.Cleanup(func() { end(); <-done })
}

func both(t *testing.T, f func(t *testing.T, a *authority.Authority)) {
	t.Run("identities", func(t *testing.T) { f(t, authoritytest.New(t)) })
	t.Run("insecure", func(t *testing.T) { f(t, nil) })
}

// stored returns the number of messages in a stream.
func stored(t *testing.T, s *Server, stream streams.Stream) uint64 {
	t.Helper()
	js := s.forwarder.Own.JS()
	st, err := js.Stream(qmgrtest.Context(t), string(stream))
	if err != nil {
		return 0
	}
	return st.CachedInfo().State.Msgs
}

// Messages and data of agents pass through a channel, once and in both directions. They pass through a third queue
// manager, too.
func TestAChannelCarries(t *testing.T) {
	both(t, func(t *testing.T, a *authority.Authority) {
		qmgrtest.NoLeaks(t)
		hub := linked(t, a, "HUB")
		one, two := linked(t, a, "ONE", to(hub)), linked(t, a, "TWO", to(hub))
		running(t, one)
		running(t, two)
		alpha, beta := as(t, a, one, "ALPHA"), as(t, a, two, "BETA")
		for _, x := range []struct {
			from, to *qmgr.Conn
			reply    string
			data     string
		}{{alpha, beta, "ferry.reply.BETA.ALPHA", "ferry.data.BETA.ALPHA.x"}, {beta, alpha, "ferry.reply.ALPHA.BETA", "ferry.data.ALPHA.BETA.x"}} {
			replies, data := make(chan string, 100), make(chan string, 100)
			_, err := x.to.Subscribe(x.reply, func(m link.Message) { replies <- string(m.Data) })
			must(t, err)
			_, err = x.to.SubscribeData(strings.TrimSuffix(x.data, "ALPHA.x")[:len("ferry.data.")]+strings.Split(x.data, ".")[2]+".>", func(m link.Message) { data <- string(m.Data) })
			must(t, err)
			qmgrtest.Eventually(t, "replies pass", func() bool { must(t, x.from.Publish(x.reply, []byte("first"))); return len(replies) > 0 })
			qmgrtest.Eventually(t, "data passes", func() bool { must(t, x.from.PublishData(x.data, []byte("first"))); return len(data) > 0 })
			must(t, x.from.Publish(x.reply, []byte("last")))
			must(t, x.from.PublishData(x.data, []byte("last")))
			for _, c := range []chan string{replies, data} {
				for qmgrtest.Receive(t, "the last message", c) != "last" {
				}
				if n := len(c); n > 0 {
					t.Errorf("%d messages came twice", n)
				}
			}
		}
	})
}

// A command is stored once: at the queue manager of the agent that it is for, as long as that is reached,
// and where it was given until then.
func TestAChannelThatIsDownKeepsCommands(t *testing.T) {
	both(t, func(t *testing.T, a *authority.Authority) {
		qmgrtest.NoLeaks(t)
		one := linked(t, a, "ONE")
		two := linked(t, a, "TWO", to(one))
		running(t, two)
		beta := as(t, a, two, "BETA")
		beats(t, beta, "BETA")
		got, _ := consume(t, beta, streams.Commands("BETA"))
		user := as(t, a, one, "GAMMA") // with identities, an agent may send commands only to itself
		subject := func(n int) (string, *qmgr.Conn) {
			if a == nil {
				return "ferry.command.BETA.me", user
			}
			return "ferry.command.BETA.me", connect(t, qmgr.ConnConfig{URL: one.URL(), Identity: authoritytest.Identity(t, a, identity.User, "me", roles.User)})
		}
		s, c := subject(1)
		enqueue(t, c, s, "one")
		if m := qmgrtest.Receive(t, "a command for an agent elsewhere", got); m != "one" {
			t.Errorf("it is %q", m)
		}
		qmgrtest.Eventually(t, "it is stored nowhere any more", func() bool { return stored(t, one, streams.StreamCommand)+stored(t, two, streams.StreamCommand) == 0 })

		// A withdrawal must not take the request for an unread one.
		if a != nil {
			gamma := as(t, a, one, "DELTA")
			at, err := gamma.ReaderPosition(qmgrtest.Context(t), streams.Commands("BETA"))
			qmgrtest.WantKind(t, err, transfer.KindUnreachable)
			if at.Age != 0 {
				t.Errorf("the reader stands at %+v", at)
			}
		}

		must(t, two.Channels().Stop("one"))
		qmgrtest.Eventually(t, "the channel is down", func() bool { return len(one.Channels().List()) == 0 })
		if st := two.Channels().List(); len(st) != 1 || st[0].State != channel.ChannelStopped {
			t.Errorf("the channel is %+v", st)
		}
		enqueue(t, c, s, "two")
		enqueue(t, c, s, "three")
		if n := stored(t, one, streams.StreamCommand); n != 2 {
			t.Errorf("%d commands are kept", n)
		}
		must(t, two.Channels().Start("ONE"))
		for _, want := range []string{"two", "three"} {
			if m := qmgrtest.Receive(t, "what was kept", got); m != want {
				t.Errorf("it is %q, not %q", m, want)
			}
		}
		qmgrtest.Eventually(t, "nothing is kept", func() bool { return stored(t, one, streams.StreamCommand)+stored(t, two, streams.StreamCommand) == 0 })
	})
}

// A message without a reader does not hold up the messages behind it.
func TestAMessageThatIsNotHandedOnIsDropped(t *testing.T) {
	qmgrtest.NoLeaks(t)
	one := linked(t, nil, "ONE")
	two := linked(t, nil, "TWO", to(one))
	running(t, two)
	beta := as(t, nil, two, "BETA")
	got, _ := consume(t, beta, streams.Commands("BETA"))
	c := connect(t, qmgr.ConnConfig{URL: one.URL()})
	enqueue(t, c, "ferry.command.BETA.me", "one")
	enqueue(t, c, "ferry.command.BETA.me.too", "never")
	must(t, c.Enqueue(qmgrtest.Context(t), "ferry.command.BETA.me", "an ID with blanks", []byte("two")))
	beats(t, beta, "BETA")
	for _, want := range []string{"one", "two"} {
		if m := qmgrtest.Receive(t, "a command", got); m != want {
			t.Errorf("it is %q, not %q", m, want)
		}
	}
	qmgrtest.Eventually(t, "nothing is left", func() bool { return stored(t, one, streams.StreamCommand) == 0 })
}

// Audit batches reach coordination at another queue manager, also those from before that was known.
func TestAuditBatchesReachCoordination(t *testing.T) {
	qmgrtest.NoLeaks(t)
	one := linked(t, nil, "ONE")
	two := linked(t, nil, "TWO", to(one))
	running(t, two)
	beta := as(t, nil, two, "BETA")
	enqueue(t, beta, "ferry.event.BETA", "early")
	coordination := connect(t, qmgr.ConnConfig{URL: one.URL(), Name: "coordination"})
	got, _ := consume(t, coordination, streams.Events())
	if m := qmgrtest.Receive(t, "a batch", got); m != "early" {
		t.Errorf("it is %q", m)
	}
	enqueue(t, beta, "ferry.event.BETA", "late")
	if m := qmgrtest.Receive(t, "another batch", got); m != "late" {
		t.Errorf("it is %q", m)
	}
}

// Faults in the links of queue managers are reported.
func TestTopologiesThatAreWrong(t *testing.T) {
	both(t, func(t *testing.T, a *authority.Authority) {
		qmgrtest.NoLeaks(t)
		one := linked(t, a, "ONE")
		two := linked(t, a, "TWO", to(one))
		running(t, two)
		three := linked(t, a, "THREE", to(one), to(two))
		qmgrtest.Eventually(t, "the loop is said", func() bool {
			for _, s := range []*Server{one, two, three} {
				for _, c := range s.Channels().List() {
					if strings.Contains(c.Reason, "loop of channels") {
						return true
					}
				}
			}
			return false
		})
	})
	t.Run("twins", func(t *testing.T) {
		qmgrtest.NoLeaks(t)
		one := linked(t, nil, "ONE")
		for range 2 {
			linked(t, nil, "TWO", to(one))
		}
		qmgrtest.Eventually(t, "two of one name are said", func() bool { return strings.Contains(one.Degraded(), "two queue managers are called TWO") })
	})
	t.Run("another network", func(t *testing.T) {
		qmgrtest.NoLeaks(t)
		one := linked(t, authoritytest.New(t), "ONE")
		two := linked(t, authoritytest.New(t), "TWO", to(one))
		qmgrtest.Eventually(t, "it is said", func() bool {
			c := two.Channels().List()[0]
			return c.State == channel.ChannelConnecting && strings.Contains(c.Reason, "handshake failed")
		})
	})
	t.Run("nobody", func(t *testing.T) {
		qmgrtest.NoLeaks(t)
		at := qmgrtest.FreePort(t)
		two := linked(t, nil, "TWO", channel.Channel{Name: "ONE", URL: "nats://" + at})
		qmgrtest.Eventually(t, "it is said", func() bool {
			return strings.Contains(two.Channels().List()[0].Reason, "no queue manager answers there")
		})
	})
	t.Run("clock", func(t *testing.T) {
		one := linked(t, nil, "ONE")
		x := forward.Announcement{V: 1, Name: "TWO", Domain: "TWO", Instance: "x", Time: time.Now().Add(2 * time.Hour), MaxPayload: 1 << 20}
		c := connect(t, qmgr.ConnConfig{URL: one.URL()})
		qmgrtest.Eventually(t, "the clock and the limit are said", func() bool {
			data, err := json.Marshal(x)
			must(t, err)
			must(t, c.Publish(wire.ManagerSubject("TWO"), data))
			if !strings.Contains(one.Degraded(), "the clock of queue manager TWO is") {
				return false
			}
			x.Time = time.Now()
			return strings.Contains(one.Degraded(), "max_payload")
		})
		all, err := one.Members(qmgrtest.Context(t))
		if must(t, err); len(all) != 2 || all[1].Name != "TWO" || !all[1].Up || !all[1].Linked {
			t.Errorf("the queue managers are %+v", all)
		}
	})
}

// Channels are there after a restart. Stopped ones are still stopped, and removed ones do not come back.
func TestChannelsAreRemembered(t *testing.T) {
	qmgrtest.NoLeaks(t)
	one, dir := linked(t, nil, "ONE"), t.TempDir()
	two := linkedIn(t, nil, "TWO", dir, to(one), channel.Channel{Name: "GONE", URL: "nats://127.0.0.1:1"})
	must(t, two.Channels().Stop("ONE"))
	must(t, two.Channels().Remove("GONE"))
	qmgrtest.WantKind(t, two.Channels().Stop("GONE"), transfer.KindNotFound)
	two.Shutdown()
	two = linkedIn(t, nil, "TWO", dir)
	if all := two.Channels().List(); len(all) != 1 || all[0].Name != "ONE" || all[0].State != channel.ChannelStopped {
		t.Errorf("the channels are %+v", all)
	}
	must(t, two.Channels().Start("ONE"))
	running(t, two)
	qmgrtest.Eventually(t, "the other side shows it", func() bool {
		all := one.Channels().List()
		return len(all) == 1 && all[0].Name == "TWO" && all[0].Direction == channel.DirectionIn
	})
	qmgrtest.WantKind(t, one.Channels().Stop("TWO"), transfer.KindConflict, "dialled by queue manager TWO")
}

// A leaf speaks as a leafnode by hand.
type leaf struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
}

// leafOf connects with an identity and a JWT, and returns the queue manager's answer.
func leafOf(t *testing.T, s *Server, i *identity.Identity, jwt string) (*leaf, error) {
	t.Helper()
	return leafNamed(t, s, i, jwt, i.Name().Name)
}

// leafNamed is leafOf under another name.
func leafNamed(t *testing.T, s *Server, i *identity.Identity, jwt, name string) (*leaf, error) {
	t.Helper()
	raw, err := net.Dial("tcp", s.Channels().Addr())
	must(t, err)
	t.Cleanup(func() { raw.Close() })
	raw.SetDeadline(time.Now().Add(qmgrtest.Patience))
	c := tls.Client(raw, i.Client(identity.OneOf(i.Name().Network, identity.Manager)))
	l := &leaf{t, c, bufio.NewReader(c)}
	line, err := l.in.ReadString('\n')
	if err != nil {
		return l, err
	}
	var info struct{ Nonce string }
	must(t, json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info))
	signed, err := roles.SignNonce(i.Seed(), []byte(info.Nonce))
	must(t, err)
	hello, err := json.Marshal(map[string]any{"jwt": jwt, "sig": base64.RawURLEncoding.EncodeToString(signed), "name": name, "server_id": "x", "headers": true, "version": "2.15.2", "protocol": 1})
	must(t, err)
	_, err = fmt.Fprintf(c, "CONNECT %s\r\nPING\r\n", hello)
	must(t, err)
	for {
		line, err := l.in.ReadString('\n')
		if err != nil {
			return l, err
		}
		if strings.HasPrefix(line, "-ERR") {
			return l, fmt.Errorf("%s", strings.TrimSpace(line))
		}
		if strings.HasPrefix(line, "PONG") {
			return l, nil
		}
	}
}

// Only queue managers link, with the JWT that was issued for links. On a link they may use only the subjects between
// queue managers.
func TestRightsAtAChannel(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	s := linked(t, a, "ONE")
	for _, x := range []struct {
		role identity.Role
		name string
		as   roles.Role
	}{{identity.Agent, "ALPHA", roles.Agent}, {identity.User, "bob", roles.Admin}, {identity.Coordination, "", roles.Coordination}} {
		i := authoritytest.Identity(t, a, x.role, x.name, x.as)
		if _, err := leafOf(t, s, i, i.JWTs().User); err == nil || strings.HasPrefix(err.Error(), "-ERR") {
			t.Errorf("%s comes to the channel listener as far as NATS: %v", x.role, err)
		}
	}
	i := authoritytest.Identity(t, a, identity.Manager, "TWO", roles.Manager)
	agent := authoritytest.Identity(t, a, identity.Agent, "ALPHA", roles.Agent)
	for what, jwt := range map[string]string{"a queue manager's JWT for clients": i.JWTs().User, "its JWT for clients' data": i.JWTs().Data, "an agent's": agent.JWTs().User, "none": ""} {
		if _, err := leafOf(t, s, i, jwt); err == nil {
			t.Errorf("%s is let in at the channel listener", what)
		}
	}

	l, err := leafOf(t, s, i, i.JWTs().Channel)
	must(t, err)
	hear := connect(t, qmgr.ConnConfig{URL: s.URL(), Identity: s.cfg.Guard.Identity})
	heard := make(chan string, 100)
	_, err = hear.Subscribe(">", func(m link.Message) {
		if strings.Contains(string(m.Data), "MALLORY") {
			heard <- m.Subject
		}
	})
	must(t, err)
	must(t, hear.Healthy(qmgrtest.Context(t)))
	var said strings.Builder // at once: a leafnode that uses a forbidden subject is cut off
	last := placedAt(t, authoritytest.Identity(t, a, identity.Agent, "LAST", roles.Agent), "TWO", time.Now())
	fmt.Fprintf(&said, "LMSG ferry.place.LAST %d\r\n%s\r\n", len(last), last)
	for _, subject := range []string{"ferry.command.ALPHA.bob", "ferry.control.ALPHA.bob", "ferry.event.ALPHA", "ferry.owner.ALPHA", "ferry.hold.Q.m.1", "ferry.store.A.B.c.1", "ferry.ask.qmgr.coordination", "ferry.ask.up.bob",
		"$JS.API.STREAM.PURGE.FERRY_COMMAND", "$JS.ACK.FERRY_COMMAND.command-ALPHA.1.2.3.4.5", "_INBOX.x", "ferry.data.A.B.c", "other", "ferry.beat.NOBODY", "ferry.beat.LAST"} {
		fmt.Fprintf(&said, "LMSG %s 7\r\nMALLORY\r\n", subject)
	}
	_, err = l.conn.Write([]byte(said.String()))
	must(t, err)
	for got := ""; got != "ferry.beat.LAST"; {
		if got = qmgrtest.Receive(t, "what passes", heard); got != "ferry.beat.LAST" {
			t.Errorf("%s passes a channel", got)
		}
	}
	if n := stored(t, s, streams.StreamCommand) + stored(t, s, streams.StreamEvent) + stored(t, s, streams.StreamOwner) + stored(t, s, streams.StreamHold); n > 0 {
		t.Errorf("%d messages of a channel's are stored", n)
	}
}

// A queue manager accepts a bounded number of connections of another one. Each of them may need memory for its
// subjects.
func TestLinksOfOnePeerAreBounded(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	s := linked(t, a, "ONE")
	two, three := authoritytest.Identity(t, a, identity.Manager, "TWO", roles.Manager), authoritytest.Identity(t, a, identity.Manager, "THREE", roles.Manager)
	var first *leaf
	for n := range channel.MaxLinks {
		l, err := leafOf(t, s, two, two.JWTs().Channel)
		if err != nil {
			t.Fatalf("connection %d of TWO: %v", n, err)
		}
		if first == nil {
			first = l
		}
	}
	if _, err := leafOf(t, s, two, two.JWTs().Channel); err == nil {
		t.Errorf("TWO has %d connections", channel.MaxLinks+1)
	}
	_, err := leafOf(t, s, three, three.JWTs().Channel)
	must(t, err)
	first.conn.Close()
	qmgrtest.Eventually(t, "TWO connects again", func() bool {
		_, err := leafOf(t, s, two, two.JWTs().Channel)
		return err == nil
	})
}

// A link under another name than that of its certificate is cut off. So a channel shows the true name of its peer.
func TestALinkHasTheNameOfItsCertificate(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	s := linked(t, a, "ONE")
	two := linked(t, a, "TWO", to(s))
	running(t, two)
	i := authoritytest.Identity(t, a, identity.Manager, "THREE", roles.Manager)
	l, err := leafNamed(t, s, i, i.JWTs().Channel, "TWO") // may be closed before it is greeted
	for err == nil {
		_, err = l.in.ReadString('\n')
	}
	qmgrtest.Eventually(t, "TWO alone is linked", func() bool {
		z, err := s.NS.Leafz(nil)
		return err == nil && len(z.Leafs) == 2 // its own, and that for its data
	})
}

// Each time that a channel is connected it shows the certificate and the JWT that its queue manager has then.
func TestAChannelShowsWhatWasRenewed(t *testing.T) {
	qmgrtest.NoLeaks(t)
	a := authoritytest.New(t)
	one := authoritytest.Identity(t, a, identity.Manager, "ONE", roles.Manager)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", one.Server(func(identity.Name) error { return nil }))
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	type shown struct{ serial, jwt string }
	all := make(chan shown, 100)
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			c.SetDeadline(time.Now().Add(qmgrtest.Patience))
			fmt.Fprintf(c, "INFO {\"server_id\":\"x\",\"server_name\":\"ONE\",\"version\":\"2.15.2\",\"nonce\":\"abc\",\"auth_required\":true,\"tls_required\":true,\"max_payload\":%d,\"headers\":true,\"jetstream\":true,\"client_id\":7,\"info_on_connect\":true}\r\n", streams.MaxPayload)
			line, err := bufio.NewReader(c).ReadString('\n')
			var said struct{ JWT string }
			if text, ok := strings.CutPrefix(line, "CONNECT "); ok && err == nil && json.Unmarshal([]byte(text), &said) == nil {
				all <- shown{c.(*tls.Conn).ConnectionState().PeerCertificates[0].SerialNumber.String(), said.JWT}
			}
			c.Close()
		}
	}()
	two := linked(t, a, "TWO", channel.Channel{Name: "ONE", URL: "nats://" + listener.Addr().String()})
	first := qmgrtest.Receive(t, "the first connection", all)

	i := two.cfg.Guard.Identity
	wish, err := authority.IdentityRequestOf(i.Keys())
	must(t, err)
	grant, err := a.Renew(i.Name(), wish)
	must(t, err)
	must(t, i.Renew(grant))
	serial, jwts := i.Certificate().Leaf.SerialNumber.String(), i.JWTs()
	if serial == first.serial {
		t.Fatal("nothing was renewed")
	}
	qmgrtest.Eventually(t, "what was renewed is shown", func() bool {
		now := qmgrtest.Receive(t, "a connection", all)
		return now.serial == serial && (now.jwt == jwts.Channel || now.jwt == jwts.ChannelData)
	})
}

// Malicious batches are refused, and none of their messages is stored.
func TestBatchesThatAreRefused(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := linked(t, nil, "ONE")
	c := connect(t, qmgr.ConnConfig{URL: s.URL()})
	many := forward.Batch{V: 1}
	for range forward.ForwardMost + 1 {
		many.Messages = append(many.Messages, forward.Forwarded{Subject: "ferry.command.A.b"})
	}
	for what, b := range map[string]forward.Batch{
		"another version":    {V: 2},
		"an owner":           {V: 1, Messages: []forward.Forwarded{{Subject: "ferry.owner.A"}}},
		"JetStream's own":    {V: 1, Messages: []forward.Forwarded{{Subject: "$JS.API.STREAM.DELETE.FERRY_COMMAND"}}},
		"a wildcard":         {V: 1, Messages: []forward.Forwarded{{Subject: "ferry.command.A.b"}, {Subject: "ferry.command.*.b"}}},
		"too few tokens":     {V: 1, Messages: []forward.Forwarded{{Subject: "ferry.command.A"}}},
		"a line of its own":  {V: 1, Messages: []forward.Forwarded{{Subject: "ferry.command.A.b\r\nPUB x 0\r\n"}}},
		"an ID with a line":  {V: 1, Messages: []forward.Forwarded{{Subject: "ferry.command.A.b", ID: "x\r\ny: z"}}},
		"a long token":       {V: 1, Messages: []forward.Forwarded{{Subject: "ferry.command." + strings.Repeat("A", 5000) + ".b"}}},
		"more than its most": many,
	} {
		data, err := json.Marshal(b)
		must(t, err)
		answer, err := errands.Request(qmgrtest.Context(t), controlOf(c), wire.ForwardSubject("ONE", "TWO"), c.NewInbox(wire.Manager), data)
		must(t, err)
		var r forward.BatchResult
		must(t, json.Unmarshal(answer, &r))
		if good := len(b.Messages) - 1; r.Error == nil || r.Stored > max(good, 0) || len(b.Messages) > forward.ForwardMost && r.Stored > 0 {
			t.Errorf("%s: %+v", what, r)
		}
	}
	st, err := s.forwarder.Own.JS().Stream(qmgrtest.Context(t), string(streams.StreamCommand))
	must(t, err)
	if n := st.CachedInfo().State.LastSeq; n != 1 { // the good one before a bad one
		t.Errorf("%d messages were stored", n)
	}
}

// An ID that one queue manager forwards does not keep out the message of another that has the same.
func TestIDsOfWhatIsHandedOn(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := linked(t, nil, "ONE")
	c := connect(t, qmgr.ConnConfig{URL: s.URL()})
	for _, from := range []string{"TWO", "THREE", "TWO"} {
		data, err := json.Marshal(forward.Batch{V: 1, Messages: []forward.Forwarded{{Subject: "ferry.command.A.b", ID: "x"}}})
		must(t, err)
		answer, err := errands.Request(qmgrtest.Context(t), controlOf(c), wire.ForwardSubject("ONE", from), c.NewInbox(wire.Manager), data)
		must(t, err)
		var r forward.BatchResult
		if must(t, json.Unmarshal(answer, &r)); r.Error != nil || r.Stored != 1 {
			t.Errorf("of %s: %+v", from, r)
		}
	}
	must(t, c.Enqueue(qmgrtest.Context(t), "ferry.command.A.b", "x", []byte("one's own")))
	if n := stored(t, s, streams.StreamCommand); n != 3 {
		t.Errorf("%d messages are stored of three", n)
	}
}

// A queue manager that accepts a batch, stores nothing of it and gives no reason is not asked again at once. The
// messages stay.
func TestNothingOfABatchIsStored(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := linked(t, nil, "ONE")
	c := connect(t, qmgr.ConnConfig{URL: s.URL()})
	_, err := controlOf(c).Subscribe(wire.AllForwarded("MALLORY"), func(m *nats.Msg) { m.Respond([]byte(`{"v":1,"stored":0}`)) })
	must(t, err)
	must(t, controlOf(c).Flush())
	enqueue(t, c, "ferry.command.A.b", "x")
	qmgrtest.WantKind(t, s.forwarder.Drain("A", "MALLORY"), transfer.KindUnreachable)
	if n := stored(t, s, streams.StreamCommand); n != 1 {
		t.Errorf("%d messages are left", n)
	}
}

// A name that would make a subject too long for the server is ignored: the server ends the connection of a client that
// uses such a subject.
func TestLongNamesAreNotHeard(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := linked(t, nil, "ONE")
	long := strings.Repeat("M", 5000)
	f := s.forwarder
	f.Beat(&nats.Msg{Subject: "ferry.beat.A", Data: fmt.Appendf(nil, `{"beat":{"queue_manager":"%s"}}`, long)})
	f.Announcer.Announced(&nats.Msg{Subject: wire.ManagerSubject(long), Data: fmt.Appendf(nil, `{"v":1,"name":"%s","domain":"%s"}`, long, long)})
	f.Announcer.Announced(&nats.Msg{Subject: wire.ManagerSubject("M"), Data: fmt.Appendf(nil, `{"v":1,"name":"M","domain":"%s","coordination":true}`, long)})
	f.Beat(&nats.Msg{Subject: "ferry.beat.B", Data: []byte(`{"beat":{"queue_manager":"TWO"}}`)})
	if f.Registry.Where("B") != "TWO" || len(f.Registry.All) != 1 || len(f.Announcer.Others) != 0 {
		t.Errorf("heard of %d agents and %d queue managers", len(f.Registry.All), len(f.Announcer.Others))
	}
}

// Announcements take a bounded room. One has 4 KiB at most. Silent queue managers make room if there is none left.
// Nothing is kept of queue managers that took nothing once.
func TestWhatOthersSayIsBounded(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := linked(t, nil, "ONE")
	f := s.forwarder
	say := func(name, more string) {
		f.Announcer.Announced(&nats.Msg{Subject: wire.ManagerSubject(name), Data: fmt.Appendf(nil, `{"v":1,"name":"%s","domain":"%s","max_payload":%d%s}`, name, name, streams.MaxPayload, more)})
	}
	knows := func(name string) bool {
		f.Announcer.Mu.Lock()
		defer f.Announcer.Mu.Unlock()
		_, ok := f.Announcer.Others[name]
		return ok
	}
	if say("LONG", `,"degraded":"`+strings.Repeat("x", forward.MaxAnnouncement)+`"`); knows("LONG") {
		t.Error("a long announcement is heard")
	}
	for n := range registrations.MaxManagers {
		say(fmt.Sprint("M", n), "")
	}
	if say("REAL", ""); knows("REAL") {
		t.Error("there is room for one more")
	}
	now := time.Now().Add(forward.ManagerGone + time.Second)
	for n := range registrations.MaxAgents {
		f.Beat(&nats.Msg{Subject: fmt.Sprint("ferry.beat.A", n), Data: []byte(`{"beat":{"queue_manager":"TWO"}}`)})
	}
	f.Mu.Lock()
	f.Blocked["M1"] = time.Now()
	f.Mu.Unlock()
	f.Forget(now)
	if say("REAL", ""); !knows("REAL") {
		t.Error("those that are away leave no room")
	}
	f.Forget(time.Now().Add(forward.ManagerGone + registrations.AgentAway + time.Second)) // the beats of so many agents need some time
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if len(f.Blocked) > 0 || len(f.Registry.All) > 0 {
		t.Errorf("%d queue managers are remembered that took nothing, and %d agents that are away", len(f.Blocked), len(f.Registry.All))
	}
}

// A message that no queue manager takes, and that cannot be kept as a dead letter, holds up its author alone. It is
// logged as a dead letter once it is one.
func TestUnkeptMessageHoldsUpItsAuthor(t *testing.T) {
	qmgrtest.NoLeaks(t)
	s := linked(t, nil, "ONE")
	c := connect(t, qmgr.ConnConfig{URL: s.URL()})
	refused := wire.Marshal(forward.BatchResult{V: 1, Error: transfer.AsError(transfer.Errorf(transfer.KindMalformed, "no"))})
	_, err := controlOf(c).Subscribe(wire.AllForwarded("MALLORY"), func(m *nats.Msg) {
		if bytes.Contains(m.Data, []byte("ferry.command.A.b")) {
			m.Respond(refused)
			return
		}
		m.Respond([]byte(`{"v":1,"stored":1}`))
	})
	must(t, err)
	must(t, controlOf(c).Flush())
	js, err := jetstream.New(controlOf(c))
	must(t, err)
	dead := jetstream.StreamConfig{Name: string(streams.StreamDead), Subjects: []string{"ferry.dead.>"}, MaxMsgSize: 10}
	_, err = js.CreateStream(qmgrtest.Context(t), dead)
	must(t, err)
	enqueue(t, c, "ferry.command.A.b", "x")
	enqueue(t, c, "ferry.command.A.c", "y")
	qmgrtest.WantKind(t, s.forwarder.Drain("A", "MALLORY"), transfer.KindNoSpace, "ferry.command.A.b", "cannot be kept")
	if n := stored(t, s, streams.StreamCommand); n != 1 {
		t.Errorf("%d messages are left", n)
	}
	dead.MaxMsgSize = 1 << 20
	_, err = js.UpdateStream(qmgrtest.Context(t), dead)
	must(t, err)
	must(t, s.forwarder.Drain("A", "MALLORY"))
	if n, m := stored(t, s, streams.StreamCommand), stored(t, s, streams.StreamDead); n != 0 || m != 1 {
		t.Errorf("%d messages are left, and %d letters are kept", n, m)
	}
}
