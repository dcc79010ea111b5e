package ant

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"ferry/internal/mft/commands"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
)

// A Network carries out the requests of a script. Several goroutines use it. say prints a line about the request.
type Network interface {
	// Start hands a request over to its agent. It returns when the agent has it. A deferred one may wait at the queue
	// manager.
	Start(ctx context.Context, w *Work, say Say) error
	// Await waits for the end of a transfer or a call. The error says how it has failed: it has a result code (CodeOf).
	Await(ctx context.Context, id transfer.ID, say Say) error
	// Cancel cancels a transfer or a call.
	Cancel(ctx context.Context, agent transfer.AgentName, id transfer.ID, say Say) error
	// Ping asks an agent whether it is there. The time is unlimited if limit is negative.
	Ping(ctx context.Context, agent transfer.AgentName, limit time.Duration, say Say) error
}

// Say prints a message.
type Say func(m commands.Message, args ...any)

// A Work is a transfer or a call that a script asks for.
type Work struct {
	ID       transfer.ID
	Request  *transfer.Request   // of a transfer
	Call     *mftxml.ManagedCall // otherwise
	Deferred bool                // the script waits for its end later, or not at all
}

// A Failure is the end of a transfer, a call or a ping that has failed, with its result code.
type Failure struct {
	Code int
	Text string
}

func (f *Failure) Error() string { return f.Text }

// CodeOf returns the result code of an error; 0 for none.
func CodeOf(err error) int {
	var f *Failure
	switch {
	case err == nil:
		return 0
	case errors.As(err, &f):
		return f.Code
	}
	return max(commands.CodeOf(transfer.KindOf(err).Code()), 1)
}

// A Runner runs targets of a script.
type Runner struct {
	Script    *Script
	Network   Network
	Out, Err  io.Writer
	Style     string            // of messages, such as commands.StyleFerry
	Given     map[string]string // properties of the command line
	File      []byte            // a properties file of the command line; nil: none
	Origin    transfer.Originator
	Quiet     bool // no names of targets
	Verbose   bool // also messages of that level
	KeepGoing bool // targets run that do not depend on a failed one

	properties properties
	dir        string
	output     sync.Mutex
	noticed    sync.Map // notices that were printed
}

// A buildError is the failure of a script.
type buildError struct {
	line   int
	status int // exit code
	err    error
}

func (b *buildError) Error() string { return b.err.Error() }

func (b *buildError) Unwrap() error { return b.err }

// failed returns a failure at an element.
func failed(e *element, err error) error {
	if b := (*buildError)(nil); errors.As(err, &b) {
		return b
	}
	return &buildError{line: e.line, status: 1, err: err}
}

// Run runs targets one after the other, each behind those that it depends on. It returns the exit code: 0, the status
// of <fail>, or 1. If ctx ends first, the error is its cause.
func (r *Runner) Run(ctx context.Context, targets []string) (status int, err error) {
	err = r.begin()
	if err == nil {
		err = r.each(ctx, r.Script.before)
	}
	if err == nil {
		err = r.all(ctx, targets)
	}
	if ctx.Err() != nil {
		return 1, context.Cause(ctx)
	}
	if err == nil {
		r.print(r.Out, "\nBUILD SUCCESSFUL\n")
		return 0, nil
	}
	where := r.Script.File
	if b := (*buildError)(nil); errors.As(err, &b) {
		where = fmt.Sprintf("%s:%d", where, b.line)
	}
	r.print(r.Err, "\nBUILD FAILED\n"+where+": "+err.Error()+"\n")
	return statusOf(err), nil
}

// statusOf returns the exit code of a failure.
func statusOf(err error) int {
	if b := (*buildError)(nil); errors.As(err, &b) {
		return b.status
	}
	return 1
}

// all runs targets. With KeepGoing it skips those that depend on a failed one, and returns the first
// failure with an exit code other than 0, if there is one.
func (r *Runner) all(ctx context.Context, names []string) (first error) {
	bad := map[string]bool{}
	for _, name := range names {
		steps, err := r.Script.steps(name)
		if err != nil {
			return err
		}
		for _, t := range steps {
			for _, d := range t.depends {
				bad[t.name] = bad[t.name] || bad[d]
			}
			if bad[t.name] {
				continue
			}
			err := r.target(ctx, t)
			if err == nil {
				continue
			}
			if first != nil {
				r.print(r.Err, labelled(t.name, fmt.Sprintf("another target has failed, too: %s", err)))
			}
			if bad[t.name] = true; first == nil || statusOf(first) == 0 {
				first = err
			}
			if !r.KeepGoing || ctx.Err() != nil {
				return first
			}
		}
	}
	return first
}

// begin sets the properties that a script begins with.
func (r *Runner) begin() error {
	p := &r.properties
	p.all = map[string]value{}
	for _, name := range sorted(r.Given) {
		if err := p.set(name, value{text: r.Given[name], fixed: true}); err != nil {
			return err
		}
	}
	if r.File != nil {
		if err := p.load(r.File, "", true); err != nil {
			return err
		}
	}
	file, err := filepath.Abs(r.Script.File)
	if err != nil {
		return err
	}
	if r.dir, err = filepath.Abs(r.Script.dir()); err != nil {
		return err
	}
	if given, is := p.get("basedir"); is {
		if r.dir, err = filepath.Abs(given.text); err != nil {
			return err
		}
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = here
	}
	for name, text := range map[string]string{"basedir": r.dir, "ant.file": file, "ant.project.name": r.Script.Name, "ant.project.default-target": r.Script.Default,
		"user.name": r.Origin.User, "user.home": home, "user.dir": here, "os.name": osName(), "java.io.tmpdir": os.TempDir(),
		"file.separator": string(filepath.Separator), "path.separator": string(filepath.ListSeparator), "line.separator": lineEnd()} {
		if err := p.set(name, value{text: text}); err != nil {
			return err
		}
	}
	return nil
}

// osName is the name of the system as a Java runtime has it.
func osName() string {
	switch runtime.GOOS {
	case "linux":
		return "Linux"
	case "darwin":
		return "Mac OS X"
	case "windows":
		return "Windows"
	}
	return runtime.GOOS
}

func lineEnd() string {
	if runtime.GOOS == "windows" {
		return "\r\n"
	}
	return "\n"
}

// target prints the name of a target, and runs it if its conditions hold.
func (r *Runner) target(ctx context.Context, t *target) error {
	if !r.Quiet {
		r.print(r.Out, "\n"+t.name+":\n")
	}
	at := &element{name: "target", line: t.line}
	for _, c := range []struct {
		name string
		want bool
	}{{t.needs, true}, {t.avoids, false}} {
		if c.name == "" {
			continue
		}
		holds, err := r.holds(c.name)
		if err != nil {
			return failed(at, err)
		}
		if holds != c.want {
			return nil
		}
	}
	return r.each(ctx, t.tasks)
}

// holds decides about the attribute if or unless: the name of a property that is set, or a text with properties that
// becomes true or false.
func (r *Runner) holds(text string) (bool, error) {
	name, _, err := r.properties.expand(text)
	if err != nil {
		return false, err
	}
	if strings.Contains(text, "${") && isTruth(strings.ToLower(name)) {
		return isTrue(name), nil
	}
	_, is := r.properties.get(name)
	return is, nil
}

// each runs tasks one after the other.
func (r *Runner) each(ctx context.Context, tasks []*element) error {
	for _, e := range tasks {
		if ctx.Err() != nil {
			return failed(e, context.Cause(ctx))
		}
		if err := r.task(ctx, e); err != nil {
			return failed(e, err)
		}
	}
	return nil
}

// task runs one task.
func (r *Runner) task(ctx context.Context, e *element) error {
	v := &values{r: r, e: e, err: new(error)}
	switch e.name {
	case "sequential":
		return r.each(ctx, e.subs)
	case "parallel":
		return r.parallel(ctx, v)
	case "property":
		return r.property(v)
	case "echo":
		return r.echo(v)
	case "fail":
		return r.fail(v)
	case "condition", "available":
		return r.condition(v)
	}
	return r.request(ctx, v)
}

// mostAtOnce is the most tasks of a <parallel> that run at the same time.
const mostAtOnce = 64

// parallel runs tasks at the same time, and waits for all. With failonany the first failure ends the others.
func (r *Runner) parallel(ctx context.Context, v *values) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	early, most := v.truth("failonany"), v.number("threadcount", mostAtOnce, 1, mostAtOnce)
	if *v.err != nil {
		return *v.err
	}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		first error
	)
	slots := make(chan struct{}, most)
	for _, e := range v.e.subs {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			err := r.each(ctx, []*element{e})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				return
			}
			if stopped := ctx.Err() != nil && errors.Is(err, context.Cause(ctx)); first != nil && !stopped {
				r.print(r.Err, labelled("parallel", fmt.Sprintf("another task has failed, too: %s", err)))
			}
			if first == nil || statusOf(first) == 0 {
				first = err
			}
			if early {
				end(errors.New("another task of <parallel> has failed"))
			}
		})
	}
	wg.Wait()
	return first
}

// print writes a text at once, though several goroutines print.
func (r *Runner) print(to io.Writer, text string) {
	r.output.Lock()
	defer r.output.Unlock()
	fmt.Fprint(to, text)
}

// labelled returns a text with the name of a task before each line, as Ant has it.
func labelled(task, text string) string {
	label := fmt.Sprintf("%12s", "["+task+"] ")
	var b strings.Builder
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		b.WriteString(label + strings.TrimSuffix(line, "\r") + "\n")
	}
	return b.String()
}

// say returns the function that prints messages about a task.
func (r *Runner) say(task string) Say {
	return func(m commands.Message, args ...any) {
		to, text := r.Out, m.In(r.Style, args...)
		if id, _, _ := strings.Cut(text, ":"); !strings.HasSuffix(id, "I") { // a warning or an error
			to = r.Err
		}
		r.print(to, labelled(task, text))
	}
}

// notice prints a notice about a task, once in a run.
func (r *Runner) notice(task, text string) {
	if _, before := r.noticed.LoadOrStore(text, true); !before {
		r.say(task)(commands.Notice, text)
	}
}
