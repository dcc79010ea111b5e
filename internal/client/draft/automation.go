package draft

import (
	"cmp"
	"slices"
	"time"

	"ferry/internal/automation/managedcall"
	"ferry/internal/automation/monitor"
	"ferry/internal/automation/schedule"
	placequeue "ferry/internal/place/queue"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A Schedule describes the times when a request is submitted.
type Schedule struct {
	Name   string // empty: one is made up
	Words  schedule.PlanText
	Missed string // schedule.MissedOnce or schedule.MissedSkip

	Overlap, Redefine bool
}

// Put makes the schedule of a request. The words are read at the time now.
func (s *Schedule) Put(q *transfer.Request, now time.Time) (put *schedule.Put, err error) {
	put = &schedule.Put{Name: cmp.Or(s.Name, schedule.NameOf(q.ID)), Missed: s.Missed, Overlap: s.Overlap, Request: *q, Redefine: s.Redefine}
	if put.Plan, err = s.Words.Plan(now, schedule.ZoneOfHost); err != nil {
		return nil, err
	}
	_, err = schedule.ParsePut(wire.Marshal(put))
	return put, err
}

// A Call describes the run of a program of an agent.
type Call struct {
	Timeout, Pause string // as transfer.ParseDuration takes them
	Retries        int
	Success        string // exit codes
	Job            string
	Meta           []string // K=V
}

// Put makes a call of a new ID, for a program of an agent with its arguments.
func (c *Call) Put(at, program string, args []string) (*managedcall.Put, error) {
	agent, err := transfer.ParseAgentName(at)
	if err != nil {
		return nil, err
	}
	p := &managedcall.Put{ID: transfer.NewID(time.Now()), Agent: agent, Job: c.Job}
	p.Program = transfer.Program{Name: program, Args: args, Retries: c.Retries, Success: transfer.Codes(c.Success)}
	timeout, err := transfer.ParseDuration(c.Timeout)
	pause, err2 := transfer.ParseDuration(c.Pause)
	if err := cmp.Or(err, err2); err != nil {
		return nil, err
	}
	p.Program.Timeout, p.Program.Pause = timeout, pause
	if p.Meta, err = ParseMeta(c.Meta); err != nil {
		return nil, err
	}
	return p, p.Check()
}

// A Monitor describes a monitor in the words of `ferry monitor create`. Begin with NewMonitor.
type Monitor struct {
	Agent, Dir, Queue         string // Dir or Queue
	Match, Exclude, Condition string
	To                        string // AGENT:PATH
	TriggerFile, TriggerRegex string
	Sources                   []string // at the agent; none: the file that has come
	Poll, Settle              time.Duration
	Batch, Levels             int
	Regex, Ordered            bool
}

// NewMonitor returns a Monitor with the defaults.
func NewMonitor() Monitor {
	return Monitor{Poll: monitor.DefaultPoll, Settle: monitor.DefaultSettle, Batch: 1}
}

// Definition returns the definition of a monitor with the transfers of a Draft. settle says that Settle holds for any
// condition. Otherwise it holds for conditions that can wait.
func (m *Monitor) Definition(name string, settle bool, send *Draft, host Host) (*monitor.Definition, error) {
	needs := []struct{ flag, value, word string }{{"agent", m.Agent, "AGENT"}, {"dir", m.Dir, "PATH"}, {"match", m.Match, "PATTERN"}, {"to", m.To, "AGENT:PATH"}}
	if m.Queue != "" {
		needs = slices.Delete(needs, 1, 3)
	}
	for _, need := range needs {
		if need.value == "" {
			return nil, transfer.Errorf(transfer.KindUsage, "`ferry monitor create` needs --%s %s", need.flag, need.word)
		}
	}
	draft := *send // watched changes it
	dir, err := m.watched(&draft)
	if err != nil {
		return nil, err
	}
	agent, err := transfer.ParseAgentName(m.Agent)
	if err != nil {
		return nil, err
	}
	d := &monitor.Definition{Name: name, Agent: agent, Dir: dir, Match: m.Match, Exclude: m.Exclude, Regex: m.Regex,
		Levels: m.Levels, Poll: transfer.Duration(m.Poll), Batch: m.Batch, Ordered: m.Ordered}
	if d.Condition, err = monitor.ParseCondition(m.Condition); err != nil {
		return nil, err
	}
	if settle || d.MaySettle() {
		d.Settle = transfer.Duration(m.Settle)
	}
	if d.TriggerFile, err = m.trigger(); err != nil {
		return nil, err
	}
	sources := m.Sources
	switch {
	case len(sources) > 0 && d.TriggerFile != nil:
		return nil, transfer.Errorf(transfer.KindUsage, "--trigger-file reads the sources from the file; leave out --source")
	case len(sources) == 0 && d.Condition.Kind == monitor.ConditionNoMatch:
		return nil, transfer.Errorf(transfer.KindUsage, "--condition nomatch triggers when no file is there; name the files to send with --source")
	case len(sources) == 0:
		sources = []string{"${FilePath}"}
	}
	var locations []string
	for _, s := range sources {
		locations = append(locations, string(agent)+":"+s)
	}
	q, err := draft.Request(append(locations, m.To), host)
	if err != nil {
		return nil, err
	}
	q.ID, q.Submitted = transfer.ID{}, time.Time{}
	d.Request = *q
	return d, d.Check()
}

// watched returns the directory, or the queue. The queue gets the delimiter of messages from the Draft, and the source of
// a trigger has none.
func (m *Monitor) watched(send *Draft) (l transfer.Location, err error) {
	if m.Queue == "" {
		return transfer.File(transfer.Path(m.Dir)), nil
	}
	switch {
	case m.Dir != "":
		return l, transfer.Errorf(transfer.KindUsage, "--dir %s and --queue %s: a monitor watches one of them", m.Dir, m.Queue)
	case send.Group != "":
		return l, transfer.Errorf(transfer.KindUsage, "--group %s names one group; a monitor sends each that is complete, with --condition group", send.Group)
	}
	queue, err := send.OfSource(transfer.Location{Place: transfer.Queues, Path: transfer.Path(placequeue.Prefix + m.Queue)})
	send.Between, send.At = "", ""
	return queue, err
}

func (m *Monitor) trigger() (*monitor.TriggerFile, error) {
	switch {
	case m.TriggerFile == "" && m.TriggerRegex == "":
		return nil, nil
	case m.TriggerFile == "" || m.TriggerFile == "source,destination":
		return &monitor.TriggerFile{Regex: m.TriggerRegex}, nil
	case m.TriggerFile == "destination,source":
		return &monitor.TriggerFile{Regex: m.TriggerRegex, DestFirst: true}, nil
	}
	return nil, transfer.Errorf(transfer.KindUsage, "--trigger-file %q is unknown; it is one of source,destination and destination,source", m.TriggerFile)
}
