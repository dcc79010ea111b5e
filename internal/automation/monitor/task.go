package monitor

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/variable"
	"ferry/internal/transfer"
)

// MetaName is the metadata entry with the monitor's name in its requests.
const MetaName = audit.MonitorMeta

// TheFile is the source of a request that sends the files that trigger, or the messages.
const TheFile = transfer.Path("${FilePath}")

// request returns the request of a trigger. An error means that the trigger can never be submitted.
func (d *Definition) request(s *triggerVariables, lines []line) (*transfer.Request, error) {
	q := d.Request
	q.ID, q.Submitted, q.Source = s.transfer, s.now.UTC(), d.Agent
	if q.Version == 0 {
		q.Version = transfer.RequestVersion
	}
	if err := s.whole(&q); err != nil {
		return nil, err
	}
	var err error
	if d.To != "" {
		var to string
		if to, err = variable.Expand(d.To, s.text); err == nil {
			q.Destination, err = transfer.ParseAgentName(to)
		}
		if err != nil {
			return nil, err
		}
	}
	switch {
	case lines != nil:
		err = s.listed(&q, d, lines)
	case len(s.files) == 0:
		s.at = 0
		err = s.items(&q, d)
	default:
		err = s.each(&q, d)
	}
	if err == nil {
		err = q.Check()
	}
	if err == nil {
		err = variable.CheckPrograms(&q)
	}
	return &q, err
}

// whole expands the variables in the parts that apply to the whole request.
func (s *triggerVariables) whole(q *transfer.Request) (err error) {
	if q.Job, err = variable.Expand(q.Job, s.text); err != nil {
		return err
	}
	meta := map[string]string{MetaName: s.monitor}
	for _, k := range slices.Sorted(maps.Keys(q.Meta)) {
		if meta[k], err = variable.Expand(q.Meta[k], s.text); err != nil {
			return err
		}
	}
	q.Meta = meta
	q.Programs, err = variable.InPrograms(q.Programs, s.text)
	return err
}

// each adds the files of the trigger to a request.
func (s *triggerVariables) each(q *transfer.Request, d *Definition) error {
	var items []transfer.RequestItem
	for n := range s.files {
		s.at = n
		one := *q
		if err := s.items(&one, d); err != nil {
			return err
		}
		for _, it := range one.Items {
			it.Dest = cmp.Or(it.Dest, one.Dest)
			items = append(items, it)
		}
	}
	q.Items, q.Dest = items, items[0].Dest
	if slices.ContainsFunc(items, func(it transfer.RequestItem) bool { return it.Dest != q.Dest }) {
		q.Dest = transfer.Location{}
		return nil
	}
	for n := range q.Items {
		q.Items[n].Dest = transfer.Location{}
	}
	if d.sendsFiles() && !d.OnQueue() && q.Dest.Directory() {
		s.beneath(q, d)
	}
	return nil
}

// items sets the request's own items for the file at s.at.
func (s *triggerVariables) items(q *transfer.Request, d *Definition) (err error) {
	q.Items = nil
	if q.Dest, err = variable.InLocation(d.Request.Dest, s.path); err != nil {
		return err
	}
	for _, it := range d.Request.Items {
		if it.Source == transfer.File(TheFile) && s.at < len(s.files) {
			it.Source, it.Picked = s.files[s.at].source(), s.files[s.at].picked
			if s.files[s.at].isFile() {
				it.Expected = s.files[s.at].version
			}
		} else if it.Source, err = variable.InLocation(it.Source, s.path); err != nil {
			return err
		}
		if it.Dest, err = variable.InLocation(it.Dest, s.path); err != nil {
			return err
		}
		q.Items = append(q.Items, it)
	}
	return nil
}

// sendsFiles reports whether a trigger sends exactly the files that triggered it.
func (d *Definition) sendsFiles() bool {
	return len(d.Request.Items) == 1 && d.Request.Items[0] == (transfer.RequestItem{Source: transfer.File(TheFile)})
}

// beneath names the files relative to the watched directory: they keep their paths there.
func (s *triggerVariables) beneath(q *transfer.Request, d *Definition) {
	q.Base = d.Dir.Path
	for n := range q.Items {
		q.Items[n].Source = transfer.File(s.files[n].Rel)
	}
}

// checkTask refuses a definition with requests that could not be submitted. It tests the definition with an example of
// a file.
func (d *Definition) checkTask() error {
	if !d.Request.ID.IsZero() || d.Request.Base != "" || d.Request.Rest != nil || d.Request.Retry != nil {
		return transfer.Errorf(transfer.KindUsage, "the request of a monitor has an ID, a base, parts or is a retry, which only a request on its way has")
	}
	if slices.ContainsFunc(d.Request.Items, func(it transfer.RequestItem) bool {
		return it.Resolved != nil || it.Expected != "" || it.Picked != ""
	}) {
		return transfer.Errorf(transfer.KindUsage, "the items of a monitor's request have no resolved destinations, no expected versions and no picked messages")
	}
	if len(d.Request.Items) == 0 {
		return transfer.Errorf(transfer.KindUsage, "the request of a monitor names no source; %s is the file that triggers", TheFile)
	}
	s := &triggerVariables{agent: d.Agent, monitor: d.Name, transfer: transfer.NewID(time.Unix(0, 0)), now: time.Unix(0, 0), defaults: d.Defaults}
	for range d.Batch {
		s.files = append(s.files, d.example()...)
	}
	_, err := d.request(s, nil)
	if transfer.KindOf(err) == transfer.KindUsage && strings.Contains(err.Error(), "has no token") {
		return nil // the names of later files decide
	}
	return err
}

// listed adds the lines of a trigger file to a request: literal paths at the monitor's agent and at the agent of its
// destination. Roots and rules apply to them as to any other request.
func (s *triggerVariables) listed(q *transfer.Request, d *Definition, lines []line) error {
	base := *q
	if err := s.items(&base, d); err != nil {
		return err
	}
	q.Dest, q.Items = base.Dest, nil
	for _, l := range lines {
		it := transfer.RequestItem{Source: transfer.File(l.from)}
		switch {
		case l.to != "":
			if it.Dest = transfer.File(l.to); d.TriggerFile.To == ToDirectory {
				it.Dest = it.Dest.AsDirectory()
			}
		case d.TriggerFile.To != "":
			return transfer.Errorf(transfer.KindMalformed, "line %d of the trigger file names no destination", l.number)
		}
		q.Items = append(q.Items, it)
	}
	return nil
}
