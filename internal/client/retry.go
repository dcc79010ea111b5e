package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ferry/internal/audit"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Retry makes the request that repeats an ended transfer, or its failed items, from the audit log. The transfer is
// named by its ID or the end of one. Items that another repetition has brought are not failed any more. KindUsage: there
// is nothing to repeat, or some of it would arrive twice; KindTooLarge: the log does not name all of it. ifExists takes the
// place of the request's, unless it is empty.
func (c *Client) Retry(ctx context.Context, suffix string, failed bool, ifExists string) (*transfer.Request, error) {
	p, err := c.Transfer(ctx, suffix)
	if err != nil {
		return nil, err
	}
	return c.RetryOf(ctx, p, failed, ifExists)
}

// RetryOf is Retry for a transfer that was found.
func (c *Client) RetryOf(ctx context.Context, p *transfer.Progress, failed bool, ifExists string) (*transfer.Request, error) {
	if !p.State.Final() {
		return nil, transfer.Errorf(transfer.KindUsage, "transfer %s is %s; a transfer is retried once it is over", p.ID, p.State).
			WithHint("`ferry transfer watch` follows it, `ferry transfer cancel` ends it")
	}

	req, facts, err := c.asked(ctx, p)
	if err != nil {
		return nil, err
	}

	req.IfExists = cmp.Or(ifExists, req.IfExists)
	if n := facts.MoreSources; n > 0 || facts.MoreOnly > 0 && !failed {
		named := len(facts.Named()) + len(facts.Only)
		return nil, transfer.Errorf(transfer.KindTooLarge, "the audit log names only %d of the %d sources of transfer %s", named, named+n+facts.MoreOnly, p.ID).
			WithHint("send it with `ferry send`")
	}

	if !failed {
		by, err := repetitionsOf(ctx, c, p)
		if err != nil {
			return nil, err
		}
		return req, doubles(p, by, req, ifExists != "")
	}

	switch {
	case p.State == transfer.Successful:
		return nil, transfer.Errorf(transfer.KindUsage, "nothing of transfer %s has failed", p.ID)
	case p.Code != transfer.CodePartial && p.Code != transfer.CodeNothing, p.Reason != nil && p.Reason.Kind == transfer.KindLost:
		return nil, transfer.Errorf(transfer.KindUsage, "transfer %s ended (%s) before all of its items were decided; the list of its failed items is not complete", p.ID, p.State).
			WithHint("repeat all of it with --if-exists skip, which leaves files that have arrived")
	}

	// The agent's latest records may still be on their way to the log: those of this transfer, and those of its repetitions.
	for end := c.Clock.Now().Add(c.asker().timeout); ; {
		var brought map[item]transfer.ItemType
		if brought, err = broughtBy(ctx, c, p); err == nil {
			req.Retry.Only, err = c.failures(ctx, p, brought)
		}
		if transfer.KindOf(err) != transfer.KindNotFound || c.Clock.Now().After(end) {
			return req, err
		}
		if err := c.asker().sleep(ctx, recordsAgain); err != nil {
			return nil, err
		}
	}
}

// doubles refuses to repeat a whole transfer if files that have arrived would then be there twice. It does not refuse
// if the user has said how to treat existing files. by are the other repetitions.
func doubles(p *transfer.Progress, by []*transfer.Progress, req *transfer.Request, said bool) error {
	var brought int64
	for _, r := range by {
		brought += r.Files
	}
	queue := req.Dest.Place == transfer.Queues || slices.ContainsFunc(req.Items, func(it transfer.RequestItem) bool { return it.Dest.Place == transfer.Queues })
	if p.State == transfer.Successful || p.Files+brought == 0 || !queue && (said || !req.Appends()) {
		return nil
	}
	e := transfer.Errorf(transfer.KindUsage, "%s of transfer %s arrived before, and would be in %s twice", items(int(p.Files+brought)), p.ID, map[bool]string{true: "the queue", false: "the appended files"}[queue])
	if p.Code == transfer.CodePartial {
		return e.WithHint("`ferry transfer retry --failed` sends the failed items")
	}
	return e.WithHint("`ferry transfer show` says which; send the others with `ferry send`")
}

// recordsAgain is the interval of questions for records that the audit log does not have yet.
const recordsAgain = 200 * time.Millisecond

// asked makes the request of a transfer anew, from the audit log.
func (c *Client) asked(ctx context.Context, p *transfer.Progress) (*transfer.Request, *audit.RequestFacts, error) {
	var first *audit.Record
	var started audit.RequestFacts
	for _, event := range []audit.Event{audit.Submitted, audit.Started} {
		err := c.recordsOf(ctx, p.ID, wire.Ask{Event: string(event)}, func(r *audit.Record) bool {
			if r.Agent != p.Source || r.Request == nil {
				return true
			}
			if event == audit.Submitted {
				first = r
			} else {
				started = *r.Request
			}
			return false
		})
		if err != nil {
			return nil, nil, err
		}
	}

	if first == nil {
		return nil, nil, transfer.Errorf(transfer.KindNotFound, "the audit log does not have the request of transfer %s", p.ID).
			WithHint("send it with `ferry send`")
	}

	a, terms := first.Request, first.Request.Terms
	if terms.Filter.Bounds() && terms.Filter.AsOf.IsZero() {
		terms.Filter.AsOf = p.Submitted // the same files, however old they are by now
	}
	now := c.Clock.Now()
	return &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(now), Submitted: now.UTC(), Originator: c.Who,
		Source: p.Source, Destination: p.Destination, Items: itemsAgain(a, started.Targets), Dest: a.Dest, Options: a.Options,
		Durability: a.Durability, Lane: a.Lane, Delivery: a.Delivery, Compress: a.Compress,
		Priority: a.Priority, Job: first.Job, Meta: first.Meta, Settings: a.Settings, Recovery: a.Recovery, Triggers: a.Triggers, Programs: a.Programs,
		Scope: transfer.Scope{Terms: terms, Tally: a.Tally, Base: a.Base, Retry: &transfer.Retry{Of: p.ID, Only: a.Only, Resolved: started.Resolved}}}, a, nil
}

// itemsAgain returns the items of a repeated request. A DEST keeps its first resolution. No version of a file is
// expected: a repeated request sends the file as it is now.
func itemsAgain(a *audit.RequestFacts, resolved []transfer.Resolved) []transfer.RequestItem {
	if len(a.Items) == 0 {
		return transfer.ItemsAt(a.Sources...)
	}
	items := slices.Clone(a.Items)
	for n := range items {
		items[n].Expected = ""
	}
	for _, r := range resolved {
		if r.Error == nil && r.N >= 1 && r.N <= uint64(len(items)) {
			items[r.N-1].Resolved = &r.Resolution
		}
	}
	return items
}

// An item is the source of an item of a transfer, and its target.
type item struct {
	source transfer.Path
	to     uint64
}

// repetitionsOf returns the repetitions of a transfer that have brought anything, and that this user may see.
func repetitionsOf(ctx context.Context, c *Client, p *transfer.Progress) (by []*transfer.Progress, err error) {
	if p.RetriedAs.IsZero() {
		return nil, nil
	}
	_, err = EachTransfer(ctx, c, &wire.Filter{RetryOf: p.ID, From: p.Source}, mostRetries, func(r *transfer.Progress) error {
		if r.RetryOf == p.ID && r.Files+r.Dirs > 0 {
			one := *r
			by = append(by, &one)
		}
		return nil
	})
	return by, err
}

// broughtBy returns the items that arrived with the repetitions of a transfer. Those of repetitions that this user may not
// see are missing. The error is of KindNotFound if the audit log does not have all items of a repetition that has ended.
func broughtBy(ctx context.Context, c *Client, p *transfer.Progress) (map[item]transfer.ItemType, error) {
	by, err := repetitionsOf(ctx, c, p)
	if err != nil {
		return nil, err
	}
	all := map[item]transfer.ItemType{}
	for _, one := range by {
		files := int64(0)
		if err := c.recordsOf(ctx, one.ID, wire.Ask{Filter: &wire.Filter{Name: "*", Role: audit.RoleSource}}, func(r *audit.Record) bool {
			for n := range r.Items {
				if o := &r.Items[n]; r.Event == audit.Items && r.Agent == p.Source && o.OK() {
					all[item{o.Reads(), o.To}] = o.Type
					if o.Type == transfer.ItemFile {
						files++
					}
				}
			}
			return len(all) < mostBrought
		}); err != nil {
			return nil, err
		}
		switch {
		case len(all) >= mostBrought:
			return all, nil
		case one.State.Final() && files < one.Files:
			return nil, transfer.Errorf(transfer.KindNotFound, "the audit log names %d of the %d files that arrived with %s, a retry of transfer %s", files, one.Files, one.ID, p.ID).
				WithHint("the others have not come, and would be sent again; try again later")
		}
	}
	return all, nil
}

// arrived reports whether other repetitions have brought a failed item. A source that was missing may be a directory by
// then, with more in it.
func arrived(brought map[item]transfer.ItemType, o *transfer.Outcome) bool {
	as, ok := brought[item{o.Reads(), o.To}]
	return ok && (o.Type != transfer.ItemBad || as != transfer.ItemDir)
}

// Bounds of the repetitions of one transfer that are looked at, and of the items that they have brought. Items beyond them
// are sent again.
const (
	mostRetries = 100
	mostBrought = 1_000_000
)

// failures returns the sources of the failed items of a transfer, without those that other repetitions have brought.
func (c *Client) failures(ctx context.Context, p *transfer.Progress, brought map[item]transfer.ItemType) (all []transfer.Path, err error) {
	size, doubled, there := 0, 0, 0
	err = c.recordsOf(ctx, p.ID, wire.Ask{Filter: &wire.Filter{Name: "*", Failed: true, Role: audit.RoleSource}}, func(r *audit.Record) bool {
		for n := range r.Items {
			o := &r.Items[n]
			switch {
			case !o.Failed() || r.Agent != p.Source:
			case o.Type == transfer.ItemBad && o.Err.Kind == transfer.KindExists:
				doubled++ // another source has its name at the destination, and has it again
			case arrived(brought, o):
				there++
				continue
			case o.Type == transfer.ItemBad: // it may be a directory, or match something, by now
				all = append(all, o.Reads()+"/")
			default:
				all = append(all, o.Reads())
			}
			size += len(o.Reads())
		}
		return size <= wire.MaxControl
	})
	switch {
	case err != nil:
		return nil, err
	case size > wire.MaxControl:
		return nil, transfer.Errorf(transfer.KindTooLarge, "the names of the failed items of transfer %s are more than a request holds, %d bytes", p.ID, wire.MaxControl).
			WithHint("repeat all of it with --if-exists skip, which leaves files that have arrived")
	case doubled > 0:
		return nil, transfer.Errorf(transfer.KindUsage, "%s of transfer %s would come to the name of another source; a second try changes nothing about that", items(doubled), p.ID).
			WithHint("send the failed items to a directory of their own")
	case int64(len(all)+there) < p.FilesFailed:
		return nil, transfer.Errorf(transfer.KindNotFound, "the audit log names %d of the %d items of transfer %s that failed", len(all)+there, p.FilesFailed, p.ID).
			WithHint("the others have not come; try again later, or do all of it once more with --if-exists skip")
	case int64(there) < p.RetriedFiles:
		return nil, transfer.Errorf(transfer.KindNotFound, "%d failed files of transfer %s have arrived with retries, and you may see only %d of them", p.RetriedFiles, p.ID, there).
			WithHint("the others would be sent again; try again later, or ask the user of the retry " + p.RetriedAs.String())
	case len(all) == 0 && there > 0:
		e := transfer.Errorf(transfer.KindUsage, "all failed items of transfer %s have arrived: it was already retried as %s", p.ID, p.RetriedAs).
			WithHint("without --failed all of it is sent again")
		e.Err = errArrived
		return nil, e
	}
	return all, nil
}

// errArrived says that other repetitions have brought all of a transfer.
var errArrived = errors.New("all has arrived")

func items(n int) string {
	if n == 1 {
		return "1 item"
	}
	return fmt.Sprintf("%d items", n)
}
