package view

import (
	"ferry/internal/automation/job"
	"ferry/internal/automation/managedcall"
	"ferry/internal/automation/monitor"
	"ferry/internal/automation/schedule"
	"ferry/internal/automation/template"
	"ferry/internal/client"
	"ferry/internal/transfer"
)

// A CallLine is a call.
type CallLine struct {
	MessageType string `json:"message_type"` // call, cancel, summary
	*managedcall.Call
}

// CallOf returns the form of a call. Its type is TypeCall, TypeCancel or TypeSummary.
func CallOf(messageType string, c *managedcall.Call) CallLine { return CallLine{messageType, c} }

// A JobLine is a job in a list, or one that is being cancelled.
type JobLine struct {
	MessageType string `json:"message_type"` // job, cancel
	*job.Job
	AgentAway *client.Away `json:"agent_away,omitempty"`
}

// JobOf returns the form of a job. Its type is TypeJob or TypeCancel.
func JobOf(messageType string, j *job.Job) JobLine { return JobLine{MessageType: messageType, Job: j} }

// A JobShown is one job with its children.
type JobShown struct {
	MessageType string `json:"message_type"` // job
	*job.Shown
	AgentAway *client.Away `json:"agent_away,omitempty"`
}

// JobShownOf returns the form of one job with its children.
func JobShownOf(s *job.Shown) JobShown { return JobShown{MessageType: TypeJob, Shown: s} }

// A JobChild is a transfer of a job on its way.
type JobChild struct {
	MessageType string      `json:"message_type"` // child
	Job         transfer.ID `json:"part_of"`
	*job.Child
}

// JobChildOf returns the form of a child of a job.
func JobChildOf(of transfer.ID, c *job.Child) JobChild { return JobChild{TypeChild, of, c} }

// A JobSummary is the end of a job.
type JobSummary struct {
	transfer.Summary
	Warning  string      `json:"warning,omitempty"`
	Children []job.Child `json:"children"`
}

// JobSummaryOf returns the form of the end of a job, with a state and a result code for the job.
func JobSummaryOf(s *job.Shown, state transfer.State, code int) JobSummary {
	j := JobSummary{Warning: s.Warning, Children: s.Of, Summary: transfer.Summary{MessageType: TypeSummary, ID: s.ID, State: state, ResultCode: code,
		Files: s.Counts.Files, FilesFailed: s.Counts.Failed, FilesSkipped: s.Counts.Skipped, Bytes: s.Counts.Bytes, Warnings: s.Counts.Warnings}}
	if !s.Ended.IsZero() {
		j.Seconds = max(0, s.Ended.Sub(s.Made).Seconds())
	}
	for n := range s.Of {
		c := &s.Of[n]
		j.Directories += c.Dirs
		if j.Error == nil && c.State != transfer.Successful {
			j.Error = c.Reason
		}
	}
	return j
}

// A MonitorShown is a monitor with its counts.
type MonitorShown struct {
	MessageType string `json:"message_type"` // monitor
	monitor.Shown
	AgentAway *client.Away `json:"agent_away,omitempty"`
}

// MonitorShownOf returns the form of a monitor.
func MonitorShownOf(m *monitor.Shown) MonitorShown {
	return MonitorShown{MessageType: TypeMonitor, Shown: *m}
}

// A MonitorLine is the result of a command about a monitor.
type MonitorLine struct {
	MessageType string `json:"message_type"` // monitor
	monitor.Answer
}

// MonitorOf returns the form of an agent's answer to a command about a monitor.
func MonitorOf(a *monitor.Answer) MonitorLine { return MonitorLine{TypeMonitor, *a} }

// A TriggerLine is a trigger in the history of a monitor.
type TriggerLine struct {
	MessageType string `json:"message_type"` // trigger
	monitor.Logged
	TransferState transfer.State `json:"transfer_state,omitempty"` // of a submitted one; absent: coordination does not know it
}

// TriggerOf returns the form of a trigger, with the state of its transfer.
func TriggerOf(l *monitor.Logged, state transfer.State) TriggerLine {
	return TriggerLine{TypeTrigger, *l, state}
}

// A ScheduleLine is a schedule.
type ScheduleLine struct {
	MessageType string             `json:"message_type"` // schedule, scheduled, removed
	Agent       transfer.AgentName `json:"agent"`
	*schedule.Schedule
	AgentAway *client.Away              `json:"agent_away,omitempty"`
	States    map[string]transfer.State `json:"transfer_states,omitempty"` // of results, by the ID; absent: coordination does not know it, or was not asked
}

// ScheduleOf returns the form of a schedule of an agent. Its type is TypeSchedule, TypeScheduled or TypeRemoved.
func ScheduleOf(messageType string, agent transfer.AgentName, s *schedule.Schedule) ScheduleLine {
	return ScheduleLine{MessageType: messageType, Agent: agent, Schedule: s}
}

// A TemplateLine is a template that was made, imported, listed or removed.
type TemplateLine struct {
	MessageType string             `json:"message_type"` // template, created, removed
	Agent       transfer.AgentName `json:"agent"`
	template.Line
	AgentAway *client.Away `json:"agent_away,omitempty"`
}

// TemplateOf returns the form of a template of an agent. Its type is TypeTemplate, TypeCreated or TypeRemoved.
func TemplateOf(messageType string, agent transfer.AgentName, l *template.Line) TemplateLine {
	return TemplateLine{MessageType: messageType, Agent: agent, Line: *l}
}

// A TemplateShown is one template with its request.
type TemplateShown struct {
	MessageType string             `json:"message_type"` // template
	Agent       transfer.AgentName `json:"agent"`
	*template.Template
	AgentAway *client.Away `json:"agent_away,omitempty"`
}

// TemplateShownOf returns the form of one template with its request.
func TemplateShownOf(agent transfer.AgentName, t *template.Template) TemplateShown {
	return TemplateShown{MessageType: TypeTemplate, Agent: agent, Template: t}
}
