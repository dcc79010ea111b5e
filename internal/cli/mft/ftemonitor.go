package mft

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ferry/internal/automation/monitor"
	"ferry/internal/cli/output"
	"ferry/internal/cli/session"
	"ferry/internal/client"
	"ferry/internal/mft/commands"
	"ferry/internal/mft/translate"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/place/local/walk"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The commands for the objects that agents keep: monitors here, templates and schedules in ftekept.go.

// kept connects for questions to one agent. Without a name, or with a pattern, they go to all agents that are up. The
// caller closes the connection.
func (r *fteRun) kept(agent string) (*session.Kept, func(), error) {
	k := &session.KeptQuery{Query: *r.q}
	if !strings.ContainsAny(agent, "*?") {
		k.Agent = agent
	}
	return k.OpenKept(r.cmd)
}

// matches reports whether the name of an agent or a monitor, which is in capitals, fits a pattern of * and ?; any does
// where none is given.
func matches(pattern, name string) bool {
	return pattern == "" || walk.MatchName(strings.ToUpper(pattern), name)
}

// limit returns the time to wait for an answer.
func (r *fteRun) limit() (time.Duration, error) {
	wait, err := r.Wait()
	switch {
	case err != nil || !r.Has("w"):
		return r.q.Timeout, err
	case wait < 0:
		return 365 * 24 * time.Hour, nil
	}
	return time.Duration(wait) * time.Second, nil
}

// document is the document that an option names; nil where it is not given.
func (r *fteRun) document(option string) (*mftxml.Document, error) {
	if !r.Has(option) {
		return nil, nil
	}
	d, err := readDocument(r.cmd, r.Get(option))
	if err != nil {
		return nil, err
	}
	for _, what := range d.Ignored {
		r.warn(commands.Notice, "no effect here: "+what)
	}
	return d, nil
}

// createMonitor is fteCreateMonitor.
func (r *fteRun) createMonitor() error {
	task, err := r.document("mt")
	if err != nil {
		return err
	}
	imported, err := r.document("ix")
	if err != nil {
		return err
	}
	d, err := r.Monitor(task, imported)
	if err != nil {
		return err
	}
	if d.Monitor.Originator == (transfer.Originator{}) {
		d.Monitor.Originator = client.Me()
	}
	if file := r.Get("ox"); file != "" {
		return r.write(d, file)
	}
	c, err := translate.Monitor(d)
	if err != nil {
		return err
	}

	net, ctx, done, err := r.q.Open(r.cmd)
	if err != nil {
		return err
	}
	defer done()
	q := c.Definition.Request
	q.ID = transfer.NewID(time.Now())
	if err := net.Check(ctx, &q); err != nil {
		return err
	}
	k := &session.Kept{Net: net, Ctx: ctx, Cmd: r.cmd, Agent: c.Definition.Agent}
	if err := r.tellMonitor(k, monitor.CommandCreate, c); err != nil || !r.Has("c") {
		return err
	}
	return r.tellMonitor(k, monitor.CommandClear, monitor.Named{Name: c.Definition.Name})
}

// tellMonitor sends the agent of k a command about a monitor, and prints the result.
func (r *fteRun) tellMonitor(k *session.Kept, kind wire.Kind, body any) error {
	limit, err := r.limit()
	if err != nil {
		return err
	}
	said, err := client.Tell[monitor.Answer](k.Ctx, client.AtAgent{Client: k.Net, Agent: k.Agent}, limit, kind, body)
	if err == nil {
		r.say(commands.Monitored, said.Monitor, said.Done, said.Agent)
	}
	return err
}

// ofMonitor is a command about one monitor.
func ofMonitor(kind wire.Kind) func(*fteRun) error {
	return func(r *fteRun) error {
		for _, o := range []string{"ma", "mn"} {
			if r.Get(o) == "" {
				return transfer.Errorf(transfer.KindUsage, "%s: -%s is missing", r.Name, o)
			}
		}
		if _, err := r.Agent(r.Get("ma")); err != nil {
			return err
		}
		k, done, err := r.kept(r.Get("ma"))
		if err != nil {
			return err
		}
		defer done()
		return r.tellMonitor(k, kind, monitor.Named{Name: r.Get("mn")})
	}
}

// monitors are those that -ma and -mn mean.
func (r *fteRun) monitors() (found []monitor.Shown, err error) {
	k, done, err := r.kept(r.Get("ma"))
	if err != nil {
		return nil, err
	}
	defer done()
	return found, k.Each(func(at client.AtAgent) error {
		if !matches(r.Get("ma"), string(at.Agent)) {
			return nil
		}
		for after := ""; ; {
			l, err := client.Ask[monitor.Listed](k.Ctx, at, monitor.AskList, monitor.ListAsked{After: after})
			if err != nil {
				return err
			}
			for _, m := range l.Monitors {
				if after = m.Definition.Name; matches(r.Get("mn"), after) {
					found = append(found, m)
				}
			}
			if !l.More || len(l.Monitors) == 0 {
				return nil
			}
		}
	})
}

// listMonitors is fteListMonitors.
func (r *fteRun) listMonitors() error {
	found, err := r.monitors()
	if err != nil {
		return err
	}
	if name := r.Get("mn"); len(found) == 0 && name != "" && !strings.ContainsAny(name, "*?") {
		r.warn(commands.None, name)
		return output.Exit(commands.CodeMonitorMissing)
	}
	if file := r.Get("ox"); file != "" {
		if len(found) != 1 {
			return transfer.Errorf(transfer.KindUsage, "-ox writes one monitor, and -ma and -mn mean %d", len(found)).WithHint("-od DIRECTORY writes any number")
		}
		return r.writeMonitor(&found[0], file)
	}
	if dir := r.Get("od"); dir != "" {
		for n := range found {
			file, err := fileOf(dir, &found[n].Definition)
			if err == nil {
				err = r.writeMonitor(&found[n], file)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	if r.Has("v") {
		for n := range found {
			r.showMonitor(&found[n])
		}
		return nil
	}
	return output.List(r.cmd, false, []string{"Agent Name:", "Monitor Name:"}, func(row output.Row) error {
		for _, m := range found {
			row(nil, string(m.Definition.Agent), m.Definition.Name)
		}
		return nil
	})
}

// fileOf returns the file of a monitor in a directory. It checks the name once more, because the name came from an
// agent.
func fileOf(dir string, d *monitor.Definition) (string, error) {
	name, err := monitor.ParseName(d.Name)
	if err == nil {
		_, err = transfer.ParseAgentName(string(d.Agent))
	}
	return filepath.Join(dir, string(d.Agent)+"."+name+".xml"), err
}

// writeMonitor writes a monitor's definition as XML.
func (r *fteRun) writeMonitor(m *monitor.Shown, file string) error {
	text, err := translate.MonitorXML(&m.Definition)
	if err != nil {
		return err
	}
	return r.writeText(text, file)
}

func (r *fteRun) showMonitor(m *monitor.Shown) {
	d := &m.Definition
	kind := "wildcard"
	if d.Regex {
		kind = "regex"
	}
	status := "started"
	if m.State == monitor.StatePaused {
		status = "stopped"
	}
	rows := [][]string{{"Monitor Name:", d.Name}, {"Agent Name:", string(d.Agent)}, {"Status:", status}, {"Details:", m.State}, {"Resource Type:", "directory"}, {"Resource:", d.Dir.String()},
		{"Recursion Level:", fmt.Sprint(d.Levels)}, {"Poll Interval:", d.Poll.String()}, {"Batch Size:", fmt.Sprint(d.Batch)},
		{"Condition:", d.Condition.String()}, {"Pattern:", d.Match}, {"Exclude Pattern:", output.Or(d.Exclude, "-")}, {"Pattern Type:", kind},
		{"Destination Agent Name:", string(d.Destination())}, {"Destination:", output.Shown(d.Request.Dest)}, {"Job Name:", output.Printable(output.Or(d.Request.Job, "-"))},
		{"Triggers:", fmt.Sprint(m.Triggers)}}
	if m.Problem != nil {
		rows = append(rows, []string{"Problem:", output.Printable(m.Problem.Error())})
	}
	r.block(rows)
}

// block prints a table with an empty line behind it.
func (r *fteRun) block(rows [][]string) {
	output.Table(r.cmd.OutOrStdout(), rows)
	fmt.Fprintln(r.cmd.OutOrStdout())
}

// writeText puts a document into a file.
func (r *fteRun) writeText(text []byte, file string) error {
	if err := os.WriteFile(file, text, 0o666); err != nil {
		return transfer.Errorf(transfer.KindUsage, "the document cannot be written: %w", err)
	}
	r.say(commands.Written, file)
	return nil
}
