package job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// Times between two checks of the children: short while they change.
const (
	lookFirst = 50 * time.Millisecond
	lookMost  = time.Second
	lookIdle  = time.Hour // where there is no job that has not ended
	retry     = time.Second
)

// submitMost is the number of children of a job that are submitted before those of other jobs.
const submitMost = 64

// A run is a job that has not ended.
type run struct {
	children []Child
	accepted map[int]bool // by the number: the agent's ledger has its transfer
	told     map[int]bool // that it is cancelled
}

// begin forgets the state of an earlier run of the agent.
func (k *jobDuty) begin() { k.running, k.pause = map[transfer.ID]*run{}, 0 }

// look does the steps of all jobs that are due, and returns the time until it is to be called again.
func (k *jobDuty) look(ctx context.Context) (again time.Duration) {
	if err := k.read(); err != nil {
		k.Log.Error("cannot read jobs", "error", err)
		return retry
	}
	moved, room := false, true
	for _, id := range slices.SortedFunc(maps.Keys(k.running), func(a, b transfer.ID) int { return slices.Compare(a[:], b[:]) }) {
		if ctx.Err() != nil {
			return 0
		}
		some, err := k.step(ctx, id, k.running[id], &room)
		moved = moved || some
		if err != nil && ctx.Err() == nil {
			k.Log.Error("cannot go on with job", "job", id, "error", err)
		}
	}

	switch {
	case len(k.running) == 0:
		k.pause = lookIdle
	case moved || k.pause == 0 || k.pause > lookMost:
		k.pause = lookFirst
	default:
		k.pause = min(2*k.pause, lookMost)
	}
	return k.pause
}

// read takes in the jobs that were made, forgets those that have ended, and now and then removes old ones.
func (k *jobDuty) read() error {
	now := k.Clock.Now()
	if now.Sub(k.cleaned) >= lookIdle || now.Before(k.cleaned) {
		any := false // an agent without jobs writes nothing
		err := k.Ledger.View(func(t *ledger.Tx) error {
			for range drawerOf(t).All("j/", "") {
				any = true
				break
			}
			return nil
		})
		if err == nil && any {
			err = k.Ledger.Update(func(t *ledger.Tx) error { return drawerOf(t).removeOld(now, 0, k.kept) })
		}
		if err != nil {
			return err
		}
		k.cleaned = now
	}
	return k.Ledger.View(func(t *ledger.Tx) error {
		d := drawerOf(t)
		all, err := d.Unfinished()
		if err != nil {
			return err
		}
		maps.DeleteFunc(k.running, func(id transfer.ID, _ *run) bool { return !slices.Contains(all, id) })
		for _, id := range all {
			if k.running[id] != nil {
				continue
			}
			r := &run{accepted: map[int]bool{}, told: map[int]bool{}}
			if r.children, err = d.children(id, 0, 0); err != nil {
				return err
			}
			k.running[id] = r
		}
		return nil
	})
}

// job is a job of the ledger, as it stands now.
func (k *jobDuty) job(id transfer.ID) (j *Job, q *transfer.Request, err error) {
	err = k.Ledger.View(func(t *ledger.Tx) error {
		d := drawerOf(t)
		if j, err = d.Load(id.String()); err == nil && j == nil {
			err = transfer.Errorf(transfer.KindInternal, "the ledger has lost the job %s", id)
		}
		if err == nil {
			q, err = d.request(id)
		}
		return err
	})
	return j, q, err
}

// step does the step of one job that is due. room says whether the agent takes transfers.
func (k *jobDuty) step(ctx context.Context, id transfer.ID, r *run, room *bool) (moved bool, err error) {
	j, q, err := k.job(id)
	if err != nil {
		return false, err
	}
	var ended []*Child // of this look; their outcomes are in memory, and not in the ledger yet
	var failed []error
	submitted := 0
	for n := range r.children {
		c := &r.children[n]
		if c.State.Final() || c.Transfer.IsZero() || ctx.Err() != nil {
			continue
		}
		err := k.follow(j, r, c)
		if err == nil && !r.accepted[c.N] && !c.State.Final() && *room && submitted < submitMost {
			submitted++
			err = k.submit(q, j, r, c, room)
			moved = moved || r.accepted[c.N]
		}
		if err != nil {
			failed = append(failed, err)
		}
		if c.State.Final() {
			ended = append(ended, c)
		}
	}
	if err := k.settle(j.ID, q, r, ended); err != nil {
		for _, c := range ended {
			c.State = transfer.Queued // it is checked again
		}
		return moved, errors.Join(append(failed, err)...)
	}
	decided, err := k.last(j.ID, r)
	return moved || len(ended) > 0 || decided, errors.Join(append(failed, err)...)
}

// follow takes in how the transfer of a child stands, and cancels it where the job is cancelled.
func (k *jobDuty) follow(j *Job, r *run, c *Child) error {
	p, err := k.Status(c.Transfer)
	switch {
	case transfer.KindOf(err) == transfer.KindNotFound:
		r.accepted[c.N] = false
		if j.Cancelled != nil {
			c.end(k.Clock.Now(), transfer.Cancelled, cancelledBefore(j))
		}
		return nil
	case err != nil:
		return err
	}
	r.accepted[c.N] = true
	if p.State.Final() {
		c.update(p)
		return nil
	}
	if j.Cancelled == nil || r.told[c.N] {
		return nil
	}
	err = k.Cancel(j.Cancelled.Origin, c.Transfer)
	if kind := transfer.KindOf(err); err != nil && kind != transfer.KindEnding {
		return err
	}
	r.told[c.N] = true
	return nil
}

func cancelledBefore(j *Job) *transfer.Error {
	return transfer.Errorf(transfer.KindCancelled, "job %s was cancelled before this transfer was submitted", j.ID)
}

// end ends a child that has no transfer.
func (c *Child) end(now time.Time, state transfer.State, why *transfer.Error) {
	c.State, c.Ended, c.Code, c.Reason = state, now.UTC(), state.Code(), cut(why)
	if state == transfer.Failed {
		c.Code = why.Kind.Code()
	}
}

// submit submits a child, where the job was not cancelled meanwhile, and ends it where the agent refuses it for good.
func (k *jobDuty) submit(q *transfer.Request, j *Job, r *run, c *Child, room *bool) error {
	now, _, err := k.job(j.ID)
	if err != nil {
		return err
	}
	if now.Cancelled != nil {
		return nil // the next look ends it
	}
	request := childOf(q, c, j.Children)
	_, err = k.Offer(j.Origin, request)
	switch kind := transfer.KindOf(err); {
	case err == nil:
		r.accepted[c.N] = true
	case kind.Waits():
		*room = false
		k.Log.Debug("a transfer of a job waits", "job", j.ID, "transfer", c.Transfer, "error", err)
	case kind == transfer.KindClock:
		return k.redate(j.ID, c)
	case kind == transfer.KindInternal, kind == transfer.KindNotFound, kind == transfer.KindCancelled:
		return err
	default:
		c.end(k.Clock.Now(), transfer.Failed, transfer.AsError(err))
	}
	return nil
}

// redate gives a child another ID. The clock was put back, and the agent has refused the ID as one from the future. The
// agent refuses only an unknown ID so.
func (k *jobDuty) redate(id transfer.ID, c *Child) error {
	fresh := *c
	fresh.Transfer = transfer.NewID(k.Clock.Now())
	err := k.Ledger.Update(func(t *ledger.Tx) error { return drawerOf(t).putChild(id, &fresh) })
	if err == nil {
		*c = fresh
	}
	return err
}

// settle writes down how children have ended, and with the last of them the job.
func (k *jobDuty) settle(id transfer.ID, q *transfer.Request, r *run, ended []*Child) error {
	if len(ended) == 0 {
		return nil
	}
	failpoint.Hit("job.before_settle")
	err := k.Ledger.Update(func(t *ledger.Tx) error {
		d := drawerOf(t)
		j, err := d.Load(id.String())
		if j == nil || err != nil {
			return err
		}
		for _, c := range ended {
			if err := d.putChild(j.ID, c); err != nil {
				return err
			}
			j.Counts.add(c)
			if c.State == transfer.Failed && !r.accepted[c.N] {
				if err := k.noteRefused(t, j, q, c); err != nil {
					return err
				}
			}
		}
		if j.Counts.Ended == j.Children {
			if err := k.end(t, d, j); err != nil {
				return err
			}
		}
		return d.Save(j)
	})
	if err == nil {
		failpoint.Hit("job.after_settle")
	}
	return err
}

func (y *Tally) add(c *Child) {
	y.Ended++
	if c.State == transfer.Successful {
		y.Successful++
	}
	y.Files, y.Failed, y.Skipped, y.Bytes, y.Warnings = y.Files+c.Files, y.Failed+c.FilesFailed, y.Skipped+c.FilesSkipped, y.Bytes+c.Bytes, y.Warnings+c.Warnings
}

// noteRefused puts a child on record that the agent has not taken.
func (k *jobDuty) noteRefused(t *ledger.Tx, j *Job, q *transfer.Request, c *Child) error {
	k.Log.Warn("transfer of a job refused", "job", j.ID, "transfer", c.Transfer, "error", c.Reason)
	return k.note(t, j, audit.Record{Event: audit.Failed, Transfer: c.Transfer, Destination: c.Destination, Originator: &j.Originator, Principal: j.Principal,
		Meta: map[string]string{MetaName: j.ID.String()}, Request: audit.FactsOf(childOf(q, c, j.Children)), State: c.State, Code: c.Code, Error: c.Reason,
		Text: fmt.Sprintf("job %s, destination %d", j.ID, c.N)})
}

// end ends a job after the end of all its children.
func (k *jobDuty) end(t *ledger.Tx, d drawer, j *Job) error {
	all, err := d.children(j.ID, 0, 0)
	if err != nil {
		return err
	}
	j.State, j.Code = FinalState(all, j.Cancelled != nil)
	j.Ended = k.Clock.Now().UTC()
	k.Log.Info("job has ended", "job", j.ID, "state", j.State, "code", j.Code)
	if err := d.Delete("a/" + j.ID.String()); err != nil {
		return err
	}
	return k.note(t, j, audit.Record{Event: audit.Changed, Principal: j.Principal, Originator: &j.Originator,
		Text: fmt.Sprintf("the job %s has ended: %s (%d), %d of %d destinations were successful", j.ID, j.State, j.Code, j.Counts.Successful, j.Children)})
}

// last decides the last child of a job that deletes its sources, once the others have ended. The child has its ID from
// then on; whether it deletes is written down with it.
func (k *jobDuty) last(id transfer.ID, r *run) (decided bool, err error) {
	c := &r.children[len(r.children)-1]
	if !c.Transfer.IsZero() || c.State.Final() {
		return false, nil
	}
	others := r.children[:len(r.children)-1]
	if slices.ContainsFunc(others, func(c Child) bool { return !c.State.Final() }) {
		return false, nil
	}
	fresh := *c
	fresh.Transfer = transfer.NewID(k.Clock.Now())
	why := ""
	fresh.Sum, why = arrivedEverywhere(others)
	err = k.Ledger.Update(func(t *ledger.Tx) error {
		d := drawerOf(t)
		j, err := d.Load(id.String())
		if j == nil || err != nil {
			return err
		}
		if err := d.putChild(id, &fresh); err != nil || why == "" || j.Cancelled != nil {
			return err
		}
		j.Warning = "the sources are not deleted: " + why
		k.Log.Warn("sources of a job are not deleted", "job", id, "reason", why)
		if err := d.Save(j); err != nil {
			return err
		}
		return k.note(t, j, audit.Record{Event: audit.Warning, Principal: j.Principal, Originator: &j.Originator, Text: fmt.Sprintf("job %s: %s", id, j.Warning)})
	})
	if err != nil {
		return false, err
	}
	failpoint.Hit("job.after_last")
	*c = fresh
	return true, nil
}

// arrivedEverywhere returns the sum of the files, if the same files have arrived at each destination of others. The sources
// are deleted only under that sum. why is the reason of an empty sum; it is empty where no file has arrived.
func arrivedEverywhere(others []Child) (sum, why string) {
	for n := range others {
		c := &others[n]
		switch at := c.Dest.On(c.Destination); {
		case c.State != transfer.Successful:
			return "", fmt.Sprintf("the transfer to %s has ended as %s", at, c.State)
		case c.FilesSkipped > 0:
			return "", fmt.Sprintf("files were skipped at %s", at)
		case c.Tally != others[0].Tally:
			return "", fmt.Sprintf("other files, or other content, have arrived at %s than at %s", at, others[0].Dest.On(others[0].Destination))
		}
	}
	return others[0].Tally, ""
}
