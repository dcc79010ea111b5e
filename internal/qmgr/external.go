package qmgr

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/link"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/identity"
	"ferry/internal/sys/quiet"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// AdmitExternal has an external server take new claims of the authority. The server then closes the connections of
// revoked identities. In a cluster it passes the claims on to the other members, and to absent ones when they are back.
// The identity i passes the server's TLS. AdmitExternal returns the facts that the server states of itself.
func AdmitExternal(ctx context.Context, url string, i *identity.Identity, as errands.SystemUser, claims roles.Claims) (Facts, error) {
	var f Facts
	at := Addresses(url)
	if len(at) == 0 {
		return f, transfer.Errorf(transfer.KindUsage, "%q names no server that asks for identities", url)
	}
	nc, err := nats.Connect("nats://"+strings.Join(at, ",nats://"), nats.Name("ferry authority"), nats.NoReconnect(), nats.Timeout(link.DialTimeout),
		nats.Secure(i.Client(identity.OneOf(i.Name().Network, identity.Manager))), nats.TLSHandshakeFirst(),
		nats.UserJWT(func() (string, error) { return as.JWT, nil }, func(nonce []byte) ([]byte, error) { return roles.SignNonce(as.Seed, nonce) }))
	if err != nil {
		return f, transfer.Errorf(transfer.KindNoManager, "the server at %s refuses the connection of the authority: %w", url, err)
	}
	defer nc.Close()

	for _, account := range []string{claims.Data, claims.Account} {
		m, err := nc.RequestWithContext(ctx, "$SYS.REQ.CLAIMS.UPDATE", []byte(account))
		if err != nil {
			return f, transfer.Errorf(transfer.KindNoManager, "the server at %s does not take the list of admitted identities: %w", url, err)
		}
		var said server.ServerAPIClaimUpdateResponse
		if err := json.Unmarshal(m.Data, &said); err != nil || said.Error != nil || said.Data == nil {
			why := "its answer cannot be read"
			if said.Error != nil {
				why = said.Error.Description
			}
			return f, transfer.Errorf(transfer.KindConflict, "the server at %s does not take the list of admitted identities: %s", nc.ConnectedUrlRedacted(), why).
				WithHint("is it of this network, with the configuration of `ferry authority export`?")
		}
	}

	var v struct {
		Data server.Varz `json:"data"`
	}
	f = Facts{ServerName: nc.ConnectedServerName(), MaxPayload: nc.MaxPayload(), Reduced: "the queue manager does not say whether it syncs always"}
	if ask(ctx, nc, "$SYS.REQ.SERVER.PING.VARZ", nc.NewInbox(), link.ProbeTimeout, &v) {
		f.MaxPending = v.Data.MaxPending
		if js := v.Data.JetStream.Config; js != nil && js.SyncAlways {
			f.Reduced = ""
		}
	}
	return f, nil
}

// errandGroup is the queue group that shares the errands of an external server among its workers.
const errandGroup = "ferry"

// DoErrands does for a server that is not Ferry's the work of an embedded queue manager. It makes streams and durables,
// keeps owners, and answers questions about the server, until stop. The Conn has a queue manager's identity; facts are
// those of the server. may checks the rules; nil: they are not known.
func DoErrands(c *Conn, facts func() Facts, may errands.Rules) (stop func(), err error) {
	library := streams.Library{JS: c.control.JS, AckWait: c.cfg.times.ackWait, Log: c.cfg.Log, Quiet: quiet.New(c.cfg.Log, nil)}
	r := errands.NewRegistrar("the queue manager at "+c.base.Where, library)
	r.May, r.Proved = may, c.cfg.Identity != nil
	unsubscribe, err := c.control.SubscribeGroup(wire.AllAsks(wire.Manager), errandGroup, func(m link.Message) {
		if !wire.Wants(m.Subject, m.Reply) {
			return
		}
		reply := func(answer []byte) { errands.AnswerInParts(c.control.NATS(), m.Reply, answer) } // the asker repeats its question
		if body := errands.Unpacked(m.Data); len(body) > 0 {
			r.Take(wire.LastToken(m.Subject), body, reply)
			return
		}
		f := facts()
		a := errands.About{V: 1, Name: f.ServerName, MaxPayload: f.MaxPayload, MaxPending: f.MaxPending}
		if f.Reduced == "" {
			a.Sync = errands.SyncAlways
		}
		if answer, err := json.Marshal(a); err == nil {
			reply(answer)
		}
	})
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("the errands of the queue manager at %s: %w", c.base.Where, err)
	}
	r.Background(func(ctx context.Context) { r.KeepExpiring(ctx, library) })
	return func() { unsubscribe(); r.Close() }, nil
}
