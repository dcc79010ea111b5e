package mft

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"ferry/internal/automation/monitor"
	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	clitemplate "ferry/internal/cli/template"
	clitransfer "ferry/internal/cli/transfer"
	"ferry/internal/cli/usage"
	"ferry/internal/client"
	"ferry/internal/mft/commands"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/node/config"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// fteAcknowledge is for how long an agent may take to confirm a request, and to answer. The setting timeout changes it.
const fteAcknowledge = 5 * time.Second

// AsFTE is the command line of ferry where it is called by a name of MQ MFT's.
func AsFTE(program string, args []string) []string {
	if c, ok := commands.Find(program); ok {
		return append([]string{"fte", c.Name}, args...)
	}
	return args
}

// NewFTE makes the command that runs the links of install-fte. run runs another command line of Ferry.
func NewFTE(run commandLine) *cobra.Command {
	q, style := new(session.Query), ""
	c := &cobra.Command{Use: "fte COMMAND [ARG...]", Short: "A command of IBM MQ MFT, as the links of install-fte call it", Hidden: true, DisableFlagParsing: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return transfer.Errorf(transfer.KindUsage, "`ferry fte` takes a command of MQ MFT, as fteListAgents")
			}
			kind, ok := commands.Find(args[0])
			if !ok {
				return transfer.Errorf(transfer.KindUsage, "%q is no command of MQ MFT that Ferry has", args[0]).WithHint("`ferry install-fte DIR` makes a link for each that it has")
			}
			return runFTE(&fteRun{cmd: cmd, q: q, run: run, style: style}, kind, args[1:])
		}}
	session.AddNetwork(c.Flags(), &q.Network)
	c.Flags().DurationVar(&q.Timeout, "timeout", fteAcknowledge, "how long to wait for an answer")
	c.Flags().StringVar(&style, "fte-messages", commands.StyleFerry, "identifiers of messages: ferry, or bfg as scripts for MQ MFT look for them")
	return c
}

// An fteRun is one run of a command of MQ MFT.
type fteRun struct {
	cmd *cobra.Command
	q   *session.Query
	run commandLine
	*commands.Call

	style string // of messages
}

// A commandLine runs a command line of Ferry and returns its exit code.
type commandLine = func(args []string, stdout, stderr io.Writer) int

// fteCommands returns the functions of the commands by name.
func fteCommands() map[string]func(*fteRun) error {
	all := map[string]func(*fteRun) error{
		"fteCreateTransfer":   (*fteRun).create,
		"fteCancelTransfer":   (*fteRun).cancel,
		"fteListAgents":       (*fteRun).list,
		"fteShowAgentDetails": (*fteRun).details,
		"ftePingAgent":        (*fteRun).ping,
		"fteDisplayVersion":   (*fteRun).version,
		"fteCreateAgent":      (*fteRun).define,
		"fteStartAgent":       (*fteRun).start,
		"fteStopAgent":        (*fteRun).stop,

		"fteCreateMonitor":       (*fteRun).createMonitor,
		"fteListMonitors":        (*fteRun).listMonitors,
		"fteDeleteMonitor":       ofMonitor(monitor.CommandRemove),
		"fteStartMonitor":        ofMonitor(monitor.CommandResume),
		"fteStopMonitor":         ofMonitor(monitor.CommandPause),
		"fteClearMonitorHistory": ofMonitor(monitor.CommandClear),

		"fteCreateTemplate":          (*fteRun).createTemplate,
		"fteListTemplates":           (*fteRun).listTemplates,
		"fteDeleteTemplates":         (*fteRun).deleteTemplates,
		"fteListScheduledTransfers":  (*fteRun).listSchedules,
		"fteDeleteScheduledTransfer": (*fteRun).deleteSchedule,

		"fteAnt": runAnt,
	}
	for _, c := range commands.Commands() {
		if c.Needless != "" {
			all[c.Name] = (*fteRun).needless
		}
	}
	return all
}

// needless says why Ferry needs nothing of a command.
func (r *fteRun) needless() error {
	r.say(commands.Needless, r.Name, r.Command.Needless)
	return nil
}

func runFTE(r *fteRun, kind *commands.Command, args []string) error {
	call, err := kind.Read(args)
	if err == nil {
		err = commands.CheckStyle(r.style)
	}
	if err == nil && call.Has("h") {
		fmt.Fprint(r.cmd.OutOrStdout(), kind.Help())
		return nil
	}
	if err == nil {
		err = call.Lacks()
	}
	if err == nil {
		r.Call = call
		fmt.Fprint(r.cmd.OutOrStdout(), commands.Head(r.style, output.Version))
		for _, n := range call.Notices() {
			r.warn(commands.Notice, n)
		}
		err = fteCommands()[kind.Name](r)
	}

	var code output.Exit
	if err == nil || errors.As(err, &code) {
		return err
	}
	fmt.Fprint(r.cmd.ErrOrStderr(), commands.Failed.With(output.Printable(err.Error())))
	return output.Exit(kind.Code(err))
}

func (r *fteRun) say(m commands.Message, args ...any) {
	fmt.Fprint(r.cmd.OutOrStdout(), m.In(r.style, args...))
}

func (r *fteRun) warn(m commands.Message, args ...any) {
	fmt.Fprint(r.cmd.ErrOrStderr(), output.Printable(strings.TrimSuffix(m.In(r.style, args...), "\n"))+"\n")
}

func (r *fteRun) create() error {
	wait, err := r.Wait()
	if err != nil {
		return err
	}
	d, err := r.asked()
	if err != nil {
		return err
	}
	if file := r.Get("gt"); file != "" {
		return r.write(d, file)
	}
	if d.Transfer.Schedule != nil {
		return r.schedule(d)
	}
	q, err := d.Request(cmp.Or(d.ID, transfer.NewID(time.Now())))
	if err != nil {
		return err
	}
	return r.submit(q, wait)
}

// asked is the document that the options of a transfer ask for.
func (r *fteRun) asked() (*mftxml.Document, error) {
	definition, err := r.document("td")
	if err != nil {
		return nil, err
	}
	d, err := r.Transfer(definition)
	if err != nil {
		return nil, err
	}
	d.Transfer.Originator = client.Me()
	return d, clitemplate.NameZone(d.Transfer.Schedule)
}

// write puts the document into a file in place of sending it.
func (r *fteRun) write(d *mftxml.Document, file string) error {
	text, err := d.XML()
	if err == nil {
		_, err = mftxml.Parse(text)
	}
	if err != nil {
		return err
	}
	return r.writeText(text, file)
}

// submit submits a request. With -w it waits for the end of the transfer, for a number of seconds where wait is not
// negative.
func (r *fteRun) submit(q *transfer.Request, wait int) error {
	net, ctx, done, err := r.q.Open(r.cmd)
	if err != nil {
		return err
	}
	defer done()
	if err := net.Check(ctx, q); err != nil {
		return session.Unsent(ctx, err)
	}

	limit := time.Duration(wait) * time.Second
	if !r.Has("w") {
		limit = r.q.Timeout
	}
	within, cancel := ctx, context.CancelFunc(func() {})
	if limit >= 0 {
		within, cancel = context.WithTimeout(ctx, limit)
	}
	defer cancel()

	p, err := net.SubmitInTime(within, q, func(err error) { r.warn(commands.Notice, err) })
	late := within.Err() != nil && ctx.Err() == nil
	if err != nil && client.HandoverOf(err) != client.Stored {
		return err
	}
	r.say(commands.Issued, mftxml.FormatID(q.ID))
	switch {
	case late && r.Has("w"):
		r.warn(commands.TimedOut, mftxml.FormatID(q.ID))
		return output.Exit(transfer.CodeTimeout)
	case late:
		r.say(commands.Waiting, q.Source)
		return output.Exit(transfer.CodeQueued)
	case err != nil:
		sig, _ := session.Signalled(ctx)
		r.warn(commands.Interrupted, mftxml.FormatID(q.ID))
		return output.Exit(sig.Code())
	}
	r.say(commands.Taken, q.Source)
	if !r.Has("w") {
		return nil
	}

	if p == nil || !p.State.Final() {
		p, err = net.Watch(within, client.Of(q), nil, nil)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		sig, _ := session.Signalled(ctx)
		r.warn(commands.Interrupted, mftxml.FormatID(q.ID))
		return output.Exit(sig.Code())
	case err != nil && within.Err() != nil:
		r.warn(commands.TimedOut, mftxml.FormatID(q.ID))
		return output.Exit(transfer.CodeTimeout)
	case err != nil:
		return err
	}
	return r.ended(p)
}

// ended prints the end of a transfer; the result is its code.
func (r *fteRun) ended(p *transfer.Progress) error {
	if p.State == transfer.Successful {
		r.say(commands.Ended, mftxml.FormatID(p.ID), p.State, p.Files, p.Bytes)
		return nil
	}
	r.warn(commands.EndedIn(r.style, p.State), mftxml.FormatID(p.ID), p.State, p.Files, p.FilesFailed, reasonOf(p))
	return output.Exit(codeOfEnd(p))
}

// reasonOf returns the reason why a transfer has not ended well: that of its first file, if one has failed.
func reasonOf(p *transfer.Progress) string {
	switch {
	case len(p.Failures) > 0 && p.Failures[0].Err != nil:
		return p.Failures[0].Err.Error()
	case p.Reason != nil:
		return p.Reason.Error()
	}
	return ""
}

// codeOfEnd returns the exit code for a transfer that has not ended well.
func codeOfEnd(p *transfer.Progress) int {
	if p.State == transfer.Parked {
		return transfer.CodeParked
	}
	return commands.CodeOf(p.Code)
}

func (r *fteRun) cancel() error {
	id, err := mftxml.ParseID(r.Args[0])
	if err != nil {
		return transfer.Errorf(transfer.KindNotFound, "%w", err)
	}
	net, ctx, done, err := r.q.Open(r.cmd)
	if err != nil {
		return err
	}
	defer done()
	ctx, end := context.WithTimeout(ctx, cancelTime)
	defer end()

	source, err := r.source(ctx, net, id)
	if err != nil {
		return err
	}
	p, err := net.Cancel(ctx, client.Transfer{Source: source, ID: id})
	switch {
	case transfer.KindOf(err) == transfer.KindTimeout:
		r.warn(commands.Failed, err)
		return output.Exit(codeCancelTimeout)
	case err != nil:
		return err
	}
	state := p.State
	if !state.Final() {
		state = transfer.Cancelling
	}
	r.say(commands.Cancelled, mftxml.FormatID(id), state)
	return nil
}

// source returns the source agent of a transfer. -a may name either of its agents. Where coordination does not know the
// transfer, or does not answer, -a is the source.
func (r *fteRun) source(ctx context.Context, net *client.Client, id transfer.ID) (transfer.AgentName, error) {
	named := r.Get("a")
	if named == "" {
		of, err := clitransfer.Target(ctx, net, id.String(), "")
		return of.Source, err
	}
	a, err := r.Agent(named)
	if err != nil {
		return "", err
	}
	p, err := net.Transfer(ctx, id.String())
	switch k := transfer.KindOf(err); {
	case k == transfer.KindNotFound, k == transfer.KindUnreachable, k == transfer.KindTimeout:
		return a, nil
	case err != nil:
		return "", err
	case a != p.Source && a != p.Destination:
		r.warn(commands.Failed, fmt.Sprintf("agent %s has no part in the transfer %s, which is from %s to %s", a, id, p.Source, p.Destination))
		return "", output.Exit(codeWrongAgent)
	}
	return p.Source, nil
}

// codeWrongAgent is MQ MFT's result code of a command for an agent that does not take part in the transfer.
const codeWrongAgent = 4

// codeCancelTimeout is MQ MFT's result code of a cancel that was not answered in time.
const codeCancelTimeout = 22

func (r *fteRun) list() error {
	pattern := "*"
	if len(r.Args) > 0 {
		pattern = strings.ToUpper(r.Args[0])
	}
	if _, err := path.Match(pattern, ""); err != nil {
		return transfer.Errorf(transfer.KindUsage, "the pattern %q is malformed", pattern)
	}
	headings := []string{"Agent Name:", "Queue Manager Name:", "Status:"}
	if r.Has("v") {
		headings = append(headings, "Status Age:", "Host:")
	}
	return r.q.List(r.cmd, headings, func(ctx context.Context, net *client.Client, row output.Row) error {
		return net.Agents(ctx, func(a *wire.AgentStatus) error {
			if ok, _ := path.Match(pattern, string(a.Agent)); !ok {
				return nil
			}
			cells := []string{string(a.Agent), output.Or(a.Manager, "-"), a.Status}
			if r.Has("v") {
				cells = append(cells, output.Age(a.Age), a.Host)
			}
			row(nil, cells...)
			return nil
		})
	})
}

func (r *fteRun) details() error {
	name, err := r.Agent(r.Args[0])
	if err != nil {
		return err
	}
	net, ctx, done, err := r.q.Open(r.cmd)
	if err != nil {
		return err
	}
	defer done()
	a, err := net.Agent(ctx, name)
	if err != nil {
		return err
	}
	out := r.cmd.OutOrStdout()
	for _, s := range []struct {
		title string
		rows  [][]string
	}{
		{"Agent Information", [][]string{{"Name:", string(a.Agent)}, {"Type:", "Standard"}, {"Operating System:", a.Platform}, {"Host:", a.Host}, {"Product Version:", a.Version}}},
		{"Agent Availability Information", [][]string{{"Status:", a.Status}, {"Status Details:", output.Or(a.Reason, "-")}, {"Status Age:", output.Age(a.Age)}, {"Start Time:", output.Stamp(a.Started)}}},
		{"Queue Manager Information", [][]string{{"Name:", output.Or(a.Manager, "-")}, {"Transport:", a.Mode}}},
		{"Transfers", [][]string{{"Maximum Number of Running Source Transfers:", fmt.Sprint(a.MaxSource)}, {"Maximum Number of Queued Source Transfers:", fmt.Sprint(a.MaxQueued)},
			{"Running Source Transfers:", fmt.Sprint(a.SourceRun)}, {"Queued Source Transfers:", fmt.Sprint(a.SourceWait)},
			{"Maximum Number of Running Destination Transfers:", fmt.Sprint(a.MaxDest)}, {"Running Destination Transfers:", fmt.Sprint(a.DestRun)}}},
	} {
		fmt.Fprintf(out, "%s:\n", s.title)
		for n := range s.rows {
			s.rows[n][0] = "    " + s.rows[n][0]
		}
		output.Table(out, s.rows)
		fmt.Fprintln(out)
	}
	if r.Has("v") {
		return r.states(ctx, net, name)
	}
	return nil
}

// mostStates is the most transfers that fteShowAgentDetails -v lists.
const mostStates = 1000

// states lists the transfers of an agent that have not ended, by its part in them.
func (r *fteRun) states(ctx context.Context, net *client.Client, name transfer.AgentName) error {
	live := slices.DeleteFunc(transfer.States(), transfer.State.Final)
	var source, dest [][]string
	_, err := client.EachTransfer(ctx, net, &wire.Filter{Agent: name, States: live}, mostStates, func(p *transfer.Progress) error {
		row := []string{"    " + mftxml.FormatID(p.ID), commands.StateOf(p.State)}
		if p.Source == name {
			source = append(source, row)
		}
		if p.Destination == name {
			dest = append(dest, row)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, s := range []struct {
		title string
		rows  [][]string
	}{{"Source Transfer States", source}, {"Destination Transfer States", dest}} {
		fmt.Fprintf(r.cmd.OutOrStdout(), "%s:\n", s.title)
		r.block(append([][]string{{"    TransferId", "State"}}, s.rows...))
	}
	return nil
}

func (r *fteRun) ping() error {
	name, err := r.Agent(r.Args[0])
	if err != nil {
		return err
	}
	wait, err := r.Wait()
	if err != nil {
		return err
	}
	if wait > 0 {
		r.q.Timeout = time.Duration(wait) * time.Second
	}
	net, ctx, done, err := r.q.Open(r.cmd)
	if err != nil {
		return err
	}
	defer done()
	r.say(commands.Pinging, name)
	b, took, err := net.Ping(ctx, name)
	if k := transfer.KindOf(err); k == transfer.KindUnreachable || k == transfer.KindTimeout {
		r.warn(commands.Failed, err)
		return output.Exit(transfer.CodeTimeout)
	}
	if err != nil {
		return err
	}
	r.say(commands.Answered, name, took.Seconds(), output.Printable(b.Status))
	return nil
}

func (r *fteRun) version() error {
	fmt.Fprintf(r.cmd.OutOrStdout(), "Name:        Ferry\nVersion:     %s\n", output.Version)
	return nil
}

// define is fteCreateAgent: it says that the agent needs no queue to be defined.
func (r *fteRun) define() error {
	if r.Get("agentName") == "" {
		return transfer.Errorf(transfer.KindUsage, "fteCreateAgent: -agentName AGENT is missing")
	}
	name, err := r.Agent(r.Get("agentName"))
	if err != nil {
		return err
	}
	r.say(commands.Defined, name)
	output.Table(r.cmd.OutOrStdout(), [][]string{
		{"  COMMAND", wire.AllCommands(name)}, {"  CONTROL", wire.ControlSubject(name, "*")}, {"  REPLY", wire.ReplySubject(name, "*")}, {"  DATA", "ferry.data." + name.Token() + ".>"}, {"  EVENT", "ferry.event." + name.Token()},
	})
	return nil
}

// NewInstallFTE makes the command `ferry install-fte`.
func NewInstallFTE() *cobra.Command {
	style := ""
	c := &cobra.Command{Use: "install-fte DIR", Short: "Make links with the names of IBM MQ MFT's commands", Args: usage.OneArg("DIR"),
		Long: `Makes a symbolic link to this program in DIR for each of IBM MQ MFT's commands
that Ferry has: fteCreateTransfer, fteCancelTransfer and the others. Put DIR into
PATH, and name the network in FERRY_NETWORK or a settings file. Links that are there
are replaced; a file of such a name is not.

With --messages bfg it makes small shell scripts instead. Their messages have the
identifiers and words that scripts for MQ MFT look for, as with
FERRY_FTE_MESSAGES=bfg.`,
		Example: "  ferry install-fte /usr/local/lib/ferry-fte\n  ferry install-fte --messages bfg /usr/local/lib/ferry-fte",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := commands.CheckStyle(style); err != nil {
				return err
			}
			if style == commands.StyleBFG && runtime.GOOS == "windows" {
				return transfer.Errorf(transfer.KindNotBuilt, "--messages bfg makes shell scripts, which Windows does not run").WithHint("leave it out, and set FERRY_FTE_MESSAGES=bfg")
			}
			self, err := os.Executable()
			if err == nil {
				err = os.MkdirAll(args[0], 0o755)
			}
			if err != nil {
				return transfer.Errorf(transfer.KindUsage, "the links cannot be made: %w", err)
			}
			for _, c := range commands.Commands() {
				at := filepath.Join(args[0], c.Name)
				if err = replaceable(at); err != nil {
					return err
				}
				if style == commands.StyleBFG {
					err = os.WriteFile(at, script(self, c.Name), 0o755)
				} else {
					err = os.Symlink(self, at)
				}
				if err != nil {
					return transfer.Errorf(transfer.KindUnwritable, "the link cannot be made: %w", err)
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d links in %s\n", len(commands.Commands()), args[0])
			return nil
		}}
	c.Flags().StringVar(&style, "messages", commands.StyleFerry, "identifiers of messages: ferry, or bfg as scripts for MQ MFT look for them")
	config.Never(c, "messages")
	return c
}

// scriptBegin begins a script of install-fte.
const scriptBegin = "#!/bin/sh\n# Made by ferry install-fte.\n"

// script runs a command with the messages of MQ MFT, unless the environment says otherwise.
func script(self, name string) []byte {
	quoted := "'" + strings.ReplaceAll(self, "'", `'\''`) + "'"
	return []byte(scriptBegin + "FERRY_FTE_MESSAGES=${FERRY_FTE_MESSAGES:-" + commands.StyleBFG + "}\nexport FERRY_FTE_MESSAGES\nexec " + quoted + " fte " + name + " \"$@\"\n")
}

// replaceable removes a link or a script of install-fte. Another file of that name is an error.
func replaceable(at string) error {
	st, err := os.Lstat(at)
	if err != nil {
		return nil
	}
	if st.Mode()&os.ModeSymlink == 0 {
		if text, err := os.ReadFile(at); err != nil || !strings.HasPrefix(string(text), scriptBegin) {
			return transfer.Errorf(transfer.KindExists, "%s is there, and no link", at).WithHint("remove it, or choose another directory")
		}
	}
	if err := os.Remove(at); err != nil {
		return transfer.Errorf(transfer.KindUnwritable, "the link cannot be replaced: %w", err)
	}
	return nil
}
