package agent_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"ferry/internal/agent"
	"ferry/internal/place/pipe"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/authority"
	"ferry/internal/security/authority/authoritytest"
	"ferry/internal/security/identity"
	"ferry/internal/security/trust"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// pipe connects the pipe of a user for a transfer to ALPHA.
func (s *trusted) pipe(user *identity.Identity, id transfer.ID) (transfer.AgentName, *qmgr.Conn) {
	s.Helper()
	jwts, err := authority.Ticket(s.net, user.Name(), authority.Pipe{Transfer: id, Peer: "ALPHA", Right: transfer.AuthDest})
	s.must(err)
	name := transfer.StreamAgentOf(user.Name().String(), id)
	conn, err := qmgr.Connect(s.ctx, qmgr.ConnConfig{Timeout: 90 * time.Second, URL: s.server.URL(), Identity: user, Self: name.Token(), Ticket: func() identity.JWTs { return jwts }})
	s.must(err)
	s.Cleanup(conn.Close)
	return name, conn
}

// TestAPipeEndsWithItsTransfer holds that a pipe that ends removes its readers of requests and of cancels.
func TestAPipeEndsWithItsTransfer(t *testing.T) {
	s := newTrusted(t)
	id := transfer.NewID(time.Now())
	name, conn := s.pipe(authoritytest.Identity(t, s.net, identity.User, "bob", roles.User), id)
	a, err := agent.Start(s.ctx, agent.Config{Name: name, Dir: s.dir, Log: slog.New(slog.DiscardHandler), Direct: agent.Direct{Mode: agent.DirectOff},
		Streams: &agent.Streams{Source: pipe.NewSource(strings.NewReader("")), Target: pipe.NoTarget{}, Transfer: id}}, conn)
	s.must(err)
	queues := []streams.Queue{streams.Commands(name), streams.Controls(name)}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for _, q := range queues {
		for _, err = s.master.ReaderPosition(s.ctx, q); err != nil; _, err = s.master.ReaderPosition(s.ctx, q) {
			select {
			case <-tick.C:
			case <-s.ctx.Done():
				t.Fatalf("the pipe has no reader of %s: %v", q.Filter, err)
			}
		}
	}
	a.Stop()
	for _, q := range queues {
		if _, err := s.master.ReaderPosition(s.ctx, q); transfer.KindOf(err) != transfer.KindNotFound {
			t.Errorf("the reader of %s stays: %v", q.Filter, err)
		}
	}
}

// TestAnAgentTakesOneTransferFromAPipe holds that an agent accepts from a pipe only the transfer of the pipe's name, and
// only for the user of the pipe.
func TestAnAgentTakesOneTransferFromAPipe(t *testing.T) {
	s := newTrusted(t)
	bob := authoritytest.Identity(t, s.net, identity.User, "bob", roles.User)
	doc, err := s.net.Trust(trust.Rules)
	s.must(err)
	stop := s.run()
	defer stop()
	s.must(s.master.Publish(wire.Rules, doc))
	s.says(wire.AgentReady, "")

	own, other := transfer.NewID(time.Now()), transfer.NewID(time.Now())
	self, conn := s.pipe(bob, own)
	answers := make(chan *wire.Message, 64)
	_, err = conn.Subscribe(wire.ReplySubject(self, "ALPHA"), func(m qmgr.Message) {
		if answer, err := wire.Decode(m.Data); err == nil {
			answers <- answer
		}
	})
	s.must(err)

	nonce := uint64(0)
	for n, x := range []struct {
		id        transfer.ID
		principal string
		want      wire.Kind
	}{
		{other, "bob", wire.KindRefuse},
		{own, "ann", wire.KindRefuse},
		{own, self.Token(), wire.KindRefuse},
		{own, "bob", wire.KindAccept},
		{other, "bob", wire.KindRefuse},
	} {
		open := &wire.Open{Source: "00000000000000aa", MaxChunk: 1 << 20, Principal: x.principal,
			Request: transfer.Request{Version: transfer.RequestVersion, ID: x.id, Source: self, Destination: "ALPHA", Dest: transfer.File(transfer.Path(s.root + "/in")), Recovery: -1}}
		m := s.opens(conn, self, open, &nonce, answers)
		if m.Kind != x.want || m.Transfer != x.id || m.Refuse != nil && transfer.KindOf(errorOf(m.Refuse.Error)) != transfer.KindDenied {
			t.Errorf("the agent answers OPEN %d of the transfer %s for %s with %+v, want %s", n+1, x.id, x.principal, m, x.want)
		}
	}
}

// opens sends an OPEN to ALPHA and returns the answer. BUSY is no final one: a busy host has the agent wait, and the OPEN
// is sent again with the next nonce, as a source does.
func (s *trusted) opens(conn *qmgr.Conn, self transfer.AgentName, open *wire.Open, nonce *uint64, answers <-chan *wire.Message) *wire.Message {
	s.Helper()
	again := time.NewTicker(100 * time.Millisecond)
	defer again.Stop()
	for {
		*nonce++
		open.Nonce = *nonce
		data, err := (&wire.Message{Kind: wire.KindOpen, From: self, Transfer: open.Request.ID, Open: open}).Encode()
		s.must(err)
		s.must(conn.Publish(wire.ReplySubject("ALPHA", self), data))
		select {
		case m := <-answers:
			if m.Kind != wire.KindBusy {
				return m
			}
			s.Logf("BUSY: %v", m.Busy.Reason)
		case <-s.ctx.Done():
			s.Fatalf("the agent does not answer the OPEN of transfer %s", open.Request.ID)
		}
		select {
		case <-again.C:
		case <-s.ctx.Done():
		}
	}
}
