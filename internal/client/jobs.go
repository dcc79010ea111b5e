package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"ferry/internal/automation/job"
	"ferry/internal/place/location"
	"ferry/internal/transfer"
)

// Times of the handover of a job.
const (
	slowJob = 3 * time.Second // after which the sender hears that the agent has not taken it
	undoJob = 5 * time.Second // for the agent to cancel it, if it has taken it too late
)

// JobAt returns a job of an agent with all of its children.
func JobAt(ctx context.Context, at AtAgent, named job.Named) (*job.Shown, error) {
	all, err := Ask[job.Shown](ctx, at, job.AskShow, named)
	for err == nil && all.More && len(all.Of) > 0 {
		named.After = all.Of[len(all.Of)-1].N
		var next *job.Shown
		if next, err = Ask[job.Shown](ctx, at, job.AskShow, named); err == nil {
			next.Request, next.Of = all.Request, append(all.Of, next.Of...)
			all = next
		}
	}
	return all, err
}

// CheckJob refuses a job that must not be sent, as Client.Check does for each of its transfers.
func CheckJob(ctx context.Context, c *Client, p *job.Put) error {
	checked := map[transfer.AgentName]bool{}
	for _, q := range p.Requests() {
		if !checked[q.Destination] {
			if err := c.Check(ctx, q); err != nil {
				return err
			}
		}
		checked[q.Destination] = true
	}
	return nil
}

// PutJob gives a job to an agent, and tries for as long as the recovery time-out of its request says. Then it cancels
// the job. It calls slow once where the agent takes a while.
func PutJob(ctx context.Context, at AtAgent, p *job.Put, slow func()) error {
	within, limit := ctx, p.Request.RecoveryTimeout()
	if limit > 0 {
		var cancel context.CancelFunc
		within, cancel = context.WithTimeoutCause(ctx, limit, context.DeadlineExceeded)
		defer cancel()
	}
	wait := time.AfterFunc(slowJob, slow)
	_, err := at.Command(within, job.CommandPut, p)
	wait.Stop()
	if err == nil || within.Err() == nil || ctx.Err() != nil || HandoverOf(err) != Stored {
		return err
	}
	// Both commands are in the agent's queue, and it obeys them before it submits anything.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoJob)
	defer cancel()
	id := p.Request.ID
	_, err = at.Command(end, job.CommandCancel, job.Named{ID: id.String()})
	if kind := transfer.KindOf(err); err != nil && kind != transfer.KindTimeout && kind != transfer.KindNotFound {
		return transfer.Errorf(transfer.KindRecovery, "agent %s has not taken the job %s within %s, and it cannot be cancelled now: %w", at.Agent, id, limit, err).
			WithHint("`ferry job cancel` cancels it")
	}
	return transfer.Errorf(transfer.KindRecovery, "agent %s has not taken the job %s within %s; it is cancelled", at.Agent, id, limit)
}

// RetryJob makes the job that repeats the failed transfers of another one, without the transfers and items that later
// retries have brought. ifExists replaces the treatment of existing files; "" leaves it.
func RetryJob(ctx context.Context, c *Client, s *job.Shown, ifExists string) (*job.Put, error) {
	switch {
	case s.Ended.IsZero():
		return nil, transfer.Errorf(transfer.KindUsage, "job %s is %s; a job is retried once it is over", s.ID, s.State).
			WithHint("`ferry job watch` follows it, `ferry job cancel` ends it")
	case s.State == transfer.Successful:
		return nil, transfer.Errorf(transfer.KindUsage, "nothing of job %s has failed", s.ID)
	case s.Request == nil:
		return nil, transfer.Errorf(transfer.KindVersion, "agent %s has answered without the request of the job", s.Source)
	}
	now := time.Now()
	p := &job.Put{Request: *s.Request, RetryOf: s.ID}
	p.Request.ID, p.Request.Submitted, p.Request.Originator = transfer.NewID(now), now.UTC(), c.Who
	p.Request.IfExists = cmp.Or(ifExists, p.Request.IfExists)
	p.Request.Disposition, p.Request.Archive, p.Request.AllSources = transfer.DispositionLeave, "", false
	if f := &p.Request.Filter; f.Bounds() && f.AsOf.IsZero() {
		f.AsOf = s.Request.Submitted // the same files, however old they are by now
	}
	if err := p.Request.Check(); ifExists != "" && err != nil {
		return nil, err
	}
	for n := range s.Of {
		child := &s.Of[n]
		if child.State == transfer.Successful {
			continue
		}
		to := job.To{Agent: child.Destination, Dest: child.Dest, Retry: child.Retry}
		if !child.Started.IsZero() { // otherwise the audit log has no more than the job
			some := child.FilesFailed > 0 && (child.Code == transfer.CodePartial || child.Code == transfer.CodeNothing)
			again, err := retryChild(ctx, c, child.Transfer, some, ifExists)
			if errors.Is(err, errArrived) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("destination %s:%s: %w", child.Destination, transfer.Path(location.Format(child.Dest)), err)
			}
			to.Retry = again.Retry
		}
		p.To = append(p.To, to)
	}
	if len(p.To) == 0 {
		return nil, transfer.Errorf(transfer.KindUsage, "everything of job %s that had failed has arrived with later retries of its transfers", s.ID).
			WithHint("`ferry transfer show` of a transfer names its retry")
	}
	p.Request.Destination, p.Request.Dest = p.To[0].Agent, p.To[0].Dest
	return p, p.Check()
}

// retryChild returns the request that repeats a transfer of a job. It reads the audit log, and waits because the newest
// records may not have arrived there yet. The error is errArrived if other repetitions have brought all of it.
func retryChild(ctx context.Context, c *Client, id transfer.ID, failed bool, ifExists string) (q *transfer.Request, err error) {
	for end := time.Now().Add(c.Timeout); ; {
		var p *transfer.Progress
		if p, err = c.Transfer(ctx, id.String()); err == nil && !failed && p.Retried {
			if last, err := c.Transfer(ctx, p.RetriedAs.String()); err == nil && last.State == transfer.Successful {
				return nil, errArrived
			}
		}
		if err == nil {
			q, err = c.RetryOf(ctx, p, failed, ifExists)
		}
		if transfer.KindOf(err) != transfer.KindNotFound || time.Now().After(end) {
			return q, err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
