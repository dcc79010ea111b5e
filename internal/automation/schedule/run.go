package schedule

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ferry/internal/audit"
	"ferry/internal/ledger"
	"ferry/internal/security/word"
	"ferry/internal/sys/failpoint"
	"ferry/internal/sys/wake"
	"ferry/internal/transfer"
)

// claim claims the occurrences that are due, and returns the time until it is to be called again. changed says that the
// schedules have changed.
func (k *scheduleDuty) claim(changed bool) (again time.Duration) {
	now := k.Clock.Now()
	if now.Before(k.began) {
		k.began = now // the clock was put back: the next occurrences are not missed
	}
	if changed || k.dueTimes == nil {
		if err := k.read(); err != nil {
			k.Log.Error("cannot read schedules", "error", err)
			return retry
		}
	}

	due := map[string]bool{} // by name; true: it waits, because a transfer of the schedule is running
	for name, at := range k.dueTimes {
		if at.After(now) {
			continue
		}
		held, wait, err := k.holds(name)
		switch {
		case err != nil:
			k.Log.Error("read state of scheduled transfer failed", "schedule", name, "error", err)
			k.dueTimes[name] = now.Add(retry)
		case wait:
			k.dueTimes[name] = now.Add(retry)
		default:
			due[name] = held
		}
	}
	if err := k.claimAll(due, now); err != nil {
		k.Log.Error("cannot write down scheduled transfers", "error", err)
		return retry
	}

	again = look
	for _, at := range k.dueTimes {
		again = min(again, at.Sub(k.Clock.Now()))
	}
	return again
}

// read makes a new agenda.
func (k *scheduleDuty) read() error {
	agenda := map[string]time.Time{}
	err := k.Ledger.View(func(t *ledger.Tx) error {
		for s, err := range drawerOf(t).From("") {
			if err != nil {
				return err
			}
			if !s.Ended.IsZero() {
				continue
			}
			times, err := s.Plan.Times()
			if err != nil {
				k.Log.Error("cannot keep schedule", "schedule", s.Name, "error", err)
				continue
			}
			agenda[s.Name], _ = times.At(s.Done) // none: it ends, which is due at once
		}
		return nil
	})
	if err == nil {
		k.dueTimes = agenda
	}
	return err
}

// holds reports whether the next occurrence waits, because a transfer of the schedule is claimed or running; known says
// that this is written down. A transfer that the agent has forgotten has ended.
func (k *scheduleDuty) holds(name string) (held, known bool, err error) {
	s, err := ledger.Read(k.Ledger, func(t *ledger.Tx) (*Schedule, error) { return drawerOf(t).Load(name) })
	switch {
	case err != nil || s == nil || s.Overlap:
		return false, false, err
	case s.Waiting > 0:
		return true, !s.Held.IsZero(), nil
	case s.Last.IsZero():
		return false, false, nil
	}
	p, err := k.Status(s.Last)
	if transfer.KindOf(err) == transfer.KindNotFound {
		return false, false, nil
	}
	held = err == nil && !p.State.Final()
	return held, held && !s.Held.IsZero(), err
}

// claimAll claims the occurrences of some schedules that are due, or notes that they wait, in one transaction.
func (k *scheduleDuty) claimAll(due map[string]bool, now time.Time) error {
	if len(due) == 0 {
		return nil
	}
	next := map[string]time.Time{}
	err := k.Ledger.Update(func(t *ledger.Tx) error {
		clear(next)
		d := drawerOf(t)
		for name, held := range due {
			s, err := d.Load(name)
			if err != nil {
				return err
			}
			if s == nil || !s.Ended.IsZero() {
				continue
			}
			if next[name], err = k.claimOf(t, d, s, held, now); err != nil {
				return err
			}
			if !s.Ended.IsZero() {
				delete(next, name)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	failpoint.Hit("schedule.after_claim")
	for name := range due {
		if at, ok := next[name]; ok {
			k.dueTimes[name] = at
		} else {
			delete(k.dueTimes, name)
		}
	}
	wake.Up(k.claimed)
	return nil
}

// claimOf passes the due occurrences of a schedule, with a claim for each that is to be submitted. It returns the time
// of the next one. Where the schedule is held it notes that the next one waits.
func (k *scheduleDuty) claimOf(t *ledger.Tx, d drawer, s *Schedule, held bool, now time.Time) (next time.Time, err error) {
	times, err := s.Plan.Times()
	if err != nil {
		return next, err
	}
	first, end := s.Done, times.Due(s.Done, now)
	if held && first < end {
		k.Log.Info("scheduled transfer waits for the one before", "schedule", s.Name, "transfer", s.Last)
		s.Held = now.UTC()
		return now.Add(retry), d.Save(s)
	}
	if s.Waiting >= maxWaiting && first < end {
		return now.Add(retry), nil // they are missed, or not, when there is room
	}

	from := k.inTime(s, times, first, end, now)
	if from > first {
		if err := k.miss(t, s, times, first, from, now); err != nil {
			return next, err
		}
	}
	end = min(end, from+int64(maxWaiting-s.Waiting))
	for n := from; n < end; n++ {
		at, _ := times.At(n)
		if err := d.claim(&Claim{V: version, Name: s.Name, Schedule: s.ID, N: n, At: at, Transfer: transfer.NewID(now)}); err != nil {
			return next, err
		}
		s.Waiting++
	}
	s.Done, s.Held = end, time.Time{}
	next, ok := times.At(end)
	if !ok {
		s.Ended = now.UTC()
		k.Log.Info("schedule has ended", "schedule", s.Name)
		if err := k.Note(t, audit.Record{Event: audit.Changed, Role: audit.RoleSource, Source: k.Agent, Destination: s.Destination, Principal: s.Principal, Job: s.Job,
			Figures: kept(s, audit.ScheduleExpired), Text: "the schedule " + s.Name + " has ended"}); err != nil {
			return next, err
		}
	}
	return next, d.Save(s)
}

// inTime returns the first of the occurrences from first to end that is submitted. Without overlap one is submitted at
// most. Several are due together where the transfer before was running, or the agent was down.
func (k *scheduleDuty) inTime(s *Schedule, times *Times, first, end int64, now time.Time) (from int64) {
	from = end
	switch one := end-first == 1; {
	case !s.Overlap && one && !s.Held.IsZero():
		return first
	case s.Overlap || one:
		for from > first {
			if at, _ := times.At(from - 1); at.Before(k.began) || now.Sub(at) >= late {
				break
			}
			from--
		}
	}
	if s.Missed == MissedOnce && from == end && from > first {
		from-- // the last one, late
	}
	return from
}

// miss records a range of occurrences as missed.
func (k *scheduleDuty) miss(t *ledger.Tx, s *Schedule, times *Times, from, to int64, now time.Time) error {
	at, _ := times.At(from)
	s.remember(Past{N: from, At: at, Missed: to - from, Done: now.UTC()})
	why := "missed"
	if !s.Held.IsZero() {
		why = "due while the transfer before was under way, and not submitted:"
	}
	k.Log.Warn("scheduled transfers missed", "schedule", s.Name, "count", to-from, "first", at, "held", !s.Held.IsZero())
	return k.Note(t, audit.Record{Event: audit.Warning, Role: audit.RoleSource, Source: s.Source, Destination: s.Destination, Principal: s.Principal, Job: s.Job,
		Figures: kept(s, audit.ScheduleSkipped), Text: fmt.Sprintf("schedule %s: %s %d, from %s on", s.Name, why, to-from, at.UTC().Format(time.RFC3339))})
}

const submitPage = 256 // claims that are read at once

// submit submits the claimed occurrences, and returns the time until it is to be called again. While the agent is busy
// or its disk is full, all of them wait. Otherwise one that cannot be submitted keeps no others.
func (k *scheduleDuty) submit(ctx context.Context) (again time.Duration) {
	again = look
	for after := ""; ; {
		page, err := k.page(after)
		if err != nil {
			k.Log.Error("cannot read scheduled transfers", "error", err)
			return retry
		}
		for _, c := range page {
			if ctx.Err() != nil {
				return 0
			}
			err := k.submitOne(c)
			switch kind := transfer.KindOf(err); {
			case kind.Waits():
				k.Log.Debug("a scheduled transfer waits", "schedule", c.Name, "transfer", c.Transfer, "error", err)
				return retry
			case err != nil:
				k.Log.Error("cannot submit scheduled transfer", "schedule", c.Name, "transfer", c.Transfer, "error", err)
				again = retry
			}
		}
		if len(page) < submitPage {
			return again
		}
		after = "w/" + page[len(page)-1].Transfer.String()
	}
}

// page reads the claims that come after a key.
func (k *scheduleDuty) page(after string) (page []*Claim, err error) {
	err = k.Ledger.View(func(t *ledger.Tx) error {
		for c, err := range drawerOf(t).claims(after) {
			if err != nil || len(page) == submitPage {
				return err
			}
			page = append(page, c)
		}
		return nil
	})
	return page, err
}

// submitOne submits a claim, and settles it where that is decided. An error says that it is to
// be tried again.
func (k *scheduleDuty) submitOne(c *Claim) error {
	var q *transfer.Request
	var by word.Origin
	err := k.Ledger.View(func(t *ledger.Tx) error {
		d := drawerOf(t)
		s, err := d.of(c)
		if s == nil || err != nil {
			return err
		}
		by = s.Origin
		q, err = d.request(c.Name)
		return err
	})
	if err != nil || q == nil {
		return err
	}

	q.ID, q.Submitted = c.Transfer, c.Transfer.Time().UTC() // the same each time: a repeat must be the same request
	_, err = k.Submit(by, q)
	switch kind := transfer.KindOf(err); {
	case kind.Waits(), kind == transfer.KindInternal, kind == transfer.KindNotFound, kind == transfer.KindCancelled:
		return err
	case kind == transfer.KindClock:
		return k.redate(c, err)
	}
	failpoint.Hit("schedule.before_settle")
	return k.settle(c, q, transfer.AsError(err))
}

// redate gives a claim another ID. The clock was put back, and the agent has refused the ID as one from the future. The
// agent refuses only an unknown ID so.
func (k *scheduleDuty) redate(c *Claim, why error) error {
	err := k.Ledger.Update(func(t *ledger.Tx) error {
		d := drawerOf(t)
		if s, err := d.of(c); s == nil || err != nil {
			return err
		}
		fresh := *c
		fresh.Transfer = transfer.NewID(k.Clock.Now())
		return errors.Join(d.unclaim(c), d.claim(&fresh))
	})
	if err != nil {
		return err
	}
	return transfer.Errorf(transfer.KindBusy, "it has a new ID: %w", why)
}

// settle writes down the result of a claim.
func (k *scheduleDuty) settle(c *Claim, q *transfer.Request, refused *transfer.Error) error {
	return k.Ledger.Update(func(t *ledger.Tx) error {
		d := drawerOf(t)
		s, err := d.of(c)
		if s == nil || err != nil {
			return err
		}
		if err := d.unclaim(c); err != nil {
			return err
		}
		s.Waiting--
		if refused == nil {
			s.Last = c.Transfer
		}
		s.remember(Past{N: c.N, At: c.At, Transfer: c.Transfer, Done: k.Clock.Now().UTC(), Error: refused})
		if err := d.Save(s); err != nil || refused == nil {
			return err
		}
		k.Log.Warn("scheduled transfer refused", "schedule", s.Name, "transfer", c.Transfer, "error", refused)
		return k.Note(t, audit.Record{Event: audit.Failed, Role: audit.RoleSource, Transfer: c.Transfer, Source: s.Source, Destination: s.Destination,
			Originator: &s.Originator, Principal: s.Principal, Job: s.Job, Request: audit.FactsOf(q), State: transfer.Failed, Code: refused.Kind.Code(), Error: refused,
			Text: fmt.Sprintf("schedule %s, occurrence %d of %s", s.Name, c.N, c.At.UTC().Format(time.RFC3339))})
	})
}
