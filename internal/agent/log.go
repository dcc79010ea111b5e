package agent

import (
	"cmp"
	"log/slog"

	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// logConfig logs the configuration of the agent.
func (a *Agent) logConfig() {
	facts, s := a.conn.Facts(), a.cfg.Settings.Or(transfer.DefaultSettings())
	var at []string
	if a.lanes.hub != nil {
		at = a.lanes.hub.Addresses()
	}
	a.log.Info("agent started", "version", a.cfg.Version, "instance", a.instance, "ledger", a.ledger.IncarnationText(), "dir", a.cfg.Dir, "roots", a.cfg.Roots,
		"direct", cmp.Or(a.cfg.Direct.Mode, wire.DirectTLS), "addresses", at, "source_transfers", a.cfg.MaxSource, "destination_transfers", a.cfg.MaxDestination,
		"queued_transfers", a.cfg.MaxQueued, "chunk", s.ChunkSize, "window", s.WindowSize, "frame", s.FrameSize, "checkpoint", s.CheckpointInterval,
		"memory", a.cfg.Memory, "bindings", facts.InProcess)
}

// logAccepted logs a request that has come into the ledger.
func (a *intake) logAccepted(rec *ledger.Source) {
	q := &rec.Request
	level, text := slog.LevelInfo, "transfer accepted"
	attrs := []any{"transfer", q.ID, "destination", q.Destination, "job", q.Job, "originator", rec.Progress.Originator}
	if len(q.Items) > 0 { // the ledger keeps no items of ended transfers
		attrs = append(attrs, "source", q.Items[0].Source, "sources", q.Count())
	}
	if rec.State != transfer.Accepted {
		level, text = slog.LevelWarn, "transfer will not run"
		attrs = append(attrs, "state", rec.State, "error", rec.Progress.Reason)
	}
	a.log.Log(a.ctx, level, text, attrs...)
}
