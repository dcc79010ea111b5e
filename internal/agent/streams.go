package agent

import (
	"context"

	"ferry/internal/content/digest"
	"ferry/internal/place"
	"ferry/internal/place/local"
	"ferry/internal/transfer"
)

// Streams are the source and the target of an agent for one transfer, in place of files.
type Streams struct {
	Source   place.Source
	Target   place.Target
	Transfer transfer.ID
}

// places opens the agent's source and target.
func (a *Agent) places() (s Streams, err error) {
	if a.cfg.Streams != nil {
		return *a.cfg.Streams, nil
	}
	var fence func() error // before a name is changed: another instance may have taken over the ledger
	if a.ledger.Shared() {
		fence = a.ledger.Fence
	}
	a.fs, err = local.Open(local.Config{Roots: a.cfg.Roots, RecordRoot: a.cfg.RecordRoot, StateDirs: a.cfg.protectedDirs(),
		Incarnation: a.ledger.Incarnation(), Log: a.log, Digest: digest.ByName,
		Scratch: a.cfg.scratch(), OptionalFiles: a.cfg.Files.Optional, Fence: fence, Clock: a.cfg.Clock})
	if err != nil {
		return s, err
	}
	places, held := newPlaces(a.fs, a.conn, a.ledger, a.cfg.Clock, a.cfg.Dir)
	a.holds = held
	return Streams{Source: places, Target: places}, nil
}

// forget removes the queues, the state and the holder of an agent that does not come back.
func (a *Agent) forget() {
	ctx, cancel := context.WithTimeout(context.Background(), ownerTry)
	defer cancel()
	if err := a.conn.Forget(ctx, a.cfg.Name.Token(), a.cfg.commands(), a.cfg.controls()); err != nil {
		a.log.Debug("cannot remove the agent's queues", "error", err)
	}
}
