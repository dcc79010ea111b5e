package client_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/job"
	"ferry/internal/client"
	"ferry/internal/qmgr"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A hasty clock adds an hour at each look, so that each wait of the client is over at once.
type hasty struct {
	clock.Clock
	looks *time.Duration
}

func (c hasty) Now() time.Time {
	*c.looks += time.Hour
	return c.Clock.Now().Add(*c.looks)
}

// logbook answers as coordination from transfers and their records. later comes into the log when its transfer was asked
// for twice.
type logbook struct {
	transfers []*transfer.Progress
	records   map[transfer.ID][]audit.Record
	later     map[transfer.ID][]audit.Record
	asked     map[transfer.ID]int
}

func (l *logbook) answer(ask *wire.Ask) *wire.Answer {
	a := &wire.Answer{V: wire.Version}
	for _, p := range l.transfers {
		switch {
		case ask.Kind == wire.AskTransfer && p.ID.String() == ask.Suffix, ask.Kind == wire.AskTransfers && p.RetryOf == ask.Filter.RetryOf:
			a.Transfers = append(a.Transfers, *p)
		case ask.Kind == wire.AskAudit && p.ID.String() == ask.Suffix:
			if ask.Filter != nil && !ask.Filter.Failed {
				if l.asked[p.ID]++; l.asked[p.ID] > 2 {
					l.records[p.ID] = append(l.records[p.ID], l.later[p.ID]...)
					delete(l.later, p.ID)
				}
			}
			for _, r := range l.records[p.ID] {
				if ask.Event == "" || ask.Event == string(r.Event) {
					raw, err := audit.Encode(&r)
					if err != nil {
						a.Error = transfer.AsError(err)
					}
					a.Records = append(a.Records, json.RawMessage(raw))
				}
			}
		}
	}
	return a
}

// client returns a client of a network, and answers there as its coordination.
func (l *logbook) client(t *testing.T, c clock.Clock) *client.Client {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	connect := network(ctx, t)
	coordination := connect(wire.Coordination)
	if _, err := coordination.Subscribe(wire.AllAsks(wire.Coordination), func(m qmgr.Message) {
		ask, err := wire.DecodeAsk(m.Data)
		if err != nil {
			t.Error(err)
			return
		}
		coordination.Answer(wire.LastToken(m.Subject), m.Reply, wire.Marshal(l.answer(ask)))
	}); err != nil {
		t.Fatal(err)
	}
	return &client.Client{Conn: connect("submitter"), Clock: c, Timeout: time.Minute, Who: transfer.Originator{User: "user", Host: "host"}}
}

// add adds a transfer of items, which repeats another one unless that is zero.
func (l *logbook) add(of transfer.ID, state transfer.State, items ...transfer.Outcome) *transfer.Progress {
	p := &transfer.Progress{ID: transfer.NewID(time.Now()), State: state, Code: state.Code(), Source: "ALPHA", Destination: "BETA"}
	p.RetryOf = of
	r := audit.Record{Incarnation: audit.FormatIncarnation(1), N: 1, Transfer: p.ID, Time: time.Now().UTC(), Agent: "ALPHA", Role: audit.RoleSource, Source: "ALPHA", Destination: "BETA"}
	submitted, decided := r, r
	submitted.Event = audit.Submitted
	submitted.Request = audit.FactsOf(&transfer.Request{Source: "ALPHA", Destination: "BETA", Items: transfer.ItemsOf("/in"), Dest: transfer.File("/out/")})
	decided.Event, decided.Items = audit.Items, items
	for n := range items {
		p.Counts.Add(&items[n])
	}
	l.transfers = append(l.transfers, p)
	l.records[p.ID] = []audit.Record{submitted, decided}
	return p
}

func newLogbook() *logbook {
	return &logbook{records: map[transfer.ID][]audit.Record{}, later: map[transfer.ID][]audit.Record{}, asked: map[transfer.ID]int{}}
}

func file(n uint64, source transfer.Path, kind transfer.Kind) transfer.Outcome {
	o := transfer.Outcome{Item: n, Type: transfer.ItemFile, Source: source, Path: "/out" + source}
	if kind != transfer.KindNone {
		o.Err = transfer.Errorf(kind, "%s", kind)
	}
	return o
}

// twoFailed is a transfer with two failed files, and a cancelled repetition of it that brought the first one.
func twoFailed(l *logbook) (first, again *transfer.Progress) {
	first = l.add(transfer.ID{}, transfer.Failed, file(1, "/in/a", transfer.KindExists), file(2, "/in/b", transfer.KindExists))
	again = l.add(first.ID, transfer.Cancelled, file(1, "/in/a", transfer.KindNone))
	first.RetriedAs, first.RetriedFiles = again.ID, 1
	return first, again
}

// A repetition of the failed items waits for the records of a repetition before it, and does not send the items that that
// one has brought. Where they do not come, or where the user may not see them, nothing is sent.
func TestRetryWaitsForItemsOfARetry(t *testing.T) {
	l := newLogbook()
	first, again := twoFailed(l)
	l.later[again.ID], l.records[again.ID] = l.records[again.ID][1:], l.records[again.ID][:1]
	q, err := l.client(t, clock.System).RetryOf(t.Context(), first, true, "")
	if err != nil || !slices.Equal(q.Retry.Only, []transfer.Path{"/in/b"}) {
		t.Errorf("once the records have come, it sends %+v: %v", q, err)
	}

	for name, lose := range map[string]func(l *logbook, again *transfer.Progress){
		"the records never come":           func(l *logbook, again *transfer.Progress) { l.records[again.ID] = l.records[again.ID][:1] },
		"the repetition is another user's": func(l *logbook, again *transfer.Progress) { l.transfers = l.transfers[:1] },
	} {
		l := newLogbook()
		first, again := twoFailed(l)
		lose(l, again)
		q, err := l.client(t, hasty{clock.System, new(time.Duration)}).RetryOf(t.Context(), first, true, "")
		if transfer.KindOf(err) != transfer.KindNotFound {
			t.Errorf("%s: it sends %+v: %v", name, q, err)
		}
	}
}

// An item that a repetition has skipped has not arrived with it.
func TestSkippedItemsHaveNotArrived(t *testing.T) {
	for _, kind := range []transfer.Kind{transfer.KindSkipped, transfer.KindReplaced} {
		l := newLogbook()
		first, _ := twoFailed(l)
		l.add(first.ID, transfer.Cancelled, file(1, "/in/b", kind), transfer.Outcome{Item: 2, Type: transfer.ItemDir, Source: "/in/d", Path: "/out/d"})
		q, err := l.client(t, clock.System).RetryOf(t.Context(), first, true, "")
		if err != nil || !slices.Equal(q.Retry.Only, []transfer.Path{"/in/b"}) {
			t.Errorf("%s: it sends %+v: %v", kind, q, err)
		}
	}
}

// A job is repeated without the items that repetitions of its transfers have brought, and without transfers that have none
// left.
func TestRetryOfAJobLeavesOutArrivedItems(t *testing.T) {
	l := newLogbook()
	some, _ := twoFailed(l)
	all, rest := twoFailed(l)
	l.add(all.ID, transfer.Successful, file(1, "/in/b", transfer.KindNone))
	all.RetriedAs, all.Retried, all.RetriedFiles = rest.ID, true, 2
	whole := l.add(transfer.ID{}, transfer.Failed)
	again := l.add(whole.ID, transfer.Successful, file(1, "/in/a", transfer.KindNone))
	whole.RetriedAs, whole.Retried = again.ID, true

	now := time.Now()
	s := &job.Shown{Job: job.Job{ID: transfer.NewID(now), Ended: now, State: transfer.Failed, Source: "ALPHA"},
		Request: &transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(now), Submitted: now, Source: "ALPHA", Destination: "BETA", Dest: transfer.File("/out/"), Items: transfer.ItemsOf("/in")}}
	for n, p := range []*transfer.Progress{all, whole, some} {
		s.Of = append(s.Of, job.Child{N: n + 1, Destination: p.Destination, Dest: transfer.File(transfer.Path("/out/" + string(rune('a'+n)))), Transfer: p.ID, State: p.State, Code: transfer.CodeNothing,
			Started: now, Counts: p.Counts})
	}
	c := l.client(t, clock.System)
	p, err := client.RetryJob(t.Context(), c, s, "")
	if err != nil || len(p.To) != 1 || p.To[0].Retry.Of != some.ID || !slices.Equal(p.To[0].Retry.Only, []transfer.Path{"/in/b"}) {
		t.Errorf("it sends %+v: %v", p, err)
	}
	s.Of = s.Of[:2]
	if p, err := client.RetryJob(t.Context(), c, s, ""); transfer.KindOf(err) != transfer.KindUsage {
		t.Errorf("of a job with nothing left it sends %+v: %v", p, err)
	}
}
