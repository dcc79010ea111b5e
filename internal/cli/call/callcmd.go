package call

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/automation/managedcall"
	"ferry/internal/cli/follow"
	"ferry/internal/cli/output"
	"ferry/internal/cli/request"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client"
	"ferry/internal/client/draft"
	"ferry/internal/client/view"
	"ferry/internal/transfer"
)

// New makes the command `ferry call`.
func New() *cobra.Command {
	c := &cobra.Command{Use: "call", Short: "Have an agent run a program; look at calls, follow or cancel them", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newCallRun(), newCallLs(), newCallShow(), newCallWatch(), newCallCancel())
	return c
}

func newCallRun() *cobra.Command {
	q, p, f := &session.Query{Timeout: 5 * time.Second}, &draft.Call{}, &request.Flags{}
	c := &cobra.Command{
		Use:   "run [flags] AGENT PROGRAM [ARG...]",
		Short: "Have an agent run one of its programs, and wait for its end",
		Long: `Has an agent run a program of its directory of programs (--programs of ferry agent
run), outside any transfer. Each ARG is one argument, taken as it is: there is no shell.
Arguments that begin with a dash follow --. It takes the authority program at the agent.

The program is started once. If the agent ends while the program runs, the program's
outcome is unknown, and the call fails and says so. With --retries the program is started
again then, as after a failure. The last 4 KiB of its output are printed and are in the
audit log. Ctrl-C leaves it running.

Result codes: 0, 40 where it has failed, 41 cancelled, 53 not authorised, 49 for an agent
that is unknown; with --detach 3 where the queue manager has stored the call and the agent
has not taken it yet; 75 where it is not certain that the queue manager has stored it.`,
		Example: `  ferry call run BETA load.sh orders 2026-11-01
  ferry call run --retries 2 --pause 30s --success-codes 0,4 BETA db/refresh -- -v`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return transfer.Errorf(transfer.KindUsage, "`%s` takes an agent, a program and its arguments; it got %d", cmd.CommandPath(), len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			put, err := p.Put(args[0], args[1], args[2:])
			if err != nil {
				return err
			}
			return Call(q, cmd, put, f.Detach, f.Quiet)
		},
	}
	fl := c.Flags()
	session.AddNetwork(fl, &q.Network)
	fl.StringVar(&p.Timeout, "timeout", "10m", "how long one run of the program may take; then it is killed")
	fl.IntVar(&p.Retries, "retries", 0, "how often it is started again when it has failed")
	fl.StringVar(&p.Pause, "pause", "0s", "how long to wait before each of these")
	fl.StringVar(&p.Success, "success-codes", "0", "exit codes that are no failure, as 0,4-8")
	fl.StringVar(&p.Job, "job", "", "a name for people, kept on record")
	fl.StringArrayVar(&p.Meta, "meta", nil, "K=V, kept on record; may be repeated")
	fl.BoolVar(&f.Detach, "detach", false, "print the ID and do not wait")
	fl.BoolVar(&q.JSON, "json", false, "one JSON object a line")
	fl.BoolVarP(&f.Quiet, "quiet", "q", false, "no notices and no summary; the program's output is printed")
	return c
}

// Call sends a call to its agent, and waits for its end unless leave is set.
func Call(q *session.Query, cmd *cobra.Command, p *managedcall.Put, leave, quiet bool) error {
	net, ctx, done, err := q.Open(cmd)
	if err != nil {
		return err
	}
	defer done()
	at := client.AtAgent{Client: net, Agent: p.Agent}
	if err := at.Known(ctx); err != nil {
		return session.Unsent(ctx, err)
	}
	w := &callWatch{ctx: ctx, cmd: cmd, at: at, id: p.ID, json: q.JSON, quiet: quiet}
	if leave {
		return w.handover().Detach(ctx, func(ctx context.Context) (transfer.State, error) {
			_, err := at.Command(ctx, managedcall.CommandRun, p)
			return transfer.Accepted, err
		})
	}
	slow := time.AfterFunc(3*time.Second, func() { w.notice("agent %s has not taken the call yet; waiting for it", p.Agent) })
	_, err = at.Command(ctx, managedcall.CommandRun, p)
	slow.Stop()
	if err == nil {
		err = w.follow()
	}
	return w.ended(err)
}

// A callWatch follows a call.
type callWatch struct {
	ctx         context.Context
	cmd         *cobra.Command
	at          client.AtAgent
	id          transfer.ID
	json, quiet bool
	said        string
}

// notice prints a message to stderr, once.
func (w *callWatch) notice(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !w.quiet && s != w.said {
		w.said = s
		fmt.Fprintf(w.cmd.ErrOrStderr(), "ferry: %s\n", output.Printable(s))
	}
}

// ended is the end of the wait: after a signal the call continues without this command.
func (w *callWatch) ended(err error) error {
	if follow.SignalEnded(w.ctx, err) {
		return w.handover().Interrupted(w.ctx, err, w.stop)
	}
	return w.handover().Unfinished(err)
}

// handover is the call on its way to its agent.
func (w *callWatch) handover() *follow.Handover {
	return &follow.Handover{Cmd: w.cmd, Noun: "call", Agent: w.at.Agent, ID: w.id, JSON: w.json, Undo: func(ctx context.Context) error {
		_, err := w.at.Command(ctx, managedcall.CommandCancel, managedcall.Named{ID: w.id.String()})
		return err
	}}
}

// follow waits until the call has ended, and shows how.
func (w *callWatch) follow() error {
	c, err := Await(w.ctx, w.at, w.id, w.notice)
	if err != nil {
		return err
	}
	return w.finish(c)
}

// Await waits until a call has ended. notice is called with the reason of a delay.
func Await(ctx context.Context, at client.AtAgent, id transfer.ID, notice func(format string, args ...any)) (*managedcall.Call, error) {
	pause := follow.JobLookFirst
	for {
		c, err := client.Ask[managedcall.Call](ctx, at, managedcall.AskShow, managedcall.Named{ID: id.String()})
		switch kind := transfer.KindOf(err); {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case kind == transfer.KindTimeout, kind == transfer.KindUnreachable, kind == transfer.KindBusy, kind == transfer.KindNoManager:
			notice("agent %s does not answer; waiting for it", at.Agent)
			pause = follow.JobLookMost
		case err != nil:
			return nil, err
		case c.State.Final():
			return c, nil
		case c.State == transfer.Queued && c.Reason != nil:
			notice("it is run again: %s", c.Reason)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		pause = min(2*pause, follow.JobLookMost)
	}
}

// finish shows the program's output and result, and returns the result code as an error.
func (w *callWatch) finish(c *managedcall.Call) error {
	switch {
	case w.json:
		output.JSON(w.cmd, view.CallOf(view.TypeSummary, c))
	default:
		w.output(c)
		if c.State != transfer.Successful {
			fmt.Fprintf(w.cmd.ErrOrStderr(), "ferry: %s%s\n", c.State, output.Because(c.Reason))
		} else {
			w.notice("%s", endOfCall(c))
		}
	}
	if c.Code != 0 {
		return output.Exit(c.Code)
	}
	return nil
}

// output prints the output of the program. A terminal gets only printable characters.
func (w *callWatch) output(c *managedcall.Call) {
	if c.Ran == nil || c.Ran.Output == "" {
		return
	}
	if c.Ran.Cut > 0 {
		w.notice("%d bytes of output are left out before this", c.Ran.Cut)
	}
	out := w.cmd.OutOrStdout()
	text := c.Ran.Output
	if s := output.ScreenOf(out); s.Width > 0 {
		lines := strings.Split(text, "\n")
		for n := range lines {
			lines[n] = s.Text(lines[n])
		}
		text = strings.Join(lines, "\n")
	}
	if !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	fmt.Fprint(out, text)
}

// endOfCall describes the end of a call in a few words.
func endOfCall(c *managedcall.Call) string {
	if c.Ran == nil || c.Attempt == 0 {
		return fmt.Sprintf("%s %s", c.ID, c.State)
	}
	text := fmt.Sprintf("%s %s: exit code %d in %.2f s", c.ID, c.State, c.Ran.Code, c.Ran.Seconds)
	if c.Attempt > 1 {
		text += fmt.Sprintf(", run %d", c.Attempt)
	}
	return text
}

// stop cancels the call, and waits a while for its end.
func (w *callWatch) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	w.ctx = ctx
	if _, err := client.Tell[managedcall.Call](ctx, w.at, 5*time.Second, managedcall.CommandCancel, managedcall.Named{ID: w.id.String()}); err != nil && transfer.KindOf(err) != transfer.KindEnding {
		return err
	}
	if err := w.follow(); ctx.Err() == nil {
		return err
	}
	fmt.Fprintf(w.cmd.ErrOrStderr(), "ferry: call %s is being cancelled\n", w.id)
	return output.Exit(transfer.CodeCancelled)
}

func newCallLs() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List your calls, and with the authority operate those of others, oldest first", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			headings := []string{"ID", "STATE", "AGENT", "PROGRAM", "EXIT CODE", "MADE", "JOB", "OWNER"}
			return session.ListKept(q, cmd, headings, managedcall.AskList, managedcall.Page{}, func(_ client.AtAgent, l *managedcall.Listed, row output.Row) (next any) {
				for n := range l.Calls {
					c := &l.Calls[n]
					row(view.CallOf(view.TypeCall, c), c.ID.String(), string(c.State), string(c.Agent), output.Printable(c.Program.Name), exitOf(c), output.Stamp(c.Made), output.Printable(c.Job), output.Person(c.Principal))
					if l.More {
						next = managedcall.Page{After: c.ID}
					}
				}
				return next
			}, nil)
		}}
	q.Add(c)
	output.AddForms(c)
	return c
}

func exitOf(c *managedcall.Call) string {
	if c.Ran == nil {
		return "-"
	}
	return fmt.Sprint(c.Ran.Code)
}

// withCall returns the function of a command that finds the call of its argument and calls fn with it.
func withCall(q *session.KeptQuery, fn func(k *session.Kept, at client.AtAgent, c *managedcall.Call) error) func(cmd *cobra.Command, args []string) error {
	return func(cmd *cobra.Command, args []string) error {
		return session.WithKept(q, cmd, managedcall.AskShow, "call", args[0], managedcall.Named{ID: args[0]}, fn)
	}
}

func newCallShow() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "show ID", Short: "Show a call, with its program's result code and output", Args: usage.OneID("call"),
		RunE: withCall(q, func(k *session.Kept, at client.AtAgent, c *managedcall.Call) error {
			if q.JSON {
				output.JSON(k.Cmd, view.CallOf(view.TypeCall, c))
				return nil
			}
			p := &c.Program
			rows := [][]string{{"call", c.ID.String()}, {"state", string(c.State)}, {"agent", string(c.Agent)}, {"program", output.Printable(p.Name)}}
			for _, a := range p.Args {
				rows = append(rows, []string{"argument", output.Printable(a)})
			}
			rows = append(rows, [][]string{{"time-out", p.Time().String()}, {"retries", fmt.Sprint(p.Retries)}, {"success codes", output.Or(string(p.Success), "0")},
				{"owner", output.Person(c.Principal)}, {"originator", output.Printable(c.Originator.String())}, {"made", output.Stamp(c.Made)}, {"ended", output.Stamp(c.Ended)}, {"runs", fmt.Sprint(c.Attempt)}}...)
			if c.Cancelled != "" {
				rows = append(rows, []string{"cancelled by", output.Person(c.Cancelled)})
			}
			if c.Reason != nil {
				rows = append(rows, []string{"reason", output.Printable(c.Reason.Error())})
			}
			if c.State.Final() {
				rows = append(rows, []string{"result code", fmt.Sprint(c.Code)})
			}
			if c.Ran != nil {
				rows = append(rows, []string{"exit code", fmt.Sprint(c.Ran.Code)}, []string{"seconds", fmt.Sprintf("%.2f", c.Ran.Seconds)})
			}
			output.Table(k.Cmd.OutOrStdout(), append(rows, []string{"job name", output.Printable(output.Or(c.Job, "-"))}))
			w := &callWatch{cmd: k.Cmd}
			w.output(c)
			return nil
		})}
	q.Add(c)
	return c
}

func newCallWatch() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "watch ID", Short: "Wait for the end of a call; the result code is the call's", Args: usage.OneID("call"),
		RunE: withCall(q, func(k *session.Kept, at client.AtAgent, c *managedcall.Call) error {
			w := &callWatch{ctx: k.Ctx, cmd: k.Cmd, at: at, id: c.ID, json: q.JSON}
			return w.ended(w.follow())
		})}
	q.Add(c)
	return c
}

func newCallCancel() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "cancel ID", Short: "Cancel a call: its program is killed, or never started", Args: usage.OneID("call"),
		RunE: withCall(q, func(k *session.Kept, at client.AtAgent, c *managedcall.Call) error {
			c, err := client.Tell[managedcall.Call](k.Ctx, at, q.Timeout, managedcall.CommandCancel, managedcall.Named{ID: c.ID.String()})
			if err != nil {
				return err
			}
			state := c.State
			if !state.Final() {
				state = transfer.Cancelling
			}
			output.Result(k.Cmd, q.JSON, view.CallOf(view.TypeCancel, c), "%s %s\n", c.ID, state)
			return nil
		})}
	q.Add(c)
	return c
}
