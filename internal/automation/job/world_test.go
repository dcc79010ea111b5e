package job

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/duty"
	"ferry/internal/automation/duty/dutytest"
	"ferry/internal/ledger"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A sent is a transfer that the agent has accepted.
type sent struct {
	hash string
	*transfer.Request
	transfer.Progress
}

// A world is an agent with the duty of jobs. Transfers that the agent has accepted are durable.
type world struct {
	*dutytest.Agent
	k    *jobDuty
	sent map[transfer.ID]*sent

	answer func(principal string, q *transfer.Request) error // the agent's answer; nil: it accepts
	dies   func()                                            // at each step that may be the last

	unwritable func() bool // whether a transaction fails; nil: none does
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{Agent: dutytest.New(t, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), sent: map[transfer.ID]*sent{}, dies: func() {}}
	w.start()
	return w
}

// start begins a run on the contents of the ledger.
func (w *world) start() {
	d := w.Start()
	d.Offer = func(by word.Origin, q *transfer.Request) (*transfer.Progress, error) {
		w.dies()
		if err := dutytest.Signed(by); err != nil {
			w.T.Error(err)
		}
		err := w.submitted(by.Principal, q)
		w.dies()
		return nil, err
	}
	d.Status = func(id transfer.ID) (*transfer.Progress, error) {
		w.dies()
		if s := w.sent[id]; s != nil {
			p := s.Progress
			return &p, nil
		}
		return nil, transfer.Errorf(transfer.KindNotFound, "no transfer %s", id)
	}
	d.Cancel = func(by word.Origin, id transfer.ID) error {
		if err := dutytest.Signed(by); err != nil {
			w.T.Error(err)
		}
		s := w.sent[id]
		if s == nil || s.State.Final() {
			return transfer.Errorf(transfer.KindEnding, "it is over")
		}
		s.State = transfer.Cancelling
		w.dies()
		return nil
	}
	note := d.Note
	d.Note = func(t *ledger.Tx, r audit.Record) error {
		if w.unwritable != nil && w.unwritable() {
			return transfer.Errorf(transfer.KindInternal, "the ledger cannot be written")
		}
		return note(t, r)
	}
	w.k = newDuty(d)
	w.k.begin()
}

// submitted is the agent: it knows the transfers that it has accepted. It refuses a child with an unrecorded ID, and a
// child of a cancelled job. It refuses a child that deletes before all others of the job have arrived.
func (w *world) submitted(principal string, q *transfer.Request) error {
	if err := q.Check(); err != nil {
		w.T.Errorf("the request of a child is refused: %v", err)
	}
	id, err := transfer.ParseID(q.Meta[MetaName])
	if err != nil {
		w.T.Errorf("a transfer does not say of which job it is: %v", err)
		return nil
	}
	var job *Job
	var of []Child
	w.Must(w.Ledger.View(func(t *ledger.Tx) (err error) {
		if job, err = drawerOf(t).Load(id.String()); err == nil {
			of, err = drawerOf(t).children(id, 0, 0)
		}
		return err
	}))
	if !slices.ContainsFunc(of, func(c Child) bool { return c.Transfer == q.ID }) {
		w.T.Errorf("transfer %s is submitted, and its ID is not in the ledger", q.ID)
	}
	if job.Principal != principal {
		w.T.Errorf("it is submitted for %s", principal)
	}
	if was := w.sent[q.ID]; was != nil {
		if was.hash != q.Hash() {
			w.T.Errorf("transfer %s is submitted again with another content", q.ID)
		}
		return nil
	}
	if job.Cancelled != nil {
		w.T.Errorf("transfer %s of a job that was cancelled before is submitted", q.ID)
	}
	if q.Removes() {
		for _, c := range of {
			if s := w.sent[c.Transfer]; c.Transfer != q.ID && (s == nil || s.State != transfer.Successful || s.FilesSkipped > 0 || s.Progress.Tally != q.Tally) {
				w.T.Errorf("destination %d deletes the sources, and they are not at destination %d", len(of), c.N)
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
	s.State, s.Code, s.Ended = state, state.Code(), w.Clock.At
	s.Files, s.Bytes = files, 10*files
	if s.Request.Tally != "" && files > 0 {
		s.Progress.Tally = fmt.Sprintf("%032x", files)
	}
	if state != transfer.Successful {
		s.Reason = transfer.Errorf(transfer.KindUnwritable, "it cannot be written")
	}
}

// pass has the duty do the steps that are due; a crash begins another run.
func (w *world) pass() {
	if !dutytest.RunsToEnd(func() { w.k.look(w.T.Context()) }) {
		w.start()
		return
	}
	w.Clock.At = w.Clock.At.Add(time.Second)
}

func sample(now time.Time, to ...string) Put {
	p := Put{Request: transfer.Request{Version: transfer.RequestVersion, ID: transfer.NewID(now), Source: "ALPHA", Items: transfer.ItemsOf("a", "b")}}
	for _, name := range to {
		p.To = append(p.To, To{Agent: transfer.AgentName(name), Dest: transfer.File("in/")})
	}
	p.Request.Destination, p.Request.Dest = p.To[0].Agent, p.To[0].Dest
	return p
}

func (w *world) command(who string, kind wire.Kind, body any) (*Job, error) {
	answer, err := w.Do(w.k, who, time.Time{}, kind, body)
	if err != nil {
		return nil, err
	}
	return answer.(*Job), nil
}

func (w *world) make(p Put) *Job {
	w.T.Helper()
	j, err := w.command("ann", CommandPut, p)
	w.Must(err)
	return j
}

func (w *world) show(id transfer.ID) *Shown {
	w.T.Helper()
	s, err := w.k.show(duty.Caller{Origin: word.Origin{Principal: "ann"}}, wire.Marshal(Named{ID: id.String(), Request: true}))
	w.Must(err)
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
	w.T.Helper()
	all := w.of(id)[to]
	if len(all) != 1 {
		w.T.Fatalf("%d transfers to %s, not one", len(all), to)
	}
	return all[0]
}
