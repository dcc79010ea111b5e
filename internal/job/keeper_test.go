package job

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
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
		Note: func(_ *ledger.Tx, r audit.Record) error { w.notes = append(w.notes, r); return nil }}
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

// With crashes at every step, transfers that end anyhow, an agent that is busy or refuses, and jobs
// that are cancelled, each destination gets one transfer, and each job ends as its children did.
func TestJobsWithCrashes(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 36))
			w := newWorld(t)
			crashes, refused := 0, map[transfer.ID]bool{}
			w.dies = func() {
				if r.IntN(25) == 0 {
					crashes++
					panic(crash{})
				}
			}
			w.answer = func(_ string, q *transfer.Request) error {
				switch r.IntN(12) {
				case 0, 1:
					return transfer.Errorf(transfer.KindBusy, "later")
				case 2:
					return transfer.Errorf(transfer.KindInternal, "it cannot be read")
				}
				if q.ID[15]%16 == 0 {
					refused[q.ID] = true
					return transfer.Errorf(transfer.KindDenied, "that is not allowed")
				}
				return nil
			}
			const jobs = 50
			var all []*Job
			cancelled := map[transfer.ID]bool{}
			for turn := 0; turn < 1000; turn++ {
				if len(all) < jobs && r.IntN(5) == 0 {
					var to []string
					for n := range 1 + r.IntN(6) {
						to = append(to, fmt.Sprintf("D%d", n))
					}
					p := sample(w.clock.now, to...)
					if r.IntN(2) == 0 {
						p.Request.Disposition = transfer.DispositionDelete
					}
					all = append(all, w.make(p))
				}
				if len(all) > 0 && len(all) < jobs && r.IntN(12) == 0 {
					id := all[len(all)-1].ID
					if _, err := w.command("ann", CommandCancel, Named{ID: id.String()}); err == nil {
						cancelled[id] = true
					} else if transfer.KindOf(err) != transfer.KindEnding {
						t.Fatal(err)
					}
				}
				for _, id := range slices.SortedFunc(keys(w.sent), func(a, b transfer.ID) int { return slices.Compare(a[:], b[:]) }) {
					s := w.sent[id]
					switch {
					case s.State.Final():
					case s.State == transfer.Cancelling:
						w.end(s, transfer.Cancelled, 0)
					case r.IntN(3) > 0:
					case r.IntN(8) == 0:
						w.end(s, transfer.Failed, 0)
					case r.IntN(8) == 0:
						w.end(s, transfer.Partial, 1)
					default:
						w.end(s, transfer.Successful, 2)
					}
				}
				w.pass()
			}
			w.dies, w.answer = func() {}, nil
			for _, j := range all {
				checkJob(w, j.ID, cancelled[j.ID], refused)
			}
			if len(all) < jobs || crashes < 20 || len(cancelled) < 3 || len(refused) < 1 {
				t.Errorf("%d jobs, %d crashes, %d cancelled, %d refused", len(all), crashes, len(cancelled), len(refused))
			}
		})
	}
}

func keys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// checkJob holds a job that has ended against what the agent has done.
func checkJob(w *world, id transfer.ID, cancelled bool, refused map[transfer.ID]bool) {
	w.t.Helper()
	s := w.show(id)
	if s.Ended.IsZero() {
		w.t.Errorf("job %s has not ended: %+v", id, s.Job)
		return
	}
	done := w.of(id)
	whole, some, stopped := 0, 0, 0
	for _, c := range s.Of {
		got := done[c.Destination]
		if len(got) > 1 {
			w.t.Errorf("%s gets %d transfers of the job", c.Destination, len(got))
		}
		switch {
		case len(got) == 1 && (got[0].ID() != c.Transfer || got[0].State != c.State || got[0].Files != c.Files):
			w.t.Errorf("destination %s is %+v, and its transfer %+v", c.Destination, c, got[0].Progress)
		case len(got) == 0 && refused[c.Transfer] && c.State != transfer.Failed && c.State != transfer.Cancelled:
			w.t.Errorf("what was refused is %s", c.State)
		case len(got) == 0 && !refused[c.Transfer] && (c.State != transfer.Cancelled || !cancelled):
			w.t.Errorf("%s gets nothing, and is %s", c.Destination, c.State)
		}
		switch c.State {
		case transfer.Successful:
			whole++
		case transfer.Partial:
			some++
		case transfer.Cancelled:
			stopped++
		}
	}
	want := transfer.Partial
	switch {
	case whole == s.Children:
		want = transfer.Successful
	case stopped > 0:
		want = transfer.Cancelled
	case whole+some == 0:
		want = transfer.Failed
	}
	if s.State != want || s.Tally.Ended != s.Children || s.Tally.Successful != whole {
		w.t.Errorf("the job is %s, not %s: %+v", s.State, want, s.Tally)
	}
}

// ID is that of the transfer.
func (s *sent) ID() transfer.ID { return s.Progress.ID }

// The sources are deleted by the last transfer, once the same has arrived everywhere else.
func TestDeletes(t *testing.T) {
	for name, c := range map[string]struct {
		ends    func(w *world, b, c *sent)
		deletes bool
		warning string
	}{
		"all":     {func(w *world, b, c *sent) { w.end(b, transfer.Successful, 2); w.end(c, transfer.Successful, 2) }, true, ""},
		"nothing": {func(w *world, b, c *sent) { w.end(b, transfer.Successful, 0); w.end(c, transfer.Successful, 0) }, false, ""},
		"one fails": {func(w *world, b, c *sent) { w.end(b, transfer.Successful, 2); w.end(c, transfer.Partial, 1) }, false,
			"the sources are not deleted: the transfer to CHI:in/ has ended as partial"},
		"others": {func(w *world, b, c *sent) { w.end(b, transfer.Successful, 2); w.end(c, transfer.Successful, 3) }, false,
			"the sources are not deleted: other files, or other content, have arrived at CHI:in/ than at BETA:in/"},
		"skipped": {func(w *world, b, c *sent) {
			w.end(b, transfer.Successful, 2)
			w.end(c, transfer.Successful, 2)
			c.FilesSkipped = 1
		}, false, "the sources are not deleted: files were skipped at CHI:in/"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := sample(w.clock.now, "BETA", "CHI", "PSI")
			p.Request.Disposition, p.Request.Durability = transfer.DispositionDelete, transfer.DurabilityProcess
			j := w.make(p)
			w.pass()
			w.pass()
			if len(w.of(j.ID)["PSI"]) > 0 {
				t.Fatal("the last one is submitted before the others have ended")
			}
			beta, chi := w.only(j.ID, "BETA"), w.only(j.ID, "CHI")
			if beta.Removes() || chi.Removes() || beta.Request.Tally != transfer.TallyCount || !chi.Durable() {
				t.Fatalf("the others are %+v", beta.Request)
			}
			c.ends(w, beta, chi)
			w.pass()
			w.pass()
			last := w.only(j.ID, "PSI")
			if last.Removes() != c.deletes || c.deletes && last.Request.Tally != beta.Progress.Tally {
				t.Errorf("the last one deletes: %t, where %q has arrived", last.Removes(), last.Request.Tally)
			}
			w.end(last, transfer.Successful, 2)
			w.pass()
			if s := w.show(j.ID); s.Warning != c.warning || s.Ended.IsZero() {
				t.Errorf("on record is %q", s.Warning)
			}
			noted := slices.ContainsFunc(w.notes, func(r audit.Record) bool { return r.Event == audit.Warning && strings.HasSuffix(r.Text, c.warning) })
			if noted != (c.warning != "") {
				t.Errorf("the audit log has the warning: %t", noted)
			}
		})
	}
}

// A job that is cancelled submits nothing more, and ends when what runs has ended.
func TestCancel(t *testing.T) {
	w := newWorld(t)
	w.answer = func(_ string, q *transfer.Request) error {
		if q.Destination == "BETA" {
			return nil
		}
		return transfer.Errorf(transfer.KindBusy, "later")
	}
	j := w.make(sample(w.clock.now, "BETA", "CHI", "PSI"))
	w.pass()
	w.answer = nil
	if _, err := w.command("bob", CommandCancel, Named{ID: j.ID.String()}); err != nil {
		t.Fatal(err) // he may operate
	}
	w.pass()
	beta := w.only(j.ID, "BETA")
	if beta.State != transfer.Cancelling || len(w.sent) != 1 {
		t.Fatalf("%d transfers, the first is %s", len(w.sent), beta.State)
	}
	if s := w.show(j.ID); s.State != transfer.Cancelling || s.Tally.Ended != 2 || s.Of[1].Reason == nil {
		t.Errorf("the job is %+v", s)
	}
	w.end(beta, transfer.Cancelled, 1)
	w.pass()
	if s := w.show(j.ID); s.State != transfer.Cancelled || s.Code != transfer.CodeCancelled {
		t.Errorf("the job is %+v", s.Job)
	}
	if _, err := w.command("ann", CommandCancel, Named{ID: j.ID.String()[20:]}); err != nil {
		t.Errorf("cancelled twice: %v", err)
	}
}

// A cancel that comes while transfers are being submitted keeps the next one from it.
func TestCancelWhileItSubmits(t *testing.T) {
	w := newWorld(t)
	var j *Job
	w.answer = func(string, *transfer.Request) error {
		w.answer = nil
		_, err := w.command("ann", CommandCancel, Named{ID: j.ID.String()})
		return err
	}
	j = w.make(sample(w.clock.now, "BETA", "CHI", "PSI"))
	w.pass()
	w.pass()
	w.end(w.only(j.ID, "BETA"), transfer.Cancelled, 0)
	w.pass()
	if s := w.show(j.ID); len(w.sent) != 1 || s.State != transfer.Cancelled {
		t.Errorf("%d are submitted, and the job is %s", len(w.sent), s.State)
	}
}

// Jobs are those of whoever has made them, and of operators.
func TestWhoseJobs(t *testing.T) {
	w := newWorld(t)
	w.rights["eve"] = string(transfer.AuthOperate)
	w.rights["tom"] = string(transfer.AuthSource)
	w.rights["kim"] = string(transfer.AuthDeleteSource)
	j := w.make(sample(w.clock.now, "BETA", "CHI"))
	if _, err := w.command("eve", CommandCancel, Named{ID: j.ID.String()}); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("another one cancels it: %v", err)
	}
	if _, err := w.k.show(duty.Caller{Principal: "eve"}, wire.Marshal(Named{ID: j.ID.String()})); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("another one sees it: %v", err)
	}
	l, err := w.k.list(duty.Caller{Principal: "eve"}, wire.Marshal(Page{}))
	if w.must(err); len(l.(Listed).Jobs) != 0 {
		t.Error("another one lists it")
	}
	l, err = w.k.list(duty.Caller{Principal: "ann"}, wire.Marshal(Page{}))
	if w.must(err); len(l.(Listed).Jobs) != 1 {
		t.Error("its owner does not list it")
	}
	if _, err := w.command("tom", CommandPut, sample(w.clock.now, "BETA", "CHI")); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("one who may not send makes a job: %v", err)
	}
	p := sample(w.clock.now, "BETA", "CHI")
	p.Request.Disposition = transfer.DispositionDelete
	if _, err := w.command("kim", CommandPut, p); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("one who may not delete makes a job that does: %v", err)
	}
	w.answer = func(string, *transfer.Request) error { return transfer.Errorf(transfer.KindDenied, "no") }
	w.pass()
	if s := w.show(j.ID); s.State != transfer.Failed || s.Code != transfer.KindDenied.Code() || s.Of[0].Reason == nil {
		t.Errorf("a job whose transfers are all refused is %+v", s.Job)
	}
	if n := len(slices.DeleteFunc(slices.Clone(w.notes), func(r audit.Record) bool { return r.Event != audit.Failed })); n != 2 {
		t.Errorf("%d of 2 refusals are on record", n)
	}
}

// A clock that is put back costs a child its ID, and nothing else.
func TestClockPutBack(t *testing.T) {
	w := newWorld(t)
	w.answer = func(_ string, q *transfer.Request) error {
		if q.ID.Time().After(w.clock.now.Add(time.Hour)) {
			return transfer.Errorf(transfer.KindClock, "it is from the future")
		}
		return nil
	}
	j := w.make(sample(w.clock.now, "BETA", "CHI"))
	w.clock.now = w.clock.now.Add(-48 * time.Hour)
	w.pass()
	w.pass()
	if len(w.of(j.ID)) != 2 {
		t.Errorf("%d are submitted", len(w.of(j.ID)))
	}
}

// An agent keeps a number of jobs; those that ended first give way, and those that run do not.
func TestRoom(t *testing.T) {
	w := newWorld(t)
	const children = childPage + 1
	w.k.kept = 3 * children
	var names []string
	for n := range children {
		names = append(names, fmt.Sprintf("D%d", n))
	}
	w.answer = func(string, *transfer.Request) error { return transfer.Errorf(transfer.KindDenied, "no") }
	first := w.make(sample(w.clock.now, names...))
	for range children / submitMost {
		w.pass()
	}
	w.pass()
	if s := w.show(first.ID); s.Ended.IsZero() || !s.More || len(s.Of) != childPage || s.Request == nil {
		t.Fatalf("the first one is %+v", s.Job)
	}
	for range 3 {
		w.make(sample(w.clock.now, names...))
	}
	if _, err := w.k.show(duty.Caller{Principal: "ann"}, wire.Marshal(Named{ID: first.ID.String()})); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("the one that has ended is kept: %v", err)
	}
	if _, err := w.command("ann", CommandPut, sample(w.clock.now, "BETA", "CHI")); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("one too many is taken: %v", err)
	}
}

// A job is forgotten 30 days after its end.
func TestForgotten(t *testing.T) {
	w := newWorld(t)
	w.answer = func(string, *transfer.Request) error { return transfer.Errorf(transfer.KindDenied, "no") }
	j := w.make(sample(w.clock.now, "BETA", "CHI"))
	w.pass()
	w.clock.now = w.clock.now.Add(retention - time.Hour)
	w.pass()
	w.show(j.ID)
	w.clock.now = w.clock.now.Add(2 * time.Hour)
	w.pass()
	err := w.k.Ledger.View(func(t *ledger.Tx) error {
		return drawerOf(t).Each("", "", func(key string, _ []byte) error { return fmt.Errorf("the ledger has %s still", key) })
	})
	w.must(err)
}

// What cannot be a job is refused, with the reason.
func TestPutsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *Put)
		text   string
	}{
		"none":      {func(p *Put) { p.To = nil }, "the job has no destination"},
		"twice":     {func(p *Put) { p.To[1] = p.To[0] }, "the destination BETA:in/ is given twice"},
		"path":      {func(p *Put) { p.To[1].Path = "" }, "the destination CHI:"},
		"agent":     {func(p *Put) { p.To[1].Agent = "A_" + transfer.AgentName(strings.Repeat("x", 40)) }, "is not valid"},
		"many":      {func(p *Put) { p.To = make([]To, MaxChildren+1) }, "the limit is 1000"},
		"retry":     {func(p *Put) { p.Request.Retry = &transfer.Retry{Of: p.Request.ID} }, "a retry"},
		"meta":      {func(p *Put) { p.Request.Meta = map[string]string{MetaName: "x"} }, "the metadata part-of-job"},
		"own":       {func(p *Put) { p.Request.Items[0].Dest = "x" }, "the source a has a destination"},
		"unsummed":  {func(p *Put) { p.Request.Disposition, p.Request.Checksum = transfer.DispositionDelete, "none" }, "--checksum none"},
		"no source": {func(p *Put) { p.Request.Items = nil }, "names no source"},
	} {
		p := sample(time.Now(), "BETA", "CHI")
		c.change(&p)
		_, err := ParsePut(wire.Marshal(p))
		if err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := ParsePut(make([]byte, MaxPut+1)); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("too much is read: %v", err)
	}
}

// The result of a job is folded from those of its children.
func TestFold(t *testing.T) {
	child := func(state transfer.State, code int, files int64) Child {
		return Child{State: state, Code: cmp.Or(code, state.Code()), Counts: transfer.Counts{Files: files}}
	}
	good, bad, part := child(transfer.Successful, 0, 1), child(transfer.Failed, 0, 0), child(transfer.Partial, 0, 1)
	late, half, gone := child(transfer.Failed, transfer.CodeRecovery, 0), child(transfer.Failed, transfer.CodeRecovery, 1), child(transfer.Cancelled, 0, 0)
	for _, c := range []struct {
		of        []Child
		cancelled bool
		state     transfer.State
		code      int
	}{
		{[]Child{good, good}, false, transfer.Successful, 0},
		{[]Child{good, good}, true, transfer.Successful, 0}, // too late
		{[]Child{good, bad}, false, transfer.Partial, 20},
		{[]Child{part, part}, false, transfer.Partial, 20},
		{[]Child{bad, half}, false, transfer.Partial, 20},
		{[]Child{bad, bad}, false, transfer.Failed, 40},
		{[]Child{late, late}, false, transfer.Failed, transfer.CodeRecovery},
		{[]Child{late, bad}, false, transfer.Failed, 40},
		{[]Child{good, gone}, true, transfer.Cancelled, 41},
		{[]Child{good, gone}, false, transfer.Partial, 20},
		{[]Child{gone, gone}, false, transfer.Cancelled, 41},
		{[]Child{bad, bad}, true, transfer.Failed, 40},
	} {
		if state, code := Fold(c.of, c.cancelled); state != c.state || code != c.code {
			t.Errorf("%+v: %s %d, not %s %d", c, state, code, c.state, c.code)
		}
	}
}

func FuzzParsePut(f *testing.F) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	p := sample(now, "BETA", "CHI")
	f.Add([]byte(wire.Marshal(p)))
	p.Request.Disposition = transfer.DispositionDelete
	p.To[1].Retry = &transfer.Retry{Of: transfer.NewID(now), Only: []transfer.Path{"a"}}
	f.Add([]byte(wire.Marshal(p)))
	f.Add([]byte(`{"request":{},"to":[{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParsePut(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		for n := range p.To {
			q := childOf(&p.Request, p.To[n].child(n+1, p.Request.ID), len(p.To))
			if err := q.Check(); err != nil {
				t.Errorf("%s: the child %d is refused: %v", again, n, err)
			}
		}
	})
}
