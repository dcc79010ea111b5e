// Package exit runs the exits of an agent: programs of its own configuration, at a stage of each of its transfers and at
// each trigger of its monitors. An exit reads facts in JSON from its standard input, and writes an answer in JSON to its
// standard output. It may let the transfer go on, cancel it, change metadata, and choose and rename the files.
//
//	source start        before the pre-source program
//	destination start   before the pre-destination program
//	destination end     before the post-destination program, when every item is decided
//	source end          before the post-source program
//	monitor             after a trigger, before its transfer is submitted
//
// The ledger has the end of each exit, with its answer. An exit is not run again once that is on record: a transfer that
// resumes goes on with the recorded answer. An exit without a recorded end runs again after a crash, so it may run more
// than once. Its answer counts once.
package exit

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/call"
	"ferry/internal/ledger"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// drawer is the name of the part of the ledger that has the exits.
const drawer call.Drawer = "exits"

// Config is the configuration of an Executor.
type Config struct {
	Agent    transfer.AgentName
	Ledger   *ledger.Ledger
	Programs *call.Executor // runs the programs of requests
	Exits    transfer.Exits
	Note     func(*ledger.Tx, audit.Record) error
	AtOnce   int // exits of incoming transfers that run at the same time
	Clock    clock.Clock
	Log      *slog.Logger
}

// An Executor runs an agent's exits, and after each the program of a request. It is safe for concurrent use.
type Executor struct {
	*call.Executor
	cfg    Config
	places chan struct{} // a token for each exit of an incoming transfer
}

// New makes an Executor. It refuses exits that the agent cannot run, with KindUsage.
func New(cfg Config) (*Executor, error) {
	for _, at := range transfer.ExitPoints() {
		name := cfg.Exits.Programs[at]
		if name == "" {
			continue
		}
		err := call.Runnable(cfg.Programs.Runner(), cfg.Agent, at, &transfer.Program{Name: name})
		if err == nil {
			err = cfg.Programs.Runner().Executable(name)
		}
		if err != nil {
			e := *transfer.AsError(err)
			e.Kind, e.Text = transfer.KindUsage, "agent "+string(cfg.Agent)+" does not start with "+at.Noun()+" "+name+": "+e.Text
			return nil, &e
		}
	}
	return &Executor{Executor: cfg.Programs, cfg: cfg, places: make(chan struct{}, max(1, cfg.AtOnce))}, nil
}

// A state is the ledger's entry of an exit. It has a choice if the exit lets the transfer go on.
type state = call.Entry[transfer.Choice]

func (x *Executor) read(key string) (state, error) {
	return ledger.Read(x.cfg.Ledger, func(t *ledger.Tx) (state, error) { return call.ReadEntry[transfer.Choice](t, drawer, key) })
}

// Runs reports whether something runs at a call point of a transfer: an exit, or a program of its request.
func (x *Executor) Runs(q *transfer.Request, at transfer.CallPoint) bool {
	return x.cfg.Exits.Programs[at.Exit()] != "" || q.Programs.At(at) != nil
}

// Exits reports whether an exit runs at a call point of each transfer.
func (x *Executor) Exits(at transfer.CallPoint) bool { return x.cfg.Exits.Programs[at.Exit()] != "" }

// Ended reports whether the ends of the exit and of the program of a call are on record; failure is nil where both ended
// well.
func (x *Executor) Ended(c *transfer.Call) (ended bool, failure *transfer.Error, err error) {
	if x.Exits(c.At) {
		s, err := x.read(call.Key(c.Request, c.At.Exit()))
		if err != nil || !s.Ended || s.Failure != nil && !c.At.Post() {
			return s.Ended, s.Failure, err
		}
		failure = s.Failure
	}
	if c.Program() == nil {
		return true, failure, nil
	}
	ended, later, err := x.Executor.Ended(c)
	return ended, cmp.Or(failure, later), err
}

// Run runs the exit of a call point, and then the program of the request, unless their ends are on record. At an end
// point the program runs after a failed exit, too, and the first failure is the result. An error is as of call.Executor.Run.
func (x *Executor) Run(ctx context.Context, c *transfer.Call) (failure *transfer.Error, err error) {
	if x.Exits(c.At) {
		failure, err = x.exit(ctx, c, factsOf(c), c.Files)
		if err != nil || failure != nil && !c.At.Post() {
			return failure, err
		}
	}
	if c.Program() == nil {
		return failure, nil
	}
	if c, err = x.changed(c); err != nil {
		return failure, err
	}
	later, err := x.Executor.Run(ctx, c)
	return cmp.Or(failure, later), err
}

// changed returns a call with the metadata that the source-start exit has answered, for the program that follows it.
func (x *Executor) changed(c *transfer.Call) (*transfer.Call, error) {
	if c.At != transfer.PreSource {
		return c, nil
	}
	choice, err := x.Choice(c.Request)
	if err != nil || choice == nil {
		return c, err
	}
	q, after := *c.Request, *c
	q.Meta = choice.ApplyMeta(q.Meta)
	after.Request = &q
	return &after, nil
}

// Choice returns the choice of the source-start exit of a transfer; nil: there is none, and all files are sent.
func (x *Executor) Choice(q *transfer.Request) (*transfer.Choice, error) {
	s, err := x.read(call.Key(q, transfer.SourceStartExit))
	return s.Choice, err
}

// Trigger runs the monitor exit for a trigger of a monitor, and changes the metadata of its request as the exit has
// answered. A request with an answer on record gets the same metadata again, also where the exit is no longer configured.
func (x *Executor) Trigger(ctx context.Context, monitor, principal string, q *transfer.Request) (failure *transfer.Error, err error) {
	s, err := x.read(call.Key(q, transfer.MonitorExit))
	if err != nil || !s.Ended && x.cfg.Exits.Programs[transfer.MonitorExit] == "" {
		return nil, err
	}
	c := &transfer.Call{At: transfer.MonitorExit, Request: q, Principal: principal}
	f := factsOf(c)
	f.Monitor, f.Request = monitor, q
	if failure, err = x.exit(ctx, c, f, sourcesOf(q)); failure != nil || err != nil {
		return failure, err
	}
	if s, err = x.read(call.Key(q, transfer.MonitorExit)); err == nil {
		q.Meta = s.Choice.ApplyMeta(q.Meta)
	}
	return nil, err
}

// ForgetTrigger removes the end of the exit of a trigger with a recorded result.
func (x *Executor) ForgetTrigger(t *ledger.Tx, q *transfer.Request) error {
	return drawer.Delete(t, q, transfer.MonitorExit)
}

// Forget removes the ends of the exits and programs that one side has run for a transfer, after the transfer's end there.
func (x *Executor) Forget(t *ledger.Tx, q *transfer.Request, atDest bool) error {
	for _, at := range transfer.CallPoints() {
		if at.AtDest() == atDest {
			if err := drawer.Delete(t, q, at.Exit()); err != nil {
				return err
			}
		}
	}
	if q.Programs == nil {
		return nil
	}
	return x.Executor.Forget(t, q, atDest)
}

// RemoveOld forgets exits and programs of transfers that never came to their end here, and are older than keep. The exit of
// a trigger stays until ForgetTrigger: the trigger may wait for longer.
func (x *Executor) RemoveOld(keep time.Duration) error {
	err := drawer.RemoveOld(x.cfg.Ledger, x.cfg.Clock.Now(), keep, func(key string) bool { return strings.HasSuffix(key, "/"+string(transfer.MonitorExit)) })
	return errors.Join(err, x.Executor.RemoveOld(keep))
}

// exit runs an exit, unless its end is on record. Errors are of a kind that waits, or say that ctx has ended.
func (x *Executor) exit(ctx context.Context, c *transfer.Call, f *facts, files transfer.ExitFiles) (failure *transfer.Error, err error) {
	at := c.At
	if at != transfer.MonitorExit {
		at = at.Exit()
	}
	s, err := x.read(call.Key(c.Request, at))
	if err != nil || s.Ended {
		return s.Failure, err
	}
	if c.At.AtDest() {
		select {
		case x.places <- struct{}{}:
			defer func() { <-x.places }()
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}

	f.Exit, f.Agent = strings.TrimSuffix(string(at), "-exit"), x.cfg.Agent
	known := givenFiles{}
	if all := files; at == transfer.SourceStartExit {
		files = func(ctx context.Context, put func(transfer.ExitFile) error) error {
			return all(ctx, func(one transfer.ExitFile) error {
				known.add(one)
				return put(one)
			})
		}
	}
	input, err := f.encode(ctx, files)
	switch kind := transfer.KindOf(err); {
	case err == nil:
	case ctx.Err() != nil || kind.Waits():
		return nil, err
	default:
		e := transfer.AsError(err)
		return e, x.record(c, at, state{Attempt: 1, Failure: e}, &transfer.Ran{Code: -1}, "")
	}

	p := &transfer.Program{Name: x.cfg.Exits.Programs[at], Timeout: transfer.Duration(cmp.Or(x.cfg.Exits.Time, transfer.DefaultExitTime))}
	now := state{Attempt: s.Attempt + 1}
	if err := x.cfg.Ledger.Update(func(t *ledger.Tx) error { return now.Put(t, drawer, call.Key(c.Request, at)) }); err != nil {
		return nil, err
	}
	once := &call.Attempt{Runner: x.Runner(), Clock: x.cfg.Clock, Log: x.cfg.Log.With("transfer", c.Request.ID), At: at, Program: p, ID: c.Request.ID, Number: now.Attempt,
		Env: []string{"FERRY_TRANSFER_ID=" + c.Request.ID.String(), "FERRY_CALL=" + string(at), "FERRY_AGENT=" + string(x.cfg.Agent)}, Input: input, Answer: transfer.MaxExitAnswer}
	ran, failure, err := once.Run(ctx)
	if err != nil {
		return nil, err
	}
	message := ""
	switch {
	case once.Said.Over:
		failure = bad(at, p.Name, "has answered with more than %d bytes, the limit", transfer.MaxExitAnswer)
	case failure == nil:
		now.Choice, message, failure = verdict(at, p.Name, c.Request, known, once.Said.Answer)
	case failure.Kind == transfer.KindProgram:
		failure = transfer.Errorf(transfer.KindExit, "%s", failure.Text).WithHint(failure.Hint)
	}
	now.Failure = failure
	if err := x.record(c, at, now, ran, message); err != nil {
		return nil, err
	}
	return failure, nil
}

// record puts the end of an exit on record.
func (x *Executor) record(c *transfer.Call, at transfer.CallPoint, s state, ran *transfer.Ran, message string) error {
	q := c.Request
	if ran.Name == "" { // it was not run
		ran.At, ran.Name, ran.Attempt = at, x.cfg.Exits.Programs[at], s.Attempt
	}
	s.Ended = true
	r := audit.Record{Event: audit.Ran, Role: audit.RoleSource, Transfer: q.ID, Source: q.Source, Destination: q.Destination,
		Originator: &q.Originator, Job: q.Job, Principal: c.Principal, Error: s.Failure, Text: message, Figures: audit.Figures{Program: ran}}
	if c.At.AtDest() {
		r.Role = audit.RoleDestination
	}
	return x.cfg.Ledger.Update(func(t *ledger.Tx) error {
		return errors.Join(s.Put(t, drawer, call.Key(q, at)), x.cfg.Note(t, r))
	})
}

// sourcesOf returns the sources of a request, as they are named.
func sourcesOf(q *transfer.Request) transfer.ExitFiles {
	return func(_ context.Context, put func(transfer.ExitFile) error) error {
		for n := range q.Items {
			at := q.Items[n].Source.Path
			if q.Base != "" {
				at = transfer.Path(strings.TrimSuffix(string(q.Base), "/")+"/") + at
			}
			if err := put(transfer.ExitFile{Source: at, Item: n}); err != nil {
				return err
			}
		}
		return nil
	}
}
