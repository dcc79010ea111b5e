// Package roles defines the subjects that each role of a network may publish and subscribe at a queue manager, and
// expresses them in the terms of NATS. An operator signs one account. Its signing keys are the roles, each with a
// template of subjects for all its users. The queue manager verifies all of it offline; a new agent needs no change
// there.
//
// One table has the rights (Grants). The templates are made of it. The test that tries every subject as every role
// reads it, and so does the configuration of queue managers that are not Ferry's.
package roles

import (
	"slices"
	"strings"
)

// A Role is the role of an identity in a network.
type Role string

// The roles. Admin, Operator and Auditor are users with the live figures of all transfers, and their published form in
// XML. The agent or service that a user asks decides by the rules. The rules give a Member rights by its name alone.
const (
	Agent        Role = "agent"
	Pipe         Role = "pipe" // the standard input or output of a user's command, for one transfer (Ticket)
	User         Role = "user" // a sender
	Member       Role = "member"
	Admin        Role = "admin"
	Operator     Role = "operator"
	Auditor      Role = "auditor"
	Coordination Role = "coordination"
	Authority    Role = "authority"
	Manager      Role = "qm" // a queue manager: the only one that makes, changes and purges queues
	// Channel is the role of a queue manager that links to another one: it passes on the messages of the clients beside
	// it.
	Channel Role = "channel"
)

// All are the roles that have a signing key, in the order of the table.
var All = []Role{Agent, Pipe, User, Member, Admin, Operator, Auditor, Coordination, Authority, Manager, Channel}

// Self stands in a Grant for the token of the role's holder.
const Self = "{{name()}}"

// A Grant lists the subjects that a role may publish and subscribe, with the wildcards of NATS. All others are refused.
type Grant struct {
	Publish   []string
	Subscribe []string
	Deny      []string // of both
}

// The streams and durables that a queue manager keeps for Ferry.
const (
	StreamCommand = "FERRY_COMMAND"
	StreamControl = "FERRY_CONTROL"
	StreamEvent   = "FERRY_EVENT"
	StreamStore   = "FERRY_STORE"
	StreamOwner   = "FERRY_OWNER"
	StreamHold    = "FERRY_HOLD"
	StreamDead    = "FERRY_DEAD"
)

// Durables of an agent, before its token: requests, cancels and administration, and chunk
// messages of stored delivery.
const (
	DurableCommand = "command-"
	DurableControl = "control-"
	DurableStore   = "store-"
)

// DurableCoordination reads audit batches.
const DurableCoordination = "coordination"

// noDomain stands in subjects for the domain of a queue manager without one; no stream has that name.
const noDomain = "_"

// ours returns the rights of every identity with one token: to ask any other, to answer an asker, and to hear the
// answers. An inbox names first the asker and then the answerer, so no identity can answer in another's name.
func ours(self string) Grant {
	return Grant{
		Publish:   []string{"ferry.ask.*." + self, "ferry.inbox.*." + self + ".>"},
		Subscribe: []string{"ferry.inbox." + self + ".>"},
	}
}

// reads returns the subjects that the reader of a durable needs: to ask for messages, to ask for its state, and to
// acknowledge. Acknowledgements have both forms that servers have of the subject: STREAM.DURABLE… and, with a domain
// and the hash of an account before them, DOMAIN.HASH.STREAM.DURABLE…. The domain must not be a wildcard. In
// $JS.ACK.*.*.S.D.> it could be a stream and the hash another's durable: the server would take S.D for numbers of a
// delivery, and the content +NXT requests messages.
func reads(stream, durable string) []string {
	at := stream + "." + durable
	return []string{
		"$JS.API.CONSUMER.MSG.NEXT." + at,
		"$JS.API.CONSUMER.INFO." + at,
		"$JS.ACK." + at + ".>",
		"$JS.ACK." + noDomain + ".*." + at + ".>",
	}
}

// Grants returns the table of the rights of each role. Each subject contains the token of its sender.
func Grants() map[Role]Grant {
	agent := ours(Self)
	agent.Publish = slices.Concat(agent.Publish, []string{
		"ferry.reply.*." + Self,
		"ferry.store.*." + Self + ".*.*", // nothing deeper: every subject is listed for its destination
		"ferry.beat." + Self,
		"ferry.progress." + Self + ".*",
		"ferry.event." + Self,
		"ferry.command." + Self + "." + Self,
		"ferry.queue.*." + Self + ".*", "ferry.queued.*." + Self + ".*.*", // messages of application queues, and receipts
	}, reads(StreamCommand, DurableCommand+Self), reads(StreamControl, DurableControl+Self), reads(StreamStore, DurableStore+Self))
	agent.Subscribe = append(agent.Subscribe,
		"ferry.reply."+Self+".*", "ferry.ask."+Self+".*", "ferry.beat.*", "ferry.rules")

	user := ours(Self)
	user.Publish = []string{"ferry.ask.*." + Self, "ferry.command.*." + Self, "ferry.control.*." + Self} // a user is never asked, so it never answers
	user.Subscribe = append(user.Subscribe, "ferry.progress.*."+Self, "ferry.trust")
	watcher := Grant{Publish: user.Publish, Subscribe: []string{"ferry.inbox." + Self + ".>", "ferry.progress.>", "ferry.log.xml.*.*", "ferry.status.xml.*.*", "ferry.trust"}}

	coordination := ours(string(Coordination))
	coordination.Publish = slices.Concat(coordination.Publish, []string{"ferry.reply.*.coordination", "ferry.log.xml.*.*", "ferry.status.xml.*.*"}, reads(StreamEvent, DurableCoordination))
	coordination.Subscribe = append(coordination.Subscribe, "ferry.ask.coordination.*", "ferry.beat.*", "ferry.progress.>", "ferry.rules")

	authority := ours(string(Authority))
	authority.Publish = append(authority.Publish, "ferry.trust", "ferry.rules", "ferry.claims")
	authority.Subscribe = append(authority.Subscribe, "ferry.ask.authority.*", "ferry.beat.*", "ferry.progress.>", "ferry.manager.*")

	return map[Role]Grant{
		Agent: agent, Pipe: pipeGrant(Self, anyEnd), User: user, Member: user, Admin: watcher, Operator: watcher, Auditor: watcher,
		Coordination: coordination, Authority: authority,
		Manager: {Publish: []string{">"}, Subscribe: []string{">"}},
		Channel: {Linked, Linked, Local},
	}
}

// DataGrants returns the table of the account for data.
func DataGrants() map[Role]Grant {
	return map[Role]Grant{
		Agent:   {Publish: []string{"ferry.data.*." + Self + ".*"}, Subscribe: []string{"ferry.data." + Self + ".>"}},
		Pipe:    pipeData(Self, anyEnd),
		Manager: {Publish: []string{"ferry.data.>"}, Subscribe: []string{"ferry.data.>"}},
		Channel: {Publish: LinkedData, Subscribe: LinkedData},
	}
}

// Linked and LinkedData are the subjects that pass a channel, in both directions. All others stay with their queue
// manager. The queue manager that accepted a stored message stores it once, and forwards it. A queue manager answers
// only the clients beside it.
var (
	Linked = []string{
		"ferry.reply.*.*", "ferry.beat.*", "ferry.progress.*.*", "ferry.inbox.*.>", "ferry.trust", "ferry.rules", "ferry.claims",
		"ferry.ask.*.*", "ferry.manager.*", "ferry.forward.*.*", "ferry.place.*",
	}
	LinkedData = []string{"ferry.data.>"}
	// Local lists the subjects within Linked that do not pass a channel. Each question to a queue manager has an inbox
	// of its own. Its subscription and the end of that would pass every channel, in two packets that are acknowledged.
	Local = []string{"ferry.ask.qmgr.*", "ferry.ask.up.*", "ferry.inbox.*.qmgr.>", "ferry.inbox.*.up.>", "$JS.>"}
	// Kept lists the subjects that must not pass a channel between queue managers without identities, which have no
	// table.
	Kept = append([]string{"ferry.command.>", "ferry.control.>", "ferry.event.>", "ferry.owner.>", "ferry.store.>", "ferry.queue.>", "ferry.queued.>", "ferry.hold.>", "ferry.dead.>", "$KV.>", "_INBOX.>"}, Local...)
)

// For returns a grant with the holder's token in the place of Self.
func (g Grant) For(token string) Grant {
	fill := func(subjects []string) []string {
		out := make([]string, len(subjects))
		for n, s := range subjects {
			out[n] = strings.ReplaceAll(s, Self, token)
		}
		return out
	}
	return Grant{fill(g.Publish), fill(g.Subscribe), fill(g.Deny)}
}

// Covers reports whether a subject, which may have wildcards, lies wholly within one of the
// subjects of a list.
func Covers(list []string, subject string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return covers(strings.Split(s, "."), strings.Split(subject, ".")) })
}

func covers(pattern, subject []string) bool {
	for n, p := range pattern {
		switch {
		case p == ">":
			return len(subject) > n
		case n >= len(subject) || subject[n] == ">":
			return false
		case p != "*" && p != subject[n]:
			return false
		}
	}
	return len(pattern) == len(subject)
}
