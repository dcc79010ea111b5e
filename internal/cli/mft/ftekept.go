package mft

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"ferry/internal/automation/schedule"
	"ferry/internal/automation/template"
	"ferry/internal/cli/output"
	clischedule "ferry/internal/cli/schedule"
	"ferry/internal/cli/session"
	clitemplate "ferry/internal/cli/template"
	"ferry/internal/client"
	"ferry/internal/mft/commands"
	"ferry/internal/mft/translate"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/place/local/walk"
	"ferry/internal/transfer"
)

// schedule sends the schedule of fteCreateTransfer to the source agent.
func (r *fteRun) schedule(d *mftxml.Document) error {
	if r.Has("w") {
		return transfer.Errorf(transfer.KindUsage, "-w waits for the end of a transfer, and with -ss none begins now")
	}
	id := transfer.NewID(time.Now())
	put, err := translate.Schedule(d, id)
	if err != nil {
		return err
	}
	agent, s, err := clischedule.MakeSchedule(r.q, r.cmd, put)
	switch {
	case transfer.KindOf(err) == transfer.KindTimeout:
		r.say(commands.Issued, mftxml.FormatID(id))
		r.say(commands.Waiting, agent)
		return output.Exit(transfer.CodeQueued)
	case err != nil:
		return err
	}
	r.say(commands.Issued, mftxml.FormatID(id))
	r.say(commands.Scheduled, agent, s.Name, output.Stamp(s.Next))
	return nil
}

// listSchedules is fteListScheduledTransfers. It lists no ended schedules.
func (r *fteRun) listSchedules() error {
	pattern := ""
	if len(r.Args) > 0 {
		pattern = r.Args[0]
	}
	k, done, err := r.kept("")
	if err != nil {
		return err
	}
	defer done()
	return k.Each(func(at client.AtAgent) error {
		if !matches(pattern, string(at.Agent)) {
			return nil
		}
		for page := (schedule.Page{}); ; {
			l, err := client.Ask[schedule.Listed](k.Ctx, at, schedule.AskList, page)
			if err != nil {
				return err
			}
			for _, one := range l.Schedules {
				page.After = one.Name
				if one.Next.IsZero() {
					continue
				}
				s, err := client.Ask[schedule.Schedule](k.Ctx, at, schedule.AskShow, schedule.Named{Name: one.Name})
				switch {
				case transfer.KindOf(err) == transfer.KindNotFound: // it was removed just now
				case err != nil:
					return err
				default:
					r.block(scheduleRows(s))
				}
			}
			if !l.More {
				return nil
			}
		}
	})
}

// scheduleRows show a schedule as fteListScheduledTransfers does.
func scheduleRows(s *schedule.Schedule) [][]string {
	zone, err := time.LoadLocation(s.Plan.Zone)
	if err != nil {
		zone = time.UTC
	}
	when := func(t time.Time) string { return t.In(zone).Format("2006-01-02T15:04-0700") }
	rows := [][]string{{"Schedule Identifier:", s.Name}, {"Job Name:", output.Printable(output.Or(s.Job, "-"))}, {"Source Agent Name:", string(s.Source)}}
	if q := s.Request; q != nil {
		for n := range q.Items {
			it := &q.Items[n]
			rows = append(rows, []string{"Source File Name:", output.Shown(it.Source)}, []string{"Conversion Type:", output.Or(q.Of(it).Mode, transfer.ModeBinary)},
				[]string{"Destination File Name:", output.Or(output.Shown(it.Dest), output.Shown(q.Dest))})
		}
	}
	rows = append(rows, [][]string{{"Destination Agent Name:", string(s.Destination)}, {"Schedule Start Time:", when(s.Plan.Start)}, {"Next Transfer:", when(s.Next)}, {"Schedule Time Base:", s.Plan.Zone}}...)
	if unit, n := unitOf(s.Plan.Every); n > 0 {
		rows = append(rows, []string{"Repeat Interval:", unit}, []string{"Repeat Frequency:", strconv.FormatInt(n, 10)})
	}
	if !s.Plan.Until.IsZero() {
		rows = append(rows, []string{"Schedule Expiry Time:", when(s.Plan.Until)})
	}
	if s.Plan.Count > 0 {
		rows = append(rows, []string{"Schedule Expiry Count:", strconv.FormatInt(s.Plan.Count, 10)})
	}
	return rows
}

// unitOf is an interval as MQ MFT has it: a unit, and so many of it. 0: there is none.
func unitOf(i schedule.Interval) (unit string, n int64) {
	for _, u := range []struct {
		name string
		of   int64
		has  int64
	}{{"years", 12, int64(i.Months)}, {"months", 1, int64(i.Months)}, {"weeks", 7, int64(i.Days)}, {"days", 1, int64(i.Days)},
		{"hours", int64(time.Hour), int64(i.Elapsed)}, {"minutes", int64(time.Minute), int64(i.Elapsed)}, {"seconds", int64(time.Second), int64(i.Elapsed)}} {
		if u.has > 0 && u.has%u.of == 0 {
			return u.name, u.has / u.of
		}
	}
	return "", 0
}

// deleteSchedule is fteDeleteScheduledTransfer.
func (r *fteRun) deleteSchedule() error {
	k, done, err := r.kept(r.Get("agentName"))
	if err != nil {
		return err
	}
	defer done()
	name := schedule.Named{Name: r.Args[0]}
	at, _, err := session.Find[schedule.Schedule](k, schedule.AskShow, "schedule", name.Name, name)
	if err != nil {
		return err
	}
	s, err := client.Tell[schedule.Schedule](k.Ctx, at, r.q.Timeout, schedule.CommandRemove, name)
	if err == nil {
		r.say(commands.Unscheduled, at.Agent, s.Name)
	}
	return err
}

// createTemplate is fteCreateTemplate.
func (r *fteRun) createTemplate() error {
	name := r.Get("tn")
	if name == "" {
		return transfer.Errorf(transfer.KindUsage, "fteCreateTemplate: -tn NAME is missing")
	}
	d, err := r.asked()
	if err != nil {
		return err
	}
	later, err := clitemplate.LaterOf(d.Transfer.Schedule)
	if err != nil {
		return err
	}
	d.Transfer.Schedule = nil
	q, err := d.Request(transfer.NewID(time.Now()))
	if err != nil {
		return err
	}
	t, err := template.New(name, q, nil)
	if err != nil {
		return err
	}
	t.Schedule = later
	l, err := clitemplate.PutTemplate(r.q, r.cmd, t, false)
	if err == nil {
		r.say(commands.Kept, l.Name, q.Source)
	}
	return err
}

// eachTemplate calls fn for each template that the arguments name: names, or patterns of * and ?. It reports each
// argument without a template, and then returns the result code of a missing object.
func (r *fteRun) eachTemplate(fn func(k *session.Kept, at client.AtAgent, name string) error) error {
	k, done, err := r.kept("")
	if err != nil {
		return err
	}
	defer done()
	met := map[string]bool{}
	err = k.Each(func(at client.AtAgent) error {
		for page := (template.Page{}); ; {
			l, err := client.Ask[template.Listed](k.Ctx, at, template.AskList, page)
			if err != nil {
				return err
			}
			for _, t := range l.Templates {
				page.After = t.Name
				wanted := len(r.Args) == 0
				for _, pattern := range r.Args {
					if walk.MatchName(pattern, t.Name) {
						wanted, met[pattern] = true, true
					}
				}
				if !wanted {
					continue
				}
				if err := fn(k, at, t.Name); err != nil {
					return err
				}
			}
			if !l.More {
				return nil
			}
		}
	})
	if err != nil {
		return err
	}
	missing := slices.DeleteFunc(slices.Clone(r.Args), func(pattern string) bool { return met[pattern] })
	for _, pattern := range missing {
		r.warn(commands.None, pattern)
	}
	if len(missing) > 0 {
		return output.Exit(transfer.KindNotFound.Code())
	}
	return nil
}

// listTemplates is fteListTemplates.
func (r *fteRun) listTemplates() error {
	return r.eachTemplate(func(k *session.Kept, at client.AtAgent, name string) error {
		full, whole := r.Has("x") && r.Has("o"), r.Has("v") && !r.Has("x")
		if !full && !whole {
			fmt.Fprintln(r.cmd.OutOrStdout(), name)
			return nil
		}
		t, err := client.Ask[template.Template](k.Ctx, at, template.AskGet, template.Named{Name: name})
		if err != nil {
			return err
		}
		if full {
			return r.writeTemplate(t)
		}
		rows := [][]string{{"Template Name:", t.Name}, {"Source Agent Name:", string(t.Request.Source)}, {"Destination Agent Name:", string(t.Request.Destination)},
			{"Transfer Priority:", fmt.Sprint(t.Request.Priority)}, {"Job Name:", output.Printable(output.Or(t.Request.Job, "-"))}}
		for n := range t.Request.Items {
			it := &t.Request.Items[n]
			o := t.Request.Of(it)
			rows = append(rows, [][]string{{"Mode:", output.Or(o.Mode, transfer.ModeBinary)}, {"Checksum:", output.Or(o.Checksum, "xxh3")}, {"Source File:", output.Shown(it.Source)}, {"Recursive:", strconv.FormatBool(o.Recursive)},
				{"Disposition:", output.Or(o.Disposition, transfer.DispositionLeave)}, {"Destination File:", output.Or(output.Shown(it.Dest), output.Shown(t.Request.Dest))}, {"Exist:", output.Or(o.IfExists, transfer.IfExistsError)}}...)
		}
		r.block(rows)
		return nil
	})
}

// writeTemplate writes a template as the XML of its transfer, in the directory of -o.
func (r *fteRun) writeTemplate(t *template.Template) error {
	if err := template.CheckName(t.Name); err != nil { // the name came from an agent
		return err
	}
	if t.Schedule != nil {
		return transfer.Errorf(transfer.KindNotBuilt, "template %s has a schedule, which is not written in XML", t.Name).WithHint("`ferry template export` writes it in JSON")
	}
	q := t.Request
	q.ID = transfer.NewID(time.Now())
	text, err := mftxml.Write(&q)
	if err != nil {
		return err
	}
	file := filepath.Join(r.Get("o"), t.Name+".xml")
	if _, err := os.Lstat(file); !r.Has("f") && !os.IsNotExist(err) {
		return transfer.Errorf(transfer.KindUsage, "%s is there", transfer.Path(file)).WithHint("-f writes over it")
	}
	return r.writeText(text, file)
}

// deleteTemplates is fteDeleteTemplates.
func (r *fteRun) deleteTemplates() error {
	return r.eachTemplate(func(k *session.Kept, at client.AtAgent, name string) error {
		l, err := client.Tell[template.Line](k.Ctx, at, r.q.Timeout, template.CommandRemove, template.Named{Name: name})
		if err == nil {
			r.say(commands.Unkept, l.Name, at.Agent)
		}
		return err
	})
}
