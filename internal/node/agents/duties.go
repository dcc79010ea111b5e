package agents

import (
	"ferry/internal/automation/duty"
	"ferry/internal/automation/job"
	"ferry/internal/automation/managedcall"
	"ferry/internal/automation/monitor"
	"ferry/internal/automation/schedule"
	"ferry/internal/automation/template"
)

// Duties make the duties of each agent of this program: its work beside the transfers that are submitted to it.
var Duties = []duty.Maker{monitor.New, schedule.New, template.NewDuty, job.New, managedcall.New}
