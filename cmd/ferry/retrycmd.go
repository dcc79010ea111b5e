package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/audit"
	"ferry/internal/clock"
	"ferry/internal/qmgr"
	"ferry/internal/submit"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

func newTransferRetry() *cobra.Command {
	q := &query{}
	f := &sendFlags{}
	var failed bool
	c := &cobra.Command{Use: "retry ID", Short: "Do a transfer that is over once more, or only what failed of it; the result code is the new transfer's",
		Long: `Makes a new transfer of one that is over: the same sources, destination and
settings, as the audit log has them. The new one names the old one as its parent.
With --failed only the items are sent that failed. Where files of the first try
have arrived, --if-exists says what becomes of them, as with ferry send.`,
		Example: "  ferry transfer retry 8057a4 --failed\n  ferry transfer retry 8057a4 --if-exists skip",
		Args:    oneID, RunE: func(cmd *cobra.Command, args []string) error {
			conn, ctx, done, err := q.open(cmd)
			if err != nil {
				return err
			}
			defer done()
			req, err := q.repeated(ctx, conn, args[0], failed)
			if err != nil {
				return err
			}
			req.IfExists = cmp.Or(f.ifExists, req.IfExists)
			if err := req.Check(); err != nil {
				return err
			}
			f.json = q.json
			s := &submit.Submitter{Conn: conn, Clock: clock.System, Who: req.Originator}
			return submitAndWatch(ctx, cmd, s, req, f, newView(cmd, f.json, f.quiet))
		}}
	q.add(c)
	fl := c.Flags()
	fl.BoolVar(&failed, "failed", false, "send only the items that failed")
	fl.StringVar(&f.ifExists, "if-exists", "", "what to do where the destination exists, as with ferry send (default: as the first time)")
	fl.BoolVar(&f.dryRun, "dry-run", false, "say what would be sent, and send nothing")
	fl.BoolVar(&f.detach, "detach", false, "print the ID and do not wait")
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "no progress and no notices")
	return c
}

// repeated makes the request that repeats a transfer, or what failed of it.
func (q *query) repeated(ctx context.Context, conn *qmgr.Conn, id string, failed bool) (*transfer.Request, error) {
	p, err := q.find(ctx, conn, id)
	if err != nil {
		return nil, err
	}
	if !p.State.Final() {
		return nil, transfer.Errorf(transfer.KindUsage, "transfer %s is %s; a transfer is retried once it is over", p.ID, p.State).
			WithHint("`ferry transfer watch` follows it, `ferry transfer cancel` ends it")
	}
	req, facts, err := q.asked(ctx, conn, p)
	if err != nil {
		return nil, err
	}
	if n := facts.MoreSources; n > 0 || facts.MoreOnly > 0 && !failed {
		named := len(facts.Named()) + len(facts.Only)
		return nil, transfer.Errorf(transfer.KindTooLarge, "the audit log names only %d of the %d sources of transfer %s", named, named+n+facts.MoreOnly, p.ID).
			WithHint("send it with `ferry send`")
	}
	if !failed {
		return req, nil
	}
	switch {
	case p.State == transfer.Successful:
		return nil, transfer.Errorf(transfer.KindUsage, "nothing of transfer %s has failed", p.ID)
	case p.Code != transfer.CodePartial && p.Code != transfer.CodeNothing:
		return nil, transfer.Errorf(transfer.KindUsage, "transfer %s ended (%s) before all of its items were decided; nobody knows them all", p.ID, p.State).
			WithHint("do all of it once more with --if-exists skip, which leaves alone what has arrived")
	}
	// The records of what an agent has just done are on their way to the log.
	for end := time.Now().Add(q.timeout); ; {
		req.Retry.Only, err = q.failures(ctx, conn, p)
		if transfer.KindOf(err) != transfer.KindNotFound || time.Now().After(end) {
			return req, err
		}
		select {
		case <-time.After(recordsAgain):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// recordsAgain is how often the audit log is asked for records that it does not have yet.
const recordsAgain = 200 * time.Millisecond

// asked is the request of a transfer made anew, from what the audit log has of it.
func (q *query) asked(ctx context.Context, conn *qmgr.Conn, p *transfer.Progress) (*transfer.Request, *audit.RequestFacts, error) {
	var first *audit.Record
	var started audit.RequestFacts
	for _, event := range []audit.Event{audit.Submitted, audit.Started} {
		err := q.records(ctx, conn, p.ID, wire.Ask{Event: string(event)}, func(r *audit.Record) bool {
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
		return nil, nil, transfer.Errorf(transfer.KindNotFound, "the audit log does not say what transfer %s was asked for", p.ID).
			WithHint("send it with `ferry send`")
	}
	a := first.Request
	now := time.Now()
	return &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(now), Submitted: now.UTC(), Originator: submit.Me(),
		Source: p.Source, Destination: p.Destination, Items: itemsAgain(a, started.Targets), Dest: a.Dest, Options: a.Options,
		Durability: a.Durability, Lane: a.Lane, Delivery: a.Delivery, Compress: a.Compress,
		Priority: a.Priority, Job: first.Job, Meta: first.Meta, Settings: a.Settings, Recovery: a.Recovery,
		Scope: transfer.Scope{Rate: a.Rate, MaxFiles: a.MaxFiles, MaxBytes: a.MaxBytes, Base: a.Base, Retry: &transfer.Retry{Of: p.ID, Only: a.Only, Resolved: started.Resolved}}}, a, nil
}

// itemsAgain are the items of a request that is repeated. A DEST stays what it turned out to be
// the first time.
func itemsAgain(a *audit.RequestFacts, resolved []transfer.Resolved) []transfer.RequestItem {
	if len(a.Items) == 0 {
		return transfer.ItemsOf(a.Sources...)
	}
	items := slices.Clone(a.Items)
	for _, r := range resolved {
		if r.Error == nil && r.N >= 1 && r.N <= uint64(len(items)) {
			items[r.N-1].Resolved = &r.Resolution
		}
	}
	return items
}

// failures are the sources of the items of a transfer that failed.
func (q *query) failures(ctx context.Context, conn *qmgr.Conn, p *transfer.Progress) (all []transfer.Path, err error) {
	size, doubled := 0, 0
	err = q.records(ctx, conn, p.ID, wire.Ask{Filter: &wire.Filter{Name: "*", Failed: true, Role: audit.RoleSource}}, func(r *audit.Record) bool {
		for n := range r.Items {
			o := &r.Items[n]
			switch {
			case !o.Failed() || r.Agent != p.Source:
			case o.Type == transfer.ItemBad && o.Err.Kind == transfer.KindExists:
				doubled++ // another source has its name at the destination, and has it again
			case o.Type == transfer.ItemBad: // it may be a directory, or match something, by now
				all = append(all, o.Source+"/")
			default:
				all = append(all, o.Source)
			}
			size += len(o.Source)
		}
		return size <= wire.MaxControl
	})
	switch {
	case err != nil:
		return nil, err
	case size > wire.MaxControl:
		return nil, transfer.Errorf(transfer.KindTooLarge, "the names of what failed of transfer %s are more than a request holds, %d bytes", p.ID, wire.MaxControl).
			WithHint("do all of it once more with --if-exists skip, which leaves alone what has arrived")
	case doubled > 0:
		return nil, transfer.Errorf(transfer.KindUsage, "%s of transfer %s would come to the name of another source; a second try changes nothing about that", plural(int64(doubled), "item"), p.ID).
			WithHint("send what failed to a directory of its own")
	case int64(len(all)) < p.FilesFailed:
		return nil, transfer.Errorf(transfer.KindNotFound, "the audit log names %d of the %d items of transfer %s that failed", len(all), p.FilesFailed, p.ID).
			WithHint("the others have not come; try again later, or do all of it once more with --if-exists skip")
	}
	return all, nil
}
