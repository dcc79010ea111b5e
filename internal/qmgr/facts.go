package qmgr

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/streams"
	"ferry/internal/wire"
)

// Facts are a connection's knowledge of its queue manager.
type Facts struct {
	ServerName string
	URL        string // as connected, without secrets; "" in process
	MaxPayload int64  // bytes of one message
	MaxPending int64  // bytes that the queue manager holds for a connection before it cuts it; 64 MiB if it does not say
	Reduced    string // why an acknowledged message may be lost in a power cut; "" if each is synced first
	Degraded   string // losses of its store, for an hour after they were noticed; "" for none
	InProcess  bool
	Linked     bool   // it has channels to others
	Cluster    string // its cluster; "" for none, or if it does not say
}

// learn asks the queue manager about itself, for Facts. An external one may stay silent: learn then takes 1.3 s at
// most.
func (c *Conn) learn(ctx context.Context) {
	nc := c.control.NATS()
	f := Facts{ServerName: nc.ConnectedServerName(), MaxPayload: nc.MaxPayload(), MaxPending: streams.MaxPending}
	defer func() {
		c.base.Mu.Lock()
		defer c.base.Mu.Unlock()
		c.facts = f
		c.base.MaxPayload.Store(f.MaxPayload)
	}()

	if c.cfg.Server != nil {
		f.InProcess = true
		f.MaxPayload, f.MaxPending = streams.MaxPayload, streams.MaxPending
		a := c.cfg.Server.About()
		c.noticed(a.Degraded)
		c.passing.Store(a.Present())
		f.Linked, f.Cluster = a.Linked, a.Cluster
		return
	}

	f.URL = nc.ConnectedUrlRedacted()
	f.Reduced = "the queue manager does not say whether it syncs always"
	var a errands.About
	if askManager(ctx, c, nc, &a) && a.V >= 1 {
		f.Reduced, f.Linked = "", a.Linked
		c.noticed(a.Degraded)
		c.passing.Store(a.Present())
		f.Cluster = a.Cluster
		if a.Sync != errands.SyncAlways {
			f.Reduced = fmt.Sprintf("the queue manager does not sync each message before it acknowledges it (sync %s)", a.Sync)
		}
		if a.MaxPending > 0 {
			f.MaxPending = a.MaxPending
		}
		return
	}

	if c.cfg.Identity != nil {
		return // an identity has no right to ask a NATS server
	}

	// Only connections with rights to the system account are answered here.
	var v struct {
		Data server.Varz `json:"data"`
	}
	if ask(ctx, nc, "$SYS.REQ.SERVER.PING.VARZ", nc.NewInbox(), 300*time.Millisecond, &v) {
		if v.Data.MaxPending > 0 {
			f.MaxPending = v.Data.MaxPending
		}
		if js := v.Data.JetStream.Config; js != nil && js.SyncAlways {
			f.Reduced = ""
		} else if js != nil {
			f.Reduced = fmt.Sprintf("the queue manager acknowledges messages up to %s before it syncs them", js.SyncInterval)
		}
	}
}

// askManager asks an embedded queue manager about itself.
func askManager(ctx context.Context, c *Conn, nc *nats.Conn, into *errands.About) bool {
	return ask(ctx, nc, wire.AskSubject(wire.Manager, c.cfg.Self), c.NewInbox(wire.Manager), time.Second, into)
}

func ask(ctx context.Context, nc *nats.Conn, subject, inbox string, timeout time.Duration, into any) bool {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	data, err := errands.Request(ctx, nc, subject, inbox, nil)
	return err == nil && json.Unmarshal(data, into) == nil
}
