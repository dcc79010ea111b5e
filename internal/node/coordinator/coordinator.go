package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"ferry/internal/coordination"
	"ferry/internal/node/member"
	"ferry/internal/node/process"
	"ferry/internal/qmgr"
	"ferry/internal/security/enrol"
	"ferry/internal/security/identity"
	"ferry/internal/sys/space"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Coordinator is coordination in this process.
type Coordinator struct {
	Console      process.Console
	Network, Dir string
	i            *identity.Identity
	Entry        member.Entry
	Standby, XML bool
	External     bool // the queue manager is a server of NATS that is not Ferry's: do its errands
	Log          *slog.Logger
}

// Run runs coordination until told ends, or until it has to stop.
func (c *Coordinator) Run(told context.Context) error {
	process.SetSlack(process.SlackOfOthers)
	ctx, end := context.WithCancelCause(told)
	defer end(nil)
	if c.External {
		stop, err := serveErrands(ctx, c.Entry.As, c.Network, c.Dir, c.Log)
		if err != nil {
			return cmp.Or(process.Lost(ctx), err)
		}
		defer stop()
	}
	enrolled := func() (err error) {
		c.i, err = member.ServiceAt(ctx, c.Entry, c.Network, c.Dir, identity.Coordination, "", c.Log)
		return err
	}
	var err error
	if c.Standby {
		err = member.Exclusively(ctx, c.Dir, enrolled)
	} else {
		err = enrolled()
	}
	if err != nil {
		return cmp.Or(process.Lost(ctx), err)
	}
	for ctx.Err() == nil {
		if err := c.runOnce(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return process.Lost(ctx)
}

// runOnce runs coordination until ctx ends, or until it has to stop. A coordination with a standby may then stand by
// itself; the error is nil.
func (c *Coordinator) runOnce(ctx context.Context) error {
	conn, err := qmgr.Connect(ctx, qmgr.ConnConfig{URL: c.Network, Name: "ferry coordination", Self: wire.Coordination, Identity: c.i, Timeout: -1, Log: c.Log})
	if err != nil {
		return err
	}
	defer conn.Close()
	cfg := coordination.Config{Dir: c.Dir, Log: c.Log, XML: c.XML}
	if c.Standby {
		waiting, over := context.WithCancel(ctx)
		defer over()
		go member.KeepReread(waiting, c.i, c.Log)
		if cfg.Claim, err = coordination.StandBy(ctx, cfg, conn, func() { fmt.Fprintln(c.Console.Out, "coordination standing by") }); err != nil {
			return err
		}
		over()
		member.Reread(c.i, c.Log)
	}

	active, stop := context.WithCancel(ctx)
	defer stop()
	if c.i != nil {
		go member.KeepRenewed(active, c.i, func(ctx context.Context) error { return enrol.Client{Conn: conn}.Renew(ctx, c.i) }, c.Log)
	}
	var s *coordination.Service
	start := func() (err error) {
		s, err = coordination.Start(ctx, cfg, conn)
		return err
	}
	if !c.Standby {
		err = process.WhileFull(ctx, c.Log, "coordination", c.Dir, start)
	} else if err = start(); transfer.Full(err) {
		c.Log.Warn("the disk of coordination is full; standing by", "dir", c.Dir, "error", err, "shortage", space.Shortage(c.Dir))
		process.SleepFor(ctx, process.FullPause)
		return nil
	}
	if err != nil {
		return err
	}
	defer s.Stop()
	fmt.Fprintln(c.Console.Out, "coordination ready")
	select {
	case <-s.Gone():
	case <-ctx.Done():
		return nil
	}
	err = s.Lost()
	if kind := transfer.KindOf(err); c.Standby && (kind == transfer.KindAlive || kind == transfer.KindUnreachable) {
		c.Log.Warn("coordination is no longer active; standing by", "error", err)
		return nil
	}
	return err
}

// serveErrands does the errands of an external server beside the coordination service, and shares its directory. The
// first start needs the authority, and a user with the right to enrol.
func serveErrands(ctx context.Context, as, url, dir string, log *slog.Logger) (stop func(), err error) {
	i, err := member.MemberAt(ctx, as, url, filepath.Join(dir, "errands"), false, identity.Manager, "errands-coordination", log)
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
	go member.KeepRenewed(ctx, i, func(ctx context.Context) error { return enrol.Client{Conn: conn}.Renew(ctx, i) }, log)
	return func() { done(); conn.Close() }, nil
}
