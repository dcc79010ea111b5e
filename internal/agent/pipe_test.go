package agent_test

import (
	"testing"
	"time"

	"ferry/internal/authority"
	"ferry/internal/authority/authoritytest"
	"ferry/internal/identity"
	"ferry/internal/qmgr"
	"ferry/internal/qmgr/roles"
	"ferry/internal/transfer"
	"ferry/internal/trust"
	"ferry/internal/wire"
)

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
	jwts, err := authority.Ticket(s.net, bob.Name(), authority.Pipe{Transfer: own, Peer: "ALPHA", Right: transfer.AuthDest})
	s.must(err)
	pipe := transfer.StreamAgentOf(bob.Name().String(), own)
	conn, err := qmgr.Connect(s.ctx, qmgr.ConnConfig{URL: s.server.URL(), Identity: bob, Self: pipe.Token(), Ticket: func() identity.JWTs { return jwts }})
	s.must(err)
	t.Cleanup(conn.Close)
	answers := make(chan *wire.Message, 64)
	_, err = conn.Subscribe(wire.ReplySubject(pipe, "ALPHA"), func(m qmgr.Message) {
		if answer, err := wire.Decode(m.Data); err == nil {
			answers <- answer
		}
	})
	s.must(err)

	for n, x := range []struct {
		id        transfer.ID
		principal string
		want      wire.Kind
	}{
		{other, "bob", wire.KindRefuse},
		{own, "ann", wire.KindRefuse},
		{own, pipe.Token(), wire.KindRefuse},
		{own, "bob", wire.KindAccept},
		{other, "bob", wire.KindRefuse},
	} {
		open := &wire.Message{Kind: wire.KindOpen, From: pipe, Transfer: x.id, Open: &wire.Open{Nonce: uint64(n + 1), Source: "00000000000000aa", MaxChunk: 1 << 20, Principal: x.principal,
			Request: transfer.Request{Version: transfer.RequestVersion, ID: x.id, Source: pipe, Destination: "ALPHA", Dest: transfer.File(transfer.Path(s.root + "/in")), Recovery: -1}}}
		data, err := open.Encode()
		s.must(err)
		s.must(conn.Publish(wire.ReplySubject("ALPHA", pipe), data))
		select {
		case m := <-answers:
			if m.Kind != x.want || m.Transfer != x.id || m.Refuse != nil && transfer.KindOf(errorOf(m.Refuse.Error)) != transfer.KindDenied {
				t.Errorf("the agent answers OPEN %d of the transfer %s for %s with %+v, want %s", n+1, x.id, x.principal, m, x.want)
			}
		case <-s.ctx.Done():
			t.Fatalf("the agent does not answer OPEN %d of the transfer %s for %s", n+1, x.id, x.principal)
		}
	}
}
