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

// Programs runs the programs of transfers at their destination, and records their ends; see call.Keeper.
type Programs interface {
	Vet(q *transfer.Request, principal string, atDest bool) error
	Ended(c *transfer.Call) (ended bool, failure *transfer.Error, err error)
	Run(ctx context.Context, c *transfer.Call) (failure *transfer.Error, err error)
	Forget(t *ledger.Tx, q *transfer.Request, atDest bool) error
}

// programAgain is the time between attempts to run a program or record its end.
const programAgain = 4 * time.Second

// programEnded is a message from the Receiver to one of its actors; it is no message of the wire.
const programEnded wire.Kind = "program-ended"

// underWay are the running programs of incoming transfers. Each program has its own goroutine. No actor waits for it: a
// transfer may have no actor before its first epoch.
type underWay struct {
	mu      sync.Mutex
	running map[callKey]context.CancelCauseFunc
}

type callKey struct {
	from transfer.AgentName
	id   transfer.ID
	at   transfer.CallPoint
}

func newUnderWay() underWay { return underWay{running: map[callKey]context.CancelCauseFunc{}} }

// start registers a running program. It reports false if the program runs already, or too many do.
func (c *underWay) start(k callKey, end context.CancelCauseFunc) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.running[k] != nil || len(c.running) >= maxActors {
		return false
	}
	c.running[k] = end
	return true
}

func (c *underWay) has(k callKey) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.running[k] != nil
}

func (c *underWay) ended(k callKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.running, k)
}

// kill ends the programs of a transfer that is cancelled.
func (c *underWay) kill(from transfer.AgentName, id transfer.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, at := range transfer.CallPoints() {
		if end := c.running[callKey{from, id, at}]; end != nil {
			end(transfer.Errorf(transfer.KindCancelled, "the transfer was cancelled"))
		}
	}
}

// A calling is an incoming transfer with the methods that start and stop its programs.
type calling struct{ *incoming }

// call returns the end of a program that has run, or starts it. It calls done once the end is on record.
func (i calling) call(c *transfer.Call, done func()) (over bool, failure *transfer.Error, err error) {
	r, k := i.r, callKey{i.from, i.id, c.At}
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
			r.cfg.Log.Warn("cannot run a program; will retry", "transfer", c.Request.ID, "program", c.Program().Name, "error", err)
		}
	})
	return false, nil, nil
}

// vetPrograms returns the reason why programs of a request cannot run here; nil: they can.
func vetPrograms(cfg *Config, q *transfer.Request, principal string) error {
	switch {
	case q.Programs.OfDest() == nil:
		return nil
	case cfg.Programs == nil:
		return transfer.Errorf(transfer.KindProgram, "%s runs no programs", cfg.Agent)
	}
	return cfg.Programs.Vet(q, principal, true)
}

// before starts the pre-destination program, before the transfer is accepted. over reports that there is none, or that
// it has ended well. An error is for the source.
func (i calling) before(o *wire.Open) (over bool, err error) {
	q := &o.Request
	if q.Programs.At(transfer.PreDest) == nil {
		return true, nil
	}
	if _, err := i.admitted(o); err != nil {
		return false, err
	}
	switch cancelled, err := i.entry.Tomb.Entombed(); {
	case err != nil:
		return false, i.entry.Unwritable(err)
	case cancelled:
		return false, entry.ErrCancelled
	}

	r, w := i.r, &waiter{id: i.id, from: i.from}
	c := *q
	over, failure, err := i.call(&transfer.Call{At: transfer.PreDest, Request: &c, Principal: o.Principal}, func() { r.wake(w) })
	switch {
	case err != nil:
		return false, i.entry.Unwritable(err)
	case failure != nil:
		return false, failure
	}
	return over, nil
}

// admitted checks that a transfer may come, and that its programs may run. It records a refusal in the audit.
func (i *incoming) admitted(o *wire.Open) (rules string, err error) {
	if rules, err = i.r.admit(o.Principal, i.from, i.id); err == nil {
		err = vetPrograms(&i.r.cfg, &o.Request, o.Principal)
	}
	i.denied(o, err)
	return rules, err
}

// denied records a refused transfer in the audit, if the error is of KindDenied.
func (i *incoming) denied(o *wire.Open, err error) {
	if transfer.KindOf(err) == transfer.KindDenied {
		i.r.noteDenied(i.id, i.from, o.Principal, err)
	}
}

// busy answers an OPEN while a program of the transfer runs here.
func (i calling) busy(o *wire.Open, at transfer.CallPoint) {
	m := busy(o, i.id, transfer.Errorf(transfer.KindBusy, "%s runs the %s program of the transfer", i.r.cfg.Agent, at))
	m.Busy.Program = true
	i.r.send(i.from, m)
}

// A posting is the status of the post-destination program, which runs once every item is decided.
type posting struct {
	over    bool
	failure *transfer.Error
	due     time.Time // when it is checked again; zero: at once
}

// next returns when the program is checked again; zero: never, or at once.
func (p *posting) next() time.Time {
	if p.over {
		return time.Time{}
	}
	return p.due
}

// posted reports whether the post-destination program has ended, or there is none. Otherwise it starts the program.
// Until the program has ended, the source does not get the last batch of outcomes.
func (i calling) posted() bool {
	q := &i.entry.In.Request
	if i.post.over || q.Programs.At(transfer.PostDest) == nil {
		return true
	}
	now := i.r.cfg.Clock.Now()
	if now.Before(i.post.due) {
		return false
	}
	i.post.due = now.Add(programAgain)
	if i.r.cfg.Programs == nil {
		i.post.over, i.post.failure = true, transfer.Errorf(transfer.KindProgram, "%s runs no programs", i.r.cfg.Agent)
		return true
	}
	c := &transfer.Call{At: transfer.PostDest, Request: q, Principal: i.entry.In.Principal, State: i.entry.In.Counts.Ending(), Counts: i.entry.In.Counts, Into: i.entry.In.Resolution.Base}
	over, failure, err := i.call(c, func() { i.box.control(&wire.Message{Kind: programEnded}) })
	if err != nil {
		i.log.Error("cannot read the ledger", "error", err)
	}
	i.post.over, i.post.failure = over, failure
	return over
}

// forgetPrograms forgets the programs of a transfer that is over.
func (r *Receiver) forgetPrograms(t *ledger.Tx, q *transfer.Request) error {
	if r.cfg.Programs == nil || q.Programs == nil {
		return nil
	}
	return r.cfg.Programs.Forget(t, q, true)
}
