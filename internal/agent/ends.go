package agent

import (
	"os"
	"sync/atomic"

	"ferry/internal/agent/outbox"
	"ferry/internal/agent/scheduler"
	"ferry/internal/agent/store"
	"ferry/internal/automation/exit"
	"ferry/internal/flow"
	"ferry/internal/ledger"
	"ferry/internal/place"
	"ferry/internal/place/local"
	"ferry/internal/place/local/disk"
	"ferry/internal/receiver"
	"ferry/internal/sender"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The transferEnds of an agent are its sender and its receiver, with the parts that they share. They are there once the
// agent has opened its ledger.
type transferEnds struct {
	*core
	own          *owner
	fs           *local.FS // nil where Config.Streams are there
	recv         *receiver.Receiver
	throttle     *flow.Throttle
	sendCfg      sender.Config
	sched        *scheduler.Scheduler
	lanes        *lanes
	storing      *store.Client // nil where Config.Streams are there
	holds        *holds        // nil where Config.Streams are there
	gate         *gatekeeper
	witness      *outbox.Witness
	olderCopy    *olderCopy
	calls        *exit.Executor
	controllers  flow.Controllers
	endedUnknown atomic.Int64 // transfers that coordination has had ended in this run, because the ledger does not know them
}

// sendAs returns the sending configuration for a principal.
func (w *transferEnds) sendAs(principal string, of transfer.Place) *sender.Config {
	cfg := w.sendCfg
	cfg.Place = place.As(cfg.Place, principal).For(of, w.gate.permit(principal))
	return &cfg
}

// beat is the present heartbeat.
func (w *transferEnds) beat() *wire.Beat {
	host, _ := os.Hostname()
	mode := "client"
	facts := w.conn.Facts()
	if facts.InProcess {
		mode = "bindings"
	}

	b := &wire.Beat{V: wire.Version, Kind: wire.BeatKind, Agent: w.cfg.Name, Instance: w.instance, Status: wire.AgentReady, Started: w.started, Time: w.cfg.Clock.Now(), Version: w.cfg.Version, Platform: platform(), Host: host, Mode: mode, Manager: w.manager(), Durability: facts.Reduced, Roots: w.cfg.Roots, Limits: disk.Limits(), Exits: w.cfg.Programs.Exits.Given(), Settings: w.cfg.Settings, Load: wire.Load{MaxSource: w.cfg.MaxSource, MaxDest: w.cfg.MaxDestination, MaxQueued: w.cfg.MaxQueued}}
	defer b.Fit()
	if w.sched == nil {
		return b
	}

	b.Incarnation = w.ledger.IncarnationText()
	b.SourceRun, b.SourceWait, b.Parked = w.sched.Counts()
	b.DestRun = w.recv.Running()
	b.Outbox = int(w.ledger.Outbox())
	b.Rates = w.throttle.Limits()
	if b.SourceRun+b.DestRun > 0 {
		b.Status = wire.AgentActive
	}

	if facts.Degraded != "" {
		b.Status, b.Reason = wire.AgentDegraded, "the queue manager is degraded: "+facts.Degraded
	}
	if old := w.gate.Degraded(); old != "" {
		b.Status, b.Reason = wire.AgentDegraded, old
	}
	if set := w.olderCopy.degraded(); set != "" {
		b.Status, b.Reason = wire.AgentDegraded, set
	}
	if bad := w.witness.Degraded(); bad != "" {
		b.Status, b.Reason = wire.AgentDegraded, bad
	}
	if err := w.ledger.OutboxFull(); err != nil {
		b.Reason = err.Error()
	}

	if w.ledger.Low() {
		b.Reason = "the ledger's disk " + w.ledger.Shortage() + "; nothing new is accepted"
	}

	w.published.mu.Lock()
	if w.published.stopping {
		b.Status = wire.AgentStopping
	}
	w.published.mu.Unlock()
	return b
}

// status is the present progress of a transfer, or its last one.
func (w *transferEnds) status(id transfer.ID) (*transfer.Progress, error) {
	if o := w.sched.Find(id); o != nil {
		return o.Status(), nil
	}

	var rec *ledger.Source
	var tombstone ledger.Tombstone
	err := w.ledger.View(func(t *ledger.Tx) (err error) {
		if rec, err = t.Source(id); err == nil && rec == nil {
			tombstone, err = ledger.TombstoneByAny(t, id)
		}
		return err
	})
	if err != nil {
		return nil, err
	}

	if as := tombstone.As; as != "" { // its request has not come
		return &transfer.Progress{ID: id, State: as, Source: w.cfg.Name, Code: as.Code()}, nil
	}

	if rec == nil {
		return nil, transfer.Errorf(transfer.KindNotFound, "%s has no transfer %s", w.cfg.Name, id)
	}
	return &rec.Progress, nil
}

// alive reports whether a transfer with a peer runs here, on either side.
func (w *transferEnds) alive(id transfer.ID, peer transfer.AgentName) bool {
	if w.recv.Live(id, peer) {
		return true
	}
	o := w.sched.Find(id)
	return o != nil && o.Record().Request.Destination == peer
}
