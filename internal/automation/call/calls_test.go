package call_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"ferry/internal/audit"
	calls "ferry/internal/automation/call"
	"ferry/internal/automation/program"
	"ferry/internal/ledger"
	"ferry/internal/sys/clock"
	"ferry/internal/transfer"
)

// A runner runs no programs, and returns the results of a test.
type runner struct {
	run  func(ctx context.Context, c program.Call) (program.Result, error)
	seen []program.Call
	at   []time.Time
}

func (r *runner) Executable(string) error { return nil }

func (r *runner) Find(name string) (string, error) {
	if name == "none" {
		return "", transfer.Errorf(transfer.KindProgram, "there is no program %s", name)
	}
	return name, nil
}

func (r *runner) Run(ctx context.Context, c program.Call) (program.Result, error) {
	r.seen, r.at = append(r.seen, c), append(r.at, time.Now())
	return r.run(ctx, c)
}

// ends returns the exit codes one after the other; the last one repeatedly.
func ends(codes ...int) func(context.Context, program.Call) (program.Result, error) {
	return func(context.Context, program.Call) (program.Result, error) {
		code := codes[0]
		codes = codes[min(1, len(codes)-1):]
		return program.Result{Code: code, Output: "out"}, nil
	}
}

func hangs(ctx context.Context, _ program.Call) (program.Result, error) {
	<-ctx.Done()
	return program.Result{Code: -1}, context.Cause(ctx)
}

// A bench is a Keeper with its ledger and its audit records.
type bench struct {
	*calls.Executor
	runs   *runner
	ledger *ledger.Ledger
	notes  []audit.Record
	cfg    calls.Config
}

func newBench(t *testing.T, run func(context.Context, program.Call) (program.Result, error)) *bench {
	t.Helper()
	l, err := ledger.Open(t.TempDir(), ledger.Options{Clock: clock.System, Log: slog.New(slog.DiscardHandler)})
	must(t, err)
	b := &bench{runs: &runner{run: run}, ledger: l}
	b.cfg = calls.Config{Agent: "BETA", Ledger: l, Runner: b.runs, AtOnce: 1, Clock: clock.System, Log: slog.New(slog.DiscardHandler),
		Note: func(_ *ledger.Tx, r audit.Record) error { b.notes = append(b.notes, r); return nil }}
	b.Executor = calls.New(b.cfg)
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// bubble runs a test with a bench in a bubble: time passes when all goroutines wait.
func bubble(t *testing.T, run func(context.Context, program.Call) (program.Result, error), test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, run)
		defer b.ledger.Close()
		test(t, b)
	})
}

func call(at transfer.CallPoint, p transfer.Program) *transfer.Call {
	q := &transfer.Request{ID: transfer.NewID(time.Now()), Source: "ALPHA", Destination: "BETA", Job: "j", Programs: &transfer.Programs{},
		Originator: transfer.Originator{User: "ann", Host: "box\x00A=b"}, Meta: map[string]string{"region": "eu", "a.b": "x", "A=B": "y"}}
	q.Programs.Set(at, &p)
	return &transfer.Call{At: at, Request: q, Principal: "ann", State: transfer.Partial, Counts: transfer.Counts{Files: 3, FilesFailed: 1, Bytes: 9}, Into: "/in"}
}

func TestRunsOnceAndIsOnRecord(t *testing.T) {
	bubble(t, ends(0), func(t *testing.T, b *bench) {
		c := call(transfer.PostDest, transfer.Program{Name: "load", Args: []string{"x"}})
		for range 3 {
			failure, err := b.Run(t.Context(), c)
			if must(t, err); failure != nil {
				t.Fatal(failure)
			}
		}
		if len(b.runs.seen) != 1 {
			t.Errorf("it was run %d times", len(b.runs.seen))
		}
		ended, failure, err := b.Ended(c)
		if must(t, err); !ended || failure != nil {
			t.Errorf("on record is %v, %v", ended, failure)
		}
		if n := b.notes; len(n) != 1 || n[0].Event != audit.Ran || n[0].Role != audit.RoleDestination || n[0].Program.Output != "out" ||
			n[0].Program.Name != "load" || n[0].Program.At != transfer.PostDest || n[0].Program.Attempt != 1 || n[0].Error != nil {
			t.Errorf("the audit has %+v", b.notes)
		}
		want := []string{"FERRY_AGENT=BETA", "FERRY_ATTEMPT=1", "FERRY_BYTES=9", "FERRY_CALL=post-destination", "FERRY_DESTINATION=/in", "FERRY_DESTINATION_AGENT=BETA",
			"FERRY_FILES=3", "FERRY_FILES_FAILED=1", "FERRY_JOB=j", "FERRY_META_region=eu", "FERRY_SOURCE_AGENT=ALPHA", "FERRY_STATE=partial", "FERRY_TRANSFER_ID=" + c.Request.ID.String()}
		if !slices.Equal(b.runs.seen[0].Env, want) {
			t.Errorf("it was told %q", b.runs.seen[0].Env)
		}
	})
}

// Variables in arguments get the transfer's values, once; the record has the expanded arguments.
func TestArguments(t *testing.T) {
	bubble(t, ends(1, 0), func(t *testing.T, b *bench) {
		c := call(transfer.PostDest, transfer.Program{Name: "load", Retries: 1, Args: []string{"${State} ${Files}", "${Meta{region}}", "${Destination}", "$${State}", "${Attempt}"}})
		failure, err := b.Run(t.Context(), c)
		if must(t, err); failure != nil || len(b.runs.seen) != 2 {
			t.Fatalf("after %d runs: %v", len(b.runs.seen), failure)
		}
		want := []string{"partial 3", "eu", "/in", "${State}", "2"}
		if !slices.Equal(b.runs.seen[1].Args, want) || !slices.Equal(b.notes[1].Program.Args, want) || c.Program().Args[0] != "${State} ${Files}" {
			t.Errorf("it was run with %q, and on record is %q", b.runs.seen[1].Args, b.notes[1].Program.Args)
		}
	})
	bubble(t, ends(0), func(t *testing.T, b *bench) {
		failure, err := b.Run(t.Context(), call(transfer.PreDest, transfer.Program{Name: "load", Args: []string{"${State}"}}))
		if must(t, err); failure == nil || failure.Kind != transfer.KindUsage || len(b.runs.seen) != 0 || len(b.notes) != 1 {
			t.Errorf("with a variable that it does not have: %v, %d runs", failure, len(b.runs.seen))
		}
	})
}

func TestTriesAgain(t *testing.T) {
	bubble(t, ends(1, 4, 0), func(t *testing.T, b *bench) {
		p := transfer.Program{Name: "load", Retries: 2, Pause: transfer.Duration(time.Minute)}
		failure, err := b.Run(t.Context(), call(transfer.PreSource, p))
		if must(t, err); failure != nil || len(b.runs.seen) != 3 || b.runs.at[2].Sub(b.runs.at[0]) != 2*time.Minute {
			t.Errorf("after %d runs at %v: %v", len(b.runs.seen), b.runs.at, failure)
		}
		if len(b.notes) != 3 || b.notes[0].Error == nil || b.notes[2].Error != nil || b.notes[2].Program.Attempt != 3 || b.notes[1].Program.Code != 4 {
			t.Errorf("the audit has %+v", b.notes)
		}
	})
	bubble(t, ends(1, 4), func(t *testing.T, b *bench) {
		failure, err := b.Run(t.Context(), call(transfer.PreSource, transfer.Program{Name: "load", Retries: 2, Success: "0,7"}))
		if must(t, err); failure == nil || failure.Kind != transfer.KindProgram || len(b.runs.seen) != 3 || !strings.Contains(failure.Text, "exit code 4") {
			t.Errorf("after %d runs: %v", len(b.runs.seen), failure)
		}
	})
	bubble(t, ends(7), func(t *testing.T, b *bench) {
		failure, err := b.Run(t.Context(), call(transfer.PreSource, transfer.Program{Name: "load", Success: "1,5-9"}))
		if must(t, err); failure != nil {
			t.Errorf("a code that is no failure: %v", failure)
		}
	})
	bubble(t, ends(0), func(t *testing.T, b *bench) {
		failure, err := b.Run(t.Context(), call(transfer.PreSource, transfer.Program{Name: "load", Success: "1"}))
		if must(t, err); failure == nil {
			t.Error("0 is not among the codes that are no failure")
		}
	})
}

func TestHasLimitedTime(t *testing.T) {
	bubble(t, hangs, func(t *testing.T, b *bench) {
		start := time.Now()
		failure, err := b.Run(t.Context(), call(transfer.PreDest, transfer.Program{Name: "load"}))
		if must(t, err); failure == nil || failure.Kind != transfer.KindProgram || !strings.Contains(failure.Text, "has not ended within 10m0s") || time.Since(start) != transfer.DefaultProgramTime {
			t.Errorf("after %v: %v", time.Since(start), failure)
		}
	})
}

// An agent that stops puts no end of a program on record, and its next run has it run again. A cancelled transfer has
// its program's end on record.
func TestIsStopped(t *testing.T) {
	for _, at := range []transfer.CallPoint{transfer.PreSource, transfer.PreDest} {
		bubble(t, hangs, func(t *testing.T, b *bench) {
			c := call(at, transfer.Program{Name: "load", Retries: 5})
			ctx, stop := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { stop(nil) })
			failure, err := b.Run(ctx, c)
			if !errors.Is(err, context.Canceled) || failure != nil || len(b.notes) > 0 {
				t.Errorf("after a stop: %v, %v, %v", failure, err, b.notes)
			}
			if ended, _, _ := b.Ended(c); ended {
				t.Error("a stopped program has its end on record")
			}
			again := calls.New(b.cfg)
			ctx, cancel := context.WithCancelCause(t.Context())
			time.AfterFunc(time.Second, func() { cancel(transfer.Errorf(transfer.KindCancelled, "the transfer was cancelled")) })
			failure, err = again.Run(ctx, c)
			if must(t, err); failure == nil || failure.Kind != transfer.KindCancelled || len(b.runs.seen) != 2 || len(b.notes) != 1 || b.notes[0].Program.Attempt != 1 {
				t.Errorf("after a cancel: %v, %+v", failure, b.notes)
			}
			if ended, failure, _ := b.Ended(c); !ended || failure.Kind != transfer.KindCancelled {
				t.Error("a cancelled program has no end on record")
			}
		})
	}
}

func TestWaitsForItsTurn(t *testing.T) {
	bubble(t, hangs, func(t *testing.T, b *bench) {
		first, second := call(transfer.PreDest, transfer.Program{Name: "load", Timeout: transfer.Duration(time.Minute)}), call(transfer.PostDest, transfer.Program{Name: "load"})
		second.Request.ID[15]++
		go b.Run(t.Context(), first)
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(transfer.Errorf(transfer.KindCancelled, "the transfer was cancelled")) })
		failure, err := b.Run(ctx, second)
		if must(t, err); failure == nil || failure.Kind != transfer.KindCancelled || len(b.runs.seen) != 1 {
			t.Errorf("%v, after %d runs", failure, len(b.runs.seen))
		}
		b.runs.run = ends(0)
		third := call(transfer.PostDest, transfer.Program{Name: "load"})
		third.Request.ID[15] += 2
		if failure, err = b.Run(t.Context(), third); failure != nil || err != nil {
			t.Errorf("after the first one: %v, %v", failure, err)
		}
	})
}

func TestRefuses(t *testing.T) {
	bubble(t, ends(0), func(t *testing.T, b *bench) {
		c := call(transfer.PreSource, transfer.Program{Name: "load"})
		if err := b.Check(c.Request, "ann", true); err != nil {
			t.Errorf("the other side's program: %v", err)
		}
		for name, change := range map[string]func(*calls.Config){
			"denied": func(cfg *calls.Config) {
				cfg.May = func(string) error { return transfer.Errorf(transfer.KindDenied, "no") }
			},
			"program": func(cfg *calls.Config) { cfg.Runner = nil },
		} {
			cfg := b.cfg
			change(&cfg)
			c.Request.ID[15]++
			k := calls.New(cfg)
			err := k.Check(c.Request, "ann", false)
			failure, rerr := k.Run(t.Context(), c)
			if must(t, rerr); transfer.KindOf(err).String() != name || failure == nil || failure.Kind.String() != name || len(b.runs.seen) > 0 {
				t.Errorf("%s: %v, %v", name, err, failure)
			}
		}
		c.Request.Programs.PreSource.Name = "none"
		if err := b.Check(c.Request, "ann", false); transfer.KindOf(err) != transfer.KindProgram {
			t.Errorf("no such program: %v", err)
		}
		waits := b.cfg
		waits.May = func(string) error { return transfer.Errorf(transfer.KindBusy, "the rules are old") }
		c.Request.ID[15]++
		if _, err := calls.New(waits).Run(t.Context(), c); transfer.KindOf(err) != transfer.KindBusy {
			t.Errorf("while the rules are old: %v", err)
		}
	})
	bubble(t, func(context.Context, program.Call) (program.Result, error) {
		return program.Result{Code: -1}, syscall.EAGAIN
	}, func(t *testing.T, b *bench) {
		c := call(transfer.PreSource, transfer.Program{Name: "load"})
		if _, err := b.Run(t.Context(), c); !transfer.KindOf(err).Waits() || len(b.notes) > 0 {
			t.Errorf("a host that is short of something: %v, %v", err, b.notes)
		}
	})
}

func TestForgets(t *testing.T) {
	bubble(t, ends(0), func(t *testing.T, b *bench) {
		c := call(transfer.PostSource, transfer.Program{Name: "load"})
		c.Request.Programs.Set(transfer.PostDest, c.Program())
		d := *c
		d.At = transfer.PostDest
		for _, c := range []*transfer.Call{c, &d} {
			_, err := b.Run(t.Context(), c)
			must(t, err)
		}
		ended := func(c *transfer.Call) bool {
			is, _, err := b.Ended(c)
			must(t, err)
			return is
		}
		must(t, b.ledger.Update(func(tx *ledger.Tx) error { return b.Forget(tx, c.Request, true) }))
		if !ended(c) || ended(&d) {
			t.Error("Forget at the destination has removed the source's program, or has left its own")
		}
		time.Sleep(24 * time.Hour) //house:sleep because it runs in a bubble
		must(t, b.RemoveOld(25*time.Hour))
		if !ended(c) {
			t.Error("a young program was forgotten")
		}
		must(t, b.RemoveOld(23*time.Hour))
		if ended(c) {
			t.Error("an old program was not forgotten")
		}
	})
}
