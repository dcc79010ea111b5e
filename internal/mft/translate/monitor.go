package translate

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"ferry/internal/automation/monitor"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/place/location"
	placequeue "ferry/internal/place/queue"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Variables of MQ MFT for the parts of a line of a trigger file.
const (
	contentSource = "${contentSource}"
	contentDest   = "${contentDestination}"
)

// conditionOf has Ferry's kinds of condition, by MQ MFT's.
var conditionOf = map[string]string{"fileMatch": monitor.ConditionMatch, "fileNoMatch": monitor.ConditionNoMatch, "fileSize": monitor.ConditionSize, "fileSizeSame": monitor.ConditionUnchanged,
	"queueNotEmpty": monitor.ConditionNotEmpty, "completeGroups": monitor.ConditionGroup}

// theGroup is the variable for the group that triggers.
const theGroup = "${GroupId}"

// pollUnit has the length of each unit of a pollInterval.
var pollUnit = map[string]time.Duration{"seconds": time.Second, "minutes": time.Minute, "hours": time.Hour, "days": 24 * time.Hour}

// Monitor returns the monitor that a document requests. It refuses the parts that Ferry's monitors do not have by name.
func Monitor(doc *mftxml.Document) (*monitor.Create, error) {
	if err := doc.Lacks(); err != nil {
		return nil, err
	}
	m := doc.Monitor
	c, _ := m.Condition() // Lacks has checked that
	d := &monitor.Definition{Name: m.Name, Agent: m.Agent, Dir: transfer.File(m.Directory), Match: cmp.Or(c.Pattern, "*"), Exclude: c.Exclude, Regex: c.Regex, Levels: m.Levels,
		Batch: m.Batch, Defaults: m.Defaults, Condition: monitor.Condition{Kind: conditionOf[c.Kind]}}
	if c.Pattern == "" && c.Regex {
		d.Match = ".*"
	}
	if m.Queue != "" {
		d.Match = c.Pattern
	}
	switch d.Condition.Kind {
	case monitor.ConditionSize:
		d.Condition.Value = c.Bytes()
	case monitor.ConditionUnchanged:
		d.Condition.Value = int64(c.Polls)
	}
	if m.Levels < 0 {
		d.Levels = monitor.MaxLevels
	}
	unit := pollUnit[m.PollUnits]
	if time.Duration(m.Poll) > monitor.MaxPoll/unit {
		return nil, transfer.Errorf(transfer.KindUsage, "a poll interval of %d %s is out of range; it goes to %s", m.Poll, m.PollUnits, monitor.MaxPoll)
	}
	d.Poll, d.Exact = transfer.Duration(time.Duration(m.Poll)*unit), true

	m, err := withAgents(d, m)
	if err != nil {
		return nil, err
	}
	take := takeContents
	if m.Queue != "" {
		take = takeQueue
	}
	task, err := take(d, m)
	if err != nil {
		return nil, err
	}
	q, err := (&mftxml.Document{Transfer: task}).Request(transfer.NewID(time.Unix(0, 0)))
	if err != nil {
		return nil, err
	}
	q.ID, q.Submitted, q.Job = transfer.ID{}, time.Time{}, cmp.Or(q.Job, m.Job)
	d.Request = *q
	return &monitor.Create{Definition: *d, Redefine: m.Overwrite}, d.Check()
}

// withAgents returns a monitor with the agents of its task. A variable in the name of the destination agent becomes a
// part of the definition.
func withAgents(d *monitor.Definition, m *mftxml.Monitor) (*mftxml.Monitor, error) {
	const itself = "${AgentName}"
	task := *m.Task
	if source := string(task.Source); strings.EqualFold(source, itself) {
		task.Source = m.Agent
	} else if strings.Contains(source, "${") {
		return nil, transfer.Errorf(transfer.KindNotBuilt, "the source agent of the task is %.80s; it is the agent of the monitor, %s", source, m.Agent).WithHint("write its name, or " + itself)
	}
	if to := string(task.Destination); strings.Contains(to, "${") {
		d.To, task.Destination = to, m.Agent
	}
	one := *m
	one.Task = &task
	return &one, nil
}

// takeContents returns the task of a monitor with Ferry's variables: the file that triggers is monitor.TheFile, and the
// variables of a line become Ferry's.
func takeContents(d *monitor.Definition, m *mftxml.Monitor) (*mftxml.Transfer, error) {
	task := *m.Task
	task.Set.Items = slices.Clone(task.Set.Items)
	for n := range task.Set.Items {
		s := &task.Set.Items[n].Source
		if strings.EqualFold(string(s.File.Path), string(monitor.TheFile)) { // a file is not recursive
			s.File.Path, s.Recursive = monitor.TheFile, false
		}
	}
	if m.Contents == nil {
		return &task, nil
	}

	one := &task.Set.Items[0]
	if len(task.Set.Items) != 1 || !strings.EqualFold(string(one.Source.File.Path), contentSource) {
		return nil, transfer.Errorf(transfer.KindUsage, "the lines of a trigger file name the files to send; the task has one item, with the source %s", contentSource)
	}
	d.TriggerFile = &monitor.TriggerFile{DestFirst: m.Contents.Order == "destsrc", Regex: m.Contents.Regex}
	one.Source.File.Path, one.Source.Recursive = monitor.TheFile, false
	switch to := string(one.Dest.File.Path); {
	case strings.EqualFold(to, contentDest):
		d.TriggerFile.To, one.Dest.File.Path = monitor.ToFile, "./"
	case strings.EqualFold(to, contentDest+"/"):
		d.TriggerFile.To, one.Dest.File.Path = monitor.ToDirectory, "./"
	case strings.Contains(strings.ToLower(to), strings.ToLower(strings.TrimSuffix(contentDest, "}"))):
		return nil, transfer.Errorf(transfer.KindNotBuilt, "the destination of the task is %s, and has more than %s", one.Dest.File.Path, contentDest)
	}
	return &task, nil
}

// takeQueue returns the task of a monitor of a queue with Ferry's variables: the messages that trigger are
// monitor.TheFile, and the delimiter between them becomes part of the watched queue.
func takeQueue(d *monitor.Definition, m *mftxml.Monitor) (*mftxml.Transfer, error) {
	watched, _, _ := strings.Cut(m.Queue, "@")
	of, err := location.Source(placequeue.Prefix + watched)
	if err != nil {
		return nil, err
	}
	d.Dir = of
	if m.Contents != nil {
		d.TriggerFile = &monitor.TriggerFile{} // Check refuses it
	}
	task := *m.Task
	task.Set.Items = slices.Clone(task.Set.Items)
	for n := range task.Set.Items {
		s := &task.Set.Items[n].Source
		if s.Queue == nil {
			continue
		}
		name, _, _ := strings.Cut(s.Queue.Name, "@")
		if !strings.EqualFold(name, watched) && !strings.EqualFold(name, "${QueueName}") {
			continue // another queue, as it is at the time of a trigger
		}
		from := mftxml.Queue{Name: watched, Attributes: maps.Clone(s.Queue.Attributes)}
		groups, id := from.Attributes["useGroups"], from.Attributes["groupId"]
		delete(from.Attributes, "useGroups")
		delete(from.Attributes, "waitTime") // the messages are there when they trigger
		delete(from.Attributes, "groupId")
		all, err := from.From()
		if err != nil {
			return nil, err
		}
		each := strings.EqualFold(groups, "true") && (id == "" || strings.EqualFold(id, theGroup))
		if each != (d.Condition.Kind == monitor.ConditionGroup) {
			return nil, transfer.Errorf(transfer.KindNotBuilt, `the task takes the queue %s with useGroups=%q and groupId=%q, and waits for <%s>`, watched, groups, id, m.Conditions[0].Kind).
				WithHint(`useGroups="true" and groupId="${GROUPID}" go with <completeGroups>, and neither goes with <queueNotEmpty>`)
		}
		d.Dir, s.Queue, s.File.Path = all, nil, monitor.TheFile
	}
	return &task, nil
}

// putQueue writes a watched queue in MQ MFT's form, and also into the task that sends its messages.
func putQueue(d *monitor.Definition, m *mftxml.Monitor) error {
	of, err := mftxml.FromQueue(d.Dir)
	if err != nil {
		return err
	}
	m.Directory, m.Queue = "", of.Name
	if d.Condition.Kind == monitor.ConditionGroup {
		of.Attributes["useGroups"], of.Attributes["groupId"] = "true", theGroup
	}
	for n := range m.Task.Set.Items {
		if s := &m.Task.Set.Items[n].Source; s.File.Path == monitor.TheFile {
			s.Queue, s.File = of, mftxml.File{}
		}
	}
	return nil
}

// MonitorXML returns the document of a monitor. Monitor converts it to the same definition. An error names the part that MQ MFT does
// not have.
func MonitorXML(d *monitor.Definition) ([]byte, error) {
	m := &mftxml.Monitor{Name: d.Name, Agent: d.Agent, Batch: d.Batch, Directory: d.Dir.Path, Levels: d.Levels, Defaults: d.Defaults, Originator: d.Request.Originator}
	c := mftxml.Condition{Pattern: d.Match, Exclude: d.Exclude, Regex: d.Regex}
	for requested, ours := range conditionOf {
		if ours == d.Condition.Kind {
			c.Kind = requested
		}
	}
	switch d.Condition.Kind {
	case monitor.ConditionSize:
		var size string
		size, c.Units = mftxml.InUnits(d.Condition.Value)
		c.Size, _ = strconv.Atoi(size) // a number of digits
	case monitor.ConditionUnchanged:
		c.Polls = int(d.Condition.Value)
	}
	m.Conditions = []mftxml.Condition{c}
	poll := time.Duration(d.Poll)
	for _, unit := range []string{"days", "hours", "minutes", "seconds"} {
		if poll >= pollUnit[unit] && poll%pollUnit[unit] == 0 {
			m.Poll, m.PollUnits = int(poll/pollUnit[unit]), unit
			break
		}
	}

	q := d.Request
	if q.Version == 0 {
		q.Version = transfer.RequestVersion
	}
	task, err := mftxml.FromRequest(&q)
	if err != nil {
		return nil, err
	}
	m.Task = task.Transfer
	m.Task.Destination = d.Destination()
	if d.OnQueue() {
		if err := putQueue(d, m); err != nil {
			return nil, err
		}
	}
	if t := d.TriggerFile; t != nil {
		m.Contents = &mftxml.TriggerContents{Order: "srcdest", Regex: t.Regex}
		if t.DestFirst {
			m.Contents.Order = "destsrc"
		}
		it := &m.Task.Set.Items[0]
		it.Source.File.Path = contentSource
		switch t.To {
		case monitor.ToFile:
			it.Dest.Type, it.Dest.File.Path = "file", contentDest
		case monitor.ToDirectory:
			it.Dest.Type, it.Dest.File.Path = "directory", contentDest+"/"
		}
	}
	text, err := (&mftxml.Document{Monitor: m}).XML()
	if err != nil {
		return nil, err
	}
	return text, sameMonitor(d, text)
}

// sameMonitor parses the written text, and refuses a monitor that would come back as another one.
func sameMonitor(d *monitor.Definition, text []byte) error {
	doc, err := mftxml.Parse(text)
	if err != nil {
		return err
	}
	again, err := Monitor(doc)
	if err != nil {
		return err
	}
	alike := func(d monitor.Definition) (text, request string) {
		q := d.Request
		q.ID, q.Submitted, q.Originator, q.Version = transfer.ID{1}, time.Time{}, transfer.Originator{}, transfer.RequestVersion
		d.Request, d.Exact = transfer.Request{}, true // the XML cannot express an early poll
		return string(wire.Marshal(d)), q.Hash()
	}
	was, asked := alike(*d)
	is, asks := alike(again.Definition)
	if was != is || asked != asks {
		return transfer.Errorf(transfer.KindUsage, "the XML of MQ MFT has no word for a part of monitor %s", d.Name).WithHint("`ferry monitor export` writes it in JSON")
	}
	return nil
}
