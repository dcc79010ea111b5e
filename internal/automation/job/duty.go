package job

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/duty"
	"ferry/internal/ledger"
	"ferry/internal/sys/wake"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A jobDuty is the duty that keeps and runs the jobs of an agent.
type jobDuty struct {
	duty.Services
	changed chan struct{} // a command was given

	running map[transfer.ID]*run // the jobs that have not ended; of the goroutine of Run alone
	pause   time.Duration        // until the next look
	kept    int                  // how many children all jobs may have together
	cleaned time.Time            // when old jobs were removed last
}

// New makes the duty.
func New(d duty.Services) (duty.Duty, error) { return newDuty(d), nil }

func newDuty(d duty.Services) *jobDuty {
	return &jobDuty{Services: d, changed: make(chan struct{}, 1), kept: maxKept}
}

// Commands make and cancel jobs.
func (k *jobDuty) Commands() map[wire.Kind]duty.Command {
	changed := func() { wake.Up(k.changed) }
	return map[wire.Kind]duty.Command{
		CommandPut:    {Needs: transfer.AuthSource, Do: k.put, Done: changed},
		CommandCancel: {Needs: transfer.AuthNone, Do: k.cancel, Done: changed}, // cancel asks for more
	}
}

// Questions are answered about the caller's own jobs, and about those of others to callers with AuthOperate.
func (k *jobDuty) Questions() map[wire.Kind]duty.Question {
	return map[wire.Kind]duty.Question{AskList: {Answer: k.list}, AskShow: {Answer: k.show}}
}

func (k *jobDuty) put(t *ledger.Tx, who duty.Caller, body json.RawMessage) (any, error) {
	p, err := ParsePut(body)
	if err != nil {
		return nil, err
	}
	q := &p.Request
	if q.Source != k.Agent {
		return nil, transfer.Errorf(transfer.KindUsage, "the job is for agent %s; this is %s", q.Source, k.Agent)
	}
	if q.Removes() {
		if err := k.May(who.Principal, transfer.AuthDeleteSource); err != nil {
			return nil, err
		}
	}

	d, now := drawerOf(t), k.Clock.Now().UTC()
	if err := d.CheckVacant(&k.Services, "job", q.ID.String()); err != nil {
		return nil, err
	}
	if err := k.share(d, who.Principal, len(p.To)); err != nil {
		return nil, err
	}
	if err := d.removeOld(now, len(p.To), k.kept); err != nil {
		return nil, err
	}

	j := &Job{V: version, ID: q.ID, Origin: who.Origin, Originator: who.Originator, Made: now, Source: q.Source, Name: q.Job,
		RetryOf: p.RetryOf, Children: len(p.To), Deletes: q.Removes(), State: transfer.Running}
	for n := range p.To {
		c := p.To[n].child(n+1, transfer.NewID(now))
		if j.Deletes && n > 0 && n+1 == j.Children {
			c.Transfer = transfer.ID{} // it is decided when the others have ended
		}
		if err := d.putChild(j.ID, c); err != nil {
			return nil, err
		}
	}
	if err := d.Put("r/"+j.ID.String(), wire.Marshal(q)); err != nil {
		return nil, err
	}
	if err := d.Put("a/"+j.ID.String(), []byte{version}); err != nil {
		return nil, err
	}
	if err := d.Save(j); err != nil {
		return nil, err
	}
	k.Log.Info("job made", "job", j.ID, "principal", j.Principal, "destinations", j.Children)
	return j, k.note(t, j, who.Changed(fmt.Sprintf("has the job %s of %d destinations", j.ID, j.Children)))
}

// note puts a record of a job into the outbox.
func (k *jobDuty) note(t *ledger.Tx, j *Job, r audit.Record) error {
	r.Role, r.Source, r.Job = audit.RoleSource, k.Agent, j.Name
	return k.Note(t, r)
}

// share returns an error where one more job of a principal, with so many destinations, exceeds its share.
func (k *jobDuty) share(d drawer, principal string, destinations int) error {
	all, err := d.Unfinished()
	if err != nil {
		return err
	}
	jobs, parts := 1, destinations
	othersJobs, othersParts := 0, 0
	for _, id := range all {
		j, err := d.Load(id.String())
		if err != nil {
			return err
		}
		if j == nil {
			continue
		}
		if j.Principal == principal {
			jobs, parts = jobs+1, parts+j.Children
		} else {
			othersJobs, othersParts = othersJobs+1, othersParts+j.Children
		}
	}
	if err := duty.CheckShare(&k.Services, "job", principal, jobs, othersJobs, maxJobs); err != nil {
		return err
	}
	return duty.CheckShare(&k.Services, "job destination", principal, parts, othersParts, k.kept)
}

// removeOld removes the jobs that ended long ago, and those that must make room for one more with so many children; 0: for
// none.
func (d drawer) removeOld(now time.Time, children, most int) error {
	jobs, kept := 0, children
	var ended []*Job // the oldest IDs first
	for j, err := range d.From("") {
		if err != nil {
			return err
		}
		jobs, kept = jobs+1, kept+j.Children
		if !j.Ended.IsZero() {
			ended = append(ended, j)
		}
	}
	if children > 0 {
		jobs++
	}
	for _, j := range ended {
		if now.Sub(j.Ended) < retention && jobs <= maxJobs && kept <= most {
			continue
		}
		if err := d.remove(j.ID); err != nil {
			return err
		}
		jobs, kept = jobs-1, kept-j.Children
	}
	return nil
}

func (k *jobDuty) cancel(t *ledger.Tx, who duty.Caller, body json.RawMessage) (any, error) {
	d := drawerOf(t)
	j, _, err := k.named(d, who, body)
	if err != nil {
		return nil, err
	}
	if err := k.MayChange(who, j.Principal, transfer.AuthNone); err != nil {
		return nil, err
	}
	switch {
	case j.State == transfer.Cancelled || j.Cancelled != nil && j.Ended.IsZero():
		return j, nil
	case !j.Ended.IsZero():
		return nil, transfer.Errorf(transfer.KindEnding, "job %s is already over: %s", j.ID, j.State)
	}
	j.Cancelled = &Cancelled{Origin: who.Origin, At: k.Clock.Now().UTC()}
	j.State = transfer.Cancelling
	if err := d.Save(j); err != nil {
		return nil, err
	}
	k.Log.Info("job cancel requested", "job", j.ID, "principal", who.Principal)
	return j, k.note(t, j, who.Changed(fmt.Sprintf("cancels the job %s", j.ID)))
}

// named returns the job that a body names, of those that a caller may see.
func (k *jobDuty) named(d drawer, who duty.Caller, body json.RawMessage) (*Job, Named, error) {
	b, err := duty.Body[Named](body, "the ID of a job")
	if err != nil {
		return nil, b, err
	}
	found, err := duty.Find(&k.Services, who, "job", b.ID, d.From(""))
	return found, b, err
}

func (k *jobDuty) list(who duty.Caller, body json.RawMessage) (any, error) {
	p, err := duty.Body[Page](body, "the question about jobs")
	if err != nil {
		return nil, err
	}
	l := Listed{Jobs: []Job{}}
	err = k.Ledger.View(func(t *ledger.Tx) (err error) {
		all := duty.Visible(&k.Services, who, drawerOf(t).From(p.After.String()))
		l.More, err = duty.Page(all, listPage, func(j *Job) { l.Jobs = append(l.Jobs, *j) })
		return err
	})
	return l, err
}

func (k *jobDuty) show(who duty.Caller, body json.RawMessage) (any, error) {
	s, full := &Shown{}, false
	err := k.Ledger.View(func(t *ledger.Tx) error {
		d := drawerOf(t)
		j, b, err := k.named(d, who, body)
		if err != nil {
			return err
		}
		s.Job = *j
		if full = b.Request; full && b.After == 0 { // it may be large, and each page is of the same job
			if s.Request, err = d.request(j.ID); err != nil {
				return err
			}
		}
		s.Of, err = d.children(j.ID, b.After, childPage+1)
		return err
	})
	if err != nil {
		return nil, err
	}
	if s.More = len(s.Of) > childPage; s.More {
		s.Of = s.Of[:childPage]
	}
	for n := range s.Of {
		c := &s.Of[n]
		if c.Retry != nil && !full {
			c.Retry = &transfer.Retry{Of: c.Retry.Of}
		}
		if c.State.Final() || c.Transfer.IsZero() {
			continue
		}
		if p, err := k.Status(c.Transfer); err == nil {
			c.update(p)
		}
	}
	return s, nil
}

// Kept has the jobs, the newest first, each with its first children.
func (k *jobDuty) Kept(t *ledger.Tx, add func(wire.Definition)) error {
	d := drawerOf(t)
	var all []*Job
	for j, err := range d.From("") {
		if err != nil {
			return err
		}
		all = append(all, j)
	}
	for _, j := range slices.Backward(all) {
		s := &Shown{Job: *j}
		var err error
		if s.Of, err = d.children(j.ID, 0, keptOf+1); err != nil {
			return err
		}
		if s.More = len(s.Of) > keptOf; s.More {
			s.Of = s.Of[:keptOf]
		}
		for n := range s.Of {
			if c := &s.Of[n]; c.Retry != nil {
				c.Retry = &transfer.Retry{Of: c.Retry.Of}
			}
		}
		add(duty.Kept(Noun, j, duty.SeenBy, s))
	}
	return nil
}

// update takes in how the transfer of a child stands.
func (c *Child) update(p *transfer.Progress) {
	c.State, c.Code, c.Reason, c.Started, c.Ended, c.Counts = p.State, p.Code, cut(p.Reason), p.Started, p.Ended, p.Counts
}

// Run runs the jobs that have not ended, until ctx ends.
func (k *jobDuty) Run(ctx context.Context) {
	k.begin()
	t := k.Clock.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.changed:
			k.pause = 0
		case <-t.C():
		}
		t.Reset(k.look(ctx))
	}
}
