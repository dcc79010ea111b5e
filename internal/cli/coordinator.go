package cli

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"ferry/internal/coordination"
	"ferry/internal/qmgr"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/sys/space"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A coordinator is coordination in this process.
type coordinator struct {
	console      console
	network, dir string
	i            *identity.Identity
	entry        entry
	standby, xml bool
	external     bool // the queue manager is a server of NATS that is not Ferry's: do its errands
	log          *slog.Logger
}

// run runs coordination until told ends, or until it has to stop.
func (c *coordinator) run(told context.Context) error {
	collectLess(slackOfOthers)
	ctx, end := context.WithCancelCause(told)
	defer end(nil)
	if c.external {
		stop, err := errandsBeside(ctx, c.entry.as, c.network, c.dir, c.log)
		if err != nil {
			return cmp.Or(lost(ctx), err)
		}
		defer stop()
	}
	enrolled := func() (err error) {
		c.i, err = serviceAt(ctx, c.entry, c.network, c.dir, identity.Coordination, "", c.log)
		return err
	}
	var err error
	if c.standby {
		err = alone(ctx, c.dir, enrolled)
	} else {
		err = enrolled()
	}
	if err != nil {
		return cmp.Or(lost(ctx), err)
	}
	for ctx.Err() == nil {
		if err := c.turn(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return lost(ctx)
}

// turn runs coordination until ctx ends, or until it has to stop. A coordination with a standby may then stand by
// itself; the error is nil.
func (c *coordinator) turn(ctx context.Context) error {
	conn, err := qmgr.Connect(ctx, qmgr.ConnConfig{URL: c.network, Name: "ferry coordination", Self: wire.Coordination, Identity: c.i, Timeout: -1, Log: c.log})
	if err != nil {
		return err
	}
	defer conn.Close()
	cfg := coordination.Config{Dir: c.dir, Log: c.log, XML: c.xml}
	if c.standby {
		waiting, over := context.WithCancel(ctx)
		defer over()
		go keepRead(waiting, c.i, c.log)
		if cfg.Claim, err = coordination.StandBy(ctx, cfg, conn, func() { fmt.Fprintln(c.console.out, "coordination standing by") }); err != nil {
			return err
		}
		over()
		reread(c.i, c.log)
	}

	active, stop := context.WithCancel(ctx)
	defer stop()
	if c.i != nil {
		go keepRenewed(active, c.i, func(ctx context.Context) error { return enrol.Asker{Conn: conn}.Renew(ctx, c.i) }, c.log)
	}
	var s *coordination.Service
	start := func() (err error) {
		s, err = coordination.Start(ctx, cfg, conn)
		return err
	}
	if !c.standby {
		err = whileFull(ctx, c.log, "coordination", c.dir, start)
	} else if err = start(); transfer.Full(err) {
		c.log.Warn("the disk of coordination is full; standing by", "dir", c.dir, "error", err, "shortage", space.Shortage(c.dir))
		sleepFor(ctx, fullPause)
		return nil
	}
	if err != nil {
		return err
	}
	defer s.Stop()
	fmt.Fprintln(c.console.out, "coordination ready")
	select {
	case <-s.Gone():
	case <-ctx.Done():
		return nil
	}
	err = s.Lost()
	if kind := transfer.KindOf(err); c.standby && (kind == transfer.KindAlive || kind == transfer.KindUnreachable) {
		c.log.Warn("coordination is no longer active; standing by", "error", err)
		return nil
	}
	return err
}

// errandsBeside does the errands of an external server beside the coordination service, and shares its directory. The
// first start needs the authority, and a user with the right to enrol.
func errandsBeside(ctx context.Context, as, url, dir string, log *slog.Logger) (stop func(), err error) {
	i, err := memberAt(ctx, as, url, filepath.Join(dir, "errands"), false, identity.Manager, "errands-coordination", log)
	if err != nil {
		return nil, err
	}
	if i == nil {
		return nil, transfer.Errorf(transfer.KindUsage, "the queue manager at %s has no identities, and needs no --external", url)
	}
	conn, err := qmgr.Connect(ctx, qmgr.ConnConfig{URL: url, Name: "ferry errands", Identity: i, Timeout: -1, Log: log})
	if err != nil {
		return nil, err
	}
	done, err := qmgr.DoErrands(conn, conn.Facts, nil)
	if err != nil {
		conn.Close()
		return nil, err
	}
	go keepRenewed(ctx, i, func(ctx context.Context) error { return enrol.Asker{Conn: conn}.Renew(ctx, i) }, log)
	return func() { done(); conn.Close() }, nil
}
