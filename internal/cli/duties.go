package cli

import (
	"ferry/internal/automation/duty"
	"ferry/internal/automation/job"
	"ferry/internal/automation/managedcall"
	"ferry/internal/automation/monitor"
	"ferry/internal/automation/schedule"
	"ferry/internal/automation/template"
)

// duties are what each agent of this program does beside the transfers that it is asked for.
var duties = []duty.Maker{monitor.New, schedule.New, template.NewDuty, job.New, managedcall.New}
