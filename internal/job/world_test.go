package job

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/clock"
	"ferry/internal/duty"
	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A handClock stands still until it is set.
type handClock struct {
	clock.Clock
	now time.Time
}

func (c *handClock) Now() time.Time { return c.now }

// crash is what ends a run of the keeper in the middle.
type crash struct{}

// A sent is a transfer that the agent has accepted.
type sent struct {
	hash string
	*transfer.Request
	transfer.Progress
}

// A world is an agent with a keeper of jobs. What the agent has accepted is durable.
type world struct {
	t      testing.TB
	store  *faulty.MemoryStore
	clock  *handClock
	k      *keeper
	stop   func()
	sent   map[transfer.ID]*sent
	notes  []audit.Record
	rights map[string]string // what a principal may not

	answer func(principal string, q *transfer.Request) error // what the agent says; nil: it accepts
	dies   func()                                            // at each step that may be the last

	unwritable func() bool // whether a transaction fails; nil: none does
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, store: faulty.NewMemoryStore(), clock: &handClock{clock.System, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
		sent: map[transfer.ID]*sent{}, rights: map[string]string{}, dies: func() {}}
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

// start begins a run, on what is in the store.
func (w *world) start() {
	if w.stop != nil {
		w.store = w.store.Snapshot()
		w.stop()
	}
	l, err := ledger.Open(w.t.TempDir(), ledger.Options{Store: w.store, Files: faulty.NewMemoryFiles(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.stop = func() { l.Close() }
	w.k = newKeeper(w.desk(l))
	w.k.begin()
}

func (w *world) desk(l *ledger.Ledger) duty.Desk {
	return duty.Desk{Agent: "ALPHA", Ledger: l, Clock: w.clock, Log: slog.New(slog.DiscardHandler),
		Offer: func(principal string, q *transfer.Request) (*transfer.Progress, error) {
			w.dies()
			err := w.submitted(l, principal, q)
			w.dies()
			return nil, err
		},
		Status: func(id transfer.ID) (*transfer.Progress, error) {
			w.dies()
			if s := w.sent[id]; s != nil {
				p := s.Progress
				return &p, nil
			}
			return nil, transfer.Errorf(transfer.KindNotFound, "no transfer %s", id)
		},
		Cancel: func(_ string, id transfer.ID) error {
			s := w.sent[id]
			if s == nil || s.State.Final() {
				return transfer.Errorf(transfer.KindEnding, "it is over")
			}
			s.State = transfer.Cancelling
			w.dies()
			return nil
		},
		May: func(principal string, right transfer.Authority) error {
			if strings.Contains(w.rights[principal], string(right)) {
				return transfer.Errorf(transfer.KindDenied, "%s does not have the authority %s", principal, right)
			}
			return nil
		},
		Note: func(_ *ledger.Tx, r audit.Record) error {
			if w.unwritable != nil && w.unwritable() {
				return transfer.Errorf(transfer.KindInternal, "the ledger cannot be written")
			}
			w.notes = append(w.notes, r)
			return nil
		}}
}

// submitted is the agent: it knows what it has accepted. It takes nothing whose ID is not written down, nothing
// of a job that is cancelled, and nothing that deletes before all else of the job has arrived.
func (w *world) submitted(l *ledger.Ledger, principal string, q *transfer.Request) error {
	if err := q.Check(); err != nil {
		w.t.Errorf("the request of a child is refused: %v", err)
	}
	id, err := transfer.ParseID(q.Meta[MetaName])
	if err != nil {
		w.t.Errorf("a transfer does not say of which job it is: %v", err)
		return nil
	}
	var job *Job
	var of []Child
	if err := l.View(func(t *ledger.Tx) (err error) {
		if job, err = drawerOf(t).get(id); err == nil {
			of, err = drawerOf(t).children(id, 0, 0)
		}
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	if !slices.ContainsFunc(of, func(c Child) bool { return c.Transfer == q.ID }) {
		w.t.Errorf("transfer %s is submitted, and its ID is not in the ledger", q.ID)
	}
	if job.Principal != principal {
		w.t.Errorf("it is submitted for %s", principal)
	}
	if was := w.sent[q.ID]; was != nil {
		if was.hash != q.Hash() {
			w.t.Errorf("transfer %s is submitted again with another content", q.ID)
		}
		return nil
	}
	if job.Cancelled != nil {
		w.t.Errorf("transfer %s of a job that was cancelled before is submitted", q.ID)
	}
	if q.Removes() {
		for _, c := range of {
			if s := w.sent[c.Transfer]; c.Transfer != q.ID && (s == nil || s.State != transfer.Successful || s.FilesSkipped > 0 || s.Progress.Tally != q.Tally) {
				w.t.Errorf("destination %d deletes the sources, and they are not at destination %d", len(of), c.N)
			}
		}
	}
	if w.answer != nil {
		if err := w.answer(principal, q); err != nil {
			return err
		}
	}
	w.sent[q.ID] = &sent{q.Hash(), q, transfer.Progress{ID: q.ID, State: transfer.Accepted, Source: q.Source, Destination: q.Destination}}
	return nil
}

// end ends a transfer of the agent.
func (w *world) end(s *sent, state transfer.State, files int64) {
	s.State, s.Code, s.Ended = state, state.Code(), w.clock.now
	s.Files, s.Bytes = files, 10*files
	if s.Request.Tally != "" && files > 0 {
		s.Progress.Tally = fmt.Sprintf("%032x", files)
	}
	if state != transfer.Successful {
		s.Reason = transfer.Errorf(transfer.KindUnwritable, "it cannot be written")
	}
}

// pass has the keeper do what is to be done now; a crash begins another run.
func (w *world) pass() {
	defer func() {
		if r := recover(); r != nil {
			if _, is := r.(crash); !is {
				panic(r)
			}
			w.start()
		}
	}()
	w.k.look(w.t.Context())
	w.clock.now = w.clock.now.Add(time.Second)
}

func sample(now time.Time, to ...string) Put {
	p := Put{Request: transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(now), Source: "ALPHA", Items: transfer.ItemsOf("a", "b")}}
	for _, name := range to {
		p.To = append(p.To, To{Agent: transfer.AgentName(name), Path: "in/"})
	}
	p.Request.Destination, p.Request.Dest = p.To[0].Agent, p.To[0].Path
	return p
}

func (w *world) command(who string, kind wire.Kind, body any) (j *Job, err error) {
	c := w.k.Commands()[kind]
	if c.Needs != transfer.AuthNone {
		if err := w.k.May(who, c.Needs); err != nil {
			return nil, err
		}
	}
	err = w.k.Ledger.Update(func(t *ledger.Tx) error {
		answer, err := c.Do(t, duty.Caller{Principal: who, Originator: transfer.Originator{User: who, Host: "box"}}, wire.Marshal(body))
		if err == nil {
			j = answer.(*Job)
		}
		return err
	})
	if err == nil {
		c.Done()
	}
	return j, err
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) make(p Put) *Job {
	w.t.Helper()
	j, err := w.command("ann", CommandPut, p)
	w.must(err)
	return j
}

func (w *world) show(id transfer.ID) *Shown {
	w.t.Helper()
	s, err := w.k.show(duty.Caller{Principal: "ann"}, wire.Marshal(Named{ID: id.String(), Request: true}))
	w.must(err)
	return s.(*Shown)
}

// of are the transfers of a job that the agent has accepted, by their destinations.
func (w *world) of(id transfer.ID) map[transfer.AgentName][]*sent {
	all := map[transfer.AgentName][]*sent{}
	for _, s := range w.sent {
		if s.Meta[MetaName] == id.String() {
			all[s.Request.Destination] = append(all[s.Request.Destination], s)
		}
	}
	return all
}

// only is the transfer of a job to a destination.
func (w *world) only(id transfer.ID, to transfer.AgentName) *sent {
	w.t.Helper()
	all := w.of(id)[to]
	if len(all) != 1 {
		w.t.Fatalf("%d transfers to %s, not one", len(all), to)
	}
	return all[0]
}
