package wire

import (
	"strings"

	"ferry/internal/transfer"
)

// Subjects. Destination first, source second, so that the queue manager's
// permissions can say who may speak as whom.

// CommandSubject carries requests to an agent (JetStream).
func CommandSubject(to transfer.AgentName, principal string) string {
	return "ferry.command." + to.Token() + "." + transfer.Token(principal)
}

// ControlSubject carries cancels and administration to an agent (JetStream).
func ControlSubject(to transfer.AgentName, principal string) string {
	return "ferry.control." + to.Token() + "." + transfer.Token(principal)
}

// ReplySubject carries what two agents say about a transfer.
func ReplySubject(to, from transfer.AgentName) string {
	return "ferry.reply." + to.Token() + "." + from.Token()
}

// DataSubject carries chunk messages.
func DataSubject(to, from transfer.AgentName, id transfer.ID) string {
	return "ferry.data." + to.Token() + "." + from.Token() + "." + id.String()
}

// AskSubject is where an agent answers.
func AskSubject(to transfer.AgentName) string { return "ferry.ask." + to.Token() }

// InstanceSubject is where one run of an agent answers that it lives.
func InstanceSubject(of transfer.AgentName, instance string) string {
	return AskSubject(of) + "." + transfer.Token(instance)
}

// AskCoordination is where coordination answers. Its token is in small letters,
// so that no agent's can be the same.
const AskCoordination = "ferry.ask.coordination"

// ProgressSubject carries an agent's heartbeats and live figures.
func ProgressSubject(of transfer.AgentName) string { return "ferry.progress." + of.Token() }

// RegisterSubject is where an agent says that it begins, and wants an answer.
func RegisterSubject(of transfer.AgentName) string { return "ferry.register." + of.Token() }

// EventSubject carries audit batches (JetStream).
func EventSubject(of transfer.AgentName) string { return "ferry.event." + of.Token() }

// Filters, for those who listen.

// AllCommands matches what CommandSubject makes for an agent.
func AllCommands(of transfer.AgentName) string { return "ferry.command." + of.Token() + ".>" }

// AllControls matches what ControlSubject makes for an agent.
func AllControls(of transfer.AgentName) string { return "ferry.control." + of.Token() + ".>" }

// AllReplies matches what ReplySubject makes for an agent.
func AllReplies(of transfer.AgentName) string { return "ferry.reply." + of.Token() + ".*" }

// AllData matches what DataSubject makes for an agent.
func AllData(of transfer.AgentName) string { return "ferry.data." + of.Token() + ".>" }

// What every agent publishes.
const (
	AllProgress  = "ferry.progress.*"
	AllRegisters = "ferry.register.*"
	AllEvents    = "ferry.event.>"
)

// LastToken is a subject's last token: the sender's, where the sender is last.
func LastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// AgentOf turns an agent's token back into its name.
func AgentOf(token string) (transfer.AgentName, error) {
	p, err := transfer.ParsePath(token)
	if err != nil {
		return "", err
	}
	return transfer.ParseAgentName(string(p))
}

// DataSource is the sender that a DATA subject names.
func DataSource(subject string) (transfer.AgentName, error) {
	parts := strings.Split(subject, ".")
	if len(parts) != 5 {
		return "", transfer.Errorf(transfer.KindVersion, "subject %q is not a data subject", subject)
	}
	return AgentOf(parts[3])
}
