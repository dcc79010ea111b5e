package receiver

import (
	"context"
	"sync"
	"time"

	"ferry/internal/ledger"
	"ferry/internal/receiver/entry"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Programs runs the exits and programs of transfers at their destination, and records their ends; see exit.Executor.
type Programs interface {
	// Runs reports whether something runs at a call point of a transfer, and Exits whether an exit does so at each transfer.
	Runs(q *transfer.Request, at transfer.CallPoint) bool
	Exits(at transfer.CallPoint) bool
	Check(q *transfer.Request, principal string, atDest bool) error
	Ended(c *transfer.Call) (ended bool, failure *transfer.Error, err error)
	Run(ctx context.Context, c *transfer.Call) (failure *transfer.Error, err error)
	Forget(t *ledger.Tx, q *transfer.Request, atDest bool) error
}

// programAgain is the time between attempts to run a program or record its end.
const programAgain = 4 * time.Second

// programEnded is a message from the Receiver to one of its actors; it is no message of the wire.
const programEnded wire.Kind = "program-ended"

// runningPrograms are the running programs of incoming transfers. Each program has its own goroutine. No actor waits
// for it: a transfer may have no actor before its first epoch.
type runningPrograms struct {
	mu      sync.Mutex
	running map[callKey]context.CancelCauseFunc
}

type callKey struct {
	from transfer.AgentName
	id   transfer.ID
	at   transfer.CallPoint
}

func newRunningPrograms() runningPrograms {
	return runningPrograms{running: map[callKey]context.CancelCauseFunc{}}
}

// start registers a running program. It reports false if the program runs already, or too many do.
func (c *runningPrograms) start(k callKey, end context.CancelCauseFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[k] != nil || len(c.running) >= maxActors {
		return false
	}
	c.running[k] = end
	return true
}

func (c *runningPrograms) has(k callKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[k] != nil
}

func (c *runningPrograms) ended(k callKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, k)
}

// kill ends the programs of a transfer that is cancelled.
func (c *runningPrograms) kill(from transfer.AgentName, id transfer.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range transfer.CallPoints() {
		if end := c.running[callKey{from, id, at}]; end != nil {
			end(transfer.Errorf(transfer.KindCancelled, "the transfer was cancelled"))
		}
	}
}

// A programState runs the programs of one incoming transfer, and has the status of its post-destination program, which
// runs once every item is decided.
type programState struct {
	r     *services
	entry *entry.Entry
	box   *mailbox

	over    bool
	failure *transfer.Error
	due     time.Time // when it is checked again; zero: at once
}

// call returns the end of a program that has run, or starts it. It calls done once the end is on record.
func (p *programState) call(c *transfer.Call, done func()) (over bool, failure *transfer.Error, err error) {
	r, k := p.r, callKey{p.entry.From, p.entry.ID, c.At}
	if r.calls.has(k) {
		return false, nil, nil
	}
	if over, failure, err = r.cfg.Programs.Ended(c); over || err != nil {
		return over, failure, err
	}
	ctx, end := context.WithCancelCause(r.ctx)
	if !r.calls.start(k, end) {
		end(nil)
		return false, nil, nil
	}
	r.wg.Go(func() {
		defer end(nil)
		_, err := r.cfg.Programs.Run(ctx, c)
		r.calls.ended(k)
		if err == nil {
			done()
		} else if r.ctx.Err() == nil {
			r.cfg.Log.Warn("cannot run an exit or a program; will retry", "transfer", c.Request.ID, "at", c.At, "error", err)
		}
	})
	return false, nil, nil
}

// checkPrograms returns the reason why programs of a request cannot run here; nil: they can.
func checkPrograms(cfg *Config, q *transfer.Request, principal string) error {
	switch {
	case q.Programs.OfDest() == nil:
		return nil
	case cfg.Programs == nil:
		return transfer.Errorf(transfer.KindProgram, "%s runs no programs", cfg.Agent)
	}
	return cfg.Programs.Check(q, principal, true)
}

// runs reports whether something runs here at a call point of a transfer. A program of the request counts also where
// none can be run.
func (c *Config) runs(q *transfer.Request, at transfer.CallPoint) bool {
	return q.Programs.At(at) != nil || c.Programs != nil && c.Programs.Runs(q, at)
}

// before starts the destination-start exit and the pre-destination program, before the transfer is accepted. over reports that there is none, or that
// it has ended well. An error is for the source.
func (p *programState) before(o *wire.Open) (over bool, err error) {
	switch cancelled, err := p.entry.Tombstone.Exists(); {
	case err != nil:
		return false, p.entry.Unwritable(err)
	case cancelled:
		return false, entry.ErrCancelled
	}

	r, w := p.r, &waiter{id: p.entry.ID, from: p.entry.From}
	c := o.Request
	over, failure, err := p.call(&transfer.Call{At: transfer.PreDest, Request: &c, Principal: o.Principal}, func() { r.wake(w) })
	switch {
	case err != nil:
		return false, p.entry.Unwritable(err)
	case failure != nil:
		return false, failure
	}
	return over, nil
}

// next returns when the program is checked again; zero: never, or at once.
func (p *programState) next() time.Time {
	if p.over {
		return time.Time{}
	}
	return p.due
}

// posted reports whether the post-destination program has ended, or there is none. Otherwise it starts the program.
// Until the program has ended, the source does not get the last batch of outcomes.
func (p *programState) posted() bool {
	q := &p.entry.In.Request
	if p.over || !p.r.cfg.runs(q, transfer.PostDest) {
		return true
	}
	now := p.r.cfg.Clock.Now()
	if now.Before(p.due) {
		return false
	}
	p.due = now.Add(programAgain)
	if p.r.cfg.Programs == nil {
		p.over, p.failure = true, transfer.Errorf(transfer.KindProgram, "%s runs no programs", p.r.cfg.Agent)
		return true
	}
	c := &transfer.Call{At: transfer.PostDest, Request: q, Principal: p.entry.In.Principal, State: p.entry.In.Counts.Ending(), Counts: p.entry.In.Counts, Into: p.entry.In.Resolution.Base}
	over, failure, err := p.call(c, func() { p.box.control(&wire.Message{Kind: programEnded}) })
	if err != nil {
		p.entry.Log.Error("cannot read the ledger", "error", err)
	}
	p.over, p.failure = over, failure
	return over
}

// running answers an OPEN while a program of the transfer runs here.
func (p *programState) running(o *wire.Open, at transfer.CallPoint) {
	m := busy(o, p.entry.ID, transfer.Errorf(transfer.KindBusy, "%s runs the %s program of the transfer", p.r.cfg.Agent, at))
	if o.Request.Programs.At(at) == nil {
		m.Busy.Reason = transfer.Errorf(transfer.KindBusy, "%s runs %s", p.r.cfg.Agent, at.Exit().Noun())
	}
	m.Busy.Program = true
	p.r.send(p.entry.From, m)
}
