package job

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ferry/internal/automation/job"
	"ferry/internal/cli/follow"
	"ferry/internal/cli/output"
	"ferry/internal/cli/request"
	"ferry/internal/cli/session"
	"ferry/internal/client"
	"ferry/internal/client/view"
	"ferry/internal/node/onebox"
	"ferry/internal/node/process"
	"ferry/internal/transfer"
)

// Flags name further destinations, which make a job of a transfer.
type Flags struct{ alsoTo []string }

// Add adds the flags.
func (j *Flags) Add(fl *pflag.FlagSet) {
	fl.StringArrayVar(&j.alsoTo, "also-to", nil, "a further destination, as DEST; may be repeated. The transfers to all of them are a job, with one result")
}

// Given reports whether the flags ask for a job. It refuses flags that a job does not take.
func (j *Flags) Given(fl *pflag.FlagSet) (bool, error) {
	if len(j.alsoTo) == 0 {
		return false, nil
	}
	for name, why := range map[string]string{"at": "a schedule has one destination", "to-xml": "the XML of IBM MQ MFT has one destination agent"} {
		if fl.Changed(name) {
			return true, transfer.Errorf(transfer.KindUsage, "--also-to and --%s do not go together: %s", name, why).WithHint("leave one of them out")
		}
	}
	return true, nil
}

// Send sends to several destinations.
func Send(cmd *cobra.Command, f *request.Flags, j *Flags, args []string) error {
	q, local, err := f.Request(args, cmd.InOrStdin())
	if err != nil {
		return err
	}
	if request.IsStream(q) {
		return transfer.Errorf(transfer.KindUsage, "standard input is read once, and is sent to one destination").WithHint("put it into a file first")
	}
	p, err := f.Put(q, j.alsoTo)
	if err != nil {
		return err
	}
	if local {
		return sendJobOneBox(cmd, f, p)
	}
	if err := session.NeedNetwork(f.Network); err != nil {
		return err
	}
	net, ctx, done, err := f.Connected(cmd)
	if err != nil {
		return err
	}
	defer done()
	return handJob(ctx, f, cmd, net, p)
}

// sendJobOneBox moves files on this host to several places.
func sendJobOneBox(cmd *cobra.Command, f *request.Flags, p *job.Put) error {
	if f.Detach {
		return transfer.Errorf(transfer.KindUsage, "--detach needs agents that go on running; on this host alone the transfers run in this process")
	}
	log, err := f.Log.Logger(cmd)
	if err != nil {
		return err
	}
	return follow.InBox(cmd, log, func(ctx context.Context, b *onebox.Box) error {
		if err := b.Open(ctx, nil, job.New); err != nil {
			return err
		}
		net := b.Client(p.Request.Originator)
		if f.DryRun {
			return dryRunJob(ctx, cmd, net, p, f.JSON)
		}
		w := watching(ctx, f, cmd, net, p.Request.Source, p.Request.ID)
		_, err := client.Tell[job.Job](ctx, w.at, session.KeepWait, job.CommandPut, p)
		if err == nil {
			err = w.follow()
		}
		if ctx.Err() != nil && process.Lost(ctx) == nil { // no transfer is left running
			err = w.stop()
		}
		if kept := b.Keep(); kept != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "ferry: the audit records of this job could not be kept now; the next run tries again: %v\n", kept)
		}
		return err
	})
}

// dryRunJob shows for each destination the files that a job would send.
func dryRunJob(ctx context.Context, cmd *cobra.Command, net *client.Client, p *job.Put, asJSON bool) error {
	codes := map[int]bool{}
	for _, q := range p.Requests() {
		err := follow.Preview(ctx, cmd, net, q, asJSON)
		var code output.Exit
		if err != nil && !errors.As(err, &code) {
			return err
		}
		codes[int(code)] = true
	}
	switch {
	case len(codes) > 1:
		return output.Exit(transfer.CodePartial)
	case codes[0]:
		return nil
	}
	for code := range codes {
		return output.Exit(code)
	}
	return nil
}

// handJob sends a job to its source agent, and waits for its end unless the flags say otherwise.
func handJob(ctx context.Context, f *request.Flags, cmd *cobra.Command, net *client.Client, p *job.Put) error {
	if err := client.CheckJob(ctx, net, p); err != nil {
		return session.Unsent(ctx, err)
	}
	if f.DryRun {
		return session.Unsent(ctx, dryRunJob(ctx, cmd, net, p, f.JSON))
	}

	w := watching(ctx, f, cmd, net, p.Request.Source, p.Request.ID)
	if f.Detach {
		return w.handover().Detach(ctx, func(ctx context.Context) (transfer.State, error) {
			_, err := w.at.Command(ctx, job.CommandPut, p)
			return transfer.Running, err
		})
	}
	err := w.submit(p)
	if err == nil {
		err = w.follow()
	}
	if follow.SignalEnded(ctx, err) {
		w.view.Clear()
		return w.handover().Interrupted(ctx, err, w.stop)
	}
	return w.handover().Unfinished(err)
}

// handover is the job on its way to its agent.
func (w *jobWatch) handover() *follow.Handover {
	return &follow.Handover{Cmd: w.cmd, Noun: "job", Agent: w.at.Agent, ID: w.id, JSON: w.json, Undo: func(ctx context.Context) error {
		_, err := w.at.Command(ctx, job.CommandCancel, w.named(0))
		return err
	}}
}

// A jobWatch follows a job.
type jobWatch struct {
	cmd   *cobra.Command
	ctx   context.Context
	at    client.AtAgent
	id    transfer.ID
	json  bool
	view  *follow.View
	shown map[int]transfer.State // of the children, by their numbers
}

func watching(ctx context.Context, f *request.Flags, cmd *cobra.Command, net *client.Client, agent transfer.AgentName, id transfer.ID) *jobWatch {
	return &jobWatch{cmd: cmd, ctx: ctx, at: client.AtAgent{Client: net, Agent: agent}, id: id, json: f.JSON, view: follow.NewView(cmd, f.JSON, f.Quiet), shown: map[int]transfer.State{}}
}

// submit sends the job to its agent, for as long as its recovery time-out says; then it cancels the job.
func (w *jobWatch) submit(p *job.Put) error {
	return client.PutJob(w.ctx, w.at, p, func() {
		if !w.view.Quiet {
			fmt.Fprintf(w.cmd.ErrOrStderr(), "ferry: agent %s has not taken the job yet; waiting for it\n", w.at.Agent)
		}
	})
}

func (w *jobWatch) named(after int) job.Named { return job.Named{ID: w.id.String(), After: after} }

// read is the job with all of its children.
func (w *jobWatch) read() (*job.Shown, error) { return client.JobAt(w.ctx, w.at, w.named(0)) }

// follow shows the job until it has ended, or each of its transfers has or is parked.
func (w *jobWatch) follow() error {
	pause := follow.JobLookFirst
	for {
		s, err := w.read()
		switch kind := transfer.KindOf(err); {
		case w.ctx.Err() != nil:
			return context.Cause(w.ctx)
		case kind == transfer.KindTimeout, kind == transfer.KindUnreachable, kind == transfer.KindBusy, kind == transfer.KindNoManager:
			w.view.Notice("agent %s does not answer; waiting for it", w.at.Agent)
			pause = follow.JobLookMost
		case err != nil:
			return err
		default:
			if w.show(s) {
				pause = follow.JobLookFirst
			}
			if over, parked := ended(s); over {
				return w.finish(s, parked)
			}
		}
		select {
		case <-time.After(pause):
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		}
		pause = min(2*pause, follow.JobLookMost)
	}
}

// ended reports whether the wait for a job is over; parked reports that it is because of parked transfers.
func ended(s *job.Shown) (over, parked bool) {
	if !s.Ended.IsZero() {
		return true, false
	}
	for n := range s.Of {
		switch c := &s.Of[n]; {
		case c.State == transfer.Parked:
			parked = true
		case c.Transfer.IsZero(): // the child waits for the others
		case !c.State.Final():
			return false, false
		}
	}
	return parked, parked
}

// show shows the children that have changed.
func (w *jobWatch) show(s *job.Shown) (moved bool) {
	for n := range s.Of {
		c := &s.Of[n]
		if w.shown[c.N] == c.State {
			continue
		}
		moved, w.shown[c.N] = true, c.State
		switch {
		case w.json && !w.view.Quiet:
			output.JSON(w.cmd, view.JobChildOf(s.ID, c))
		case w.json || c.State == transfer.Successful && w.view.Quiet:
		case c.State.Final() && c.State != transfer.Successful: // an error, which -q does not keep back
			fmt.Fprintf(w.cmd.ErrOrStderr(), "ferry: %s: %s%s\n", childAt(c), c.State, output.Because(c.Reason))
		case c.State == transfer.Successful:
			w.view.Notice("%s: %s, %s, %s", childAt(c), c.State, output.Plural(c.Files, "file"), transfer.FormatBytes(c.Bytes))
		case c.Reason != nil:
			w.view.Notice("%s: %s%s", childAt(c), c.State, output.Because(c.Reason))
		}
	}
	return moved
}

// childAt is the destination of a child, in the form of the command line.
func childAt(c *job.Child) string {
	if c.Destination == onebox.Dest {
		return output.Shown(c.Dest)
	}
	return output.ShownAt(c.Destination, c.Dest)
}

// finish writes the last line, and gives the result code.
func (w *jobWatch) finish(s *job.Shown, parked bool) error {
	state, code := s.State, s.Code
	if parked {
		state, code = transfer.Parked, transfer.CodeParked
	}
	stderr := w.cmd.ErrOrStderr()
	if s.Warning != "" {
		fmt.Fprintf(stderr, "ferry: %s\n", output.Printable(s.Warning))
	}
	for n := range s.Of {
		follow.Warn(stderr, s.Of[n].Transfer, &s.Of[n].Counts)
	}
	switch {
	case w.json:
		output.JSON(w.cmd, view.JobSummaryOf(s, state, code))
	case !w.view.Quiet:
		out := w.cmd.OutOrStdout()
		fmt.Fprintln(out, output.ScreenOf(out).Text(jobLineOf(s, state)))
	}
	if code != 0 {
		return output.Exit(code)
	}
	return nil
}

func secondsOf(s *job.Shown) float64 {
	if s.Ended.IsZero() {
		return 0
	}
	return max(0, s.Ended.Sub(s.Made).Seconds())
}

// jobLineOf is the end of a job in a sentence.
func jobLineOf(s *job.Shown, state transfer.State) string {
	line := fmt.Sprintf("%s %s: %d of %s, %s, %s in %.2f s", s.ID, state, s.Counts.Successful, output.Plural(int64(s.Children), "destination"),
		output.Plural(s.Counts.Files, "file"), transfer.FormatBytes(s.Counts.Bytes), secondsOf(s))
	if s.Counts.Failed > 0 {
		line += fmt.Sprintf(", %d failed", s.Counts.Failed)
	}
	if s.Counts.Skipped > 0 {
		line += fmt.Sprintf(", %d skipped", s.Counts.Skipped)
	}
	return line
}

// stop cancels the job, and waits a while for its end.
func (w *jobWatch) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	w.ctx = ctx
	if _, err := client.Tell[job.Job](ctx, w.at, 5*time.Second, job.CommandCancel, w.named(0)); err != nil && transfer.KindOf(err) != transfer.KindEnding {
		return err
	}
	if err := w.follow(); ctx.Err() == nil {
		return err
	}
	fmt.Fprintf(w.cmd.ErrOrStderr(), "ferry: job %s is being cancelled\n", w.id)
	return output.Exit(transfer.CodeCancelled)
}
