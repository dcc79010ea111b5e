package job

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
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

// Each destination gets one transfer, and each job ends as its children did. The test has crashes at every step,
// transfers that end anyhow, an agent that is busy or refuses, and jobs that are cancelled.
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
					dutytest.Crash()
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
					p := sample(w.Clock.At, to...)
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
				w.unwritable = func() bool { return r.IntN(10) == 0 }
				w.pass()
				w.unwritable = nil
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

// checkJob compares a job that has ended with the transfers of the agent.
func checkJob(w *world, id transfer.ID, cancelled bool, refused map[transfer.ID]bool) {
	w.T.Helper()
	s := w.show(id)
	if s.Ended.IsZero() {
		w.T.Errorf("job %s has not ended: %+v", id, s.Job)
		return
	}
	done := w.of(id)
	whole, some, stopped := 0, 0, 0
	for _, c := range s.Of {
		got := done[c.Destination]
		if len(got) > 1 {
			w.T.Errorf("%s gets %d transfers of the job", c.Destination, len(got))
		}
		switch {
		case len(got) == 1 && (got[0].ID() != c.Transfer || got[0].State != c.State || got[0].Files != c.Files):
			w.T.Errorf("destination %s is %+v, and its transfer %+v", c.Destination, c, got[0].Progress)
		case len(got) == 0 && refused[c.Transfer] && c.State != transfer.Failed && c.State != transfer.Cancelled:
			w.T.Errorf("what was refused is %s", c.State)
		case len(got) == 0 && !refused[c.Transfer] && (c.State != transfer.Cancelled || !cancelled):
			w.T.Errorf("%s gets nothing, and is %s", c.Destination, c.State)
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
	if s.State != want || s.Counts.Ended != s.Children || s.Counts.Successful != whole {
		w.T.Errorf("the job is %s, not %s: %+v", s.State, want, s.Counts)
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
			p := sample(w.Clock.At, "BETA", "CHI", "PSI")
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
			noted := slices.ContainsFunc(w.Notes, func(r audit.Record) bool { return r.Event == audit.Warning && strings.HasSuffix(r.Text, c.warning) })
			if noted != (c.warning != "") {
				t.Errorf("the audit log has the warning: %t", noted)
			}
		})
	}
}

// A job that is cancelled submits no more transfers, and ends when the running ones have ended.
func TestCancel(t *testing.T) {
	w := newWorld(t)
	w.answer = func(_ string, q *transfer.Request) error {
		if q.Destination == "BETA" {
			return nil
		}
		return transfer.Errorf(transfer.KindBusy, "later")
	}
	j := w.make(sample(w.Clock.At, "BETA", "CHI", "PSI"))
	w.pass()
	w.answer = nil
	if _, err := w.command("bob", CommandCancel, Named{ID: j.ID.String()}); err != nil {
		t.Fatal(err) // bob has AuthOperate
	}
	w.pass()
	beta := w.only(j.ID, "BETA")
	if beta.State != transfer.Cancelling || len(w.sent) != 1 {
		t.Fatalf("%d transfers, the first is %s", len(w.sent), beta.State)
	}
	if s := w.show(j.ID); s.State != transfer.Cancelling || s.Counts.Ended != 2 || s.Of[1].Reason == nil {
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

// A cancel that comes while transfers are being submitted stops the next one.
func TestCancelWhileItSubmits(t *testing.T) {
	w := newWorld(t)
	var j *Job
	w.answer = func(string, *transfer.Request) error {
		w.answer = nil
		_, err := w.command("ann", CommandCancel, Named{ID: j.ID.String()})
		return err
	}
	j = w.make(sample(w.Clock.At, "BETA", "CHI", "PSI"))
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
	w.Denied["eve"] = string(transfer.AuthOperate)
	w.Denied["tom"] = string(transfer.AuthSource)
	w.Denied["kim"] = string(transfer.AuthDeleteSource)
	j := w.make(sample(w.Clock.At, "BETA", "CHI"))
	if _, err := w.command("eve", CommandCancel, Named{ID: j.ID.String()}); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("another one cancels it: %v", err)
	}
	if _, err := w.k.show(duty.Caller{Origin: word.Origin{Principal: "eve"}}, wire.Marshal(Named{ID: j.ID.String()})); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("another one sees it: %v", err)
	}
	l, err := w.k.list(duty.Caller{Origin: word.Origin{Principal: "eve"}}, wire.Marshal(Page{}))
	if w.Must(err); len(l.(Listed).Jobs) != 0 {
		t.Error("another one lists it")
	}
	l, err = w.k.list(duty.Caller{Origin: word.Origin{Principal: "ann"}}, wire.Marshal(Page{}))
	if w.Must(err); len(l.(Listed).Jobs) != 1 {
		t.Error("its owner does not list it")
	}
	if _, err := w.command("tom", CommandPut, sample(w.Clock.At, "BETA", "CHI")); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("a principal without the right to send makes a job: %v", err)
	}
	p := sample(w.Clock.At, "BETA", "CHI")
	p.Request.Disposition = transfer.DispositionDelete
	if _, err := w.command("kim", CommandPut, p); transfer.KindOf(err) != transfer.KindDenied {
		t.Errorf("a principal without the right to delete makes a job that deletes: %v", err)
	}
	w.answer = func(string, *transfer.Request) error { return transfer.Errorf(transfer.KindDenied, "no") }
	w.pass()
	if s := w.show(j.ID); s.State != transfer.Failed || s.Code != transfer.KindDenied.Code() || s.Of[0].Reason == nil {
		t.Errorf("a job with refused transfers only is %+v", s.Job)
	}
	if n := len(slices.DeleteFunc(slices.Clone(w.Notes), func(r audit.Record) bool { return r.Event != audit.Failed })); n != 2 {
		t.Errorf("%d of 2 refusals are on record", n)
	}
}

// Ends that could not be written down are written down later. An unreadable status of one child delays the end of no
// other child.
func TestLedgerFails(t *testing.T) {
	w := newWorld(t)
	w.answer = func(_ string, q *transfer.Request) error {
		if q.Destination == "BETA" {
			return transfer.Errorf(transfer.KindInternal, "it cannot be read")
		}
		return nil
	}
	j := w.make(sample(w.Clock.At, "BETA", "CHI", "PSI"))
	w.pass()
	w.end(w.only(j.ID, "CHI"), transfer.Successful, 1)
	w.pass()
	if s := w.show(j.ID); s.Counts.Ended != 1 {
		t.Errorf("%d have ended", s.Counts.Ended)
	}
	w.answer = nil
	w.pass()
	w.end(w.only(j.ID, "BETA"), transfer.Successful, 1)
	w.end(w.only(j.ID, "PSI"), transfer.Successful, 1)
	w.unwritable = func() bool { return true }
	w.pass()
	w.unwritable = nil
	w.pass()
	if s := w.show(j.ID); s.State != transfer.Successful || s.Counts.Ended != 3 {
		t.Errorf("the job is %+v", s.Job)
	}
}

// A clock that is put back costs a child its ID only.
func TestClockPutBack(t *testing.T) {
	w := newWorld(t)
	w.answer = func(_ string, q *transfer.Request) error {
		if q.ID.Time().After(w.Clock.At.Add(time.Hour)) {
			return transfer.Errorf(transfer.KindClock, "it is from the future")
		}
		return nil
	}
	j := w.make(sample(w.Clock.At, "BETA", "CHI"))
	w.Clock.At = w.Clock.At.Add(-48 * time.Hour)
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
	w.k.kept = 4*children - 1
	var names []string
	for n := range children {
		names = append(names, fmt.Sprintf("D%d", n))
	}
	w.answer = func(string, *transfer.Request) error { return transfer.Errorf(transfer.KindDenied, "no") }
	first := w.make(sample(w.Clock.At, names...))
	for range children / submitMost {
		w.pass()
	}
	w.pass()
	if s := w.show(first.ID); s.Ended.IsZero() || !s.More || len(s.Of) != childPage || s.Request == nil {
		t.Fatalf("the first one is %+v", s.Job)
	}
	next, err := w.k.show(duty.Caller{Origin: word.Origin{Principal: "ann"}}, wire.Marshal(Named{ID: first.ID.String(), After: childPage}))
	if s := next.(*Shown); err != nil || s.More || len(s.Of) != 1 || s.Of[0].N != children || s.Request != nil {
		t.Errorf("the second page is %+v: %v", s, err)
	}
	for _, who := range []string{"ann", "bob", "carl"} {
		if _, err := w.command(who, CommandPut, sample(w.Clock.At, names...)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.k.show(duty.Caller{Origin: word.Origin{Principal: "ann"}}, wire.Marshal(Named{ID: first.ID.String()})); transfer.KindOf(err) != transfer.KindNotFound {
		t.Errorf("the one that has ended is kept: %v", err)
	}
	if _, err := w.command("dave", CommandPut, sample(w.Clock.At, "BETA", "CHI")); err != nil {
		t.Errorf("within the share of dave: %v", err)
	}
	if _, err := w.command("dave", CommandPut, sample(w.Clock.At, names...)); transfer.KindOf(err) != transfer.KindTooLarge {
		t.Errorf("more than the share of dave is taken: %v", err)
	}
}

// A job is forgotten 30 days after its end.
func TestForgotten(t *testing.T) {
	w := newWorld(t)
	w.answer = func(string, *transfer.Request) error { return transfer.Errorf(transfer.KindDenied, "no") }
	j := w.make(sample(w.Clock.At, "BETA", "CHI"))
	w.pass()
	w.Clock.At = w.Clock.At.Add(retention - time.Hour)
	w.pass()
	w.show(j.ID)
	w.Clock.At = w.Clock.At.Add(2 * time.Hour)
	w.pass()
	err := w.Ledger.View(func(t *ledger.Tx) error {
		for key := range drawerOf(t).All("", "") {
			return fmt.Errorf("the ledger has %s still", key)
		}
		return nil
	})
	w.Must(err)
}

// A Put that makes no job is refused, with the reason.
func TestPutsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *Put)
		text   string
	}{
		"none":      {func(p *Put) { p.To = nil }, "the job has no destination"},
		"twice":     {func(p *Put) { p.To[1] = p.To[0] }, "the destination BETA:in/ is given twice"},
		"path":      {func(p *Put) { p.To[1].Dest = transfer.Location{} }, "the destination CHI:"},
		"agent":     {func(p *Put) { p.To[1].Agent = "A_" + transfer.AgentName(strings.Repeat("x", 40)) }, "is not valid"},
		"many":      {func(p *Put) { p.To = make([]To, MaxChildren+1) }, "the limit is 1000"},
		"retry":     {func(p *Put) { p.Request.Retry = &transfer.Retry{Of: p.Request.ID} }, "a retry"},
		"meta":      {func(p *Put) { p.Request.Meta = map[string]string{MetaName: "x"} }, "the metadata part-of-job"},
		"own":       {func(p *Put) { p.Request.Items[0].Dest = transfer.File("x") }, "the source a has a destination"},
		"unsummed":  {func(p *Put) { p.Request.Disposition, p.Request.Checksum = transfer.DispositionDelete, "none" }, "--checksum none"},
		"large":     {func(p *Put) { p.Request.Items = transfer.ItemsOf(make([]transfer.Path, 12_000)...) }, "bytes; the limit is"},
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
		if state, code := FinalState(c.of, c.cancelled); state != c.state || code != c.code {
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
