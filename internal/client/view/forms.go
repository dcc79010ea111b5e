package view

import (
	"ferry/internal/audit"
	"ferry/internal/qmgr/channel"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/authority"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The types of forms, in message_type: the object, or the change that an answer reports.
const (
	TypeAccepted     = "accepted"     // an agent continues as a witness from the present log
	TypeAcknowledged = "acknowledged" // a person has seen the failure of a transfer
	TypeCall         = "call"
	TypeCancel       = "cancel" // a job or a call that is being cancelled
	TypeChecked      = "checked"
	TypeChild        = "child"
	TypeCreated      = "created"
	TypeDeadLetter   = "dead_letter"
	TypeImport       = "import"
	TypeItem         = "item"
	TypeJob          = "job"
	TypeMessage      = "message" // of a queue
	TypeMonitor      = "monitor"
	TypeNotSubmitted = "not_submitted"
	TypePolicy       = "policy" // new rules are in force
	TypePreview      = "preview"
	TypeProgress     = "progress"
	TypePut          = "put"
	TypeQueue        = "queue"
	TypeRemoved      = "removed"
	TypeResent       = "resent" // a dead letter is in its queue again
	TypeRevoked      = "revoked"
	TypeRotated      = "rotated" // a network has a new root key
	TypeSchedule     = "schedule"
	TypeScheduled    = "scheduled"
	TypeSet          = "set"
	TypeSubmitted    = "submitted"
	TypeSummary      = "summary"
	TypeTemplate     = "template"
	TypeToken        = "token"
	TypeTransfer     = "transfer"
	TypeTrigger      = "trigger"
	TypeUnknown      = "unknown" // objects that could not be asked for
)

// Forms returns an example of each form, by its name in the schema. Objects that are their own form are among them.
func Forms() map[string]any {
	return map[string]any{
		"agent": wire.AgentStatus{}, "agent_changed": AgentLine{}, "agent_ping": PingLine{}, "agent_entry": EntryLine{},
		"audit_record": audit.Record{}, "audit_item": Found{}, "audit_report": audit.Report{}, "audit_proof": audit.Proof{},
		"audit_checked": Checked{}, "audit_accepted": Accepted{},
		"call":      CallLine{},
		"code_page": CodePageRow{}, "data_set": DatasetEntry{},
		"progress": ProgressLine{}, "summary": transfer.Summary{}, "control": ControlLine{}, "preview": PreviewLine{},
		"token": TokenLine{}, "token_open": authority.OpenToken{}, "identity": IdentityLine{}, "identity_issued": authority.Issued{},
		"job": JobLine{}, "job_show": JobShown{}, "job_child": JobChild{}, "job_summary": JobSummary{},
		"import":  ImportLine{},
		"monitor": MonitorShown{}, "monitor_changed": MonitorLine{}, "monitor_trigger": TriggerLine{},
		"channel": channel.ChannelState{}, "queue_manager": streams.Member{}, "queue_manager_removed": MemberLine{},
		"queue": QueueLine{}, "queue_message": QueueMessageLine{}, "dead_letter": DeadLetterLine{},
		"schedule": ScheduleLine{},
		"template": TemplateLine{}, "template_show": TemplateShown{},
		"transfer": TransferLine{}, "transfer_show": ShownLine{},
		"unknown": UnknownLine{},
	}
}
