package exit

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/call"
	"ferry/internal/automation/program"
	"ferry/internal/ledger"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// A bench is an Executor with its ledger. Its programs give the answers of a test.
type bench struct {
	*Executor
	ledger  *ledger.Ledger
	answers map[string]string // by program
	ran     []string
	inputs  []string
	notes   []audit.Record
	plain   bool  // its programs are not executable
	fails   error // of the next run, which then is not on record
}

func (b *bench) Find(name string) (string, error) {
	if _, ok := b.answers[name]; !ok {
		return "", transfer.Errorf(transfer.KindProgram, "there is no program %s", name)
	}
	return name, nil
}

func (b *bench) Executable(name string) error {
	if b.plain {
		return transfer.Errorf(transfer.KindProgram, "%s is not executable", name)
	}
	return nil
}

func (b *bench) Run(_ context.Context, c program.Call) (program.Result, error) {
	b.ran, b.inputs = append(b.ran, c.Name), append(b.inputs, string(c.Input))
	if err := b.fails; err != nil {
		b.fails = nil
		return program.Result{Code: -1}, err
	}
	return program.Result{Answer: []byte(b.answers[c.Name])}, nil
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newBench(t *testing.T, answers map[string]string, exits ...string) *bench {
	t.Helper()
	l, err := ledger.Open(t.TempDir(), ledger.Options{Clock: clock.System, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { l.Close() })
	b := &bench{ledger: l, answers: answers}
	note := func(_ *ledger.Tx, r audit.Record) error { b.notes = append(b.notes, r); return nil }
	log := slog.New(slog.DiscardHandler)
	set, err := transfer.ParseExits(exits, transfer.DefaultExitTime)
	must(t, err)
	b.Executor, err = New(Config{Agent: "ALPHA", Ledger: l, Exits: set, Note: note, AtOnce: 1, Clock: clock.System, Log: log,
		Programs: call.New(call.Config{Agent: "ALPHA", Ledger: l, Runner: b, Note: note, AtOnce: 1, Clock: clock.System, Log: log})})
	must(t, err)
	return b
}

func of(at transfer.CallPoint, programs *transfer.Programs) *transfer.Call {
	q := someRequest()
	q.ID, q.Source, q.Destination, q.Programs = transfer.NewID(time.Now()), "ALPHA", "BETA", programs
	return &transfer.Call{At: at, Request: q, Principal: "ann", State: transfer.Successful,
		Files: ignoring(func(put func(transfer.ExitFile) error) error {
			return put(transfer.ExitFile{Source: "/out/a", Name: "a"})
		})}
}

// run runs the exit and the program of a call point, twice: the second time only the record counts.
func (b *bench) run(t *testing.T, c *transfer.Call) *transfer.Error {
	t.Helper()
	failure, err := b.Executor.Run(t.Context(), c)
	must(t, err)
	n := len(b.ran)
	again, err := b.Executor.Run(t.Context(), c)
	if must(t, err); len(b.ran) != n || (failure == nil) != (again == nil) || failure != nil && failure.Text != again.Text {
		t.Errorf("the second time %v were run, with %v; before %v", b.ran[n:], again, failure)
	}
	ended, known, err := b.Ended(c)
	if must(t, err); !ended || (known == nil) != (failure == nil) {
		t.Errorf("on record is %v, %v", ended, known)
	}
	return failure
}

func TestAnExitRunsOnceBeforeTheProgram(t *testing.T) {
	b := newBench(t, map[string]string{"x": `{"action":"proceed","message":"fine","metadata":{"region":"us"},"files":[{"source":"/out/a","name":"b"}]}`, "p": ""}, "source-start=x")
	c := of(transfer.PreSource, &transfer.Programs{PreSource: &transfer.Program{Name: "p", Args: []string{"${Meta{region}}"}}})
	if failure := b.run(t, c); failure != nil || !slices.Equal(b.ran, []string{"x", "p"}) {
		t.Fatalf("%v were run: %v", b.ran, failure)
	}
	if n := b.notes; len(n) != 2 || n[0].Event != audit.Ran || n[0].Text != "fine" || n[0].Program.At != transfer.SourceStartExit || n[1].Program.Args[0] != "us" {
		t.Errorf("the audit has %+v", n)
	}
	choice, err := b.Choice(c.Request)
	if must(t, err); choice == nil || !slices.Equal(choice.Files, []transfer.ChosenFile{{Source: "/out/a", Name: "b"}}) || c.Request.Meta["region"] != "eu" {
		t.Errorf("the choice is %+v", choice)
	}
	if !b.Runs(of(transfer.PreSource, nil).Request, transfer.PreSource) || b.Runs(c.Request, transfer.PostSource) || b.Exits(transfer.PreDest) {
		t.Error("other exits run than are configured")
	}
	must(t, b.ledger.Update(func(tx *ledger.Tx) error { return b.Forget(tx, c.Request, false) }))
	if choice, err := b.Choice(c.Request); choice != nil || err != nil {
		t.Errorf("after the end the choice is %+v, %v", choice, err)
	}
}

// A cancel is on record, and keeps the program from running. At the end of a transfer a failure does not.
func TestAnExitThatCancels(t *testing.T) {
	b := newBench(t, map[string]string{"no": `{"action":"cancel","message":"no"}`, "p": ""}, "source-start=no", "source-end=no")
	all := &transfer.Programs{PreSource: &transfer.Program{Name: "p"}, PostSource: &transfer.Program{Name: "p"}}
	if failure := b.run(t, of(transfer.PreSource, all)); failure == nil || failure.Kind != transfer.KindExit || failure.Kind.Code() != 21 || !slices.Equal(b.ran, []string{"no"}) {
		t.Errorf("%v were run: %v", b.ran, failure)
	}
	b.ran = nil
	if failure := b.run(t, of(transfer.PostSource, all)); failure == nil || !slices.Equal(b.ran, []string{"no", "p"}) {
		t.Errorf("at the end %v were run: %v", b.ran, failure)
	}
	if !strings.Contains(b.inputs[len(b.inputs)-2], `"state":"successful"`) {
		t.Errorf("the facts are %s", b.inputs)
	}
}

// An exit that has not ended is run again. Its own failure is final.
func TestAnExitThatIsBroken(t *testing.T) {
	b := newBench(t, map[string]string{"x": `{"action":"proceed"}`}, "destination-start=x")
	c := of(transfer.PreDest, nil)
	b.fails = transfer.Errorf(transfer.KindBusy, "the host is short of processes")
	if failure, err := b.Executor.Run(t.Context(), c); failure != nil || transfer.KindOf(err) != transfer.KindBusy {
		t.Fatalf("%v, %v", failure, err)
	}
	if ended, _, err := b.Ended(c); ended || err != nil {
		t.Errorf("it has ended: %v", err)
	}
	if failure := b.run(t, c); failure != nil || len(b.ran) != 2 || !strings.Contains(b.inputs[1], `"exit":"destination-start"`) || b.notes[0].Program.Attempt != 2 || b.notes[0].Role != audit.RoleDestination {
		t.Errorf("%v were run: %v, %+v", b.ran, failure, b.notes)
	}

	b.fails = errors.New("it broke")
	if failure := b.run(t, of(transfer.PreDest, nil)); failure == nil || failure.Kind != transfer.KindExit {
		t.Errorf("a run that fails is %v", failure)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := b.Executor.Run(stopped, of(transfer.PreDest, nil)); err == nil {
		t.Error("an exit of an agent that stops has ended")
	}
}

// A request that cannot be read for the facts fails as it would without an exit.
func TestFilesThatCannotBeFound(t *testing.T) {
	b := newBench(t, map[string]string{"x": `{"action":"proceed"}`}, "source-start=x")
	c := of(transfer.PreSource, nil)
	c.Files = ignoring(func(func(transfer.ExitFile) error) error {
		return transfer.Errorf(transfer.KindUsage, "DEST is no directory")
	})
	if failure := b.run(t, c); failure == nil || failure.Kind != transfer.KindUsage || len(b.ran) > 0 {
		t.Errorf("%v were run: %v", b.ran, failure)
	}
}

// The monitor exit gives the same request each time, until the trigger is settled.
func TestTheMonitorExit(t *testing.T) {
	b := newBench(t, map[string]string{"x": `{"action":"proceed","metadata":{"checked":"yes","drop":null}}`}, "monitor=x")
	for n := range 2 {
		q := of(transfer.PreSource, nil).Request
		q.ID, q.Base, q.Items = transfer.ID{1}, "/in", []transfer.RequestItem{{Source: transfer.File("sub/a")}}
		failure, err := b.Trigger(t.Context(), "ORDERS", "ann", q)
		if must(t, err); failure != nil || len(b.ran) != 1 || q.Meta["checked"] != "yes" || len(q.Meta) != 2 {
			t.Fatalf("time %d: %v were run, %v, %v", n, b.ran, failure, q.Meta)
		}
	}
	if in := b.inputs[0]; !strings.Contains(in, `"monitor":"ORDERS"`) || !strings.Contains(in, `{"source":"/in/sub/a"`) || !strings.Contains(in, `"request":{`) {
		t.Errorf("the facts are %s", in)
	}
	must(t, b.RemoveOld(time.Minute)) // the trigger is pending
	delete(b.Executor.cfg.Exits.Programs, transfer.MonitorExit)
	q := of(transfer.PreSource, nil).Request
	q.ID = transfer.ID{1}
	failure, err := b.Trigger(t.Context(), "ORDERS", "ann", q)
	if must(t, err); failure != nil || len(b.ran) != 1 || q.Meta["checked"] != "yes" {
		t.Errorf("without the exit: %v were run, %v, %v", b.ran, failure, q.Meta)
	}
	must(t, b.ledger.Update(func(tx *ledger.Tx) error { return b.ForgetTrigger(tx, q) }))
	if s, err := b.read(call.Key(q, transfer.MonitorExit)); s.Ended || err != nil {
		t.Errorf("it is still on record: %v", err)
	}
	if failure, err := newBench(t, nil).Trigger(t.Context(), "ORDERS", "ann", q); failure != nil || err != nil {
		t.Errorf("without an exit: %v, %v", failure, err)
	}
}

// Old ends of exits are forgotten.
func TestOldExits(t *testing.T) {
	b := newBench(t, map[string]string{"x": `{"action":"proceed"}`}, "source-start=x")
	old, young := of(transfer.PreSource, nil), of(transfer.PreSource, nil)
	old.Request.ID = transfer.NewID(time.Now().Add(-time.Hour))
	b.run(t, old)
	b.run(t, young)
	must(t, b.RemoveOld(time.Minute))
	for c, kept := range map[*transfer.Call]bool{old: false, young: true} {
		if ended, _, err := b.Ended(c); ended != kept || err != nil {
			t.Errorf("it has ended: %v, not %v; %v", ended, kept, err)
		}
	}
}

// An agent does not start with an exit that it cannot run.
func TestExitsThatAreMissing(t *testing.T) {
	set, err := transfer.ParseExits([]string{"monitor=none"}, transfer.DefaultExitTime)
	must(t, err)
	for _, runner := range []call.Runner{nil, &bench{}, &bench{answers: map[string]string{"none": ""}, plain: true}} {
		_, err := New(Config{Agent: "ALPHA", Exits: set, Programs: call.New(call.Config{Runner: runner})})
		if transfer.KindOf(err) != transfer.KindUsage || !strings.Contains(err.Error(), "agent ALPHA does not start with the monitor exit none") {
			t.Errorf("with %v: %v", runner, err)
		}
	}
}
