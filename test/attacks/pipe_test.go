package attacks

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/security/authority"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// TestAPipeNameIsNeverEnrolled holds that a user without the authority enrol cannot enrol an agent, not even under the
// name of a pipe. The authority's journal has no entry of it.
func TestAPipeNameIsNeverEnrolled(t *testing.T) {
	n, _ := attended(t)
	eve := n.identity(identity.User, "eve", roles.Auditor)
	a := n.asker(eve)
	for _, pipe := range []transfer.AgentName{transfer.StreamAgentOf(eve.Name().String(), transfer.ID{}), "PIPE-0123456789AB"} {
		_, _, w := wish(t)
		name := identity.Name{Network: n.Network(), Role: identity.Agent, Name: string(pipe)}
		if _, err := a.Enrol(n.ctx, name, roles.Agent, w, false); transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("an auditor enrols %s: %v", name, err)
		}
	}
	for _, i := range n.Identities() {
		if transfer.AgentName(i.Name.Name).Stream() {
			t.Errorf("%s is enrolled", i.Name)
		}
	}
}

// A piped is a network with a queue ORDERS of one message, and the pipe of bob for a transfer to ALPHA.
type piped struct {
	*network
	bob, eve *identity.Identity
	pipe     authority.Pipe
	name     transfer.AgentName
	jwts     identity.JWTs
}

func newPiped(t *testing.T) *piped {
	t.Helper()
	n, _ := attended(t)
	p := &piped{network: n, bob: n.identity(identity.User, "bob", roles.User), eve: n.identity(identity.User, "eve", roles.Auditor)}
	p.pipe = authority.Pipe{Transfer: transfer.ID{6: 0x70, 8: 0x80, 15: 1}, Peer: "ALPHA", Right: transfer.AuthDest}
	p.name = transfer.StreamAgentOf(p.bob.Name().String(), p.pipe.Transfer)
	var err error
	p.jwts, err = n.asker(p.bob).Pipe(n.ctx, p.pipe)
	must(t, err)
	return p
}

// config connects with a ticket.
func (p *piped) config(i *identity.Identity, name transfer.AgentName, jwts identity.JWTs) qmgr.ConnConfig {
	return qmgr.ConnConfig{URL: p.server.URL(), Identity: i, Self: name.Token(), Ticket: func() identity.JWTs { return jwts }, Timeout: 30 * time.Second}
}

func (p *piped) connect(c qmgr.ConnConfig) *qmgr.Conn {
	p.t.Helper()
	conn, err := qmgr.Connect(p.ctx, c)
	must(p.t, err)
	p.t.Cleanup(conn.Close)
	return conn
}

// TestAPipeIsItsTransfer holds that a pipe exists only for a request that the rules allow, and is one end of one
// transfer.
func TestAPipeIsItsTransfer(t *testing.T) {
	p := newPiped(t)
	for _, right := range []transfer.Authority{transfer.AuthSource, transfer.AuthDest} {
		other := p.pipe
		other.Right = right
		if _, err := p.asker(p.eve).Pipe(p.ctx, other); transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("an auditor has a pipe for %s: %v", right, err)
		}
	}
	manager, err := p.network.connect(p.qm)
	must(t, err)
	orders := qmgr.QueuesOf(manager)
	_, err = orders.Create(p.ctx, "ORDERS", 0, 0)
	must(t, err)
	_, err = orders.Put(p.ctx, wire.QueueSpan{Queue: "ORDERS"}, false, []byte("secret"))
	must(t, err)
	v, err := orders.Show(p.ctx, "ORDERS")
	must(t, err)

	conn := p.connect(p.config(p.bob, p.name, p.jwts))
	own := string(p.name)
	for _, x := range []struct {
		errand string
		want   transfer.Kind
	}{
		{`"op":"ensure"`, transfer.KindNone},
		{`"op":"durable","durable":"command-` + own + `"`, transfer.KindNone},
		{`"op":"durable","durable":"control-` + own + `"`, transfer.KindNone},
		{`"op":"standing","durable":"control-` + own + `"`, transfer.KindNone},
		{`"op":"standing","durable":"command-ALPHA"`, transfer.KindDenied},
		{`"op":"durable","durable":"command-ALPHA"`, transfer.KindDenied},
		{`"op":"durable","durable":"coordination"`, transfer.KindDenied},
		{`"op":"owner"`, transfer.KindDenied},
		{`"op":"set-owner","owner":{"value":"QQ=="}`, transfer.KindDenied},
		{`"op":"members"`, transfer.KindDenied},
		{`"op":"strangers"`, transfer.KindDenied},
		{`"op":"purge","tokens":["ALPHA"]`, transfer.KindDenied},
		{`"op":"clear","tokens":["ALPHA"]`, transfer.KindDenied},
		{`"op":"store","store":{"do":"list"}`, transfer.KindDenied},
		{`"op":"admit"`, transfer.KindDenied},
		{`"op":"remove"`, transfer.KindDenied},
		{`"op":"notice","text":"x"`, transfer.KindDenied},
		{`"op":"forget"`, transfer.KindNone}, // its own readers
	} {
		if err := p.errand(conn, `{"v":1,`+x.errand+`}`); transfer.KindOf(err) != x.want {
			t.Errorf("a pipe asks for %s: %v, want %v", x.errand, err, x.want)
		}
	}
	for _, do := range []string{"create", "list", "marks", "show", "remove", "put", "publish", "oldest", "hold", "renew", "release", "claim", "remove-held", "read", "count", "groups", "take", "receipt", "settle"} {
		err := p.errand(conn, fmt.Sprintf(`{"v":1,"op":"queue","queue":{"do":%q,"span":{"queue":"ORDERS","first":1,"last":1,"mark":%q},"data":"QQ=="}}`, do, v.Mark))
		if transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("a pipe does %q with a queue: %v", do, err)
		}
	}
	if v, err := orders.Show(p.ctx, "ORDERS"); err != nil || v.Messages != 1 {
		t.Errorf("the queue has %d messages, %v", v.Messages, err)
	}

	// The authority gives a pipe the trust document alone, and enrols none.
	pipe := enrol.Client{Conn: conn}
	_, err = pipe.Trust(p.ctx)
	must(t, err)
	_, err = pipe.Pipe(p.ctx, p.pipe)
	for asks, err := range map[string]error{"for a pipe": err, "to be renewed": pipe.Renew(p.ctx, p.bob)} {
		if transfer.KindOf(err) != transfer.KindDenied || !strings.Contains(err.Error(), "asks the authority for the trust document alone") {
			t.Errorf("a pipe asks %s: %v", asks, err)
		}
	}
	for _, i := range p.Identities() {
		if transfer.AgentName(i.Name.Name).Stream() {
			t.Errorf("%s is enrolled", i.Name)
		}
	}
}

// errand asks the queue manager for an errand.
func (p *piped) errand(c *qmgr.Conn, errand string) error {
	p.t.Helper()
	data, err := c.Request(p.ctx, wire.AskSubject(wire.Manager, c.Self()), []byte(errand), 90*time.Second)
	must(p.t, err)
	head, _, _ := strings.Cut(string(data), "\n")
	var answer struct {
		Error *transfer.Error `json:"error"`
	}
	must(p.t, json.Unmarshal([]byte(head), &answer))
	if answer.Error == nil {
		return nil
	}
	return answer.Error
}

// TestATicketIsOfItsUser holds that a ticket is valid for the user and the name that it was signed for, and until the
// user is revoked.
func TestATicketIsOfItsUser(t *testing.T) {
	p := newPiped(t)
	other := transfer.StreamAgentOf(p.bob.Name().String(), transfer.ID{15: 2})
	own := p.config(p.bob, p.name, p.jwts)
	plain := identity.JWTs{User: p.bob.JWTs().User, Data: p.jwts.Data}
	for as, c := range map[string]qmgr.ConnConfig{
		"another user":          p.config(p.eve, p.name, p.jwts),
		"an agent":              p.config(p.identity(identity.Agent, "ALPHA", roles.Agent), p.name, p.jwts),
		"a user's own JWT":      p.config(p.bob, p.name, plain),
		"the ticket for data":   p.config(p.bob, p.name, identity.JWTs{User: p.jwts.Data, Data: p.jwts.User}),
		"another name for data": p.config(p.bob, other, identity.JWTs{User: p.jwts.User, Data: p.bob.JWTs().User}),
	} {
		c.Timeout = 2 * time.Second
		if c, err := qmgr.Connect(p.ctx, c); err == nil {
			t.Errorf("%s is let in as %s", as, c.Self())
			c.Close()
		}
	}

	lost := make(chan error, 4)
	own.OnDisconnect = func(err error) { lost <- err }
	c := p.connect(own)
	must(t, c.Healthy(p.ctx))
	must(t, p.Revoke(p.bob.Name(), ""))
	claims, err := p.Claims()
	must(t, err)
	must(t, p.server.Admit(claims))
	select {
	case <-lost:
	case <-p.ctx.Done():
		t.Fatal("the pipe of a revoked user stays")
	}
	own.Timeout = 2 * time.Second
	if c, err := qmgr.Connect(p.ctx, own); err == nil {
		t.Error("the pipe of a revoked user is let in again")
		c.Close()
	}
}

// A spoken is a connection to a queue manager. The test writes the protocol on it itself.
type spoken struct {
	t  *testing.T
	c  *tls.Conn
	in *bufio.Reader
}

func (n *network) speak(ctx context.Context, i *identity.Identity, jwt string) *spoken {
	n.t.Helper()
	d := tls.Dialer{Config: i.Client(identity.OneOf(n.Network(), identity.Manager))}
	c, err := d.DialContext(ctx, "tcp", n.address)
	must(n.t, err)
	n.t.Cleanup(func() { c.Close() })
	s := &spoken{n.t, c.(*tls.Conn), bufio.NewReader(c)}
	line, err := s.in.ReadString('\n')
	must(n.t, err)
	var info struct{ Nonce string }
	must(n.t, json.Unmarshal([]byte(strings.TrimPrefix(line, "INFO ")), &info))
	sig, err := roles.SignNonce(i.Seed(), []byte(info.Nonce))
	must(n.t, err)
	hello, err := json.Marshal(map[string]any{"verbose": false, "pedantic": true, "jwt": jwt, "sig": base64.RawURLEncoding.EncodeToString(sig), "headers": true})
	must(n.t, err)
	if refused := s.say("CONNECT " + string(hello)); refused != "" {
		n.t.Fatalf("the queue manager says %q", refused)
	}
	return s
}

// say sends a line, and returns the error of the answer.
func (s *spoken) say(text string) (refused string) {
	s.t.Helper()
	_, err := fmt.Fprintf(s.c, "%s\r\nPING\r\n", text)
	must(s.t, err)
	for {
		line, err := s.in.ReadString('\n')
		must(s.t, err)
		switch line = strings.TrimSpace(line); {
		case line == "PONG":
			return refused
		case strings.HasPrefix(line, "-ERR"):
			refused = line
		}
	}
}

// TestSubjectsOfAPipe tries every subject of every role as a pipe, with its own name, other names, another peer and
// another transfer.
func TestSubjectsOfAPipe(t *testing.T) {
	p := newPiped(t)
	self, id := p.name.Token(), p.pipe.Transfer.String()
	others := []string{"ALPHA", "BETA", "bob", "eve", "coordination", "authority", "qmgr", "x", id, transfer.ID{15: 9}.String(),
		transfer.StreamAgentOf(p.bob.Name().String(), transfer.ID{15: 9}).Token(), transfer.StreamAgentOf(p.eve.Name().String(), p.pipe.Transfer).Token()}
	tokens := append(slices.Clone(others), self)
	all := map[string]bool{}
	var fill func(s string)
	fill = func(s string) {
		at := strings.Index(s, "*")
		if at < 0 {
			all[strings.ReplaceAll(s, ">", "x")] = true
			return
		}
		for _, token := range tokens {
			fill(s[:at] + token + s[at+1:])
		}
	}
	for _, grants := range []map[roles.Role]roles.Grant{roles.Grants(), roles.DataGrants()} {
		for _, g := range grants {
			for _, s := range slices.Concat(g.Publish, g.Subscribe) {
				if strings.Count(strings.ReplaceAll(s, roles.Self, "*"), "*") < 4 {
					fill(strings.ReplaceAll(s, roles.Self, "*"))
				}
				all[strings.ReplaceAll(s, roles.Self, self)] = true
			}
		}
	}
	for _, s := range []string{"ferry.owner." + self, "ferry.queue.ORDERS." + self + ".x", "ferry.queued.ORDERS." + self + ".x.1", "ferry.store.ALPHA." + self + "." + id + ".1", "ferry.command.ALPHA.bob",
		"ferry.beat.>", "ferry.>", "ferry.log.xml.ALPHA.x", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.MSG.GET.APP_ORDERS", "$SYS.>"} {
		all[s] = true
	}

	durables := func(format string) (both []string) {
		for _, at := range []string{roles.StreamCommand + "." + roles.DurableCommand, roles.StreamControl + "." + roles.DurableControl} {
			both = append(both, fmt.Sprintf(format, at+self))
		}
		return both
	}
	may := map[string]bool{}
	for _, s := range slices.Concat([]string{"ferry.ask.ALPHA." + self, "ferry.ask.coordination." + self, "ferry.ask.authority." + self, "ferry.ask.qmgr." + self,
		"ferry.inbox.ALPHA." + self + ".x", "ferry.inbox.coordination." + self + ".x", "ferry.inbox.bob." + self + ".x",
		"ferry.reply.ALPHA." + self, "ferry.beat." + self, "ferry.progress." + self + ".bob", "ferry.event." + self},
		durables("$JS.API.CONSUMER.MSG.NEXT.%s"), durables("$JS.API.CONSUMER.INFO.%s"), durables("$JS.ACK.%s.x")) {
		may["PUB "+s] = true
	}
	for s := range all {
		for _, mine := range []string{"ferry.inbox." + self + ".", "ferry.reply." + self + ".", "ferry.ask." + self + "."} {
			if rest, ok := strings.CutPrefix(s, mine); ok && rest != ">" && (strings.HasPrefix(mine, "ferry.inbox") || !strings.Contains(rest, ".")) || s == "ferry.inbox."+self+".>" {
				may["SUB "+s] = true
			}
		}
		if strings.HasPrefix(s, "$JS.ACK._.") {
			for _, d := range durables("%s.x") {
				if parts := strings.SplitN(s, ".", 5); len(parts) == 5 && parts[4] == d {
					may["PUB "+s] = true
				}
			}
		}
	}
	for _, s := range []string{"ferry.trust", "ferry.beat.ALPHA"} {
		may["SUB "+s] = true
	}
	data := map[string]bool{"PUB ferry.data.ALPHA." + self + "." + id: true}
	for s := range all {
		if strings.HasPrefix(s, "ferry.data."+self+".") {
			data["SUB "+s] = true
		}
	}
	for as, x := range map[string]struct {
		jwt string
		may map[string]bool
	}{"a pipe": {p.jwts.User, may}, "the data of a pipe": {p.jwts.Data, data}} {
		l, got := p.speak(p.ctx, p.bob, x.jwt), map[string]bool{}
		for k, s := range slices.Sorted(maps.Keys(all)) {
			if !strings.ContainsAny(s, "*>") && l.say("PUB "+s+" 0\r\n") == "" {
				got["PUB "+s] = true
			}
			if l.say(fmt.Sprintf("SUB %s %d", s, k)) == "" {
				got["SUB "+s] = true
				l.say(fmt.Sprintf("UNSUB %d", k))
			}
		}
		for s := range got {
			if !x.may[s] {
				t.Errorf("%s may %s", as, s)
			}
		}
		for s := range x.may {
			if !got[s] {
				t.Errorf("%s may not %s", as, s)
			}
		}
		t.Logf("%s tried %d subjects", as, len(all))
	}
}
