package client

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"ferry/internal/audit"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Listing describes the end of a list.
type Listing struct {
	Left int       // number of further transfers
	Own  bool      // the asker sees none but its own
	Sums wire.Sums // of all transfers that pass the filter

	Complete time.Time // transfers that ended before may be missing; zero: none is
}

// Transfers calls fn for up to limit transfers that pass a filter, newest first, until fn fails. Queued transfers with a dead
// letter as their request have that reason.
func (c *Client) Transfers(ctx context.Context, filter *wire.Filter, limit int, fn func(*transfer.Progress) error) (Listing, error) {
	var reasons letterReasons
	return listed(ctx, c, filter, limit, func(page []transfer.Progress) { reasons.explain(ctx, c, page) }, fn)
}

// EachTransfer is Transfers without the reasons of dead letters, which the queue manager reads for a list.
func EachTransfer(ctx context.Context, c *Client, filter *wire.Filter, limit int, fn func(*transfer.Progress) error) (Listing, error) {
	return listed(ctx, c, filter, limit, func([]transfer.Progress) {}, fn)
}

// listed calls explain for each page of transfers, and then fn for each transfer of it.
func listed(ctx context.Context, c *Client, filter *wire.Filter, limit int, explain func([]transfer.Progress), fn func(*transfer.Progress) error) (Listing, error) {
	ask := wire.Ask{Kind: wire.AskTransfers, Filter: filter}
	var end Listing
	for n := 0; ; {
		ask.Limit = limit - n
		ans, err := c.asker().coordination(ctx, ask)
		if err != nil {
			return Listing{}, err
		}
		if ans.Sums != nil {
			end.Sums, end.Complete = *ans.Sums, ans.Complete
		}
		explain(ans.Transfers)
		for k := range ans.Transfers {
			if err := fn(&ans.Transfers[k]); err != nil {
				return Listing{}, err
			}
			ask.ID = ans.Transfers[k].ID
		}
		if n += len(ans.Transfers); ans.Left == 0 || n >= limit || len(ans.Transfers) == 0 {
			end.Left, end.Own = ans.Left, ans.Own
			return end, nil
		}
	}
}

// Transfer finds a transfer by its ID or the end of one through coordination, and asks the source agent for the present
// picture, if the agent answers. KindNotFound: there is none.
func (c *Client) Transfer(ctx context.Context, suffix string) (*transfer.Progress, error) {
	ans, err := c.asker().coordination(ctx, wire.Ask{Kind: wire.AskTransfer, Suffix: suffix})
	if err != nil {
		return nil, err
	}
	if len(ans.Transfers) == 0 {
		return nil, transfer.Errorf(transfer.KindNotFound, "no transfer has an ID that ends in %q", suffix)
	}
	p := &ans.Transfers[0]
	if fresh, err := c.asker().askAgent(ctx, p.Source, wire.Ask{Kind: wire.AskStatus, ID: p.ID}); err == nil && fresh.Progress != nil {
		fresh.Progress.Related, fresh.Progress.Rate = p.Related, p.Rate // the agent does not know them
		return fresh.Progress, nil
	}
	reasons := letterReasons{task: streams.DeadTask{Agent: p.Source.Token(), Transfer: p.ID}}
	reasons.explain(ctx, c, ans.Transfers[:1])
	return p, nil
}

// Acknowledge puts on record that this user has seen the failure of a transfer. Lists of failures leave it out then. The
// user must have submitted the transfer, or have the authority operate at its source.
func Acknowledge(ctx context.Context, c *Client, id transfer.ID, reason string) error {
	_, err := c.asker().coordination(ctx, wire.Ask{Kind: wire.AskSeen, Body: wire.Marshal(wire.Seen{Transfer: id, Reason: reason})})
	return err
}

// StatesOf returns coordination's states of transfers of a source. It leaves out those that coordination does not know,
// and all where it does not answer.
func (c *Client) StatesOf(ctx context.Context, source transfer.AgentName, ids []transfer.ID) map[transfer.ID]transfer.State {
	states := map[transfer.ID]transfer.State{}
	for id, p := range knownOf(ctx, c, source, ids) {
		states[id] = p.State
	}
	return states
}

// knownOf is StatesOf with all that coordination knows of the transfers.
func knownOf(ctx context.Context, c *Client, source transfer.AgentName, ids []transfer.ID) map[transfer.ID]*transfer.Progress {
	known := map[transfer.ID]*transfer.Progress{}
	for some := range slices.Chunk(ids, wire.MaxIDs) {
		if _, err := EachTransfer(ctx, c, &wire.Filter{IDs: some, From: source}, len(some), func(p *transfer.Progress) error {
			if slices.Contains(some, p.ID) {
				known[p.ID] = p
			}
			return nil
		}); err != nil {
			break
		}
	}
	return known
}

// recordsTimeout is coordination's time to read its log for one page.
const recordsTimeout = 30 * time.Second

// errEnough ends Records without an error.
var errEnough = errors.New("enough")

// Records calls fn for audit records of coordination, newest first, until fn fails. ask selects them by Suffix, Event,
// Agent and Filter; Limit, if it is above 0, bounds their number. own reports that the asker sees none but its own.
func (c *Client) Records(ctx context.Context, ask wire.Ask, fn func(raw json.RawMessage) error) (own bool, err error) {
	ask.Kind = wire.AskAudit
	for limited := ask.Limit > 0; ; {
		ans, err := c.asker().answered(ctx, wire.AskSubject(wire.Coordination, c.Conn.Self()), "coordination", ask, max(c.asker().timeout, recordsTimeout))
		if err != nil {
			return own, err
		}
		own = ans.Own
		for _, raw := range ans.Records {
			if err := fn(raw); err != nil {
				return own, err
			}
		}
		if limited {
			ask.Limit -= len(ans.Records)
		}
		if ask.Index = ans.Next; !ans.More || ans.Next == 0 || limited && ask.Limit <= 0 {
			return own, nil
		}
	}
}

// recordsOf passes the audit records of a transfer to fn, newest first, until fn reports that it needs no more.
func (c *Client) recordsOf(ctx context.Context, id transfer.ID, ask wire.Ask, fn func(*audit.Record) (more bool)) error {
	ask.Suffix = id.String()
	_, err := c.Records(ctx, ask, func(raw json.RawMessage) error {
		rec, err := audit.Decode(raw)
		if err == nil && !fn(&rec) {
			err = errEnough
		}
		return err
	})
	if err == errEnough {
		return nil
	}
	return err
}

// An Item is an outcome from the audit log.
type Item struct {
	Time        time.Time
	Transfer    transfer.ID
	Job         string
	Source      transfer.AgentName
	Destination transfer.AgentName
	Outcome     *transfer.Outcome
}

// ItemOf returns the nth item of a record.
func ItemOf(r *audit.Record, n int) Item {
	return Item{r.Time, r.Transfer, r.Job, r.Source, r.Destination, &r.Items[n]}
}

// A Recorded holds the audit log's facts about a transfer that its picture does not have.
type Recorded struct {
	Request *audit.RequestFacts // nil: the log does not have it yet
	Author  *word.Author        // of the message that submitted it; nil: that was not signed
	Meta    map[string]string
	Items   []Item // the oldest first
	More    bool   // there are older ones
}

// Recorded asks for the request of a transfer, and for its last items, limit at most; failed leaves out those that have
// not failed.
func (c *Client) Recorded(ctx context.Context, p *transfer.Progress, failed bool, limit int) (r Recorded, err error) {
	err = c.recordsOf(ctx, p.ID, wire.Ask{Event: string(audit.Submitted)}, func(rec *audit.Record) bool {
		if rec.Agent == p.Source {
			r.Request, r.Author, r.Meta = rec.Request, rec.Author, rec.Meta
		}
		return r.Request == nil
	})
	if err != nil || limit == 0 {
		return r, err
	}

	take := func(rec *audit.Record) bool {
		if rec.Agent != p.Source && rec.Agent != p.Destination {
			return true
		}
		for n := len(rec.Items) - 1; n >= 0; n-- {
			switch {
			case failed && !rec.Items[n].Failed():
			case len(r.Items) == limit:
				r.More = true
				return false
			default:
				r.Items = append(r.Items, ItemOf(rec, n))
			}
		}
		return true
	}
	for _, role := range []string{audit.RoleDestination, audit.RoleSource} { // the source's records have the same, and may come first
		if err == nil && len(r.Items) == 0 {
			err = c.recordsOf(ctx, p.ID, wire.Ask{Filter: &wire.Filter{Name: "*", Failed: failed, Role: role}}, take)
		}
	}

	slices.Reverse(r.Items)
	return r, err
}
