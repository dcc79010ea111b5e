package main

import (
	"ferry/internal/duty"
	"ferry/internal/job"
	"ferry/internal/managedcall"
	"ferry/internal/monitor"
	"ferry/internal/schedule"
	"ferry/internal/template"
)

// duties are what each agent of this program does beside the transfers that it is asked for.
var duties = []duty.Maker{monitor.New, schedule.New, template.NewDuty, job.New, managedcall.New}
