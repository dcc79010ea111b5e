package call

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"ferry/internal/automation/program"
	"ferry/internal/sys/clock"
	"ferry/internal/sys/failpoint"
	"ferry/internal/transfer"
)

// An Attempt is one run of a program, with a time limit.
type Attempt struct {
	Runner  Runner
	Clock   clock.Clock
	Log     *slog.Logger
	At      transfer.CallPoint
	Program *transfer.Program
	ID      transfer.ID // under which the audit log has it
	Number  int         // from 1
	Env     []string    // beside the variables that every program has

	Input  []byte // the program's standard input
	Answer int    // as in program.Call
	// Said is the result of the last run.
	Said program.Result
}

// Run runs the program and waits for it. ran has no name and no arguments yet. failure is the reason why the program
// has failed; nil: it has not. An error means that the program has not ended by itself: ctx has ended, and not because
// of a cancel, or the program was not started, for a reason that passes.
func (t *Attempt) Run(ctx context.Context) (ran *transfer.Ran, failure *transfer.Error, err error) {
	failpoint.Hit("program.begun")
	log := t.Log.With("program", t.Program.Name, "at", t.At, "attempt", t.Number)
	log.Info("program started")
	start := t.Clock.Now()
	res, err := t.limited(ctx)
	t.Said = res
	failpoint.Hit("program.ran")
	if ctx.Err() != nil && cancelled(ctx) == nil {
		return nil, nil, ctx.Err()
	}
	if transfer.KindOf(err).Waits() {
		return nil, nil, err
	}

	failure = t.verdict(res, err)
	ran = &transfer.Ran{At: t.At, Name: t.Program.Name, Args: t.Program.Args, Attempt: t.Number, Code: res.Code,
		Seconds: t.Clock.Now().Sub(start).Seconds(), Output: res.Output, Cut: res.Cut}
	level := slog.LevelInfo
	if failure != nil {
		level = slog.LevelWarn
		log = log.With("error", failure)
	}
	log.Log(ctx, level, "program ended", "code", res.Code, "seconds", ran.Seconds)
	return ran, failure, nil
}

// errTimeout is the cause that ends a program after its time.
var errTimeout = errors.New("its time is over")

// limited runs the program, for as long as it may take.
func (t *Attempt) limited(ctx context.Context) (program.Result, error) {
	limited, end := context.WithCancelCause(ctx)
	defer end(nil)
	timer := t.Clock.NewTimer(t.Program.Time())
	defer timer.Stop()
	over := make(chan struct{})
	defer func() { <-over }()
	defer end(nil)
	go func() {
		defer close(over)
		select {
		case <-timer.C():
			end(errTimeout)
		case <-limited.Done():
		}
	}()
	return t.Runner.Run(limited, program.Call{Name: t.Program.Name, Args: t.Program.Args, Env: t.Env, Input: t.Input, Answer: t.Answer})
}

// verdict returns the reason why the end of the program is a failure; nil: it is none.
func (t *Attempt) verdict(res program.Result, err error) *transfer.Error {
	p := t.Program
	switch {
	case errors.Is(err, errTimeout):
		err = fmt.Errorf("%s %s has not ended within %s, and was killed", t.At.Noun(), p.Name, p.Time())
	case err == nil && p.Success.Has(res.Code):
		return nil
	case err == nil:
		err = fmt.Errorf("%s %s ended with the exit code %d", t.At.Noun(), p.Name, res.Code)
	}
	e := transfer.AsError(err)
	if e.Kind == transfer.KindInternal {
		e = transfer.Errorf(transfer.KindProgram, "%w", err)
	}
	if e.Hint == "" && e.Kind == transfer.KindProgram {
		e = e.WithHint("`ferry audit show " + t.ID.String() + "` has its output")
	}
	return e
}

// Pause waits; false: ctx has ended.
func Pause(ctx context.Context, c clock.Clock, d time.Duration) bool {
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// cancelled is the cause of the end of ctx where it is that the program was cancelled.
func cancelled(ctx context.Context) *transfer.Error {
	if err := context.Cause(ctx); transfer.KindOf(err) == transfer.KindCancelled && !errors.Is(err, context.Canceled) {
		return transfer.AsError(err)
	}
	return nil
}

// plainName is a metadata entry's that can be the name of a variable.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_]+$`)

// Environment returns the variables of a program: env, and the metadata that can be variables.
func Environment(env []string, meta map[string]string) []string {
	for name, value := range meta {
		if plainName.MatchString(name) {
			env = append(env, "FERRY_META_"+name+"="+value)
		}
	}
	slices.Sort(env)
	return slices.DeleteFunc(env, func(s string) bool { return strings.ContainsRune(s, 0) })
}
