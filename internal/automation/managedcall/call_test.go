package managedcall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/duty"
	"ferry/internal/automation/program"
	"ferry/internal/faulty"
	"ferry/internal/ledger"
	"ferry/internal/security/word"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A world is an agent that keeps calls. Its programs are a function; its audit records are in its ledger.
type world struct {
	t      testing.TB
	store  *faulty.MemoryStore
	k      *callDuty
	stop   func()
	run    func(ctx context.Context, id string) (program.Result, error)
	denied func(principal string) error
	anew   bool // the makers of all calls were enrolled again

	mu     sync.Mutex
	starts map[string]int
	envs   [][]string
	fails  func() bool // whether a transaction with a record fails; nil: none does
}

func newWorld(t testing.TB) *world {
	w := &world{t: t, store: faulty.NewMemoryStore(), starts: map[string]int{}, denied: func(string) error { return nil },
		run: func(context.Context, string) (program.Result, error) { return program.Result{Output: "out"}, nil }}
	w.start()
	t.Cleanup(func() { w.stop() })
	return w
}

func (w *world) start() {
	l, err := ledger.Open(w.t.TempDir(), ledger.Options{Store: w.store, Files: faulty.NewMemoryFiles(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		w.t.Fatal(err)
	}
	w.k = newDuty(duty.Services{Agent: "BETA", Ledger: l, Programs: w, Clock: clock.System, Log: slog.New(slog.DiscardHandler),
		CheckKeys: func(by word.Origin) error {
			if w.anew {
				return transfer.Errorf(transfer.KindDenied, "%s was enrolled again", by.Principal)
			}
			return nil
		},
		May: func(principal string, right transfer.Authority) error {
			if right == transfer.AuthProgram {
				return w.asked()(principal)
			}
			if principal == "operator" {
				return nil
			}
			return transfer.Errorf(transfer.KindDenied, "%s does not have the authority %s", principal, right)
		},
		Note: func(t *ledger.Tx, r audit.Record) error {
			if w.fails != nil && w.fails() {
				return errors.New("the disk is full")
			}
			d, n := ledger.NamespaceOf(t, "notes"), 0
			fmt.Sscan(string(d.Get("n")), &n) // nothing is 0
			return errors.Join(d.Put("n", fmt.Append(nil, n+1)), d.Put(fmt.Sprintf("r/%06d", n), wire.Marshal(r)))
		}})
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() { defer close(over); w.k.Run(ctx) }()
	w.stop = sync.OnceFunc(func() { cancel(); <-over; l.Close() })
}

// deny sets the answer to each question for the authority to run programs.
func (w *world) deny(denied func(principal string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.denied = denied
}

func (w *world) asked() func(principal string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.denied
}

// crash ends the agent; later changes of it are lost.
func (w *world) crash() {
	store := w.store.Snapshot()
	w.stop()
	w.store = store
	w.start()
}

func (w *world) Executable(string) error { return nil }

func (w *world) Find(name string) (string, error) {
	if name == "none" {
		return "", transfer.Errorf(transfer.KindProgram, "there is no program none")
	}
	return name, nil
}

func (w *world) Run(ctx context.Context, c program.Call) (program.Result, error) {
	id := ""
	for _, v := range c.Env {
		if of, ok := strings.CutPrefix(v, "FERRY_CALL_ID="); ok {
			id = of
		}
	}
	w.mu.Lock()
	w.starts[id]++
	w.envs = append(w.envs, c.Env)
	w.mu.Unlock()
	return w.run(ctx, id)
}

func (w *world) command(who string, kind wire.Kind, body any) (c *Call, err error) {
	of := w.k.Commands()[kind]
	if of.Needs != transfer.AuthNone {
		if err := w.k.May(who, of.Needs); err != nil {
			return nil, err
		}
	}
	err = w.k.Ledger.Update(func(t *ledger.Tx) error {
		answer, err := of.Do(t, duty.Caller{Origin: word.Origin{Principal: who}, Originator: transfer.Originator{User: who, Host: "box"}}, wire.Marshal(body))
		if err == nil {
			c = answer.(*Call)
		}
		return err
	})
	if err == nil {
		of.Done()
	}
	return c, err
}

func sample(p transfer.Program) Put {
	return Put{ID: transfer.NewID(time.Now()), Agent: "BETA", Program: p, Job: "j", Meta: map[string]string{"region": "eu"}}
}

func (w *world) make(p transfer.Program) *Call {
	w.t.Helper()
	c, err := w.command("ann", CommandRun, sample(p))
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func (w *world) show(id transfer.ID) *Call {
	w.t.Helper()
	c, err := w.k.show(duty.Caller{Origin: word.Origin{Principal: "ann"}}, wire.Marshal(Named{ID: id.String()}))
	if err != nil {
		w.t.Fatal(err)
	}
	return c.(*Call)
}

// notes are the audit records of a call, of an event.
func (w *world) notes(id transfer.ID, event audit.Event) (all []audit.Record) {
	err := w.k.Ledger.View(func(t *ledger.Tx) error {
		for _, value := range ledger.NamespaceOf(t, "notes").All("r/", "") {
			var r audit.Record
			if err := json.Unmarshal(value, &r); err != nil {
				return err
			}
			if r.Transfer == id && r.Event == event {
				all = append(all, r)
			}
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// passes lets time pass.
func passes(d time.Duration) { <-time.After(d); synctest.Wait() }

func TestRunsOnceAndIsOnRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := w.make(transfer.Program{Name: "load", Args: []string{"x", "a b"}})
		if c.State != transfer.Queued || c.Principal != "ann" {
			t.Errorf("it is %+v", c)
		}
		synctest.Wait()
		w.crash()
		synctest.Wait()
		c = w.show(c.ID)
		if c.State != transfer.Successful || c.Code != 0 || c.Attempt != 1 || c.Ran.Output != "out" || c.Ended.IsZero() {
			t.Errorf("it is %+v", c)
		}
		if n := w.starts[c.ID.String()]; n != 1 {
			t.Errorf("it was started %d times", n)
		}
		ran := w.notes(c.ID, audit.Ran)
		if len(ran) != 1 || ran[0].State != transfer.Successful || ran[0].Program.At != transfer.ManagedCall || !slices.Equal(ran[0].Program.Args, []string{"x", "a b"}) ||
			ran[0].Principal != "ann" || ran[0].Job != "j" || ran[0].Source != "BETA" || ran[0].Program.Output != "out" {
			t.Errorf("on record is %+v", ran)
		}
		if n := len(w.notes(c.ID, audit.Changed)); n != 1 {
			t.Errorf("that it was asked for is on record %d times", n)
		}
		want := []string{"FERRY_AGENT=BETA", "FERRY_ATTEMPT=1", "FERRY_CALL=call", "FERRY_CALL_ID=" + c.ID.String(), "FERRY_JOB=j", "FERRY_META_region=eu", "FERRY_ORIGINATOR=ann@box"}
		if !slices.Equal(w.envs[0], want) {
			t.Errorf("its environment has %q", w.envs[0])
		}
	})
}

// A program that ran when its agent ended is not started again, and no record claims to know how it ended.
func TestNotAgainAfterACrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run = func(ctx context.Context, _ string) (program.Result, error) {
			<-ctx.Done()
			return program.Result{Code: -1}, context.Cause(ctx)
		}
		once, again := w.make(transfer.Program{Name: "load"}), w.make(transfer.Program{Name: "load", Retries: 1, Pause: transfer.Duration(time.Hour)})
		synctest.Wait()
		if c := w.show(once.ID); c.State != transfer.Running || c.Attempt != 1 {
			t.Fatalf("it is %+v", c)
		}
		w.run = func(context.Context, string) (program.Result, error) { return program.Result{}, nil }
		w.crash()
		synctest.Wait()
		c := w.show(once.ID)
		if c.State != transfer.Failed || c.Code != transfer.CodeNothing || c.Reason == nil || c.Reason.Kind != transfer.KindLost || w.starts[c.ID.String()] != 1 {
			t.Errorf("it is %+v, and was started %d times", c, w.starts[c.ID.String()])
		}
		if ran := w.notes(c.ID, audit.Ran); len(ran) != 1 || ran[0].Program.Code != -1 || ran[0].Error.Kind != transfer.KindLost || ran[0].State != transfer.Failed {
			t.Errorf("on record is %+v", ran)
		}
		if c := w.show(again.ID); c.State != transfer.Queued || w.starts[c.ID.String()] != 1 {
			t.Errorf("the one with a retry is %+v", c)
		}
		passes(time.Hour)
		if c := w.show(again.ID); c.State != transfer.Successful || c.Attempt != 2 || w.starts[c.ID.String()] != 2 {
			t.Errorf("the one with a retry is %+v", c)
		}
	})
}

// A program is started at most as often as the call asks for, each run is on record once, and each call ends. The test
// has crashes at any time, programs that fail, cancelled calls, and a disk that is full now and then.
func TestCallsWithCrashes(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := rand.New(rand.NewPCG(seed, 39))
				var mu sync.Mutex
				roll := func(n int) int { mu.Lock(); defer mu.Unlock(); return r.IntN(n) }
				w := newWorld(t)
				w.run = func(ctx context.Context, _ string) (program.Result, error) {
					if roll(10) == 0 {
						return program.Result{Code: -1}, transfer.Errorf(transfer.KindBusy, "the host is short of processes")
					}
					select {
					case <-ctx.Done():
						return program.Result{Code: -1}, context.Cause(ctx)
					case <-time.After(time.Duration(roll(3000)) * time.Millisecond):
						return program.Result{Code: roll(2)}, nil
					}
				}
				w.fails = func() bool { return roll(20) == 0 }
				var all []*Call
				unstarted := map[string]int{}
				count := w.run
				w.run = func(ctx context.Context, id string) (program.Result, error) {
					res, err := count(ctx, id)
					if transfer.KindOf(err) == transfer.KindBusy {
						mu.Lock()
						unstarted[id]++
						mu.Unlock()
					}
					return res, err
				}
				crashes := 0
				for range 400 {
					switch {
					case len(all) < 100 && roll(3) == 0:
						if c, err := w.command("ann", CommandRun, sample(transfer.Program{Name: "load", Retries: roll(3), Pause: transfer.Duration(time.Duration(roll(2)) * time.Second)})); err == nil {
							all = append(all, c)
						}
					case len(all) > 0 && roll(10) == 0:
						_, err := w.command("ann", CommandCancel, Named{ID: all[max(0, len(all)-1-roll(5))].ID.String()})
						if kind := transfer.KindOf(err); err != nil && kind != transfer.KindEnding && kind != transfer.KindInternal {
							t.Fatal(err)
						}
					case roll(10) == 0:
						crashes++
						w.crash()
					}
					passes(time.Duration(roll(1000)) * time.Millisecond)
				}
				passes(time.Hour)
				states := map[transfer.State]int{}
				for _, c := range all {
					c = w.show(c.ID)
					states[c.State]++
					if !c.State.Final() {
						t.Errorf("call %s is %s after an hour", c.ID, c.State)
					}
					ran := w.notes(c.ID, audit.Ran)
					if starts := w.starts[c.ID.String()] - unstarted[c.ID.String()]; starts > 1+c.Program.Retries || starts > c.Attempt || len(ran) != c.Attempt {
						t.Errorf("call %s, of %d runs and %d retries, was started %d times, and on record are %d", c.ID, c.Attempt, c.Program.Retries, starts, len(ran))
					}
					for n := range ran {
						if last := n == len(ran)-1; ran[n].Program.Attempt != n+1 || last != ran[n].State.Final() && c.Cancelled == "" {
							t.Errorf("of call %s is on record as %d. of %d: %+v", c.ID, n+1, len(ran), ran[n])
						}
					}
				}
				t.Log(crashes, "crashes,", states)
				if crashes == 0 || states[transfer.Successful] == 0 || states[transfer.Failed] == 0 || states[transfer.Cancelled] == 0 {
					t.Error("something has not happened")
				}
			})
		})
	}
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run = func(ctx context.Context, _ string) (program.Result, error) {
			<-ctx.Done()
			return program.Result{Code: -1, Output: "so far"}, context.Cause(ctx)
		}
		var all []*Call
		for range AtOnce + 2 {
			all = append(all, w.make(transfer.Program{Name: "load", Retries: 3}))
			passes(time.Millisecond) // IDs of one millisecond have no order
		}
		synctest.Wait()
		runs, waits := all[0], all[len(all)-1]
		if c := w.show(waits.ID); c.State != transfer.Queued || len(w.starts) != AtOnce {
			t.Errorf("%d run at once, and the last one is %s", len(w.starts), c.State)
		}
		if _, err := w.command("bob", CommandCancel, Named{ID: runs.ID.String()}); transfer.KindOf(err) != transfer.KindNotFound {
			t.Errorf("cancelled by another one: %v", err)
		}
		for _, c := range []*Call{waits, runs} {
			if _, err := w.command("operator", CommandCancel, Named{ID: c.ID.String()}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			now := w.show(c.ID)
			if now.State != transfer.Cancelled || now.Code != transfer.CodeCancelled || now.Cancelled != "operator" {
				t.Errorf("it is %+v", now)
			}
			if _, err := w.command("ann", CommandCancel, Named{ID: c.ID.String()}); err != nil {
				t.Errorf("once more: %v", err)
			}
		}
		if c := w.show(runs.ID); c.Ran.Output != "so far" || len(w.notes(runs.ID, audit.Ran)) != 1 {
			t.Errorf("the one that ran is %+v", c)
		}
		if n := len(w.notes(waits.ID, audit.Ran)); n != 0 || w.starts[waits.ID.String()] != 0 {
			t.Errorf("the one that waited is on record %d times as a program that ended", n)
		}
	})
}

// The rights that a call needs are checked when it is given, and again before the program runs.
func TestRightsAtItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run = func(context.Context, string) (program.Result, error) { return program.Result{Code: 3}, nil }
		c := w.make(transfer.Program{Name: "load", Retries: 1, Pause: transfer.Duration(time.Minute)})
		synctest.Wait()
		w.deny(func(string) error { return transfer.Errorf(transfer.KindBusy, "the rules are old") })
		passes(time.Hour)
		if now := w.show(c.ID); now.State != transfer.Queued || now.Reason == nil || now.Reason.Text != "the rules are old" {
			t.Errorf("it is %+v", now)
		}
		w.deny(func(string) error { return transfer.Errorf(transfer.KindDenied, "not any more") })
		passes(time.Minute)
		if now := w.show(c.ID); now.State != transfer.Failed || now.Code != transfer.CodeDenied || w.starts[c.ID.String()] != 1 {
			t.Errorf("it is %+v", now)
		}
		if _, err := w.command("ann", CommandRun, sample(transfer.Program{Name: "load"})); transfer.KindOf(err) != transfer.KindDenied {
			t.Errorf("another call: %v", err)
		}
	})
}

// A program does not run again where the name of its call's maker was enrolled again meanwhile.
func TestMakerEnrolledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.run = func(context.Context, string) (program.Result, error) { return program.Result{Code: 3}, nil }
		c := w.make(transfer.Program{Name: "load", Retries: 1, Pause: transfer.Duration(time.Minute)})
		synctest.Wait()
		w.anew = true
		passes(time.Hour)
		if now := w.show(c.ID); now.State != transfer.Failed || now.Code != transfer.CodeDenied || w.starts[c.ID.String()] != 1 {
			t.Errorf("it is %+v", now)
		}
	})
}

func TestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		good := w.make(transfer.Program{Name: "load"})
		for name, c := range map[string]struct {
			change func(*Put)
			kind   transfer.Kind
		}{
			"another agent": {func(p *Put) { p.Agent = "GAMMA" }, transfer.KindUsage},
			"no ID":         {func(p *Put) { p.ID = transfer.ID{} }, transfer.KindMalformed},
			"known ID":      {func(p *Put) { p.ID = good.ID }, transfer.KindConflict},
			"no program":    {func(p *Put) { p.Program.Name = "" }, transfer.KindUsage},
			"leads out":     {func(p *Put) { p.Program.Name = "../x" }, transfer.KindUsage},
			"not there":     {func(p *Put) { p.Program.Name = "none" }, transfer.KindProgram},
			"retries":       {func(p *Put) { p.Program.Retries = -1 }, transfer.KindUsage},
			"metadata":      {func(p *Put) { p.Meta = map[string]string{"": "x"} }, transfer.KindUsage},
			"job":           {func(p *Put) { p.Job = strings.Repeat("j", 2000) }, transfer.KindTooLarge},
		} {
			p := sample(transfer.Program{Name: "load"})
			c.change(&p)
			if _, err := w.command("ann", CommandRun, p); transfer.KindOf(err) != c.kind {
				t.Errorf("%s: %v", name, err)
			}
		}
		synctest.Wait() // the good one has ended
		w.k.Programs = nil
		if _, err := w.command("ann", CommandRun, sample(transfer.Program{Name: "load"})); transfer.KindOf(err) != transfer.KindProgram || !strings.Contains(err.Error(), "--programs DIR") {
			t.Errorf("an agent without programs: %v", err)
		}
	})
}

// An agent keeps so many calls: the oldest that have ended give way.
func TestKeepsSome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.make(transfer.Program{Name: "load"})
		passes(time.Millisecond) // IDs of one millisecond have no order
		hold := make(chan struct{})
		w.run = func(context.Context, string) (program.Result, error) { <-hold; return program.Result{}, nil }
		defer close(hold)
		for n := range maxCalls - 1 {
			if _, err := w.command(fmt.Sprintf("user%d", n), CommandRun, sample(transfer.Program{Name: "load"})); err != nil {
				t.Fatal(err)
			}
		}
		w.show(first.ID)
		w.make(transfer.Program{Name: "load"})
		if _, err := w.k.show(duty.Caller{Origin: word.Origin{Principal: "ann"}}, wire.Marshal(Named{ID: first.ID.String()})); transfer.KindOf(err) != transfer.KindNotFound {
			t.Errorf("the first one: %v", err)
		}
		if _, err := w.command("ann", CommandRun, sample(transfer.Program{Name: "load"})); transfer.KindOf(err) != transfer.KindTooLarge {
			t.Errorf("one more: %v", err)
		}
		listed, page := 0, Page{}
		for more := true; more; {
			l, err := w.k.list(duty.Caller{Origin: word.Origin{Principal: "operator"}}, wire.Marshal(page))
			if err != nil {
				t.Fatal(err)
			}
			of := l.(Listed)
			listed, more = listed+len(of.Calls), of.More
			page.After = of.Calls[len(of.Calls)-1].ID
		}
		if listed != maxCalls {
			t.Errorf("%d calls are listed", listed)
		}
	})
}

// FuzzParsePut reads any text: a Put that is taken can be put into a ledger and is the same then.
func FuzzParsePut(f *testing.F) {
	f.Add([]byte(`{"id":"01a1f8ea-3fc1-7aab-9803-6cf40de780e6","agent":"BETA","program":{"name":"load.sh","args":["a b",""],"timeout":"3s","retries":2,"pause":"1s","success":"0,4-8"},"job":"j","meta":{"a":"b"}}`))
	f.Add([]byte(`{"id":"01a1f8ea-3fc1-7aab-9803-6cf40de780e6","agent":"BETA","program":{"name":"../x"}}`))
	f.Add([]byte(`{"program":{"args":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := ParsePut(data)
		if err != nil {
			return
		}
		again, err := ParsePut(wire.Marshal(p))
		if err != nil || string(wire.Marshal(again)) != string(wire.Marshal(p)) {
			t.Errorf("%s becomes %s, %v", data, wire.Marshal(again), err)
		}
	})
}
