package wire

import (
	"errors"
	"strconv"
	"strings"

	"ferry/internal/transfer"
)

// Subjects. The destination comes first and the source second, so that the queue manager's permissions can restrict the
// sender of each message.

// CommandSubject carries requests to an agent (JetStream), from the member with the token from.
func CommandSubject(to transfer.AgentName, from string) string {
	return "ferry.command." + to.Token() + "." + from
}

// ControlSubject carries cancels and administration to an agent (JetStream), from the member with the token from.
func ControlSubject(to transfer.AgentName, from string) string {
	return "ferry.control." + to.Token() + "." + from
}

// ReplySubject carries the messages of two agents about a transfer.
func ReplySubject(to, from transfer.AgentName) string {
	return "ferry.reply." + to.Token() + "." + from.Token()
}

// DataSubject carries chunk messages.
func DataSubject(to, from transfer.AgentName, id transfer.ID) string {
	return "ferry.data." + to.Token() + "." + from.Token() + "." + id.String()
}

// StoreSubject carries the chunk messages of an epoch in stored delivery (JetStream).
func StoreSubject(to, from transfer.AgentName, id transfer.ID, epoch uint32) string {
	return "ferry.store." + to.Token() + "." + from.Token() + "." + id.String() + "." + strconv.FormatUint(uint64(epoch), 10)
}

// Tokens of members that are neither agents nor users. They are in small letters, so that no agent's token is the same.
const (
	Coordination = "coordination"
	Authority    = "authority"
	Manager      = "qmgr" // the queue manager
	Up           = "up"   // a `ferry up`, for the parts that run in it
)

// Longest subjects of any published message, in bytes: tokens of two agents, an ID and an epoch in stored delivery, and
// an inbox elsewhere.
const (
	maxStoreSubject = 256
	maxSubject      = maxInbox
)

// TooLong reports whether a subject is longer than any subject of a valid message. Listings of stored messages have
// their subjects, so the length is bounded.
func TooLong(subject string) bool {
	return len(subject) > maxSubject || len(subject) > maxStoreSubject && strings.HasPrefix(subject, "ferry.store.")
}

// AskSubject carries questions to the member with the token to, from the member with the token from.
func AskSubject(to, from string) string { return "ferry.ask." + to + "." + from }

// AskAgent carries questions to an agent.
func AskAgent(to transfer.AgentName, from string) string { return AskSubject(to.Token(), from) }

// InboxSubject returns the subject for answer n to a question of asker to answerer. The secret has InboxSecret letters
// and digits. Only those two know it.
func InboxSubject(asker, answerer, secret string, n uint64) string {
	return InboxesOf(asker) + answerer + "." + secret + "." + strconv.FormatUint(n, 10)
}

// InboxesOf returns the prefix of the inboxes of an asker.
func InboxesOf(asker string) string { return "ferry.inbox." + asker + "." }

// InboxSecret is the length of the secret of an inbox: 128 bits in base 32.
const InboxSecret = 26

// ReadInbox reads a subject of InboxSubject. ok is false for any other subject.
func ReadInbox(subject string) (asker, answerer string, ok bool) {
	rest, ok := strings.CutPrefix(subject, "ferry.inbox.")
	t := strings.Split(rest, ".")
	if !ok || len(subject) > maxInbox || len(t) != 4 || t[0] == "" || t[1] == "" || len(t[2]) != InboxSecret {
		return "", "", false
	}
	n, err := strconv.ParseUint(t[3], 10, 64)
	if err != nil || subject != InboxSubject(t[0], t[1], t[2], n) || strings.ContainsAny(subject, "*> \t\r\n") {
		return "", "", false
	}
	return t[0], t[1], true
}

// Wants reports whether inbox belongs to the asker and the answerer of a question. subject is one of AskSubject. The
// inbox comes from a message, and could name that of another asker.
func Wants(subject, inbox string) bool {
	asker, answerer, ok := ReadInbox(inbox)
	return ok && asker == LastToken(subject) && answerer == Answerer(subject)
}

// maxInbox is the maximum length of an inbox in bytes: two tokens, one of them perhaps a principal.
const maxInbox = 1200

// InstanceSubject returns the subject where one run of an agent answers that it lives. Only members with the agent's
// name may publish to this inbox.
func InstanceSubject(of transfer.AgentName, instance string) string {
	return "ferry.inbox." + of.Token() + "." + of.Token() + "." + transfer.Token(instance)
}

// Answerer returns the token of the addressee of a subject of AskSubject or InstanceSubject.
func Answerer(subject string) string {
	t := strings.SplitN(subject, ".", 4)
	if len(t) < 4 {
		return ""
	}
	return t[2]
}

// BeatSubject carries an agent's heartbeats.
func BeatSubject(of transfer.AgentName) string { return "ferry.beat." + of.Token() }

// ProgressSubject carries live figures of an agent's transfers, for their submitter, which has the token owner.
func ProgressSubject(of transfer.AgentName, owner string) string {
	return "ferry.progress." + of.Token() + "." + owner
}

// EventSubject carries audit batches (JetStream).
func EventSubject(of transfer.AgentName) string { return "ferry.event." + of.Token() }

// LogSubject carries the log of an agent's transfer in XML, if coordination publishes it (core NATS).
func LogSubject(of transfer.AgentName, id transfer.ID) string { return KeptSubject(of, id.String()) }

// KeptSubject carries the log in XML of other work of an agent: of a call by its ID, of a monitor or a schedule by its
// name. about is one token.
func KeptSubject(of transfer.AgentName, about string) string {
	return "ferry.log.xml." + of.Token() + "." + about
}

// StateSubject carries the state of an agent in XML, beside StatusSubject.
func StateSubject(of transfer.AgentName) string { return "ferry.status.xml." + of.Token() + ".agent" }

// StatusSubject carries the live figures of an agent's transfer in XML, beside LogSubject.
func StatusSubject(of transfer.AgentName, id transfer.ID) string {
	return "ferry.status.xml." + of.Token() + "." + id.String()
}

// AllStatus matches the subjects of StatusSubject and StateSubject.
const AllStatus = "ferry.status.xml.*.*"

// AllLogs matches the subjects of LogSubject and KeptSubject.
const AllLogs = "ferry.log.xml.*.*"

// Filters for subscribers.

// AllCommands matches the subjects of CommandSubject for an agent.
func AllCommands(of transfer.AgentName) string { return "ferry.command." + of.Token() + ".>" }

// AllControls matches the subjects of ControlSubject for an agent.
func AllControls(of transfer.AgentName) string { return "ferry.control." + of.Token() + ".>" }

// AllReplies matches the subjects of ReplySubject for an agent.
func AllReplies(of transfer.AgentName) string { return "ferry.reply." + of.Token() + ".*" }

// AllData matches the subjects of DataSubject for an agent.
func AllData(of transfer.AgentName) string { return "ferry.data." + of.Token() + ".>" }

// AllStored matches the subjects of StoreSubject for a destination.
func AllStored(to transfer.AgentName) string { return "ferry.store." + to.Token() + ".>" }

// AllStoredBy matches the subjects of StoreSubject for a source.
func AllStoredBy(from transfer.AgentName) string { return "ferry.store.*." + from.Token() + ".>" }

// StoreEpochs matches the subjects of StoreSubject for a transfer.
func StoreEpochs(to, from transfer.AgentName, id transfer.ID) string {
	return "ferry.store." + to.Token() + "." + from.Token() + "." + id.String() + ".*"
}

// A StoredEpoch names an epoch of a transfer in stored delivery.
type StoredEpoch struct {
	From, To transfer.AgentName
	ID       transfer.ID
	Epoch    uint32
}

// Subject returns the StoreSubject of the epoch.
func (e *StoredEpoch) Subject() string { return StoreSubject(e.To, e.From, e.ID, e.Epoch) }

// ReadStore reads a subject of StoreSubject. It returns an error of KindMalformed for any other subject.
func ReadStore(subject string) (at StoredEpoch, err error) {
	t := strings.Split(subject, ".")
	if len(t) != 6 {
		return at, transfer.Errorf(transfer.KindMalformed, "subject %.200q is none of stored delivery", subject)
	}
	var bad [4]error
	at.To, bad[0] = AgentOf(t[2])
	at.From, bad[1] = AgentOf(t[3])
	at.ID, bad[2] = transfer.ParseID(t[4])
	epoch, err := strconv.ParseUint(t[5], 10, 32)
	at.Epoch, bad[3] = uint32(epoch), err
	if err := errors.Join(bad[:]...); err != nil || at.Subject() != subject {
		return StoredEpoch{}, transfer.Errorf(transfer.KindMalformed, "subject %.200q is none of stored delivery", subject)
	}
	return at, nil
}

// AllAsks matches the subjects of AskSubject for a token.
func AllAsks(to string) string { return "ferry.ask." + to + ".*" }

// Trust carries the authority's list of revoked identities.
const Trust = "ferry.trust"

// Rules carries the same list with the network's rules and the roles of users, for agents, coordination and queue
// managers.
const Rules = "ferry.rules"

// Claims carries the identities that queue managers are to admit, signed by the network's authority.
const Claims = "ferry.claims"

// FarStoreSubject carries messages to be stored at another queue manager, on the connection of the data. It never
// equals a subject of DataSubject: an agent's token is in capitals.
func FarStoreSubject(at string, from transfer.AgentName, id transfer.ID) string {
	return farStoreData + at + "." + from.Token() + "." + id.String()
}

// AllFarStore matches the subjects of FarStoreSubject for a queue manager.
func AllFarStore(at string) string { return farStoreData + at + ".>" }

const farStoreData = "ferry.data.store-"

// ReadFarStore returns the token of the sender on a subject of FarStoreSubject.
func ReadFarStore(subject string) (from string, ok bool) {
	t := strings.Split(subject, ".")
	return t[min(3, len(t)-1)], len(t) == 5 && strings.HasPrefix(subject, farStoreData)
}

// Subjects between queue managers. Each queue manager has one token (transfer.Token of its name).

// ManagerSubject carries a queue manager's reports on itself to the others.
func ManagerSubject(of string) string { return "ferry.manager." + of }

// ForwardSubject carries stored messages from another queue manager to the queue manager of their agent.
func ForwardSubject(to, from string) string { return "ferry.forward." + to + "." + from }

// AllForwarded matches each ForwardSubject to a queue manager.
func AllForwarded(to string) string { return ForwardSubject(to, "*") }

// RegistrationSubject carries the registrations (identity.Registration) of the identity with a token.
func RegistrationSubject(of string) string { return "ferry.place." + of }

// AllRegistrations matches each RegistrationSubject.
const AllRegistrations = "ferry.place.*"

// AllManagers matches the subjects of ManagerSubject.
const AllManagers = "ferry.manager.*"

// The subjects that every agent publishes on.
const (
	AllBeats    = "ferry.beat.*"
	AllProgress = "ferry.progress.*.*"
	AllEvents   = "ferry.event.>"
)

// LastToken returns a subject's last token, which is the sender's on subjects that end with the sender.
func LastToken(subject string) string { return subject[strings.LastIndexByte(subject, '.')+1:] }

// AgentOf returns the name of the agent with a token. No agent has the token of a user: a user alpha is not the agent
// ALPHA.
func AgentOf(token string) (transfer.AgentName, error) {
	p, err := transfer.ParsePath(token)
	if err != nil {
		return "", err
	}
	name, err := transfer.ParseAgentName(string(p))
	if err == nil && name.Token() != token {
		return "", transfer.Errorf(transfer.KindDenied, "%.80s is no agent, although its name is that of agent %s", token, name)
	}
	return name, err
}

// DataSource returns the sender that a DATA subject names.
func DataSource(subject string) (transfer.AgentName, error) {
	parts := strings.Split(subject, ".")
	if len(parts) != 5 {
		return "", transfer.Errorf(transfer.KindVersion, "subject %q is not a data subject", subject)
	}
	return AgentOf(parts[3])
}
