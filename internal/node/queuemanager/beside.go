package queuemanager

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"ferry/internal/coordination"
	"ferry/internal/node/process"
	"ferry/internal/qmgr"
	"ferry/internal/sys/space"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A service runs in the process of a queue manager.
type service struct {
	name, dir string
	start     func() (run, stop func(), err error) // gives its work until ctx ends, and how it is stopped
	// degraded gets the reason why the service does not run. The other services then run without it, and it is tried
	// again. A service without degraded ends the process where it cannot start.
	degraded func(error)
}

// Services run in the process of a queue manager. A service on a full disk starts when there is space, and delays no
// other.
type services struct {
	ctx context.Context
	end context.CancelCauseFunc // with the error of a service that cannot start later
	log *slog.Logger
	all sync.WaitGroup

	mu    sync.Mutex
	stops []func() // of those that have started, in that order
}

const (
	lookPause = 2 * time.Second // between two checks of the files of a degraded service
	maxLooks  = 30              // until it is tried again though no file has changed
)

// run starts a service. Its error ends the process.
func (b *services) run(s service) error {
	begin := func() error {
		run, stop, err := s.start()
		if err == nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.stops = append(b.stops, stop)
			b.all.Go(run)
		}
		return err
	}
	err := begin()
	kind := transfer.KindOf(err)
	if taken := kind == transfer.KindAlive || kind == transfer.KindConflict; err == nil || !transfer.Full(err) && (s.degraded == nil || taken) {
		return err
	}
	said := b.waits(s, err, "")
	b.all.Go(func() {
		for err != nil && b.ctx.Err() == nil {
			switch {
			case transfer.Full(err):
				process.SleepFor(b.ctx, process.FullPause)
			case s.degraded == nil:
				b.end(err)
				return
			default:
				awaitChange(b.ctx, s.dir)
			}
			if b.ctx.Err() == nil {
				if err = begin(); err != nil {
					said = b.waits(s, err, said)
				}
			}
		}
		if err == nil && said != "" {
			b.log.Info("service started after it had waited", "of", s.name)
		}
	})
	return nil
}

// waits logs the reason why a service does not run, unless that is said, and returns that text.
func (b *services) waits(s service, err error, said string) string {
	full := transfer.Full(err)
	if s.degraded != nil && b.ctx.Err() == nil {
		s.degraded(err)
	}
	text := err.Error()
	if full {
		text = "full" // each try may name another file
	}
	switch {
	case text == said || b.ctx.Err() != nil:
	case full:
		b.log.Warn("waiting for space on the disk", "of", s.name, "dir", s.dir, "error", err, "shortage", space.Shortage(s.dir))
	default:
		b.log.Error("service is degraded; the others run, and it is tried again when its files change, and every minute", "of", s.name, "dir", s.dir, "error", err)
	}
	return text
}

// stop ends the services, the last one first.
func (b *services) stop() {
	b.end(nil)
	b.all.Wait()
	for _, stop := range slices.Backward(b.stops) {
		stop()
	}
}

// awaitChange returns when files in a directory have changed and are at rest again, after a minute without a change, or
// when ctx ends. During a restore no program may write to the files.
func awaitChange(ctx context.Context, dir string) {
	before := listing(dir)
	last := before
	for n := 1; ctx.Err() == nil; n++ {
		process.SleepFor(ctx, lookPause)
		now := listing(dir)
		if now == last && (now != before || n >= maxLooks) {
			return
		}
		last = now
	}
}

// listing returns the names, sizes and times of all files in a directory.
func listing(dir string) string {
	var all strings.Builder
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			if info, err := d.Info(); err == nil {
				fmt.Fprintln(&all, path, info.Mode(), info.Size(), info.ModTime().UnixNano())
			}
		}
		return nil // a file that has gone meanwhile makes another listing
	})
	return all.String()
}

// coordinate starts coordination. The other services run without it where its files cannot be used.
func (b *services) coordinate(cfg coordination.Config, conn *qmgr.Conn, desk *Responder) error {
	if dir, err := filepath.Abs(cfg.Dir); err == nil { // as errors name it to users with other working directories
		cfg.Dir = dir
	}
	away := &coordinationAbsence{conn: conn, log: b.log}
	start := func() (run, stop func(), err error) {
		away.end()
		s, err := coordination.Start(b.ctx, cfg, conn)
		if err != nil {
			return nil, nil, err
		}
		desk.Tell(nil)
		process.Watch(b.ctx, b.end, s)
		return func() {}, s.Stop, nil
	}
	return b.run(service{name: "coordination", dir: cfg.Dir, start: start, degraded: func(err error) { away.begin(); desk.Tell(err) }})
}

// coordinationAway is the answer of coordination that does not run, for every asker.
const coordinationAway = "coordination is degraded: it cannot use its files; the log of `ferry up` has the reason"

// A coordinationAbsence answers the questions to coordination while that does not run.
type coordinationAbsence struct {
	conn *qmgr.Conn // coordination's
	log  *slog.Logger
	stop func() // nil: no question is answered
}

// begin answers until end. The question whether coordination runs has no answer: another one may start.
func (a *coordinationAbsence) begin() {
	a.end()
	stop, err := a.conn.Subscribe(wire.AllAsks(wire.Coordination), func(m qmgr.Message) {
		ask, err := wire.DecodeAsk(m.Data)
		if m.Reply == "" || err != nil || ask.Kind == wire.AskPing {
			return
		}
		why := transfer.Errorf(transfer.KindUnreachable, coordinationAway).WithHint("it starts by itself when they are mended")
		data := wire.Marshal(wire.Answer{V: wire.Version, ID: ask.ID, Error: why})
		if err := a.conn.Answer(wire.LastToken(m.Subject), m.Reply, data); err != nil {
			a.log.Debug("cannot send answer; the asker will ask again", "error", err)
		}
	})
	if err != nil {
		a.log.Warn("questions to coordination are not answered", "error", err)
		return
	}
	a.stop = stop
}

// end stops answering.
func (a *coordinationAbsence) end() {
	if a.stop != nil {
		a.stop()
		a.stop = nil
	}
}
