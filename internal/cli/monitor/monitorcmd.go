package monitor

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ferry/internal/automation/monitor"
	"ferry/internal/cli/output"
	"ferry/internal/cli/request"
	"ferry/internal/cli/session"
	"ferry/internal/cli/usage"
	"ferry/internal/client"
	"ferry/internal/client/draft"
	"ferry/internal/client/view"
	placequeue "ferry/internal/place/queue"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// New makes the command `ferry monitor`.
func New() *cobra.Command {
	c := &cobra.Command{Use: "monitor", Short: "Have an agent watch a directory or a queue, and send new files or messages", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	c.AddCommand(newMonitorCreate(), newMonitorLs(), newMonitorShow(),
		newMonitorCommand("pause", "Stop a monitor for a while; it forgets nothing", monitor.CommandPause),
		newMonitorCommand("resume", "Let a paused monitor go on", monitor.CommandResume),
		newMonitorHistory(),
		newMonitorCommand("clear", "Clear the history of a monitor: the files in its directory are sent again", monitor.CommandClear),
		newMonitorCommand("rm", "Remove a monitor, with its history; transfers that it has submitted go on", monitor.CommandRemove),
		newMonitorExport(), newMonitorImport())
	return c
}

// monitorFlags are those of ferry monitor create.
type monitorFlags struct {
	session.Query
	draft.Monitor
	send     request.Flags
	redefine bool
}

func newMonitorCreate() *cobra.Command {
	f := &monitorFlags{Monitor: draft.NewMonitor()}
	c := &cobra.Command{Use: "create NAME --agent AGENT --dir PATH --match PATTERN --to AGENT:PATH", Short: "Make a monitor: each file that comes into a directory, or message into a queue, is sent, once until it changes",
		Long: `Makes a monitor at the source agent. The agent reads the directory at intervals, and at
once where its system reports that a file was closed after writing or was moved in. A
file that matches and meets the condition is sent. It is sent again when it has changed.
The transfers are in the name of the user that makes the monitor.

A file is sent when it has not changed for --settle. A file that was moved to its name,
where the system tells of that, is complete and does not wait.

With --queue NAME the agent watches an application queue. It sends the new messages as
one file (--condition notempty), or each complete group as one (--condition group). With
--delete-source the messages are taken out of the queue once they have arrived. A
transfer that has failed is made anew up to 10 times. Variables such as ${FileName} may stand in --to, --source,
--job and --meta; docs/operations.md has them all.`,
		Example: `  ferry monitor create orders --agent ALPHA --dir /srv/out --match '*.csv' --to BETA:in/
  ferry monitor create slow --agent ALPHA --dir out --match '*.zip' --settle 1m --delete-source --to 'BETA:in/${FileName{toLower}}'
  ferry monitor create invoices --agent ALPHA --queue INVOICES --condition group --delete-source --to 'BETA:in/${GroupId}.xml'`,
		Args: usage.OneArg("the name of the monitor"),
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := f.send.Definition(args[0], cmd.Flags().Changed("settle"), &f.Monitor)
			if err != nil {
				return err
			}
			return MakeMonitor(&f.Query, cmd, d, f.redefine)
		}}
	fl := c.Flags()
	fl.StringVar(&f.Agent, "agent", "", "the agent that watches and sends")
	fl.StringVar(&f.Dir, "dir", "", "the directory that it watches")
	fl.StringVar(&f.Queue, "queue", "", "the application queue that it watches, in place of a directory")
	fl.StringVar(&f.Match, "match", "", "pattern for the names of files: '*' is anything, '?' one byte; a name that begins with '.' is matched by a pattern that does")
	fl.StringVar(&f.Exclude, "exclude", "", "pattern for the names of files that are left out")
	fl.BoolVar(&f.Regex, "regex", false, "--match and --exclude are regular expressions for whole names")
	fl.StringVar(&f.Condition, "condition", "", "when to send: match, a file is there; nomatch, none is, once until one was; size>=N, as size>=10M; unchanged=N, it was the same at N polls after the first, in place of --settle; of a queue: notempty, messages are there; group, a complete group is (default match, or notempty)")
	fl.DurationVar(&f.Settle, "settle", f.Settle, "how long a file must not have changed before it is sent, up to 24h; 0: it need not wait. A file that was moved to its name does not wait where the system tells of that")
	fl.IntVar(&f.Levels, "recursive", 0, "how many levels of directories beneath are watched, too")
	fl.DurationVar(&f.Poll, "poll", f.Poll, "how long to wait between two looks into the directory or queue, 100ms to 24h")
	fl.IntVar(&f.Batch, "batch", f.Batch, "how many files one transfer takes, at most")
	fl.BoolVar(&f.Ordered, "ordered", false, "begin a transfer when the one before has ended, successful or not, in the order of the files' names")
	fl.StringVar(&f.To, "to", "", "where the files go, as AGENT:PATH")
	fl.StringArrayVar(&f.Sources, "source", nil, "send this in place of the file that has come; may be repeated (default ${FilePath})")
	fl.StringVar(&f.TriggerFile, "trigger-file", "", "each line of a new file names files to send: source,destination (or source alone) or destination,source")
	fl.StringVar(&f.TriggerRegex, "trigger-regex", "", "regular expression for those lines, with one or two groups (default: a comma stands between source and destination)")
	fl.BoolVar(&f.redefine, "redefine", false, "define a monitor anew that is there; its history stays")
	f.addSend(fl)
	f.Query.Add(c)
	usage.Groups(c, []usage.Group{
		{Title: "Watched files and messages", Flags: []string{"agent", "dir", "queue", "match", "exclude", "regex", "condition", "settle", "recursive", "poll"}},
		{Title: "Sent files", Flags: []string{"batch", "ordered", "source", "message-delimiter", "message-delimiter-at", "trigger-file", "trigger-regex", "delete-source", "max-files", "max-size"}},
		{Title: "Where it goes", Flags: []string{"to", "if-exists", "redefine", "network"}},
		{Title: "Before and after", Flags: []string{"trigger", "pre-source", "pre-source-arg", "post-source", "post-source-arg", "pre-destination", "pre-destination-arg", "post-destination", "post-destination-arg"}},
		{Title: "Text and records", Flags: []string{"mode", "from-encoding", "to-encoding", "eol", "replace", "recfm", "lrecl", "blksize", "from-recfm", "from-lrecl", "from-blksize", "long-lines", "keep-trailing-blanks"}},
		{Title: "Integrity", Flags: []string{"checksum", "durability"}},
		{Title: "Speed", Flags: []string{"limit", "lane", "compress", "priority", "chunk-size", "window", "frame", "checkpoint-interval", "delivery"}},
		{Title: "Waiting", Flags: []string{"timeout", "recovery-timeout"}},
		{Title: "Output and record", Flags: []string{"json", "job", "meta"}},
	})
	return c
}

// addSend adds the flags of a request, but for --recursive, which says something else of a monitor: how many
// levels of directories are watched.
func (f *monitorFlags) addSend(fl *pflag.FlagSet) {
	request := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.send.Add(request)
	request.VisitAll(func(one *pflag.Flag) {
		if one.Name != "recursive" {
			fl.AddFlag(one)
		}
	})
}

// MakeMonitor sends an agent the command to make a monitor.
func MakeMonitor(q *session.Query, cmd *cobra.Command, d *monitor.Definition, redefine bool) error {
	net, ctx, done, err := q.Open(cmd)
	if err != nil {
		return err
	}
	defer done()
	req := d.Request
	req.ID = transfer.NewID(time.Now())
	if err := net.Check(ctx, &req); err != nil { // as of an agent that the network does not know
		return err
	}
	at := client.AtAgent{Client: net, Agent: d.Agent}
	return tellMonitor(ctx, q, cmd, at, monitor.CommandCreate, monitor.Create{Definition: *d, Redefine: redefine})
}

// tellMonitor sends an agent a command about a monitor, and prints the agent's answer.
func tellMonitor(ctx context.Context, q *session.Query, cmd *cobra.Command, at client.AtAgent, kind wire.Kind, body any) error {
	said, err := client.Tell[monitor.Answer](ctx, at, q.Timeout, kind, body)
	if err != nil {
		return err
	}
	output.Result(cmd, q.JSON, view.MonitorOf(said), "monitor %s %s at %s\n", said.Monitor, said.Done, said.Agent)
	return nil
}

// withMonitor finds the monitor of a name and calls fn with it.
func withMonitor(k *session.KeptQuery, cmd *cobra.Command, name string, fn func(*session.Kept, client.AtAgent, *monitor.Shown) error) error {
	return session.WithKept(k, cmd, monitor.AskList, "monitor", name, monitor.ListAsked{Name: name}, onlyOne(fn))
}

// onlyOne returns a function that calls fn with the one monitor of an answer.
func onlyOne(fn func(*session.Kept, client.AtAgent, *monitor.Shown) error) func(*session.Kept, client.AtAgent, *monitor.Listed) error {
	return func(open *session.Kept, at client.AtAgent, l *monitor.Listed) error {
		if len(l.Monitors) != 1 {
			return transfer.Errorf(transfer.KindMalformed, "agent %s has answered with %d monitors", at.Agent, len(l.Monitors))
		}
		return fn(open, at, &l.Monitors[0])
	}
}

func newMonitorCommand(name, short string, kind wire.Kind) *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: name + " NAME", Short: short, Args: usage.OneArg("the name of the monitor"),
		RunE: func(cmd *cobra.Command, args []string) error { return ChangeMonitor(q, cmd, args[0], kind) }}
	q.Add(c)
	return c
}

// ChangeMonitor finds the monitor of a name, and gives its agent a command about it.
func ChangeMonitor(k *session.KeptQuery, cmd *cobra.Command, name string, kind wire.Kind) error {
	return withMonitor(k, cmd, name, func(open *session.Kept, at client.AtAgent, _ *monitor.Shown) error {
		return tellMonitor(open.Ctx, &k.Query, cmd, at, kind, monitor.Named{Name: name})
	})
}

func newMonitorLs() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "ls", SuggestFor: []string{"list"}, Short: "List monitors: your own, and others' with the authority operate or audit", Args: usage.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			headings := []string{"MONITOR", "AGENT", "STATE", "DIRECTORY", "MATCH", "CONDITION", "TO", "TRIGGERS", "REFUSED", "LAST", "PROBLEM"}
			return session.ListKept(q, cmd, headings, monitor.AskList, monitor.ListAsked{}, func(at client.AtAgent, l *monitor.Listed, row output.Row) (next any) {
				for n := range l.Monitors {
					m := &l.Monitors[n]
					row(viewOf(at, m), monitorRow(at, m)...)
					if l.More {
						next = monitor.ListAsked{After: m.Definition.Name}
					}
				}
				return next
			}, keptMonitor)
		}}
	q.Add(c)
	output.AddForms(c)
	return c
}

// keptMonitor decodes a monitor that coordination has of an agent.
var keptMonitor = session.PageOf(func(m monitor.Shown) *monitor.Listed { return &monitor.Listed{Monitors: []monitor.Shown{m}} })

// viewOf returns the form of a monitor of an agent.
func viewOf(at client.AtAgent, m *monitor.Shown) view.MonitorShown {
	v := view.MonitorShownOf(m)
	v.AgentAway, v.State = at.Away, stateOf(at, m)
	return v
}

// stateOf returns the state of a monitor. The agent has told coordination the state for the time when it is away.
func stateOf(at client.AtAgent, m *monitor.Shown) string {
	if m.State == monitor.StateAway && at.Away != nil && at.Away.Up() {
		return monitor.StateUnknown
	}
	return m.State
}

func monitorRow(at client.AtAgent, m *monitor.Shown) []string {
	d, problem := &m.Definition, session.AwayText(at)
	if m.Problem != nil {
		problem = m.Problem.Text
	}
	return []string{d.Name, string(d.Agent), stateOf(at, m), d.Dir.String(), d.Match, d.Condition.String(), output.ShownAt(d.Destination(), d.Request.Dest),
		fmt.Sprint(m.Triggers), fmt.Sprint(m.Refused), output.Stamp(m.Last), problem}
}

func newMonitorShow() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "show NAME", Short: "Show a monitor: its definition, its counts and its present problem", Args: usage.OneArg("the name of the monitor"),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := args[0]
			one := session.KeptOne[monitor.Listed]{Noun: monitor.Noun, Key: strings.ToUpper(name), Decode: keptMonitor}
			return session.WithShown(q, cmd, monitor.AskList, one, name, monitor.ListAsked{Name: name}, onlyOne(func(_ *session.Kept, at client.AtAgent, m *monitor.Shown) error {
				if q.JSON {
					output.JSON(cmd, viewOf(at, m))
				} else {
					showMonitor(cmd, at, m)
				}
				return nil
			}))
		}}
	q.Add(c)
	return c
}

func showMonitor(cmd *cobra.Command, at client.AtAgent, m *monitor.Shown) {
	d := &m.Definition
	rows := [][]string{{"monitor", d.Name}, {"state", stateOf(at, m)}}
	if at.Away != nil {
		rows = append(rows, []string{"problem", at.Away.String()})
	}
	if m.Problem != nil {
		rows = append(rows, []string{"problem", m.Problem.Error()}, []string{"since", output.Stamp(m.Since)})
	}
	rows = append(rows, []string{"agent", string(d.Agent)})
	add := func(is bool, name, text string) {
		if is {
			rows = append(rows, []string{name, text})
		}
	}
	what, things := "directory", "file"
	if d.Dir.Place == transfer.Queues {
		what, things = "queue", "message"
	}
	add(true, what, strings.TrimPrefix(d.Dir.String(), placequeue.Prefix))
	add(d.Match != "", "match", d.Match)
	add(d.Exclude != "", "exclude", d.Exclude)
	add(d.Levels > 0, "recursive", output.Plural(int64(d.Levels), "level"))
	rows = append(rows, []string{"condition", d.Condition.String()})
	add(d.Settle > 0, "settle", d.Settle.String())
	add(d.Batch > 1, "batch", output.Plural(int64(d.Batch), "file"))
	add(d.Ordered, "ordered", "a transfer begins when the one before has ended")
	add(d.TriggerFile != nil, "trigger file", "its lines name the files to send")
	for _, k := range slices.Sorted(maps.Keys(d.Defaults)) {
		rows = append(rows, []string{"default", k + "=" + output.Printable(d.Defaults[k])})
	}
	var sources []string
	for _, it := range d.Request.Items {
		sources = append(sources, output.Shown(it.Source))
	}
	rows = append(rows, []string{"sends", strings.Join(sources, " ")}, []string{"to", output.ShownAt(d.Destination(), d.Request.Dest)})
	notified := ""
	if m.Watched {
		notified = ", and when the system tells"
	}
	rows = append(rows, [][]string{{"poll", "every " + d.Poll.String() + notified}, {"for", m.Originator.String()}, {"made", output.Stamp(m.Created)}}...)
	add(!m.Polled.IsZero(), "last poll", fmt.Sprintf("%s, %s, %s match", output.Stamp(m.Polled), m.Took.Round(time.Millisecond), output.Plural(int64(m.Matched), things)))
	add(m.Settling > 0, "settling", output.Plural(int64(m.Settling), "file"))
	add(m.Skipped > 0, "not read", output.Plural(int64(m.Skipped), "directory beneath"))
	add(at.Away == nil, "history", fmt.Sprintf("%s, %d of them gone", output.Plural(int64(max(m.History, 0)), "file"), m.Gone))
	rows = append(rows, [][]string{{"triggers", fmt.Sprintf("%d with %s: %d submitted, %d refused, %d waiting", m.Triggers, output.Plural(int64(m.Files), "file"), m.Submitted, m.Refused, m.Waiting)}}...)
	add(!m.Last.IsZero(), "last trigger", output.Stamp(m.Last))
	output.Table(cmd.OutOrStdout(), rows)
}

func newMonitorHistory() *cobra.Command {
	q := &session.KeptQuery{}
	var limit int
	c := &cobra.Command{Use: "history NAME", Short: "List the files that a monitor has sent, the last first, with the IDs of the transfers", Args: usage.OneArg("the name of the monitor"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return transfer.Errorf(transfer.KindUsage, "--limit %d is out of range; it begins at 1", limit)
			}
			return withMonitor(q, cmd, args[0], func(k *session.Kept, at client.AtAgent, _ *monitor.Shown) error {
				return history(q, k, at, monitor.HistoryAsked{Name: args[0], Limit: limit})
			})
		}}
	q.Add(c)
	c.Flags().IntVar(&limit, "limit", 50, "how many triggers are listed at most, the last ones; the agent keeps 1,000")
	output.AddForms(c)
	return c
}

// history prints the last triggers of a monitor, as many as ask has for its Limit.
func history(q *session.KeptQuery, k *session.Kept, at client.AtAgent, ask monitor.HistoryAsked) error {
	return output.ListOf(k.Cmd, q.JSON, "transfer that monitor "+strings.ToUpper(ask.Name)+" has submitted", []string{"TIME", "STATE", "TRANSFER", "FILES", "FILE", "REASON"}, func(row output.Row) error {
		for more := true; more && ask.Limit > 0; {
			h, err := client.Ask[monitor.History](k.Ctx, at, monitor.AskHistory, ask)
			if err != nil {
				return err
			}
			var ids []transfer.ID
			for n := range h.Triggers {
				if h.Triggers[n].State == monitor.StateSubmitted {
					ids = append(ids, h.Triggers[n].Transfer)
				}
			}
			states := at.StatesOf(k.Ctx, at.Agent, ids)
			for _, l := range h.Triggers {
				ask.Before = l.N
				ask.Limit--
				row(view.TriggerOf(&l, states[l.Transfer]), triggerRow(&l, states[l.Transfer])...)
			}
			more = h.More && len(h.Triggers) > 0
		}
		return nil
	})
}

// triggerRow returns the cells of a trigger. state is that of its transfer; "": it is not known.
func triggerRow(l *monitor.Logged, state transfer.State) []string {
	reason := ""
	if l.Error != nil {
		reason = l.Error.Text
	}
	return []string{output.Stamp(l.Time), output.Or(string(state), l.State), l.Transfer.String(), fmt.Sprint(l.Files), l.File.String(), reason}
}

func newMonitorExport() *cobra.Command {
	q := &session.KeptQuery{}
	c := &cobra.Command{Use: "export NAME", Short: "Print the definition of a monitor, as ferry monitor import takes it", Args: usage.OneArg("the name of the monitor"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withMonitor(q, cmd, args[0], func(_ *session.Kept, _ client.AtAgent, m *monitor.Shown) error {
				text, err := json.MarshalIndent(m.Definition, "", "  ")
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text)
				}
				return err
			})
		}}
	q.Add(c)
	return c
}

func newMonitorImport() *cobra.Command {
	q := &session.Query{}
	var agent string
	var redefine bool
	c := &cobra.Command{Use: "import FILE|-", Short: "Make a monitor of a definition in a file, or on standard input",
		Long: `Makes a monitor of a definition that ferry monitor export has written. --agent replaces
the agent of the definition. The transfers are in the name of the user that imports it.`,
		Args: usage.OneArg("the file with the definition, or -"),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := session.ReadText(cmd, "definition", args[0], monitor.MaxDefinition)
			if err != nil {
				return err
			}
			d, err := monitor.ParseDefinition(data)
			if err == nil && agent != "" {
				if d.Agent, err = transfer.ParseAgentName(agent); err == nil {
					d.Request.Source = d.Agent
				}
			}
			if err != nil {
				return err
			}
			return MakeMonitor(q, cmd, d, redefine)
		}}
	q.Add(c)
	c.Flags().StringVar(&agent, "agent", "", "the agent that is to have the monitor (default: the one of the definition)")
	c.Flags().BoolVar(&redefine, "redefine", false, "define a monitor anew that is there; its history stays")
	return c
}
