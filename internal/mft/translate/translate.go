// Package translate makes the values of duties and of the audit log from the documents of IBM MQ MFT, and documents from
// them. It is the only package that knows both: package mft/xml has the documents, and the packages that have the values
// do not know XML. A document that asks for something that Ferry lacks is refused by name.
package translate

import (
	"ferry/internal/automation/managedcall"
	"ferry/internal/automation/monitor"
	"ferry/internal/automation/schedule"
	mftxml "ferry/internal/mft/xml"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// Kind returns the kind of the command that a document asks a duty for; "": none, as a transfer that begins at once.
func Kind(d *mftxml.Document) wire.Kind {
	switch {
	case d.Call != nil:
		return managedcall.CommandRun
	case d.Monitor != nil:
		return monitor.CommandCreate
	case d.Unmonitor != nil:
		return monitor.CommandRemove
	case d.Transfer != nil && d.Transfer.Schedule != nil:
		return schedule.CommandPut
	case d.Unschedule != nil:
		return schedule.CommandRemove
	}
	return ""
}

// Command returns the body of the command that a document asks a duty of an agent for. id is the ID of the command: a
// document gives the same body each time. The document has a Kind.
func Command(d *mftxml.Document, id transfer.ID, agent transfer.AgentName) (body any, err error) {
	switch Kind(d) {
	case managedcall.CommandRun:
		return Call(d, id)
	case monitor.CommandCreate:
		return Monitor(d)
	case monitor.CommandRemove:
		if a := d.Unmonitor.Agent; a != "" && a != agent {
			return nil, transfer.Errorf(transfer.KindUsage, "the monitor is one of agent %s; this is %s", a, agent)
		}
		return monitor.Named{Name: d.Unmonitor.Name}, nil
	case schedule.CommandPut:
		return Schedule(d, id)
	}
	return schedule.Named{Name: d.Unschedule.ID}, nil
}

// Call returns the call that a document asks for.
func Call(d *mftxml.Document, id transfer.ID) (*managedcall.Put, error) {
	if err := d.Lacks(); err != nil {
		return nil, err
	}
	program, err := d.Call.Command.Program()
	if err != nil {
		return nil, err
	}
	p := &managedcall.Put{ID: id, Agent: d.Call.Agent, Program: *program, Job: d.Call.Job, Meta: d.Call.Meta}
	return p, p.Check()
}
