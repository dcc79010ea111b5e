package cli

import (
	"time"

	"ferry/internal/audit"
	"ferry/internal/automation/monitor"
	"ferry/internal/client"
	mftconfig "ferry/internal/mft/config"
	"ferry/internal/node/config"
	"ferry/internal/qmgr/channel"
	"ferry/internal/qmgr/streams"
	"ferry/internal/security/authority"
	"ferry/internal/security/identity"
	"ferry/internal/security/word"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// The output of --json: one of these on each line. Fields may be added, never renamed.
type (
	// A progressLine is a transfer on its way, of `ferry send` and `ferry transfer watch`.
	progressLine struct {
		MessageType string `json:"message_type"` // progress
		*transfer.Progress
	}
	// A transferLine is a transfer of `ferry transfer ls`.
	transferLine struct {
		*transfer.Progress
		MessageType string  `json:"message_type"` // transfer
		Seconds     float64 `json:"seconds"`
	}
	// A shownLine is a transfer of `ferry transfer show`.
	shownLine struct {
		transferLine
		Request  *audit.RequestFacts `json:"request,omitempty"`
		Author   *word.Author        `json:"author,omitempty"` // of the request; absent: it was not signed
		Meta     map[string]string   `json:"meta,omitempty"`
		Recorded []found             `json:"recorded,omitempty"`      // items
		More     bool                `json:"recorded_more,omitempty"` // beyond --limit
	}
	// A controlLine is a transfer that was handed over, cancelled or resumed.
	controlLine struct {
		MessageType string         `json:"message_type"` // submitted, not_submitted, cancel, resume
		ID          transfer.ID    `json:"id"`
		State       transfer.State `json:"state,omitempty"` // empty: it is not known

		Handover client.Handover `json:"handover,omitempty"` // how far a submitted request has come
	}
	// An agentLine is an agent that was removed or set.
	agentLine struct {
		MessageType string                        `json:"message_type"` // removed, set
		Agent       transfer.AgentName            `json:"agent"`
		Rates       map[transfer.AgentName]string `json:"rates,omitempty"` // its rate to each agent; "": to all together
	}
	// A pingLine is the answer of an agent.
	pingLine struct {
		Agent   transfer.AgentName `json:"agent"`
		Seconds float64            `json:"seconds"`
		State   string             `json:"state"`
	}
	// A tokenLine is a token that was made or taken back, or an identity that was revoked.
	tokenLine struct {
		MessageType string `json:"message_type"` // token, removed, revoked
		Name        string `json:"name"`
		Token       string `json:"token,omitempty"`
		File        string `json:"file,omitempty"` // that has the token
	}
	// A memberLine is a queue manager that was taken out of its cluster.
	memberLine struct {
		MessageType string `json:"message_type"` // removed
		Name        string `json:"name"`
	}
	// An identityLine is an identity of this user's, or of a directory.
	identityLine struct {
		Name  identity.Name `json:"name"`
		Until time.Time     `json:"until"`
		Due   time.Time     `json:"due"` // from when it is renewed
		Dir   string        `json:"dir"`
		Root  string        `json:"root"` // hash of the network's root certificate
	}
	// A monitorLine is the result of a command about a monitor.
	monitorLine struct {
		MessageType string `json:"message_type"` // monitor
		monitor.Answer
	}
	// A monitorShown is a monitor of `ferry monitor ls` and `ferry monitor show`.
	monitorShown struct {
		MessageType string `json:"message_type"` // monitor
		monitor.Shown
	}
	// A triggerLine is a trigger of `ferry monitor history`.
	triggerLine struct {
		MessageType string `json:"message_type"` // trigger
		monitor.Logged
	}
	// An importLine is the outcome for one object of a configuration of MQ MFT, or for a file made of it.
	importLine struct {
		MessageType string `json:"message_type"` // import
		mftconfig.Note
	}
	// A previewLine is the output of --dry-run.
	previewLine struct {
		MessageType string `json:"message_type"` // preview
		*wire.Preview
	}
)

// outputs are all of them, by the name that the schema in docs has for each.
var outputs = map[string]any{
	"progress": progressLine{}, "summary": transfer.Summary{}, "control": controlLine{}, "preview": previewLine{},
	"transfer": transferLine{}, "transfer_show": shownLine{}, "agent": wire.AgentStatus{}, "agent_changed": agentLine{}, "agent_ping": pingLine{},
	"audit_record": audit.Record{}, "audit_item": found{}, "audit_report": audit.Report{}, "audit_proof": audit.Proof{}, "audit_checked": checked{}, "audit_accepted": accepted{},
	"token": tokenLine{}, "token_open": authority.OpenToken{}, "identity": identityLine{}, "identity_issued": authority.Issued{},
	"monitor": monitorShown{}, "monitor_changed": monitorLine{}, "monitor_trigger": triggerLine{},
	"call": callLine{}, "channel": channel.ChannelState{}, "code_page": codePageRow{}, "data_set": datasetEntry{}, "setting": config.Effective{},
	"import": importLine{}, "queue_manager": streams.Member{}, "queue_manager_removed": memberLine{}, "queue": queueLine{}, "queue_message": queueMessageLine{}, "schedule": scheduleLine{}, "job": jobLine{}, "job_show": jobShown{}, "job_child": jobChild{}, "job_summary": jobSummary{}, "template": templateLine{}, "template_show": templateShown{},
}
