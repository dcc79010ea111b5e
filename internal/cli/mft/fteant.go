package mft

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"ferry/internal/automation/managedcall"
	"ferry/internal/automation/program"
	clicall "ferry/internal/cli/call"
	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/client"
	"ferry/internal/mft/ant"
	"ferry/internal/mft/commands"
	"ferry/internal/mft/config"
	"ferry/internal/mft/translate"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
)

// runAnt is fteAnt: it runs targets of a script.
func runAnt(r *fteRun) error {
	if r.Has("version") {
		return r.version()
	}
	name, err := scriptOf(r)
	if err != nil {
		return err
	}
	data, err := session.ReadInput(r.cmd, "script", name, ant.MaxScript)
	if err != nil {
		return err
	}
	script, err := ant.Parse(name, data)
	if err != nil {
		return err
	}
	targets, err := script.Targets(r.Args)
	if err != nil {
		return err
	}
	if _, is := r.Defined["basedir"]; is && os.Getenv("FERRY_CALL") != "" {
		return transfer.Errorf(transfer.KindUsage, "fteAnt: a program of a transfer takes no property basedir: it writes beneath its own directory").
			WithHint("write basedir into the script's <project>")
	}
	var given []byte
	if r.Has("propertyfile") {
		name, err := ofPrograms(r.Get("propertyfile"))
		if err != nil {
			return err
		}
		if given, err = session.ReadInput(r.cmd, "properties file", name, 2*config.MaxProperties); err != nil {
			return err
		}
	}

	ctx, stop := session.UntilSignal(r.cmd.Context())
	defer stop()
	n := &antNetwork{r: r, calls: map[transfer.ID]transfer.AgentName{}, transfers: map[transfer.ID]client.Transfer{}}
	defer n.close()
	runner := &ant.Runner{Script: script, Network: n, Out: printable{r.cmd.OutOrStdout()}, Err: printable{r.cmd.ErrOrStderr()}, Style: r.style, Given: r.Defined, File: given, Origin: client.Me(),
		Quiet: r.Has("q") || r.Has("quiet"), Verbose: r.Has("v") || r.Has("verbose") || r.Has("d") || r.Has("debug"), KeepGoing: r.Has("k") || r.Has("keep-going")}
	status, err := runner.Run(ctx, targets)
	if sig, is := session.Signalled(ctx); is {
		r.warn(commands.Failed, "the script was told to stop; its transfers go on")
		return output.Exit(sig.Code())
	}
	if err == nil && status != 0 {
		return output.Exit(status)
	}
	return err
}

// printable writes lines with only those characters, besides tabs, that can be shown.
type printable struct{ to io.Writer }

func (p printable) Write(text []byte) (int, error) {
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		whole, ended := strings.CutSuffix(line, "\n")
		for n, part := range strings.Split(whole, "\t") {
			if n > 0 {
				b.WriteByte('\t')
			}
			b.WriteString(output.Printable(part))
		}
		if ended {
			b.WriteByte('\n')
		}
	}
	if _, err := io.WriteString(p.to, b.String()); err != nil {
		return 0, err
	}
	return len(text), nil
}

// scriptOf returns the path of the script. A program of an agent (FERRY_CALL) runs a script of the agent's directory of
// programs alone: its arguments come from other people.
func scriptOf(r *fteRun) (name string, err error) {
	for _, o := range []string{"f", "file", "buildfile"} {
		if r.Has(o) && name != "" {
			return "", transfer.Errorf(transfer.KindUsage, "fteAnt: -f, -file and -buildfile are one option; the script is %s", name)
		}
		if r.Has(o) {
			name = r.Get(o)
		}
	}
	if name == "" {
		return "", transfer.Errorf(transfer.KindUsage, "fteAnt: -f SCRIPT is missing").WithHint("fteAnt -h lists the options")
	}
	return ofPrograms(name)
}

// ofPrograms returns the name of a file. In a program of a transfer the file is one of the directory of programs.
func ofPrograms(name string) (string, error) {
	if os.Getenv("FERRY_CALL") == "" {
		return name, nil
	}
	dir, err := program.Open(".")
	if err != nil {
		return "", err
	}
	return dir.Find(filepath.ToSlash(name))
}

// An antNetwork carries out the requests of a script. It connects when the first comes.
type antNetwork struct {
	r         *fteRun
	mu        sync.Mutex
	net       *client.Client
	done      func()
	calls     map[transfer.ID]transfer.AgentName // of this script
	transfers map[transfer.ID]client.Transfer    // of this script
}

// open returns a client of its own for one request: tasks of a script may run at the same time.
func (n *antNetwork) open() (*client.Client, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.net == nil {
		net, _, done, err := n.r.q.Open(n.r.cmd)
		if err != nil {
			return nil, err
		}
		n.net, n.done = net, done
	}
	return session.NewClient(n.net.Conn, n.r.q.Network, n.r.q.Timeout), nil
}

func (n *antNetwork) close() {
	if n.done != nil {
		n.done()
	}
}

// Start submits a transfer or a call.
func (n *antNetwork) Start(ctx context.Context, w *ant.Work, say ant.Say) error {
	net, err := n.open()
	if err != nil {
		return err
	}
	within, end := ctx, context.CancelFunc(func() {})
	if w.Deferred {
		within, end = context.WithTimeout(ctx, n.r.q.Timeout)
	}
	defer end()
	var agent transfer.AgentName
	if w.Call != nil {
		agent = w.Call.Agent
		err = n.call(within, net, w)
	} else {
		agent = w.Request.Source
		err = n.transfer(within, net, w, say)
	}
	late := within.Err() != nil && ctx.Err() == nil
	if err != nil && (client.HandoverOf(err) != client.Stored || !late) {
		return err
	}
	say(commands.Issued, mftxml.FormatID(w.ID))
	if err != nil {
		say(commands.Waiting, agent)
	} else {
		say(commands.Taken, agent)
	}
	return nil
}

func (n *antNetwork) transfer(ctx context.Context, net *client.Client, w *ant.Work, say ant.Say) error {
	if err := net.Check(ctx, w.Request); err != nil {
		return err
	}
	n.mu.Lock()
	n.transfers[w.ID] = client.Of(w.Request)
	n.mu.Unlock()
	_, err := net.SubmitInTime(ctx, w.Request, func(err error) { say(commands.Notice, err) })
	return err
}

func (n *antNetwork) call(ctx context.Context, net *client.Client, w *ant.Work) error {
	p, err := translate.Call(&mftxml.Document{Call: w.Call}, w.ID)
	if err != nil {
		return err
	}
	net.Who = w.Call.Originator
	at := client.AtAgent{Client: net, Agent: w.Call.Agent}
	if err := at.Known(ctx); err != nil {
		return err
	}
	n.mu.Lock()
	n.calls[w.ID] = w.Call.Agent
	n.mu.Unlock()
	_, err = at.Command(ctx, managedcall.CommandRun, p)
	return err
}

// known returns the transfer of an ID, or the agent of the call of an ID. Coordination knows transfers of others.
func (n *antNetwork) known(ctx context.Context, net *client.Client, id transfer.ID) (of client.Transfer, agent transfer.AgentName, err error) {
	n.mu.Lock()
	of, transfers := n.transfers[id]
	agent, calls := n.calls[id]
	n.mu.Unlock()
	if transfers || calls {
		return of, agent, nil
	}
	p, err := net.Transfer(ctx, id.String())
	if err != nil {
		return of, "", err
	}
	return client.Transfer{Source: p.Source, ID: p.ID}, "", nil
}

// Await waits for the end of a transfer or a call.
func (n *antNetwork) Await(ctx context.Context, id transfer.ID, say ant.Say) error {
	net, err := n.open()
	if err != nil {
		return err
	}
	of, agent, err := n.known(ctx, net, id)
	if err != nil {
		return err
	}
	notice := func(err error) { say(commands.Notice, err) }
	if agent != "" {
		c, err := clicall.Await(ctx, client.AtAgent{Client: net, Agent: agent}, id, func(format string, args ...any) { notice(transfer.Errorf(transfer.KindBusy, format, args...)) })
		if err != nil {
			return err
		}
		return n.ended(c, say)
	}
	p, err := net.Watch(ctx, of, nil, notice)
	switch {
	case err != nil:
		return err
	case p.State == transfer.Successful:
		say(commands.Ended, mftxml.FormatID(p.ID), p.State, p.Files, p.Bytes)
		return nil
	}
	say(commands.EndedIn(n.r.style, p.State), mftxml.FormatID(p.ID), p.State, p.Files, p.FilesFailed, reasonOf(p))
	return &ant.Failure{Code: codeOfEnd(p), Text: "the transfer " + mftxml.FormatID(p.ID) + " has ended as " + string(p.State) + ": " + reasonOf(p)}
}

// ended prints the end of a call.
func (n *antNetwork) ended(c *managedcall.Call, say ant.Say) error {
	if c.State == transfer.Successful {
		code := 0
		if c.Ran != nil {
			code = c.Ran.Code
		}
		say(commands.CallEnded, mftxml.FormatID(c.ID), c.State, code)
		return nil
	}
	reason := ""
	if c.Reason != nil {
		reason = c.Reason.Error()
	}
	say(commands.CallFailed, mftxml.FormatID(c.ID), c.State, reason)
	return &ant.Failure{Code: max(commands.CodeOf(c.Code), 1), Text: "the call " + mftxml.FormatID(c.ID) + " has ended as " + string(c.State) + output.Because(c.Reason)}
}

// Cancel cancels a transfer or a call. One that is neither of this script's nor a transfer that coordination knows is a
// call of the agent.
func (n *antNetwork) Cancel(ctx context.Context, agent transfer.AgentName, id transfer.ID, say ant.Say) error {
	net, err := n.open()
	if err != nil {
		return err
	}
	ctx, end := context.WithTimeout(ctx, cancelTime)
	defer end()
	of, called, err := n.known(ctx, net, id)
	if transfer.KindOf(err) == transfer.KindNotFound {
		called, err = agent, nil
	}
	if err != nil {
		return err
	}
	var state transfer.State
	if called != "" {
		c, err := client.Tell[managedcall.Call](ctx, client.AtAgent{Client: net, Agent: called}, cancelTime, managedcall.CommandCancel, managedcall.Named{ID: id.String()})
		if err != nil {
			return err
		}
		state = c.State
	} else {
		p, err := net.Cancel(ctx, of)
		if err != nil {
			return err
		}
		state = p.State
	}
	if !state.Final() {
		state = transfer.Cancelling
	}
	say(commands.Cancelled, mftxml.FormatID(id), state)
	return nil
}

// Ping asks an agent whether it is there.
func (n *antNetwork) Ping(ctx context.Context, agent transfer.AgentName, limit time.Duration, say ant.Say) error {
	net, err := n.open()
	if err != nil {
		return err
	}
	if net.Timeout = limit; limit < 0 {
		net.Timeout = 365 * 24 * time.Hour
	}
	say(commands.Pinging, agent)
	b, took, err := net.Ping(ctx, agent)
	if k := transfer.KindOf(err); k == transfer.KindUnreachable || k == transfer.KindTimeout {
		say(commands.Failed, err)
		return &ant.Failure{Code: transfer.CodeTimeout, Text: err.Error()}
	}
	if err != nil {
		return err
	}
	say(commands.Answered, agent, took.Seconds(), b.Status)
	return nil
}
