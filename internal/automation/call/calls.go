// Package call runs the programs before and after an agent's transfers. It keeps in the ledger the programs that have
// ended, and their results.
//
// A program may run more than once. The ledger notes before a run that it is about to begin, and after it how it ended;
// a crash may fall between. A program is not run again once its end is on record. A program that was killed because the
// agent stops is run again by the agent's next run.
package call

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/program"
	"ferry/internal/automation/variable"
	"ferry/internal/ledger"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// drawer is the name of the part of the ledger that has the calls.
const drawer Drawer = "programs"

// A Runner runs programs; see program.Dir.
type Runner interface {
	Find(name string) (file string, err error)
	Executable(name string) error
	Run(ctx context.Context, c program.Call) (program.Result, error)
}

// Config is the configuration of an Executor.
type Config struct {
	Agent  transfer.AgentName
	Ledger *ledger.Ledger
	Runner Runner                       // nil: no program may be run here
	May    func(principal string) error // checks whether a principal may have programs run here; nil: all may
	Note   func(*ledger.Tx, audit.Record) error
	AtOnce int // programs of incoming transfers that run at the same time
	Clock  clock.Clock
	Log    *slog.Logger
}

// An Executor runs the programs of one agent's transfers. It is safe for concurrent use.
type Executor struct {
	cfg    Config
	places chan struct{} // a token for each program of an incoming transfer
}

// New makes an Executor.
func New(cfg Config) *Executor { return &Executor{cfg, make(chan struct{}, max(1, cfg.AtOnce))} }

// A state is the ledger's entry of a program of a request, which answers nothing.
type state = Entry[struct{}]

func read(t *ledger.Tx, key string) (state, error) { return ReadEntry[struct{}](t, drawer, key) }

// Check returns an error where a program of a request could not be run here, of those that this side runs. The error is
// of KindDenied or KindProgram, or of a kind that waits.
func (x *Executor) Check(q *transfer.Request, principal string, atDest bool) error {
	for _, at := range transfer.CallPoints() {
		p := q.Programs.At(at)
		if p == nil || at.AtDest() != atDest {
			continue
		}
		if x.cfg.May != nil {
			if err := x.cfg.May(principal); err != nil {
				return err
			}
		}
		if err := Runnable(x.cfg.Runner, x.cfg.Agent, at, p); err != nil {
			return err
		}
		if _, err := variable.Arguments(p, at, nil, q.Meta); err != nil {
			return err
		}
	}
	return nil
}

// Runnable returns an error where an agent with a Runner could not run a program: of KindProgram, or of a kind that
// waits.
func Runnable(r Runner, agent transfer.AgentName, at transfer.CallPoint, p *transfer.Program) error {
	if r == nil {
		return transfer.Errorf(transfer.KindProgram, "%s %s cannot be run: agent %s runs no programs", at.Noun(), p.Name, agent).
			WithHint("start the agent with --programs DIR, the directory of the programs that it may run")
	}
	_, err := r.Find(p.Name)
	return err
}

// Runner runs the agent's programs; nil: none may be run.
func (x *Executor) Runner() Runner { return x.cfg.Runner }

// Ended reports whether a program's end is on record; failure is nil where it ended well.
func (x *Executor) Ended(c *transfer.Call) (ended bool, failure *transfer.Error, err error) {
	s, err := ledger.Read(x.cfg.Ledger, func(t *ledger.Tx) (state, error) { return read(t, Key(c.Request, c.At)) })
	return s.Ended, s.Failure, err
}

// Run runs a program until it ends well or has failed too often, unless its end is on record. failure is the failure on
// record then. An error means that no end is on record: ctx has ended, or the error is of a kind that waits. A cause of
// the end of ctx that is of KindCancelled is a failure, and on record.
func (x *Executor) Run(ctx context.Context, c *transfer.Call) (failure *transfer.Error, err error) {
	ended, failure, err := x.Ended(c)
	if ended || err != nil {
		return failure, err
	}
	if err := x.Check(c.Request, c.Principal, c.At.AtDest()); err != nil {
		if transfer.KindOf(err).Waits() {
			return nil, err
		}
		return x.refused(c, transfer.AsError(err))
	}
	if c.At.AtDest() {
		select {
		case x.places <- struct{}{}:
			defer func() { <-x.places }()
		case <-ctx.Done():
			return x.stopped(ctx, c)
		}
	}

	for {
		again, failure, err := x.attempt(ctx, c)
		if err != nil || !again {
			return failure, err
		}
		if !Pause(ctx, x.cfg.Clock, time.Duration(c.Program().Pause)) {
			return x.stopped(ctx, c)
		}
	}
}

// refused puts on record that a program was not run.
func (x *Executor) refused(c *transfer.Call, why *transfer.Error) (*transfer.Error, error) {
	return why, x.cfg.Ledger.Update(func(t *ledger.Tx) error {
		return errors.Join(state{Ended: true, Failure: why}.Put(t, drawer, Key(c.Request, c.At)),
			x.note(t, c, &transfer.Ran{Code: -1}, why))
	})
}

// stopped is the end of ctx while no program runs.
func (x *Executor) stopped(ctx context.Context, c *transfer.Call) (*transfer.Error, error) {
	if why := cancelled(ctx); why != nil {
		return x.refused(c, why)
	}
	return nil, ctx.Err()
}

// attempt runs a program once. again says that it has failed and is to be run again.
func (x *Executor) attempt(ctx context.Context, c *transfer.Call) (again bool, failure *transfer.Error, err error) {
	p, at := c.Program(), Key(c.Request, c.At)
	var now state
	err = x.cfg.Ledger.Update(func(t *ledger.Tx) error {
		if now, err = read(t, at); err != nil {
			return err
		}
		now.Attempt = max(now.Attempt, 1)
		return now.Put(t, drawer, at)
	})
	if err != nil {
		return false, nil, err
	}

	full := *p
	if full.Args, err = arguments(c, now.Attempt); err != nil {
		failure, err = x.refused(c, transfer.AsError(err))
		return false, failure, err
	}
	once := &Attempt{Runner: x.cfg.Runner, Clock: x.cfg.Clock, Log: x.cfg.Log.With("transfer", c.Request.ID), At: c.At, Program: &full, ID: c.Request.ID, Number: now.Attempt,
		Env: environment(c, x.cfg.Agent, now.Attempt)}
	ran, failure, err := once.Run(ctx)
	if err != nil {
		return false, nil, err
	}
	again = failure != nil && failure.Kind == transfer.KindProgram && now.Attempt <= p.Retries
	next := state{Attempt: now.Attempt, Ended: true, Failure: failure}
	if again {
		next = state{Attempt: now.Attempt + 1}
	}
	err = x.cfg.Ledger.Update(func(t *ledger.Tx) error {
		return errors.Join(next.Put(t, drawer, at), x.note(t, c, ran, failure))
	})
	if err != nil {
		return false, nil, err
	}
	failpoint.Hit("program.recorded")
	return again, failure, nil
}

// note puts on record how a program ended.
func (x *Executor) note(t *ledger.Tx, c *transfer.Call, ran *transfer.Ran, failure *transfer.Error) error {
	q, p := c.Request, c.Program()
	if ran.Name == "" { // it was not run
		ran.At, ran.Name, ran.Args = c.At, p.Name, p.Args
	}
	rec := audit.Record{Event: audit.Ran, Role: audit.RoleSource, Transfer: q.ID, Source: q.Source, Destination: q.Destination,
		Originator: &q.Originator, Job: q.Job, Principal: c.Principal, Error: failure, Figures: audit.Figures{Program: ran}}
	if c.At.AtDest() {
		rec.Role = audit.RoleDestination
	}
	return x.cfg.Note(t, rec)
}

// Forget removes the results of the programs that one side has run for a transfer, after the transfer's end on that
// side.
func (x *Executor) Forget(t *ledger.Tx, q *transfer.Request, atDest bool) error {
	for _, at := range transfer.CallPoints() {
		if at.AtDest() == atDest {
			if err := drawer.Delete(t, q, at); err != nil {
				return err
			}
		}
	}
	return nil
}

// RemoveOld forgets programs of transfers that never came to their end here, and are older than keep.
func (x *Executor) RemoveOld(keep time.Duration) error {
	return drawer.RemoveOld(x.cfg.Ledger, x.cfg.Clock.Now(), keep, nil)
}

// environment returns the variables that tell a program about its transfer.
func environment(c *transfer.Call, agent transfer.AgentName, attempt int) []string {
	q := c.Request
	env := []string{"FERRY_TRANSFER_ID=" + q.ID.String(), "FERRY_CALL=" + string(c.At), "FERRY_AGENT=" + string(agent),
		"FERRY_SOURCE_AGENT=" + string(q.Source), "FERRY_DESTINATION_AGENT=" + string(q.Destination),
		"FERRY_ORIGINATOR=" + q.Originator.String(), "FERRY_JOB=" + q.Job, "FERRY_ATTEMPT=" + strconv.Itoa(attempt)}
	if c.Into != "" {
		env = append(env, "FERRY_DESTINATION="+string(c.Into))
	}
	if c.At.Post() {
		env = append(env, "FERRY_STATE="+string(c.State), fmt.Sprintf("FERRY_FILES=%d", c.Counts.Files),
			fmt.Sprintf("FERRY_FILES_FAILED=%d", c.Counts.FilesFailed), fmt.Sprintf("FERRY_BYTES=%d", c.Counts.Bytes))
	}
	return Environment(env, q.Meta)
}

// arguments are those of the program, with the values of its transfer.
func arguments(c *transfer.Call, attempt int) ([]string, error) {
	q := c.Request
	values := map[string]string{variable.TransferID: q.ID.String(), variable.JobName: q.Job, variable.Originator: strings.ReplaceAll(q.Originator.String(), "\x00", ""),
		variable.SourceAgent: string(q.Source), variable.DestAgent: string(q.Destination), variable.Attempt: strconv.Itoa(attempt), variable.Destination: c.Into.String(),
		variable.State: string(c.State), variable.Files: strconv.FormatInt(c.Counts.Files, 10), variable.FilesFailed: strconv.FormatInt(c.Counts.FilesFailed, 10),
		variable.Bytes: strconv.FormatInt(c.Counts.Bytes, 10)}
	return variable.Arguments(c.Program(), c.At, values, q.Meta)
}
