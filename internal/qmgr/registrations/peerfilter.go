package registrations

import (
	"slices"
	"strings"

	"golang.org/x/time/rate"

	"ferry/internal/qmgr/errands"
	"ferry/internal/qmgr/roles"
	"ferry/internal/qmgr/streams"
	"ferry/internal/transfer"
	"ferry/internal/wire"
)

// A peerFilter decides which messages the queue manager at the other end of a channel hears and publishes here: messages for
// identities behind the channel, and messages of them. Both ends of a channel have the same rules, each for the other end.
//
//	subject                        the peer hears, if behind it is          the peer publishes, if behind it is
//	reply.TO.FROM                  TO                                       FROM
//	data.TO.FROM.ID                TO                                       FROM
//	ask.TO.FROM                    TO                                       FROM; of queue managers to the authority
//	inbox.ASKER.ANSWERER…          ASKER, and never from qmgr; of a queue   ANSWERER; store-QM of a queue
//	                               manager, if the peer names its secret,   manager, and never qmgr
//	                               and the answerer is no queue manager
//	                               behind it
//	progress.AGENT.OWNER           OWNER, or a role that sees all figures   AGENT
//	beat.AGENT                     an agent, coordination or the authority  AGENT
//	manager.QM                     always                                   QM
//	forward.TO.FROM                TO, a queue manager                      FROM, a queue manager
//	data.store-TO.FROM.ID          TO, a queue manager                      FROM, an agent
//	trust, rules, claims           always                                   always; the authority has signed it
//	place.NAME                     always                                   always; NAME has signed it
//
// A message may name a reply only if it is a question. The reply is an inbox of its speaker. The messages of each speaker have a pace
// (peerLimits).
type peerFilter struct {
	at    *Registry
	peer  string // the token of the queue manager at the other end
	fresh *rate.Limiter
	paces *peerLimits
}

// The number of a peer's registrations that are checked in a second, and at once.
const (
	checksASecond = 500
	checksAtOnce  = 5000
)

func NewPeerFilter(at *Registry, peer string) *peerFilter {
	token := transfer.Token(peer)
	fresh, paces := at.limitsOf(token)
	return &peerFilter{at, token, fresh, paces}
}

// watchers see the live figures of all transfers.
var watchers = []roles.Role{roles.Admin, roles.Operator, roles.Auditor, roles.Coordination, roles.Authority}

// Hears implements gate.PeerFilter.
func (p *peerFilter) Hears(subject string) (ok bool, on string) {
	if strings.HasPrefix(subject, LoopSubject) {
		return p.at.loops(p.peer), anyone
	}
	t := strings.Split(subject, ".")
	if len(t) < 2 || t[0] != "ferry" || slices.Contains(t, "") {
		return false, ""
	}
	literal := func(n int) bool { return n < len(t) && t[n] != "*" && t[n] != ">" }
	of := func(n int) (bool, string) { return literal(n) && p.at.Behind(p.peer, t[n]), t[n] }
	switch kind := t[1]; {
	case signed(kind) && len(t) == 2, kind == "manager" && len(t) == 3, kind == "place" && len(t) == 3:
		return true, ""
	case kind == "ask" && len(t) == 4 && t[2] != wire.Manager && t[2] != wire.Up && literal(2), kind == "reply" && len(t) == 4 && literal(2):
		return of(2)
	case kind == "data" && len(t) >= 4 && literal(2):
		if at, ok := strings.CutPrefix(t[2], errands.StoreToken); ok {
			return p.at.stores(p.peer, at), anyone
		}
		return of(2)
	case kind == "inbox" && len(t) >= 4 && (t[3] == wire.Manager || t[3] == wire.Up): // which answer the clients beside them
		return false, ""
	case kind == "inbox" && len(t) >= 5 && t[2] == wire.Manager:
		if at, ok := strings.CutPrefix(t[3], errands.StoreToken); ok { // the peer sees the questions to a queue manager behind it, with their inboxes
			return literal(4) && len(t[4]) == wire.InboxSecret && !p.at.stores(p.peer, at), anyone
		}
		return literal(3) && literal(4) && len(t[4]) == wire.InboxSecret, ""
	case kind == "inbox" && len(t) >= 4 && literal(2) && t[2] != wire.Up:
		return of(2)
	case kind == "progress" && len(t) == 4 && literal(3):
		return p.at.Behind(p.peer, t[3]) || p.at.anyBehind(p.peer, watchers...), anyone
	case kind == "progress" && (len(t) == 4 || len(t) == 3 && t[2] == ">"):
		return p.at.anyBehind(p.peer, watchers...), anyone
	case kind == "beat" && len(t) == 3:
		return p.at.anyBehind(p.peer, roles.Agent, roles.Coordination, roles.Authority), anyone
	case kind == "forward" && len(t) == 4 && literal(2):
		return p.at.stores(p.peer, t[2]), anyone
	}
	return false, ""
}

// signed reports whether the authority has signed the messages of a kind.
func signed(kind string) bool { return kind == "trust" || kind == "rules" || kind == "claims" }

// LoopSubject begins the subjects that show servers a loop of channels. A server ends a channel over which its own
// subject comes back. Any peer can send back the subject of another queue manager. So the subjects pass where queue
// managers have signed a loop.
const LoopSubject = "$LDS."

// Says implements gate.PeerFilter.
func (p *peerFilter) Says(subject, reply string) bool {
	t := strings.Split(subject, ".")
	if len(t) < 2 || t[0] != "ferry" || strings.ContainsAny(subject, "*>") || slices.Contains(t, "") || !streams.IsPrintable(subject) || wire.TooLong(subject) {
		return false
	}
	asks := func(asker, answerer string) bool {
		a, b, ok := wire.ReadInbox(reply)
		return reply == "" || ok && a == asker && b == answerer
	}
	kind := t[1]
	if reply != "" && kind != "ask" && kind != "inbox" && kind != "forward" {
		return false
	}
	switch {
	case signed(kind) && len(t) == 2, kind == "place" && len(t) == 3:
		return true
	case kind == "reply" && len(t) == 4, kind == "data" && len(t) == 5:
		return p.at.Behind(p.peer, t[3])
	case kind == "ask" && len(t) == 4:
		return t[2] != wire.Manager && t[2] != wire.Up && asks(t[3], t[2]) && (t[3] == wire.Manager && t[2] == wire.Authority || p.at.Behind(p.peer, t[3]))
	case kind == "inbox" && len(t) >= 5 && t[2] != wire.Up:
		if at, ok := strings.CutPrefix(t[3], errands.StoreToken); ok {
			return reply == "" && p.at.stores(p.peer, at)
		}
		return asks(t[3], t[2]) && p.at.Behind(p.peer, t[3])
	case kind == "progress" && len(t) == 4, kind == "beat" && len(t) == 3:
		return p.at.Behind(p.peer, t[2])
	case kind == "manager" && len(t) == 3:
		return p.at.leadsTo(p.peer, t[2])
	case kind == "forward" && len(t) == 4:
		return asks(wire.Manager, errands.StoreToken+t[2]) && p.at.leadsTo(p.peer, t[3])
	}
	return false
}

// Body implements gate.PeerFilter.
func (p *peerFilter) Body(subject string) bool {
	return strings.HasPrefix(subject, wire.RegistrationSubject(""))
}

// Read implements gate.PeerFilter. It takes a registration before the messages that follow it.
func (p *peerFilter) Read(_ string, body []byte) (pass bool, err error) {
	if !p.fresh.Allow() {
		return false, transfer.Errorf(transfer.KindBusy, "queue manager %s sends more than %d registrations a second", p.peer, checksASecond)
	}
	_, fresh, err := p.at.Take(errands.Unpacked(body))
	return fresh, err
}
