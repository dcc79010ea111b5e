package wire

import (
	"errors"
	"strconv"
	"strings"

	"ferry/internal/transfer"
)

// Subjects. Destination first, source second, so that the queue manager's
// permissions can say who may speak as whom.

// CommandSubject carries requests to an agent (JetStream), of whoever has the token from.
func CommandSubject(to transfer.AgentName, from string) string {
	return "ferry.command." + to.Token() + "." + from
}

// ControlSubject carries cancels and administration to an agent (JetStream), of whoever has
// the token from.
func ControlSubject(to transfer.AgentName, from string) string {
	return "ferry.control." + to.Token() + "." + from
}

// ReplySubject carries what two agents say about a transfer.
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

// Tokens of those who are no agents and no users. They are in small letters, so that no
// agent's can be the same.
const (
	Coordination = "coordination"
	Authority    = "authority"
	Manager      = "qmgr" // the queue manager
	Up           = "up"   // a `ferry up`, about what runs in it
)

// Longest subjects that anybody publishes on, in bytes: tokens of two agents, an ID and an epoch in stored
// delivery, and an inbox elsewhere.
const (
	maxStoreSubject = 256
	maxSubject      = maxInbox
)

// TooLong reports whether a subject is longer than any on which something is published. What is stored is
// listed by its subjects.
func TooLong(subject string) bool {
	return len(subject) > maxSubject || len(subject) > maxStoreSubject && strings.HasPrefix(subject, "ferry.store.")
}

// AskSubject carries questions to whoever has the token to, from whoever has the token from.
func AskSubject(to, from string) string { return "ferry.ask." + to + "." + from }

// AskAgent carries questions to an agent.
func AskAgent(to transfer.AgentName, from string) string { return AskSubject(to.Token(), from) }

// InboxSubject is where answer number n to a question is wanted: by asker, of answerer. The
// secret, of InboxSecret letters and digits, is known to those two.
func InboxSubject(asker, answerer, secret string, n uint64) string {
	return InboxesOf(asker) + answerer + "." + secret + "." + strconv.FormatUint(n, 10)
}

// InboxesOf is how the inboxes begin on which an asker is answered.
func InboxesOf(asker string) string { return "ferry.inbox." + asker + "." }

// InboxSecret is how many characters the secret of an inbox has: 128 bits in base 32.
const InboxSecret = 26

// ReadInbox reads what InboxSubject has made, and nothing else.
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

// Wants reports whether a question on a subject of AskSubject wants its answer on an inbox of
// whoever has asked it: the subject comes out of a message, and could name somebody else's.
func Wants(subject, inbox string) bool {
	asker, answerer, ok := ReadInbox(inbox)
	return ok && asker == LastToken(subject) && answerer == Answerer(subject)
}

// maxInbox is how long an inbox may be, in bytes: both tokens, one of which may be a principal.
const maxInbox = 1200

// InstanceSubject is where one run of an agent answers that it lives: an inbox to which
// nobody speaks but those who have its name.
func InstanceSubject(of transfer.AgentName, instance string) string {
	return "ferry.inbox." + of.Token() + "." + of.Token() + "." + transfer.Token(instance)
}

// Answerer is the token of whom a question on a subject of AskSubject or InstanceSubject is
// for.
func Answerer(subject string) string {
	t := strings.SplitN(subject, ".", 4)
	if len(t) < 4 {
		return ""
	}
	return t[2]
}

// BeatSubject carries an agent's heartbeats.
func BeatSubject(of transfer.AgentName) string { return "ferry.beat." + of.Token() }

// ProgressSubject carries live figures of an agent's transfers, for whoever has the token
// owner: who has submitted them.
func ProgressSubject(of transfer.AgentName, owner string) string {
	return "ferry.progress." + of.Token() + "." + owner
}

// EventSubject carries audit batches (JetStream).
func EventSubject(of transfer.AgentName) string { return "ferry.event." + of.Token() }

// LogSubject carries what coordination publishes of an agent's transfer in XML, where it does (core NATS).
func LogSubject(of transfer.AgentName, id transfer.ID) string { return KeptSubject(of, id.String()) }

// KeptSubject carries what it publishes of what else an agent does: of a call by its ID, of a monitor or
// a schedule by its name. about is one token.
func KeptSubject(of transfer.AgentName, about string) string {
	return "ferry.log.xml." + of.Token() + "." + about
}

// StateSubject carries the state of an agent in XML, beside StatusSubject.
func StateSubject(of transfer.AgentName) string { return "ferry.status.xml." + of.Token() + ".agent" }

// StatusSubject carries the live figures of an agent's transfer in XML, beside LogSubject.
func StatusSubject(of transfer.AgentName, id transfer.ID) string {
	return "ferry.status.xml." + of.Token() + "." + id.String()
}

// AllStatus matches what StatusSubject and StateSubject make.
const AllStatus = "ferry.status.xml.*.*"

// AllLogs matches what LogSubject and KeptSubject make.
const AllLogs = "ferry.log.xml.*.*"

// Filters, for those who listen.

// AllCommands matches what CommandSubject makes for an agent.
func AllCommands(of transfer.AgentName) string { return "ferry.command." + of.Token() + ".>" }

// AllControls matches what ControlSubject makes for an agent.
func AllControls(of transfer.AgentName) string { return "ferry.control." + of.Token() + ".>" }

// AllReplies matches what ReplySubject makes for an agent.
func AllReplies(of transfer.AgentName) string { return "ferry.reply." + of.Token() + ".*" }

// AllData matches what DataSubject makes for an agent.
func AllData(of transfer.AgentName) string { return "ferry.data." + of.Token() + ".>" }

// AllStored matches what StoreSubject makes for an agent.
func AllStored(to transfer.AgentName) string { return "ferry.store." + to.Token() + ".>" }

// AllStoredBy matches what StoreSubject makes of an agent.
func AllStoredBy(from transfer.AgentName) string { return "ferry.store.*." + from.Token() + ".>" }

// StoreEpochs matches what StoreSubject makes of a transfer.
func StoreEpochs(to, from transfer.AgentName, id transfer.ID) string {
	return "ferry.store." + to.Token() + "." + from.Token() + "." + id.String() + ".*"
}

// A StoredAt is what a subject of StoreSubject says.
type StoredAt struct {
	To, From transfer.AgentName
	Transfer transfer.ID
	Epoch    uint32
}

// ReadStore reads what StoreSubject has made, and nothing else.
func ReadStore(subject string) (at StoredAt, err error) {
	t := strings.Split(subject, ".")
	if len(t) != 6 {
		return at, transfer.Errorf(transfer.KindMalformed, "subject %.200q is none of stored delivery", subject)
	}
	var bad [4]error
	at.To, bad[0] = AgentOf(t[2])
	at.From, bad[1] = AgentOf(t[3])
	at.Transfer, bad[2] = transfer.ParseID(t[4])
	epoch, err := strconv.ParseUint(t[5], 10, 32)
	at.Epoch, bad[3] = uint32(epoch), err
	if err := errors.Join(bad[:]...); err != nil || StoreSubject(at.To, at.From, at.Transfer, at.Epoch) != subject {
		return StoredAt{}, transfer.Errorf(transfer.KindMalformed, "subject %.200q is none of stored delivery", subject)
	}
	return at, nil
}

// AllAsks matches what AskSubject makes for a token.
func AllAsks(to string) string { return "ferry.ask." + to + ".*" }

// Trust carries what the network's authority says of whom nobody may trust.
const Trust = "ferry.trust"

// Rules carries the same with the network's rules and the roles of users, for agents, coordination and queue managers.
const Rules = "ferry.rules"

// Claims carries whom queue managers are to let in, as the network's authority has signed it.
const Claims = "ferry.claims"

// ShelfSubject carries what is to be stored at another queue manager, with the data. It is none of DataSubject's, as an
// agent's token is in capitals.
func ShelfSubject(at string, from transfer.AgentName, id transfer.ID) string {
	return shelfData + at + "." + from.Token() + "." + id.String()
}

// AllShelved matches what ShelfSubject makes for a queue manager.
func AllShelved(at string) string { return shelfData + at + ".>" }

const shelfData = "ferry.data.store-"

// ReadShelf reads who has sent on a subject of ShelfSubject.
func ReadShelf(subject string) (from string, ok bool) {
	t := strings.Split(subject, ".")
	return t[min(3, len(t)-1)], len(t) == 5 && strings.HasPrefix(subject, shelfData)
}

// Between queue managers, which are called by one token each (transfer.Token of the name).

// ManagerSubject carries what a queue manager says of itself to the others.
func ManagerSubject(of string) string { return "ferry.manager." + of }

// ForwardSubject carries stored messages to the queue manager of the agent that they are for, from another one.
func ForwardSubject(to, from string) string { return "ferry.forward." + to + "." + from }

// AllForwarded matches each ForwardSubject to a queue manager.
func AllForwarded(to string) string { return ForwardSubject(to, "*") }

// PlaceSubject carries the places (identity.Place) of the identity with a token.
func PlaceSubject(of string) string { return "ferry.place." + of }

// AllPlaces matches each PlaceSubject.
const AllPlaces = "ferry.place.*"

// AllManagers matches what ManagerSubject makes.
const AllManagers = "ferry.manager.*"

// What every agent publishes.
const (
	AllBeats    = "ferry.beat.*"
	AllProgress = "ferry.progress.*.*"
	AllEvents   = "ferry.event.>"
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
