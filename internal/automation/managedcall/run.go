package managedcall

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/call"
	"ferry/internal/ledger"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// retry is the pause before another try.
const retry = time.Second

// A runningCalls is the programs that run. It belongs to the goroutine of Run.
type runningCalls struct {
	*callDuty
	running map[transfer.ID]context.CancelCauseFunc
	over    chan transfer.ID // of programs that run no more
	wg      sync.WaitGroup
}

// Run runs the programs of calls until ctx ends.
func (k *callDuty) Run(ctx context.Context) {
	w := &runningCalls{callDuty: k, running: map[transfer.ID]context.CancelCauseFunc{}, over: make(chan transfer.ID)}
	for err := k.interrupted(); err != nil; err = k.interrupted() {
		k.Log.Error("cannot read calls", "error", err)
		if !call.Pause(ctx, k.Clock, retry) {
			return
		}
	}
	t := k.Clock.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			go func() { w.wg.Wait(); close(w.over) }()
			for range w.over { // each says that it is over
			}
			return
		case <-k.changed:
		case id := <-w.over:
			delete(w.running, id)
		case <-t.C():
		}
		if again := w.look(ctx); again > 0 {
			t.Reset(again)
		}
	}
}

// interrupted ends each run that was going when an earlier run of the agent ended. The program's result is unknown.
func (k *callDuty) interrupted() error {
	all, err := ledger.Read(k.Ledger, func(t *ledger.Tx) ([]*Call, error) { return drawerOf(t).unfinished() })
	if err != nil || !slices.ContainsFunc(all, func(c *Call) bool { return c.State == transfer.Running }) { // an agent without calls writes nothing
		return err
	}
	return k.Ledger.Update(func(t *ledger.Tx) error {
		all, err := drawerOf(t).unfinished()
		if err != nil {
			return err
		}
		for _, c := range all {
			if c.State != transfer.Running {
				continue
			}
			why := transfer.Errorf(transfer.KindLost, "agent %s has ended while it ran the program %s, and does not know whether that has ended, and how", k.Agent, c.Program.Name).
				WithHint("find out its effects before you call it again")
			if err := k.ended(t, c, &transfer.Ran{Code: -1, Attempt: c.Attempt}, why); err != nil {
				return err
			}
		}
		return nil
	})
}

// look starts the programs that may start, and kills those of cancelled calls. again is the time until there is more to
// do; 0: until something changes.
func (w *runningCalls) look(ctx context.Context) (again time.Duration) {
	all, err := ledger.Read(w.Ledger, func(t *ledger.Tx) ([]*Call, error) { return drawerOf(t).unfinished() })
	if err != nil {
		w.Log.Error("cannot read calls", "error", err)
		return retry
	}
	now := w.Clock.Now()
	for _, c := range all {
		kill, runs := w.running[c.ID]
		switch wait := c.Next.Sub(now); {
		case runs && c.Cancelled != "":
			kill(transfer.Errorf(transfer.KindCancelled, "the call was cancelled"))
		case runs:
		case c.State == transfer.Running: // its result is unknown; the agent's next run says so
		case !c.Next.IsZero() && wait > 0:
			if again == 0 || wait < again {
				again = wait
			}
		case len(w.running) < AtOnce:
			w.start(ctx, c.ID)
		}
	}
	return again
}

// start runs a program in a goroutine.
func (w *runningCalls) start(ctx context.Context, id transfer.ID) {
	ctx, kill := context.WithCancelCause(ctx)
	w.running[id] = kill
	w.wg.Go(func() {
		defer kill(nil)
		w.once(ctx, id)
		w.over <- id
	})
}

// once runs a program once, and writes down how it ended.
func (k *callDuty) once(ctx context.Context, id transfer.ID) {
	c, err := k.begin(id)
	if err != nil {
		if !transfer.KindOf(err).Waits() {
			k.Log.Error("cannot begin call", "call", id, "error", err)
		}
		call.Pause(ctx, k.Clock, retry)
	}
	if c == nil || err != nil {
		return
	}
	try := &call.Attempt{Runner: k.Programs, Clock: k.Clock, Log: k.Log.With("call", id), At: transfer.ManagedCall, Program: &c.Program, ID: id, Number: c.Attempt, Env: environment(c)}
	ran, failure, err := try.Run(ctx)
	if err != nil && !transfer.KindOf(err).Waits() {
		return // the agent ends; its next run writes the result that is known
	}

	for {
		stored := k.Ledger.Update(func(t *ledger.Tx) error {
			now, err2 := drawerOf(t).Load(id.String())
			if now == nil || err2 != nil {
				return err2
			}
			if err != nil { // it was not started
				now.State, now.Attempt, now.Next, now.Reason = transfer.Queued, now.Attempt-1, k.Clock.Now().Add(retry).UTC(), transfer.AsError(err)
				return drawerOf(t).put(now)
			}
			return k.ended(t, now, ran, failure)
		})
		if stored == nil {
			break
		}
		k.Log.Error("cannot write down how a program ended", "call", id, "error", stored)
		if !call.Pause(ctx, k.Clock, retry) {
			return
		}
	}
	failpoint.Hit("program.recorded")
}

// begin writes down that a program is about to run. Where it cannot be run any more, that is its end, and there
// is no call. An error of a kind that waits is why it cannot be run now, which the call says from then on.
func (k *callDuty) begin(id transfer.ID) (begun *Call, err error) {
	c, err := ledger.Read(k.Ledger, func(t *ledger.Tx) (*Call, error) { return drawerOf(t).Load(id.String()) })
	if c == nil || err != nil {
		return nil, err
	}
	why := k.Ledger.OutboxFull() // there must be room for the record of its end
	if why == nil {
		why = k.CheckKeys(c.Origin)
	}
	if why == nil {
		why = k.May(c.Principal, transfer.AuthProgram)
	}
	if why == nil {
		why = call.Runnable(k.Programs, k.Agent, transfer.ManagedCall, &c.Program)
	}
	waits := transfer.KindOf(why).Waits()
	if waits && c.Reason != nil && c.Reason.Kind == transfer.KindOf(why) {
		return nil, why
	}
	err = k.Ledger.Update(func(t *ledger.Tx) error {
		c, err := drawerOf(t).Load(id.String())
		switch {
		case c == nil || err != nil || c.State != transfer.Queued:
			return err
		case waits:
			c.Reason = transfer.AsError(why)
		case why != nil:
			return k.ended(t, c, &transfer.Ran{Code: -1, Attempt: c.Attempt}, transfer.AsError(why))
		default:
			c.State, c.Attempt, c.Next, c.Reason = transfer.Running, c.Attempt+1, time.Time{}, nil
			begun = c
		}
		return drawerOf(t).put(c)
	})
	if err == nil && waits {
		err = why
	}
	return begun, err
}

// ended writes down how a run ended, with its audit record.
func (k *callDuty) ended(t *ledger.Tx, c *Call, ran *transfer.Ran, failure *transfer.Error) error {
	again := c.settle(k.Clock.Now(), ran, failure)
	full := *ran
	full.At, full.Name, full.Args = transfer.ManagedCall, c.Program.Name, c.Program.Args
	ran.At, ran.Name, ran.Args = full.At, full.Name, nil // which the call has
	if err := drawerOf(t).put(c); err != nil {
		return err
	}
	r := audit.Record{Event: audit.Ran, Error: failure, Figures: audit.Figures{Program: &full}}
	if !again {
		r.State, r.Code = c.State, c.Code
		k.Log.Info("call has ended", "call", c.ID, "state", c.State, "code", c.Code)
	}
	return k.note(t, c, r)
}

// environment returns the variables that tell a program about its call.
func environment(c *Call) []string {
	return call.Environment([]string{"FERRY_CALL=" + string(transfer.ManagedCall), "FERRY_CALL_ID=" + c.ID.String(), "FERRY_AGENT=" + string(c.Agent),
		"FERRY_ORIGINATOR=" + c.Originator.String(), "FERRY_JOB=" + c.Job, "FERRY_ATTEMPT=" + strconv.Itoa(c.Attempt)}, c.Meta)
}
